package proxy

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/testing/faultfs"
	"github.com/dalsegno/segno/internal/vfs"
)

func newIndex(t *testing.T) sessionIndex {
	return sessionIndex{dir: filepath.Join(t.TempDir(), "store")}
}

// someRecord returns a record with a value in every field.
func someRecord(id segno.SessionID, title string) sessionRecord {
	at := time.Date(2026, 3, 1, 12, 0, 0, 5, time.UTC)
	return sessionRecord{Client: id, Thread: "thread", Agent: "claude", Upstream: "up", Dir: "/work dir", Title: title, Opened: at, Used: at.Add(time.Hour),
		Settings: []setting{{Method: "session/set_mode", Key: "mode", Params: json.RawMessage(`{"modeId":"plan","n":1e3}`)}}, Foreign: true}
}

func (x sessionIndex) mustWrite(t *testing.T, r sessionRecord) {
	t.Helper()
	if err := x.write(r); err != nil {
		t.Fatal(err)
	}
}

// TestIndexWriteFailures fails each disk operation of a write of a record, once and
// permanently. The write returns the error, and the index has the old record or the new
// one. A second write works.
func TestIndexWriteFailures(t *testing.T) {
	before, after := someRecord("id", "old"), someRecord("id", "new")
	for _, first := range []bool{true, false} { // whether the write is the first one of the index
		for _, forever := range []bool{true, false} {
			for n, done := 0, false; !done; n++ {
				x := newIndex(t)
				if !first {
					x.mustWrite(t, before)
				}
				faults := faultfs.FailAt(n)
				faults.Forever = forever
				err := sessionIndex{dir: x.dir, fs: faults.Wrap(vfs.OS)}.write(after)
				if done = !faults.Fired(); done != (err == nil) {
					t.Fatalf("operation %d of %v: %v", n, faults.Trace(), err)
				}
				if err != nil && segno.KindOf(err) != segno.KindIO {
					t.Errorf("operation %d (%s): %v is no error of the disk", n, faults.Trace()[n], err)
				}
				p, err := x.read("id")
				switch {
				case first && segno.KindOf(err) == segno.KindNotFound && !done:
				case err == nil && cmp.Equal(p, after):
				case err == nil && cmp.Equal(p, before) && !first && !done:
				default:
					t.Fatalf("after operation %d failed (%s) the page is %+v, %v", n, faults.Trace()[n], p, err)
				}
				x.mustWrite(t, after)
				all, err := x.all()
				if err != nil || len(all) != 1 || !cmp.Equal(all[0], after) {
					t.Fatalf("after operation %d failed the book is %+v, %v", n, all, err)
				}
			}
		}
	}
}

// TestCorruptRecord checks that a corrupt record is an error that names the file and does
// not affect other records.
func TestCorruptRecord(t *testing.T) {
	whole, err := json.Marshal(someRecord("bad", ""))
	if err != nil {
		t.Fatal(err)
	}
	other, err := json.Marshal(someRecord("another", ""))
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"empty": "", "torn": string(whole[:len(whole)/2]), "zeros": strings.Repeat("\x00", 300), "two": string(whole) + string(whole),
		"a list": "[]", "another type": `{"client":7}`, "nothing in it": "{}", "null": "null", "another's": string(other),
	} {
		x := newIndex(t)
		x.mustWrite(t, someRecord("good", ""))
		x.mustWrite(t, someRecord("bad", ""))
		if err := os.WriteFile(x.file("bad"), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		p, err := x.read("bad")
		if segno.KindOf(err) != segno.KindCorrupt || !cmp.Equal(p, sessionRecord{}) || segno.HintOf(err) == "" {
			t.Errorf("%s: %+v, %v (%s)", name, p, err, segno.HintOf(err))
		} else if !strings.Contains(err.Error(), x.file("bad")) {
			t.Errorf("%s: the error does not name the file: %v", name, err)
		}
		if !x.has("bad") {
			t.Errorf("%s: a damaged page is mistaken for none", name)
		}
		if p, err := x.read("good"); err != nil || p.Client != "good" {
			t.Errorf("%s: the other page is %+v, %v", name, p, err)
		}
		if all, err := x.all(); err != nil || len(all) != 1 || all[0].Client != "good" {
			t.Errorf("%s: listed are %+v, %v", name, all, err)
		}
		x.mustWrite(t, someRecord("bad", "again"))
		if p, err := x.read("bad"); err != nil || p.Title != "again" {
			t.Errorf("%s: written again it is %+v, %v", name, p, err)
		}
	}
}

// TestIndexOfUnusualIDs writes a record for ids that are not valid file names. Each record
// is in the index's directory.
func TestIndexOfUnusualIDs(t *testing.T) {
	x := newIndex(t)
	ids := []segno.SessionID{"a", "A", "../../a", "/etc/passwd", "a/b", "a\\b", ".", "..", "a\x00b", "sitzung-ü", "sitzung-u\u0308", "会话", "😀\u202e",
		"a.json", "~", "a b", "a\n", "{\"id\":1}", "\ufffd", "<script>&", "", segno.SessionID(strings.Repeat("long", 2560)), segno.SessionID(strings.Repeat("long", 2560) + "x")}
	for _, id := range ids {
		if _, err := x.read(id); segno.KindOf(err) != segno.KindNotFound || x.has(id) {
			t.Errorf("%.40q is there before anybody wrote it: %v", id, err)
		}
		x.mustWrite(t, someRecord(id, string(id)))
	}
	for _, id := range ids {
		if p, err := x.read(id); err != nil || !cmp.Equal(p, someRecord(id, string(id))) || !x.has(id) {
			t.Errorf("%.40q came back as %.200q, %v", id, p.Client, err)
		}
	}
	all, err := x.all()
	if err != nil || len(all) != len(ids) {
		t.Errorf("%d of %d are listed, %v", len(all), len(ids), err)
	}
	files := 0
	err = filepath.WalkDir(filepath.Dir(x.dir), func(path string, de os.DirEntry, err error) error {
		if err == nil && !de.IsDir() {
			if files++; filepath.Dir(path) != x.folder() {
				t.Errorf("%s lies outside the book", path)
			}
		}
		return err
	})
	if err != nil || files != len(ids) {
		t.Errorf("%d files for %d ids, %v", files, len(ids), err)
	}
}

// TestIndexOrder lists records in the order of use, including deleted ones, and without
// other files.
func TestIndexOrder(t *testing.T) {
	x := newIndex(t)
	if all, err := x.all(); err != nil || len(all) != 0 {
		t.Errorf("an empty book lists %v, %v", all, err)
	}
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for i, p := range []sessionRecord{{Client: "old", Dir: "/a"}, {Client: "deleted", Dir: "/a", Deleted: true}, {Client: "new", Dir: "/a"}, {Client: "elsewhere", Dir: "/b"}} {
		p.Used = at.Add(time.Duration(i) * time.Minute)
		x.mustWrite(t, p)
	}
	x.mustWrite(t, sessionRecord{Client: "also old", Dir: "/a", Used: at})
	for _, stray := range []string{".segno-torn", "notes.txt"} {
		if err := os.WriteFile(filepath.Join(x.folder(), stray), []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(x.folder(), "d.json"), 0o700); err != nil {
		t.Fatal(err)
	}
	all, err := x.all()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range all {
		got = append(got, string(p.Client))
	}
	if want := "elsewhere new deleted also old old"; strings.Join(got, " ") != want {
		t.Errorf("listed are %q, want %q", got, want)
	}
	if p, err := x.read("deleted"); err != nil || !p.Deleted {
		t.Errorf("a deleted page is %+v, %v", p, err)
	}
}

// TestSealedIndex writes records of a sealed store. Their content is not readable in the
// files, and a record can be opened only from its own file.
func TestSealedIndex(t *testing.T) {
	x := newIndex(t)
	x.sealer = reversed{}
	x.mustWrite(t, someRecord("one", "a title"))
	x.mustWrite(t, someRecord("two", "a title"))
	data, err := os.ReadFile(x.file("one"))
	if err != nil || strings.Contains(string(data), "a title") {
		t.Fatalf("%s, %v", data, err)
	}
	if r, err := x.read("one"); err != nil || !cmp.Equal(r, someRecord("one", "a title")) {
		t.Errorf("%+v, %v", r, err)
	}
	if err := os.WriteFile(x.file("two"), data, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := x.read("two"); segno.KindOf(err) != segno.KindCorrupt {
		t.Errorf("another's record: %v", err)
	}
	if all, err := x.all(); err != nil || len(all) != 1 {
		t.Errorf("%+v, %v", all, err)
	}
}

// reversed is an indexSealer that reverses the bytes and appends the name.
type reversed struct{}

func (reversed) SealFile(name string, plain []byte) []byte {
	data := slices.Clone(plain)
	slices.Reverse(data)
	return append(data, name...)
}

func (r reversed) OpenFile(name string, data []byte) ([]byte, error) {
	text, ok := strings.CutSuffix(string(data), name)
	if !ok {
		return nil, errors.New("another place")
	}
	plain := []byte(text)
	slices.Reverse(plain)
	return plain, nil
}
