package secret

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
)

func scanner(t testing.TB, o Options) *Scanner {
	t.Helper()
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func githubToken(seed uint64) string { return expand("ghp_{a36}", rand.New(rand.NewPCG(seed, 7))) }

func TestAFindingNamesItsRecordAndHidesItsValue(t *testing.T) {
	s := scanner(t, Options{Key: []byte("a")})
	token := githubToken(1)
	text := strings.Repeat(`{"type":"user","text":"nothing\nhere"}`+"\n", 4711) + escape("token: "+token) + escape("again "+token)
	found := find(t, s, text)
	if len(found) != 1 || found[0].Record != 4712 || found[0].Rule != "github" || found[0].Path != "file" {
		t.Fatalf("found %+v", found)
	}
	if strings.Contains(fmt.Sprintf("%#v", found), token[8:]) {
		t.Errorf("the finding has the value: %#v", found)
	}
	if want := "ghp_… (40 characters)"; found[0].Sample != want {
		t.Errorf("sample %q, want %q", found[0].Sample, want)
	}
	same := find(t, s, "x = "+token)
	if same[0].Fingerprint != found[0].Fingerprint {
		t.Error("the same value has another fingerprint")
	}
	if other := find(t, scanner(t, Options{Key: []byte("b")}), token); other[0].Fingerprint == found[0].Fingerprint {
		t.Error("the fingerprint does not depend on the key")
	}
}

func TestNoPieceOfAFileHidesASecret(t *testing.T) {
	s := scanner(t, Options{})
	token := githubToken(2)
	for _, form := range forms {
		// A secret at each place around the border of two pieces.
		for shift := range 120 {
			head := bytes.Repeat([]byte("some words of no interest, and\n"), pieceSize/31)
			head = append(head, strings.Repeat("x", shift)+" "...)
			text := string(head) + form.in(token) + strings.Repeat("tail\n", 20)
			if found := find(t, s, text); len(found) != 1 || found[0].Rule != "github" {
				t.Fatalf("%s, shift %d: found %v", form.name, shift, found)
			}
		}
		found, err := s.Scan("file", iotest.OneByteReader(strings.NewReader(form.in(token))))
		if err != nil || len(found) != 1 {
			t.Errorf("%s, a byte at a time: found %v, %v", form.name, found, err)
		}
	}
}

func TestALongLineIsSearchedToItsEnd(t *testing.T) {
	s := scanner(t, Options{})
	token := githubToken(3)
	filler := strings.Repeat(`words and \"quotes\" and \\n more, `, 100_000)
	for name, text := range map[string]string{
		"a JSON string": `{"a":"` + filler + token + filler + `"}`,
		"base64":        base64.StdEncoding.EncodeToString([]byte(filler + " " + token + " " + filler)),
		"one line":      filler + token + filler,
	} {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		found := find(t, s, text)
		runtime.ReadMemStats(&after)
		if len(found) != 1 || found[0].Record != 1 {
			t.Errorf("%s: found %v", name, found)
		}
		// The text itself is in memory already; what a scan keeps is measured by its buffers.
		if held := after.HeapSys - before.HeapSys; held > 32<<20 {
			t.Errorf("%s: the scan of %d bytes held %d", name, len(text), held)
		}
	}
}

func TestValuesOfTheEnvironment(t *testing.T) {
	value := "correct-Horse/battery+stäple"
	s := scanner(t, Options{Environ: []string{"MY_SERVICE_TOKEN=" + value, "HOME=/home/ann", "TOKEN_FILE=/run/secrets/token-file", "PWD=/home/ann/project"}})
	for name, text := range map[string]string{
		"raw": "a " + value + " b", "query": "https://api.example.org/?t=correct-Horse%2Fbattery%2Bst%C3%A4ple",
		"base64": base64.StdEncoding.EncodeToString([]byte(value)), "escaped": escape("it is \"" + value + "\"\n"),
		"inside base64": base64.StdEncoding.EncodeToString([]byte("the user said that it is: " + value + ", and left\n")),
	} {
		found := find(t, s, text)
		if len(found) == 0 || found[0].Rule != "environment" || found[0].About != "the value of $MY_SERVICE_TOKEN" {
			t.Errorf("%s: found %v", name, found)
		}
	}
	for _, text := range []string{strings.ToUpper(value), "/home/ann/project", "/run/secrets/token-file"} {
		if found := find(t, s, text); len(found) > 0 {
			t.Errorf("%s: found %v", text, found)
		}
	}
	if s.Digest() == scanner(t, Options{}).Digest() {
		t.Error("a scanner that knows other values has the same digest")
	}
}

func TestBinaryFilesAreSearchedAsTheyAre(t *testing.T) {
	s := scanner(t, Options{})
	token := githubToken(4)
	if found := find(t, s, "\x7fELF\x00\x00"+token+"\x00"); len(found) != 1 {
		t.Errorf("found %v", found)
	}
}

func TestTheSkippedBeginningDecidesWhetherAFileIsText(t *testing.T) {
	s := scanner(t, Options{})
	const head = "lines of\na text file\n"
	tail := "\x00\n" + `{"a":"\u0067` + githubToken(9)[1:] + `"}` + "\n"
	x := s.Start("file")
	x.Skip([]byte(head))
	_, _ = x.Write([]byte(tail))
	whole := find(t, s, head+strings.Repeat("more lines\n", sniff)+tail)
	if found := x.Close(); len(found) != 1 || len(whole) != 1 || found[0].Record != 4 {
		t.Errorf("found %v, in the whole file %v", found, whole)
	}
}

func TestNothingInAFileTurnsARuleOff(t *testing.T) {
	s := scanner(t, Options{})
	for _, comment := range []string{"gitleaks:allow", "nosec", "pragma: allowlist secret", "noqa", "trufflehog:ignore"} {
		if found := find(t, s, "token = \""+githubToken(5)+"\" # "+comment+"\n"); len(found) != 1 {
			t.Errorf("%s: found %v", comment, found)
		}
	}
}

// falseAlarms counts the findings in the Go distribution's sources, which have test keys only.
func TestFalseAlarmsInSources(t *testing.T) {
	s := scanner(t, Options{})
	var size int64
	byRule := map[string]int{}
	root := filepath.Join(runtime.GOROOT(), "src") //nolint:staticcheck // the tree is what the test needs
	for _, dir := range []string{"net/http", "encoding", "go", "os", "strings", "cmd/go/internal"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, e os.DirEntry, err error) error {
			if err != nil || e.IsDir() || strings.Contains(path, "testdata") {
				return err
			}
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			size += int64(len(b))
			for _, f := range find(t, s, string(b)) {
				byRule[f.Rule]++
				t.Logf("%s:%d: %s %s", path, f.Record, f.Rule, f.Sample)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	alarms := 0
	for _, n := range byRule {
		alarms += n
	}
	t.Logf("%d findings in %d MB: %v", alarms, size>>20, byRule)
	if alarms > 3 {
		t.Errorf("%d findings in sources", alarms)
	}
}

// FuzzScan holds two readings of a text to the same findings: at once, and a byte at a time.
func FuzzScan(f *testing.F) {
	f.Add([]byte(escape(githubToken(6))))
	f.Add([]byte(escape(escape(githubToken(7)))))
	f.Add([]byte(base64.StdEncoding.EncodeToString([]byte("some more text, and then a token: " + githubToken(8)))))
	f.Add([]byte(`"\ud83d\ude00 \ud83d \u12 \q"` + "\n\"unclosed \\"))
	s := scanner(f, Options{})
	f.Fuzz(func(t *testing.T, text []byte) {
		whole, err := s.Scan("file", bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		slow := s.Start("file")
		for i := range text {
			_, _ = slow.Write(text[i : i+1])
		}
		if binary := bytes.IndexByte(text, 0) >= 0; binary {
			return // a byte at a time the file is judged by its first byte
		}
		if got := slow.Close(); !reflect.DeepEqual(got, whole) && len(got)+len(whole) > 0 {
			t.Errorf("at once %v, a byte at a time %v", whole, got)
		}
	})
}

func BenchmarkScan(b *testing.B) {
	s := scanner(b, Options{})
	source, err := os.ReadFile(filepath.Join(runtime.GOROOT(), "src/net/http/server.go")) //nolint:staticcheck // as above
	if err != nil {
		b.Fatal(err)
	}
	var transcript []byte
	for i := 0; len(transcript) < 8<<20; i++ {
		from := i * 1000 % (len(source) - 9000)
		transcript = append(transcript, escape(string(source[from:from+8000]))...)
	}
	for name, text := range map[string][]byte{"source": bytes.Repeat(source, 40), "transcript": transcript} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.Scan("file", bytes.NewReader(text)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
