package secret

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf16"
	"unsafe"
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
		// Put a secret at each place around the border of two pieces.
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
		// The text itself is in memory already. The scan's own memory is measured by its buffers.
		if held := int64(after.HeapSys) - int64(before.HeapSys); held > 32<<20 { // stacks take spans from the heap, so it may shrink
			t.Errorf("%s: the scan of %d bytes held %d", name, len(text), held)
		}
	}
}

// memory returns how much memory a layer and the layers inside it keep.
func (l *layer) memory() int {
	if l == nil {
		return 0
	}
	return cap(l.buf) + cap(l.waiting)*int(unsafe.Sizeof(hit{})) + cap(l.strings.pending) + cap(l.base64.run) + l.decoded.memory() + l.hidden.memory()
}

func TestTheMemoryOfAScanIsBounded(t *testing.T) {
	if testing.Short() {
		return // it takes a second
	}
	s := scanner(t, Options{})
	encode := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
	text := strings.Repeat(` password: SK sk- "private key" pat.x= \n`, 3000)
	for _, encodings := range []string{"", "j", "b", "jj", "jb", "bj", "bb", "jjj", "jbj", "bjb", "bbb"} {
		encoded := text
		for _, c := range encodings {
			if c == 'j' {
				encoded += strings.TrimSuffix(escape(encoded), "\n")
			} else {
				encoded += " " + encode(encoded)
			}
		}
		x, most := s.Start("file"), 0
		for range 2 {
			for p := encoded; len(p) > 0; p = p[min(len(p), pieceSize):] {
				_, _ = x.Write([]byte(p[:min(len(p), pieceSize)]))
				most = max(most, x.raw.memory())
			}
		}
		_, _ = x.Write([]byte("\n" + githubToken(11)))
		if found := x.Close(); len(found) == 0 {
			t.Errorf("encodings %q: nothing found", encodings)
		}
		t.Logf("encodings %q: %d bytes need %d", encodings, 2*len(encoded), most)
		if most > 2<<20 {
			t.Errorf("encodings %q: a scan keeps %d bytes", encodings, most)
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

func TestTextInUTF16IsDecoded(t *testing.T) {
	s := scanner(t, Options{})
	text := "# settings of \U0001f600 the project\n" + escape("PASSWORD=\""+githubToken(10)+"\"")
	for _, mark := range []string{"\ufeff", ""} {
		if mark == "" {
			text = strings.Replace(text, "\U0001f600", "all of", 1)
		}
		for name, order := range map[string]binary.AppendByteOrder{"little": binary.LittleEndian, "big": binary.BigEndian} {
			var encoded []byte
			for _, unit := range utf16.Encode([]rune(mark + text)) {
				encoded = order.AppendUint16(encoded, unit)
			}
			if found := find(t, s, string(encoded)); len(found) != 1 || found[0].Record != 2 || found[0].Rule != "github" {
				t.Errorf("%s endian, mark %q: found %v", name, mark, found)
			}
			x := s.Start("file")
			for len(encoded) > 0 {
				n := min(len(encoded), 33)
				_, _ = x.Write(encoded[:n])
				encoded = encoded[n:]
			}
			if found := x.Close(); len(found) != 1 {
				t.Errorf("%s endian, mark %q, in pieces: found %v", name, mark, found)
			}
		}
	}
}

// TestHalfOfASurrogatePairHidesNothing puts a value behind half of a surrogate pair, as a program leaves one that cuts a
// text in the middle of a character.
func TestHalfOfASurrogatePairHidesNothing(t *testing.T) {
	s := scanner(t, Options{})
	token := githubToken(11)
	escaped := fmt.Sprintf(`\u%04x`, token[0]) + token[1:]
	for _, half := range []rune{0xd83d, 0xde00} {
		encoded := []byte{0xff, 0xfe}
		for _, unit := range append([]rune{'x', half}, []rune(token)...) {
			encoded = binary.LittleEndian.AppendUint16(encoded, uint16(unit))
		}
		for name, text := range map[string]string{
			"UTF-16":              string(encoded),
			"JSON":                fmt.Sprintf(`{"x": "x\u%04x%s"}`, half, escaped),
			"JSON, with a letter": fmt.Sprintf(`{"x": "x\u%04xy %s"}`, half, escaped),
			"JSON, twice":         fmt.Sprintf(`{"x": "x\u%04x\u%04x%s"}`, half, half, escaped),
		} {
			if found := find(t, s, text); len(found) != 1 {
				t.Errorf("%s, %x: found %v", name, half, found)
			}
		}
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
	for _, head := range []string{"\xff\xfe", "\xfe\xff", strings.Repeat("x\x00", 16), strings.Repeat("\x00x", 16)} {
		if found := find(t, s, head+" token: "+githubToken(12)+" and more\n"); len(found) != 1 {
			t.Errorf("behind the beginning %q of UTF-16: found %v", head, found)
		}
	}
	for _, head := range []string{"\xff\xfe", "\xfe\xff"} {
		if found := find(t, s, head+escape(`"\u0067`+githubToken(12)[1:]+`"`)); len(found) != 1 || found[0].Rule != "github" {
			t.Errorf("encoded, behind the mark %q of UTF-16: found %v", head, found)
		}
	}
	for _, comment := range []string{"gitleaks:allow", "nosec", "pragma: allowlist secret", "noqa", "trufflehog:ignore"} {
		if found := find(t, s, "token = \""+githubToken(5)+"\" # "+comment+"\n"); len(found) != 1 {
			t.Errorf("%s: found %v", comment, found)
		}
	}
}

// FuzzScan checks that a scan finds the same in one write and in writes of one byte.
func FuzzScan(f *testing.F) {
	f.Add([]byte(escape(githubToken(6))))
	f.Add([]byte(escape(escape(githubToken(7)))))
	f.Add([]byte(base64.StdEncoding.EncodeToString([]byte("some more text, and then a token: " + githubToken(8)))))
	f.Add([]byte(`"\ud83d\ude00 \ud83d \u12 \q"` + "\n\"unclosed \\"))
	for i, format := range readFormats(f) {
		text := expand(format.text, rand.New(rand.NewPCG(1, uint64(i))))
		f.Add([]byte(forms[i%len(forms)].in(text)))
	}
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
		if bytes.IndexByte(text, 0) >= 0 || newUTF16Decoder(text) != nil {
			return // in writes of one byte, the first byte alone decides whether the file is text
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
