package archive

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/testing/faultfs"
	"github.com/dalsegno/segno/internal/testing/soak"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/secret"
)

// later returns village some turns later: the transcript has grown, one file changed, one is
// new, one was deleted, and one has another name.
func later() State {
	s := village()
	eko := &s.Agents[0]
	transcript := strings.Repeat(`{"type":"user","text":"hello\nthere"}`+"\n", 4000)
	eko.Session = []File{content("projects/@cwd/24b03553.jsonl", transcript+`{"type":"assistant","text":"good day"}`+"\n")}
	eko.Workspace = []File{content("SOUL.md", "I am still Eko.\n"), eko.Workspace[1], content("notes/copy.txt", strings.Repeat("a line of notes\n", 5000)), content("new", "new"), content("empty", "")}
	eko.Links = nil
	return s
}

func mustOpen(t testing.TB, name string) *Reader {
	t.Helper()
	r, err := Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

func TestADeltaLoadsAsTheFullArchive(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	base := mustWrite(t, at("t8.ckpt"), village(), WriteOptions{})
	full := mustWrite(t, at("t12.ckpt"), later(), WriteOptions{})
	described, err := Describe(t.Context(), village(), WriteOptions{})
	if err != nil || cmp.Diff(base, described) != "" {
		t.Errorf("%v: %s", err, cmp.Diff(base, described))
	}
	delta := mustWrite(t, at("delta.ckpt"), later(), WriteOptions{Since: &Base{described, "t8"}})
	if diff := cmp.Diff(full, delta); diff != "" {
		t.Errorf("the manifests differ: %s", diff)
	}
	big, _ := os.Stat(at("t12.ckpt"))
	small, _ := os.Stat(at("delta.ckpt"))
	t.Logf("full %d bytes, delta %d", big.Size(), small.Size())

	r := mustOpen(t, at("delta.ckpt"))
	if d := r.Delta(); d.Base != base.Digest || d.Name != "t8" || len(d.Files) != 5 {
		t.Errorf("delta.json: %+v", d)
	}
	if files, _ := r.Missing(); files != 5 {
		t.Errorf("%d files are missing", files)
	}
	if err := r.Verify(t.Context(), nil); err != nil {
		t.Error(err)
	}
	_, err = r.Load(t.Context(), Into{Dir: at("alone"), TrustSession: true})
	want := fmt.Sprintf("it is a delta: 5 of its 8 files are in archive %s (t8)", base.Digest)
	if !errors.Is(err, segno.KindRefused) || !strings.Contains(err.Error(), want) {
		t.Errorf("without its base: %v", err)
	}
	_, err = r.Load(t.Context(), Into{Dir: at("other"), TrustSession: true, Base: mustOpen(t, at("delta.ckpt"))})
	if !errors.Is(err, segno.KindRefused) || !strings.Contains(err.Error(), want) {
		t.Errorf("with another one: %v", err)
	}
	if err := r.ReadFile("agents/Eko/session/projects/@cwd/24b03553.jsonl", &bytes.Buffer{}); !errors.Is(err, segno.KindRefused) {
		t.Errorf("a file of it: %v", err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 3 {
		t.Errorf("left over: %v", left)
	}
	if _, err := Load(t.Context(), at("t12.ckpt"), Into{Dir: at("full"), TrustSession: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(t.Context(), at("delta.ckpt"), Into{Dir: at("both"), TrustSession: true, Base: mustOpen(t, at("t8.ckpt"))}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(tree(t, at("full")), tree(t, at("both"))); diff != "" {
		t.Error(diff)
	}
}

// TestKnownContentsAreNotRead writes a delta of files whose hashes the caller knows. It reads only those that changed,
// those that were not found clean before, and those with another hash than the base has.
func TestKnownContentsAreNotRead(t *testing.T) {
	scanner, err := secret.New(secret.Options{})
	if err != nil {
		t.Fatal(err)
	}
	verdicts, err := secret.OpenVerdicts(filepath.Join(t.TempDir(), "verdicts"), scanner.Digest())
	if err != nil {
		t.Fatal(err)
	}
	var read []string
	state := func(contents map[string]string) State {
		a := AgentState{Info: AgentInfo{Name: "Eko"}}
		for name, text := range contents {
			f := content(name, text)
			f.Sum = segno.HashOf([]byte(text))
			open := f.Open
			f.Open = func() (io.ReadCloser, error) {
				read = append(read, name)
				return open()
			}
			a.Workspace = append(a.Workspace, f)
		}
		return State{Agents: []AgentState{a}}
	}
	large := strings.Repeat("a line of a large file\n", 100_000)
	o := WriteOptions{Scanner: scanner, Verdicts: verdicts}
	dir := t.TempDir()
	base := mustWrite(t, filepath.Join(dir, "base.ckpt"), state(map[string]string{"a": "a", "large": large, "log": "1\n", "empty": ""}), o)
	o.Since = &Base{base, "base.ckpt"}
	later := map[string]string{"a": "a", "large": large, "log": "1\n2\n", "empty": "", "copy": "a"}
	for _, x := range []struct {
		verdicts *secret.Verdicts
		want     string
	}{{verdicts, "empty log"}, {nil, "a copy empty large log"}} {
		read, o.Verdicts = nil, x.verdicts
		name := filepath.Join(dir, segno.NewID()+".ckpt")
		m := mustWrite(t, name, state(later), o)
		slices.Sort(read)
		if got := strings.Join(slices.Compact(read), " "); got != x.want {
			t.Errorf("it read %q, want %q", got, x.want)
		}
		r := mustOpen(t, name)
		if beside := r.BaseBeside(name); beside != filepath.Join(dir, "base.ckpt") {
			t.Errorf("the base is %s", beside)
		}
		if err := r.UseBase(mustOpen(t, r.BaseBeside(name))); err != nil {
			t.Fatal(err)
		}
		if err := r.Verify(t.Context(), nil); err != nil {
			t.Error(err)
		}
		if files, _ := r.Missing(); files > 0 || len(m.Entries) != len(later) {
			t.Errorf("%d files are missing, and there are %+v", files, m.Entries)
		}
	}
}

// TestBaseBeside finds no base in another directory.
func TestBaseBeside(t *testing.T) {
	for name, want := range map[string]string{"t1.ckpt": "/runs/t1.ckpt", "t1": "/runs/t1", "": "", "../t1.ckpt": "", "/t1.ckpt": "", "a/t1.ckpt": "", "..": "", ".": ""} {
		r := &Reader{delta: &Delta{Name: name}}
		if got := r.BaseBeside("/runs/t2.ckpt"); got != want {
			t.Errorf("%q is at %q", name, got)
		}
	}
	if got := (&Reader{}).BaseBeside("/runs/t2.ckpt"); got != "" {
		t.Errorf("a full archive has the base %q", got)
	}
}

func TestNothingInCommonIsAFullArchive(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a.ckpt")
	m := mustWrite(t, name, village(), WriteOptions{Since: &Base{&Manifest{Digest: "sha256:" + strings.Repeat("0", 64)}, "t1"}})
	if r := mustOpen(t, name); r.Delta() != nil || r.Manifest().Digest != m.Digest {
		t.Errorf("delta.json: %+v", r.Delta())
	}
}

// TestDeltasOfDeltas makes a chain of archives of random states, each a delta of the previous one,
// and loads the last archive. The result is the last state.
func TestDeltasOfDeltas(t *testing.T) {
	if testing.Short() {
		return // it takes seconds
	}
	soak.Rapid(t, 25, 2000)
	rapid.Check(t, func(rt *rapid.T) {
		dir := t.TempDir()
		defer os.RemoveAll(dir)
		names := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-c]{1,2}`), 1, 5, rapid.ID).Draw(rt, "names")
		texts := map[string]string{}
		var bases []*Reader
		want := ""
		for n := range rapid.IntRange(1, 5).Draw(rt, "archives") {
			s := State{Agents: []AgentState{{Info: AgentInfo{Name: "a"}}, {Info: AgentInfo{Name: "b"}}}}
			for i, name := range names {
				switch rapid.IntRange(0, 3).Draw(rt, "change") {
				case 0:
					texts[name] += rapid.StringMatching(`[xyz\n]{0,40}`).Draw(rt, "more")
				case 1:
					texts[name] = rapid.StringMatching(`[xyz]{0,40}`).Draw(rt, "text")
				}
				a := &s.Agents[i%2]
				a.Session = append(a.Session, content(name+".jsonl", texts[name]))
				a.Workspace = append(a.Workspace, content(name, texts[name]))
			}
			o := WriteOptions{}
			if n > 0 {
				o.Since = &Base{bases[n-1].Manifest(), fmt.Sprint("t", n-1)}
			}
			name := filepath.Join(dir, fmt.Sprint(n, ".ckpt"))
			digest := mustWrite(t, name, s, o).Digest
			r := mustOpen(t, name)
			if n > 0 {
				if err := r.UseBase(bases[n-1]); err != nil {
					rt.Fatal(err)
				}
			}
			if err := r.Verify(t.Context(), nil); err != nil {
				rt.Fatal(err)
			}
			bases = append(bases, r)
			full := filepath.Join(dir, fmt.Sprint("full", n, ".ckpt"))
			if m := mustWrite(t, full, s, WriteOptions{}); m.Digest != digest {
				rt.Fatal("the digest is not that of the full archive")
			}
			want = full
		}
		if _, err := Load(t.Context(), want, Into{Dir: filepath.Join(dir, "want"), TrustSession: true}); err != nil {
			rt.Fatal(err)
		}
		if _, err := bases[len(bases)-1].Load(t.Context(), Into{Dir: filepath.Join(dir, "got"), TrustSession: true}); err != nil {
			rt.Fatal(err)
		}
		if diff := cmp.Diff(tree(t, filepath.Join(dir, "want")), tree(t, filepath.Join(dir, "got"))); diff != "" {
			rt.Fatal(diff)
		}
	})
}

func TestLargeFilesOfADelta(t *testing.T) {
	dir := t.TempDir()
	line := `{"type":"user","text":"nothing of interest, but rather much of it"}` + "\n"
	text := strings.Repeat(line, 2*inMemory/len(line))
	state := func(session, workspace string) State {
		return State{Agents: []AgentState{{Info: AgentInfo{Name: "a"}, Session: []File{content("s.jsonl", session)}, Workspace: []File{content("w", workspace)}}}}
	}
	base, full, delta := filepath.Join(dir, "base"), filepath.Join(dir, "full"), filepath.Join(dir, "delta")
	m := mustWrite(t, base, state(text, text), WriteOptions{})
	next := state(text+line, text)
	want := mustWrite(t, full, next, WriteOptions{})
	if got := mustWrite(t, delta, next, WriteOptions{Since: &Base{m, "t1"}}); got.Digest != want.Digest {
		t.Error("the digest is not that of the full archive")
	}
	if info, _ := os.Stat(delta); info.Size() > 8192 {
		t.Errorf("the delta has %d bytes", info.Size())
	}
	r := mustOpen(t, delta)
	if err := r.UseBase(mustOpen(t, base)); err != nil || r.Verify(t.Context(), nil) != nil {
		t.Error(err, r.Verify(t.Context(), nil))
	}
}

// TestASecretAcrossTheBorder has a secret that begins in the old part of a transcript and ends in
// the new one. Neither part alone contains enough of it.
func TestASecretAcrossTheBorder(t *testing.T) {
	token := "ghp_" + strings.Repeat("a1B2c3D4e5F6", 3)
	for _, filler := range []int{0, inMemory} {
		dir := t.TempDir()
		old := strings.Repeat("x\n", filler/2) + `{"text":"` + token[:20]
		state := func(text string) State {
			return State{Agents: []AgentState{{Info: AgentInfo{Name: "a"}, Session: []File{content("s.jsonl", text)}}}}
		}
		m := mustWrite(t, filepath.Join(dir, "base"), state(old), WriteOptions{})
		_, err := Write(t.Context(), filepath.Join(dir, "delta"), state(old+token[20:]+"\"}\n"), WriteOptions{Since: &Base{m, "t1"}})
		var found *CheckpointSecretError
		if !errors.As(err, &found) || found.Findings[0].Record != filler/2+1 {
			t.Errorf("a secret behind %d bytes: %v", filler, err)
		}
	}
}

// TestWhatTheUserAllowedIsInTheDigestOfADelta checks that the scan also covers the shared files.
func TestWhatTheUserAllowedIsInTheDigestOfADelta(t *testing.T) {
	dir := t.TempDir()
	scanner, err := secret.New(secret.Options{})
	if err != nil {
		t.Fatal(err)
	}
	text := "ghp_" + strings.Repeat("a1B2c3D4e5F6", 3) + "\n"
	found, _ := scanner.Scan("", strings.NewReader(text))
	s := State{Agents: []AgentState{{Info: AgentInfo{Name: "a"}, Workspace: []File{content("w", text)}}}}
	allow := []string{found[0].Fingerprint}
	m := mustWrite(t, filepath.Join(dir, "base"), s, WriteOptions{Allow: allow})
	if d := mustWrite(t, filepath.Join(dir, "delta"), s, WriteOptions{Allow: allow, Since: &Base{m, "t1"}}); d.Digest != m.Digest {
		t.Error("the digest is not that of the full archive")
	}
	if _, err := Write(t.Context(), filepath.Join(dir, "none"), s, WriteOptions{Since: &Base{m, "t1"}}); !errors.Is(err, segno.KindRefused) {
		t.Errorf("a secret that the base has: %v", err)
	}
}

// TestEveryByteOfADelta changes each byte of a small delta in several ways. Each result is refused, with or without
// its base, or loads as the same state.
func TestEveryByteOfADelta(t *testing.T) {
	if testing.Short() {
		return // it takes seconds
	}
	dir := t.TempDir()
	state := func(transcript, soul string) State {
		return State{Agents: []AgentState{{Info: AgentInfo{Name: "a"}, Session: []File{content("a.jsonl", transcript)}, Workspace: []File{content("SOUL.md", soul), content("same", "same")}}}}
	}
	base := mustWrite(t, filepath.Join(dir, "base"), state("{}\n", "a"), WriteOptions{})
	m := mustWrite(t, filepath.Join(dir, "delta"), state("{}\n{\"type\":\"user\"}\n", "b"), WriteOptions{Since: &Base{base, "t1"}})
	data, err := os.ReadFile(filepath.Join(dir, "delta"))
	if err != nil {
		t.Fatal(err)
	}
	first := mustOpen(t, filepath.Join(dir, "base"))
	read := func(b []byte) (digest string, alone, both error) {
		r, err := NewReader(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			return "", err, err
		}
		alone = r.Verify(t.Context(), nil)
		if err := r.UseBase(first); err != nil {
			return "", alone, err
		}
		if files, _ := r.Missing(); files > 0 {
			return "", alone, errors.New("another base")
		}
		return r.Manifest().Digest, alone, r.Verify(t.Context(), nil)
	}
	if digest, alone, both := read(data); digest != m.Digest || alone != nil || both != nil {
		t.Fatal(alone, both)
	}
	for i := range data {
		for _, flip := range []byte{0x01, 0x80, 0xff, 0x20} {
			b := bytes.Clone(data)
			b[i] ^= flip
			if digest, alone, both := read(b); (alone == nil || both == nil) && digest != m.Digest {
				t.Fatalf("byte %d xor %#x: another state was accepted: %v, %v", i, flip, alone, both)
			}
		}
		if _, alone, both := read(data[:i]); alone == nil || both == nil {
			t.Fatalf("%d of %d bytes were accepted", i, len(data))
		}
	}
}

// forgeDelta makes an archive of one file, "content\n", whose first bytes are in the base.
func forgeDelta(change func(d *Delta), tail string) []byte {
	all := "content\n"
	hash := func(s string) string {
		sum := sha256.Sum256([]byte(s))
		return hex.EncodeToString(sum[:])
	}
	f := forge(nil, [2]string{victim, all})
	d := &Delta{Base: "sha256:" + hash("base"), Name: "t1", Files: []Prefix{{Path: victim, Size: int64(len(all) - len(tail)), SHA256: hash(all[:len(all)-len(tail)])}}}
	if tail != "" {
		d.Files[0].Tail = hash(tail)
	}
	if change != nil {
		change(d)
	}
	return f.withDelta(d, tail).bytes()
}

func TestHostileDeltas(t *testing.T) {
	dir := t.TempDir()
	good := forgeDelta(nil, "tent\n")
	sharing := func(path string) State {
		return State{Agents: []AgentState{
			{Info: AgentInfo{Name: "a"}, Workspace: []File{content("w", "w")}},
			{Info: AgentInfo{Name: "b"}, Workspace: []File{content(path, "con")}},
		}}
	}
	for name, data := range map[string][]byte{
		"no digest":      forgeDelta(func(d *Delta) { d.Base = "t1" }, "tent\n"),
		"control":        forgeDelta(func(d *Delta) { d.Name = "\x1b[2J" }, "tent\n"),
		"long name":      forgeDelta(func(d *Delta) { d.Name = strings.Repeat("t", 300) }, "tent\n"),
		"no files":       forgeDelta(func(d *Delta) { d.Files = nil }, "content\n"),
		"null files":     forgeDelta(func(d *Delta) { d.Files = []Prefix{} }, "content\n"),
		"other path":     forgeDelta(func(d *Delta) { d.Files[0].Path = "agents/a/session/file" }, "tent\n"),
		"outside":        forgeDelta(func(d *Delta) { d.Files[0].Path = "../../etc/passwd" }, "tent\n"),
		"twice":          forgeDelta(func(d *Delta) { d.Files = append(d.Files, d.Files[0]) }, "tent\n"),
		"negative":       forgeDelta(func(d *Delta) { d.Files[0].Size = -1 }, "tent\n"),
		"too long":       forgeDelta(func(d *Delta) { d.Files[0].Size = 9 }, "tent\n"),
		"shorter":        forgeDelta(func(d *Delta) { d.Files[0].Size = 2 }, "tent\n"),
		"no tail":        forgeDelta(func(d *Delta) { d.Files[0].Tail = "" }, "tent\n"),
		"capital hash":   forgeDelta(func(d *Delta) { d.Files[0].SHA256 = strings.ToUpper(d.Files[0].SHA256) }, "tent\n"),
		"another file":   forgeDelta(func(d *Delta) { d.Files[0].SHA256 = strings.Repeat("0", 64) }, ""),
		"tail of whole":  forgeDelta(func(d *Delta) { d.Files[0].Tail = strings.Repeat("0", 64) }, ""),
		"hash of a tail": forgeDelta(func(d *Delta) { d.Files[0].Tail = strings.Repeat("0", 64) }, "tent\n"),
	} {
		r, err := NewReader(bytes.NewReader(data), int64(len(data)))
		if err == nil {
			err = r.Verify(t.Context(), nil)
		}
		if err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	read := func() *Reader {
		r, err := NewReader(bytes.NewReader(good), int64(len(good)))
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	// The beginning exists, but in another agent or tier, or as a credential.
	states := map[string]State{"another agent": sharing("file")}
	states["another tier"] = State{Agents: []AgentState{{Info: AgentInfo{Name: "a"}, Session: []File{content("file", "con")}}}}
	for name, s := range states {
		path := filepath.Join(dir, name)
		mustWrite(t, path, s, WriteOptions{})
		r := read()
		if err := r.UseBase(mustOpen(t, path)); err != nil {
			t.Error(err)
		}
		if files, _ := r.Missing(); files != 1 {
			t.Errorf("%s: the delta uses it", name)
		}
		if _, err := r.Load(t.Context(), Into{Dir: filepath.Join(dir, "in")}); !errors.Is(err, segno.KindRefused) {
			t.Errorf("%s: %v", name, err)
		}
	}
	forged := forge(nil, [2]string{"agents/a/workspace/.env", "con"}).bytes()
	credential, err := NewReader(bytes.NewReader(forged), int64(len(forged)))
	if err != nil {
		t.Fatal(err)
	}
	r := read()
	if err := r.UseBase(credential); err != nil {
		t.Error(err)
	}
	if files, _ := r.Missing(); files != 1 {
		t.Error("the delta uses a credential")
	}
	// The base is the reader itself, or the chain is infinite.
	if err := r.UseBase(r); !errors.Is(err, segno.KindRefused) {
		t.Errorf("its own base: %v", err)
	}
	first := read()
	for range maxChain {
		next := read()
		if err = next.UseBase(first); err != nil {
			break
		}
		first = next
	}
	if !errors.Is(err, segno.KindRefused) {
		t.Errorf("a long chain: %v", err)
	}
}

// TestABaseThatLies gives a reader a base whose content differs from its manifest.
func TestABaseThatLies(t *testing.T) {
	good := forgeDelta(nil, "tent\n")
	f := forge(nil, [2]string{victim, "con"})
	lie := f.recompress(methodStore, 3, 0x31323334, []byte("CON")).bytes()
	r, err := NewReader(bytes.NewReader(good), int64(len(good)))
	if err != nil {
		t.Fatal(err)
	}
	base, err := NewReader(bytes.NewReader(lie), int64(len(lie)))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if _, err := r.Load(t.Context(), Into{Dir: filepath.Join(dir, "in"), Base: base}); !errors.Is(err, segno.KindCorrupt) {
		t.Errorf("error %v", err)
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("it left %v", left)
	}
}

func TestEveryFailureOfADelta(t *testing.T) {
	base, err := Describe(t.Context(), village(), WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for n := 0; ; n++ {
		name := filepath.Join(t.TempDir(), "a.ckpt")
		faults := faultfs.FailAt(n)
		_, err := Write(t.Context(), name, later(), WriteOptions{Since: &Base{base, "t8"}, FS: faults.Wrap(vfs.OS)})
		if !faults.Fired() {
			if err != nil {
				t.Fatal(err)
			}
			return
		}
		if _, there := os.Lstat(name); there == nil && mustOpen(t, name).Verify(t.Context(), nil) != nil {
			t.Fatalf("operation %d: an archive that is not complete", n)
		}
	}
}
