package archive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/google/go-cmp/cmp"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/secret"
)

func content(name, text string) File {
	return File{Path: name, Size: int64(len(text)), Modified: time.Unix(1_700_000_000, 123),
		Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil }}
}

// village returns a small state with every part.
func village() State {
	run := content("run.sh", "#!/bin/sh\necho hello\n")
	run.Executable = true
	return State{
		Created: time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC),
		Caller:  map[string]any{"run_id": "village-1", "generation": 3, "elapsed_seconds": 5400},
		World:   &WorldState{Info: WorldInfo{Format: "grid-v1", SimTime: "1234.5"}, Document: content("", `{"format":"grid-v1","time":1234.5}`)},
		Agents: []AgentState{
			{
				Info:      AgentInfo{Name: "Eko", Backend: "claude", SessionFormat: "claude-code-v1", SessionID: "24b03553-fa6f-4edd-bfa9-fa43bba57be7"},
				Workspace: []File{content("SOUL.md", "I am Eko.\n"), run, content("notes/größe.txt", strings.Repeat("a line of notes\n", 5000)), content("empty", "")},
				Dirs:      []string{"inbox"},
				Links:     []Link{{"cur", "notes"}, {"notes/latest", "größe.txt"}},
				Session:   []File{content("projects/@cwd/24b03553.jsonl", strings.Repeat(`{"type":"user","text":"hello\nthere"}`+"\n", 4000))},
			},
			{Info: AgentInfo{Name: "Ada", Backend: "segno"}, Workspace: []File{content("a.txt", "a")}},
		},
		Cut: &Cut{Consistency: Quiet, WorldSeq: []uint64{4711, 4711}, ElapsedSeconds: 5400, Generation: 3},
	}
}

func mustWrite(t testing.TB, name string, s State, o WriteOptions) *Manifest {
	t.Helper()
	m, err := Write(t.Context(), name, s, o)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// tree reads a directory into a map from paths to modes and contents.
func tree(t testing.TB, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		info, err := e.Info()
		if err != nil {
			return err
		}
		switch {
		case e.IsDir():
			found[name] = "dir"
		case e.Type() == fs.ModeSymlink:
			target, _ := os.Readlink(path)
			found[name] = "-> " + target
		default:
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			found[name] = fmt.Sprintf("%o %d %s", info.Mode().Perm(), info.ModTime().UnixNano(), data)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestAnArchiveLoadsAsTheStateThatItWasMadeOf(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "gen003-t005400.ckpt")
	m := mustWrite(t, name, village(), WriteOptions{})
	if len(m.Omitted) > 0 {
		t.Errorf("omitted: %v", m.Omitted)
	}
	to := filepath.Join(dir, "loaded")
	loaded, err := Load(t.Context(), name, Into{Dir: to, TrustSession: true})
	if err != nil {
		t.Fatal(err)
	}
	if len(loaded.Skipped) > 0 || loaded.Manifest.Digest != m.Digest {
		t.Errorf("skipped %v, digest %s", loaded.Skipped, loaded.Manifest.Digest)
	}
	const at = "1700000000000000123"
	want := map[string]string{
		"world.snapshot": "644 " + at + ` {"format":"grid-v1","time":1234.5}`,
		"agents":         "dir", "agents/Ada": "dir", "agents/Ada/workspace": "dir", "agents/Ada/workspace/a.txt": "644 " + at + " a",
		"agents/Eko": "dir", "agents/Eko/session": "dir", "agents/Eko/session/projects": "dir", "agents/Eko/session/projects/@cwd": "dir",
		"agents/Eko/session/projects/@cwd/24b03553.jsonl": "644 " + at + " " + strings.Repeat(`{"type":"user","text":"hello\nthere"}`+"\n", 4000),
		"agents/Eko/workspace":                            "dir", "agents/Eko/workspace/inbox": "dir", "agents/Eko/workspace/notes": "dir",
		"agents/Eko/workspace/SOUL.md": "644 " + at + " I am Eko.\n", "agents/Eko/workspace/empty": "644 " + at + " ",
		"agents/Eko/workspace/run.sh":          "755 " + at + " #!/bin/sh\necho hello\n",
		"agents/Eko/workspace/notes/größe.txt": "644 " + at + " " + strings.Repeat("a line of notes\n", 5000),
		"agents/Eko/workspace/cur":             "-> notes", "agents/Eko/workspace/notes/latest": "-> größe.txt",
	}
	if diff := cmp.Diff(want, tree(t, to)); diff != "" {
		t.Error(diff)
	}
	if want := filepath.Join(to, "agents/Eko/session"); loaded.Agents["Eko"].Session != want || loaded.World != filepath.Join(to, "world.snapshot") {
		t.Errorf("loaded %+v", loaded)
	}
	meta, err := ReadMetadata(name)
	if err != nil || !meta.Created.Equal(village().Created) || meta.Caller["run_id"] != "village-1" || len(meta.Agents) != 2 {
		t.Errorf("metadata %+v, %v", meta, err)
	}
}

func TestTheSameStateIsTheSameArchive(t *testing.T) {
	dir := t.TempDir()
	first, second := filepath.Join(dir, "1.ckpt"), filepath.Join(dir, "2.ckpt")
	a := mustWrite(t, first, village(), WriteOptions{})
	shuffled := village()
	shuffled.Agents[0], shuffled.Agents[1] = shuffled.Agents[1], shuffled.Agents[0]
	w := shuffled.Agents[1].Workspace
	rand.Shuffle(len(w), func(i, j int) { w[i], w[j] = w[j], w[i] })
	mustWrite(t, second, shuffled, WriteOptions{})
	one, _ := os.ReadFile(first)
	two, _ := os.ReadFile(second)
	if !bytes.Equal(one, two) || len(one) == 0 {
		t.Error("two archives of one state differ")
	}
	third := filepath.Join(dir, "3.ckpt")
	if b := mustWrite(t, third, village(), WriteOptions{Deflate: true}); b.Digest != a.Digest {
		t.Error("the compression changes the digest")
	}
	if _, err := Write(t.Context(), third, village(), WriteOptions{}); !errors.Is(err, segno.KindConflict) {
		t.Errorf("an archive was written over another: %v", err)
	}
	left, _ := filepath.Glob(filepath.Join(dir, ".segno*"))
	if len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
}

// TestSmallSessionFiles has files of all sizes around the smallest one for which zstd records the size.
func TestSmallSessionFiles(t *testing.T) {
	s := State{Agents: []AgentState{{Info: AgentInfo{Name: "a"}}}}
	for n := range 300 {
		s.Agents[0].Session = append(s.Agents[0].Session, content(fmt.Sprintf("%03d", n), strings.Repeat("a", n)))
	}
	name := filepath.Join(t.TempDir(), "a.ckpt")
	mustWrite(t, name, s, WriteOptions{})
	r, err := Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := r.Verify(t.Context(), nil); err != nil {
		t.Error(err)
	}
}

func TestForeignArchivesGiveTheirWorkspaceOnly(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "a.ckpt")
	m := mustWrite(t, name, village(), WriteOptions{})
	loaded, err := Load(t.Context(), name, Into{Dir: filepath.Join(dir, "foreign")})
	if err != nil {
		t.Fatal(err)
	}
	if loaded.Agents["Eko"].Session != "" || loaded.World != "" || len(loaded.Skipped) != 2 || loaded.Agents["Eko"].Workspace == "" {
		t.Errorf("loaded %+v", loaded)
	}
	ours := func(digest string) bool { return digest == m.Digest }
	loaded, err = Load(t.Context(), name, Into{Dir: filepath.Join(dir, "ours"), Ours: ours, Agents: []string{"Eko"}, Tiers: []Tier{Session}})
	if err != nil {
		t.Fatal(err)
	}
	if loaded.Agents["Eko"].Session == "" || loaded.Agents["Eko"].Workspace != "" || loaded.World != "" {
		t.Errorf("loaded %+v", loaded)
	}
}

func TestWhatIsNotWritten(t *testing.T) {
	s := State{Agents: []AgentState{{
		Info: AgentInfo{Name: "thread"},
		Workspace: []File{content("ok.txt", "x"), content("OK.TXT", "x"), content(".env", "A=b"), content("sub/.Claude/settings.json", "{}"),
			content("settings.json", "{}"), content("con.txt", ""), content("a:b", ""), content("deploy.PEM", ""), content("key\u200b.md", ""),
			content(".env.example", "A="), content(".git/config", ""), content("\xff", "")},
		Links:   []Link{{"out", "../../etc"}, {"in", "ok.txt"}, {"abs", "/etc/passwd"}},
		Session: []File{content("projects/@cwd/a.jsonl", "{}"), content("settings.json", "{}"), content("auth.json", "{}")},
	}}}
	name := filepath.Join(t.TempDir(), "a.ckpt")
	m := mustWrite(t, name, s, WriteOptions{})
	var got []string
	for _, e := range m.Entries {
		got = append(got, strings.TrimPrefix(e.Path, "agents/thread/"))
	}
	for _, l := range m.Links {
		got = append(got, l.Path)
	}
	want := []string{"session/projects/@cwd/a.jsonl", "workspace/.env.example", "workspace/OK.TXT", "workspace/settings.json", "agents/thread/workspace/in"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if len(m.Omitted) != 13 {
		t.Errorf("%d omissions: %v", len(m.Omitted), m.Omitted)
	}
}

// TestAnArchiveIsRecordedBeforeItAppears calls Record while no file has the archive's name. If Record
// returns an error, no file remains.
func TestAnArchiveIsRecordedBeforeItAppears(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "a.ckpt")
	recorded := ""
	record := func(err error) func(string) error {
		return func(digest string) error {
			if _, statErr := os.Stat(name); statErr == nil {
				t.Error("the archive is there before it is recorded")
			}
			recorded = digest
			return err
		}
	}
	full := errors.New("the disk is full")
	if _, err := Write(t.Context(), name, village(), WriteOptions{Record: record(full)}); !errors.Is(err, full) {
		t.Errorf("error %v", err)
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("it left %v", left)
	}
	if m := mustWrite(t, name, village(), WriteOptions{Record: record(nil)}); recorded != m.Digest {
		t.Errorf("recorded %q, want %q", recorded, m.Digest)
	}
}

func TestASecretRefusesAnArchive(t *testing.T) {
	dir := t.TempDir()
	token := "ghp_" + strings.Repeat("a1B2c3D4e5F6", 3)
	s := village()
	s.Agents[0].Session = append(s.Agents[0].Session, content("projects/@cwd/b.jsonl", "{}\n"+`{"text":"it is:\n`+token+`\n"}`+"\n"))
	name := filepath.Join(dir, "a.ckpt")
	_, err := Write(t.Context(), name, s, WriteOptions{})
	var found *CheckpointSecretError
	if !errors.As(err, &found) || len(found.Findings) != 1 || found.Findings[0].Record != 2 {
		t.Fatalf("error %v", err)
	}
	if strings.Contains(err.Error(), token[8:]) {
		t.Errorf("the error has the secret: %v", err)
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
	m := mustWrite(t, name, s, WriteOptions{OmitSession: true})
	if last := m.Omitted[len(m.Omitted)-1]; last.Path != "agents/Eko/session" || last.Why != OmittedSecret || last.Files != 2 || len(m.Tree("Eko", Session)) != 0 {
		t.Errorf("omitted %+v", last)
	}
	m = mustWrite(t, filepath.Join(dir, "b.ckpt"), s, WriteOptions{Allow: []string{found.Findings[0].Fingerprint}})
	if len(m.Tree("Eko", Session)) != 2 || len(m.Scan.Allowed) != 1 {
		t.Errorf("scan %+v", m.Scan)
	}
}

// TestOtherPrograms checks that other programs read the same content.
func TestOtherPrograms(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "a.ckpt")
	mustWrite(t, name, village(), WriteOptions{Deflate: true})
	zstd := filepath.Join(dir, "z.ckpt")
	mustWrite(t, zstd, village(), WriteOptions{})
	run := func(dir, program string, args ...string) {
		t.Helper()
		c := exec.CommandContext(t.Context(), program, args...)
		c.Dir = dir
		if out, err := c.CombinedOutput(); err != nil {
			t.Errorf("%s %v: %v\n%s", program, args, err, out)
		}
	}
	run(dir, "unzip", "-tq", name)
	run(dir, "python3", "-m", "zipfile", "-t", name)
	run(dir, "unzip", "-q", name, "-d", "out")
	sums := []string{"sha256sum"}
	if _, err := exec.LookPath(sums[0]); err != nil {
		sums = []string{"shasum", "-a", "256"} // macOS
	}
	run(filepath.Join(dir, "out"), sums[0], append(sums[1:], "-c", "--strict", "SHA256SUMS")...)
	// Every file except the conversations can be read from an archive that was not written for these programs.
	run(dir, "unzip", "-tq", zstd, "*.json", "world.snapshot", "agents/*/workspace/*")
	run(dir, "python3", "-c", `import sys, zipfile
for name in zipfile.ZipFile(sys.argv[1]).namelist():
    if "/session/" not in name: zipfile.ZipFile(sys.argv[1]).read(name)`, zstd)
}

// TestEveryByte changes each byte in several ways, and truncates the archive at every length. Each
// result is refused, or loads as exactly the same state.
func TestEveryByte(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "a.ckpt")
	s := village()
	s.Agents[0].Workspace = s.Agents[0].Workspace[:2]
	s.Agents[0].Session = []File{content("projects/@cwd/a.jsonl", strings.Repeat(`{"type":"user"}`+"\n", 20))}
	s.Agents[0].Links = nil
	m := mustWrite(t, name, s, WriteOptions{})
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	read := func(b []byte) (string, error) {
		r, err := NewReader(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			return "", err
		}
		return r.Manifest().Digest, r.Verify(t.Context(), nil)
	}
	accepted := 0
	flips := []byte{0x01, 0x80, 0xff, 0x20}
	if testing.Short() {
		flips = flips[:1]
	}
	for i := range data {
		for _, flip := range flips {
			b := bytes.Clone(data)
			b[i] ^= flip
			if digest, err := read(b); err == nil {
				accepted++
				if digest != m.Digest {
					t.Fatalf("byte %d xor %#x: another state was accepted", i, flip)
				}
			}
		}
		if _, err := read(data[:i]); err == nil {
			t.Fatalf("%d of %d bytes were accepted", i, len(data))
		}
	}
	if _, err := read(append(bytes.Clone(data), 0)); err == nil {
		t.Error("a byte behind the end was accepted")
	}
	t.Logf("%d bytes, %d flips accepted with the same state", len(data), accepted)
}

func TestVerdictsSaveTheScan(t *testing.T) {
	dir := t.TempDir()
	scanner, err := secret.New(secret.Options{})
	if err != nil {
		t.Fatal(err)
	}
	verdicts, err := secret.OpenVerdicts(filepath.Join(dir, "verdicts"), scanner.Digest())
	if err != nil {
		t.Fatal(err)
	}
	line := `{"type":"user","text":"nothing of interest, but rather much of it"}` + "\n"
	grown := strings.Repeat(line, 100_000)
	pack := func(name, text string) error {
		s := State{Agents: []AgentState{{Info: AgentInfo{Name: "a"}, Session: []File{content("projects/@cwd/a.jsonl", text)}}}}
		_, err := Write(t.Context(), filepath.Join(dir, name), s, WriteOptions{Scanner: scanner, Verdicts: verdicts})
		return err
	}
	if err := pack("1", grown); err != nil {
		t.Fatal(err)
	}
	p := newPrefixes()
	_, _ = io.WriteString(p, grown+line)
	if clean := p.clean(verdicts); clean < int64(len(grown))-2*prefixStep-1000 {
		t.Errorf("of %d bytes %d are known to be clean", len(grown), clean)
	}
	token := `{"text":"ghp_` + strings.Repeat("a1B2c3D4e5F6", 3) + `"}` + "\n"
	var found *CheckpointSecretError
	if err := pack("2", grown+token); !errors.As(err, &found) || found.Findings[0].Record != 100_001 {
		t.Errorf("a secret in the new part: %v", err)
	}
}

// TestLoadReplacesAnEmptyDirectory loads into an empty directory. A directory with a file is refused.
func TestLoadReplacesAnEmptyDirectory(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a.ckpt")
	mustWrite(t, name, village(), WriteOptions{})
	to := t.TempDir()
	if _, err := Load(t.Context(), name, Into{Dir: to}); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(t.Context(), name, Into{Dir: to}); !errors.Is(err, segno.KindConflict) {
		t.Errorf("the second load: %v", err)
	}
}

func TestASecretThatBeginsInTheOldPartIsFound(t *testing.T) {
	dir := t.TempDir()
	scanner, err := secret.New(secret.Options{})
	if err != nil {
		t.Fatal(err)
	}
	verdicts, err := secret.OpenVerdicts(filepath.Join(dir, "verdicts"), scanner.Digest())
	if err != nil {
		t.Fatal(err)
	}
	pack := func(name, text string) error {
		s := State{Agents: []AgentState{{Info: AgentInfo{Name: "a"}, Workspace: []File{content("log", text)}}}}
		_, err := Write(t.Context(), filepath.Join(dir, name), s, WriteOptions{Scanner: scanner, Verdicts: verdicts})
		return err
	}
	// The last line before a place with a verdict contains the beginning of the key.
	const begin = "-----BEGIN RSA PRIVATE KEY-----\n"
	old := strings.Repeat("a line of no interest\n", prefixStep/22-1)
	old = strings.Repeat(".", prefixStep-10-len(old)) + old + begin
	if err := pack("1", old); err != nil {
		t.Fatal(err)
	}
	key := strings.Repeat("MIIEowIBAAKCAQEAx3Jq8Tz0Pz7dGmH2sWkQv9Yt4LbN6oRf1cXe5UaKjB\n", 12) + "-----END RSA PRIVATE KEY-----\n"
	var found *CheckpointSecretError
	if err := pack("2", old+key); !errors.As(err, &found) {
		t.Errorf("a key that is in two parts of a file: %v", err)
	}
}

// endless is a file of zeros. Its reader calls read for each piece.
type endless struct{ read func() }

func (e endless) Read(p []byte) (int, error) {
	e.read()
	return len(p), nil
}

func (e endless) Close() error { return nil }

func TestAWriteEndsInTheMiddleOfALargeFile(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	reads := 0
	f := File{Path: "large", Size: 1 << 40, Open: func() (io.ReadCloser, error) {
		return endless{func() {
			if reads++; reads == 10 {
				cancel()
			}
		}}, nil
	}}
	dir := t.TempDir()
	_, err := Write(ctx, filepath.Join(dir, "a.ckpt"), State{Agents: []AgentState{{Info: AgentInfo{Name: "a"}, Workspace: []File{f}}}}, WriteOptions{})
	if !errors.Is(err, segno.KindCancelled) || reads != 10 {
		t.Errorf("after %d reads: %v", reads, err)
	}
	f.Size = -1
	if _, err := Write(t.Context(), filepath.Join(dir, "a.ckpt"), State{Agents: []AgentState{{Info: AgentInfo{Name: "a"}, Workspace: []File{f}}}}, WriteOptions{}); !errors.Is(err, segno.KindInvalid) {
		t.Errorf("a file of -1 bytes: %v", err)
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
}

func TestALoadEndsInTheMiddleOfALargeFile(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "a.ckpt")
	f := File{Path: "large", Size: 64 << 20, Open: func() (io.ReadCloser, error) { return endless{func() {}}, nil }}
	mustWrite(t, name, State{Agents: []AgentState{{Info: AgentInfo{Name: "a"}, Workspace: []File{f}}}}, WriteOptions{})
	r, err := Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for what, err := range map[string]error{
		"copy":   r.copyEntry(&unpacker{ctx: ctx}, io.Discard, 0),
		"verify": r.Verify(ctx, nil),
	} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := r.Load(ctx, Into{Dir: filepath.Join(dir, "in")}); !errors.Is(err, segno.KindCancelled) {
		t.Errorf("load: %v", err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("left over: %v", left)
	}
}

// TestASealedArchiveOfOneFile leaves all workers but one without work.
func TestASealedArchiveOfOneFile(t *testing.T) {
	key, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "a.ckpt")
	mustWrite(t, name, State{Agents: []AgentState{{Info: AgentInfo{Name: "a"}, Workspace: []File{content("a.txt", "a")}}}}, WriteOptions{Recipients: []age.Recipient{key.Recipient()}})
	r, err := OpenSealed(name, key)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := r.Verify(t.Context(), nil); err != nil {
		t.Error(err)
	}
}
