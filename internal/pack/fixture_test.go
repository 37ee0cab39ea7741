package pack_test

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/archive"
	"github.com/dalsegno/segno/internal/pack"
	"github.com/dalsegno/segno/store/memory"
	"github.com/dalsegno/segno/transcript/claude"
	"github.com/dalsegno/segno/workspace"
)

const sessionID = "11111111-0000-4000-8000-000000000001"

// fixture is a machine with a project, a home of Claude Code and a store.
type fixture struct {
	*testing.T
	dir     string // contains everything
	project string
	home    string
	store   segno.Store
	prev    *segno.Position
	turns   int
	records int
	last    string // the last record of the transcript
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	f := &fixture{T: t, dir: dir, project: filepath.Join(dir, "project"), home: filepath.Join(dir, "home"), store: memory.New(nil)}
	must(t, os.Mkdir(f.project, 0o755))
	must(t, os.Mkdir(f.home, 0o755))
	return f
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// write writes a file below a directory of the fixture.
func (f *fixture) write(base, name, content string) {
	f.Helper()
	file := filepath.Join(base, name)
	must(f, os.MkdirAll(filepath.Dir(file), 0o755))
	must(f, os.WriteFile(file, []byte(content), 0o644))
}

func (f *fixture) transcript() string {
	return filepath.Join(f.home, "projects", claude.Slug(f.project), sessionID+".jsonl")
}

// say adds a turn to the transcript, in the format of Claude Code.
func (f *fixture) say(prompt string) {
	f.Helper()
	f.turns++
	var text strings.Builder
	add := func(typ, message string) {
		f.records++
		id := fmt.Sprintf("%08x-aaaa-4bbb-8ccc-000000000000", f.records)
		parent := "null"
		if f.last != "" {
			parent = `"` + f.last + `"`
		}
		fmt.Fprintf(&text, `{"parentUuid":%s,"isSidechain":false,"promptId":"p%d","type":"%s","message":%s,"uuid":"%s","timestamp":"2026-03-01T12:%02d:00.000Z","cwd":%q,"sessionId":"%s","version":"2.1.197"}`+"\n",
			parent, f.turns, typ, message, id, f.turns, f.project, sessionID)
		f.last = id
	}
	add("user", fmt.Sprintf(`{"role":"user","content":%q}`, prompt))
	add("assistant", fmt.Sprintf(`{"model":"m","id":"msg%d","type":"message","role":"assistant","content":[{"type":"text","text":"done"}],"stop_reason":"end_turn"}`, f.turns))
	must(f, os.MkdirAll(filepath.Dir(f.transcript()), 0o700))
	file, err := os.OpenFile(f.transcript(), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	must(f, err)
	_, err = file.WriteString(text.String())
	must(f, err)
	must(f, file.Close())
}

// sidecars writes one file of each kind that a session can have beside its transcript.
func (f *fixture) sidecars() {
	project := filepath.Dir(f.transcript())
	f.write(project, sessionID+"/subagents/agent-a.jsonl", "{\"isSidechain\":true}\n")
	f.write(project, sessionID+"/subagents/agent-a.meta.json", "{}")
	f.write(project, sessionID+"/tool-results/x.txt", strings.Repeat("out\n", 1000))
	f.write(f.home, "tasks/"+sessionID+"/1.json", `{"id":"1"}`)
	f.write(f.home, "file-history/"+sessionID+"/0123@v1", "old")
	f.write(f.home, "session-env/"+sessionID+"/hook-0.sh", "export TOKEN=1\n")
}

// checkpoint commits the present project and session. change may edit the checkpoint.
func (f *fixture) checkpoint(thread segno.ThreadID, change func(*segno.Checkpoint)) segno.CommitID {
	f.Helper()
	ctx := f.Context()
	dir, err := workspace.Open(f.project, workspace.Options{ID: "w", Objects: f.store.Objects()})
	must(f, err)
	b := f.store.Objects().Batch()
	defer b.Close()
	snapshot, err := dir.Snapshot(ctx, b)
	must(f, err)
	cp := &segno.Checkpoint{Kind: segno.CheckpointTurn, Turn: f.turns, Agent: claude.Agent, Workspace: &snapshot,
		Time: time.Date(2026, 3, 1, 12, f.turns, 0, 0, time.UTC)}
	if f.turns > 0 {
		got, err := claude.New(f.home, claude.Options{Objects: f.store.Objects()}).Capture(ctx, segno.Source{Session: sessionID, Path: f.transcript(), Dir: f.project}, f.prev, b, nil)
		must(f, err)
		cp.Session, f.prev = &got.Position, &got.Position
	}
	if change != nil {
		change(cp)
	}
	staged, err := b.Stage(ctx)
	must(f, err)
	c := segno.Commit{ID: segno.CommitID(segno.NewID()), Thread: thread, Checkpoint: cp, Staged: staged}
	if head, err := f.store.Head(ctx, thread); err == nil {
		c.Parent, c.Expect, c.Epoch = head.Head, head.Head, head.Epoch
	} else {
		c.Create = &segno.Thread{ID: thread}
	}
	_, err = f.store.Commit(ctx, c)
	must(f, err)
	return c.ID
}

// put stores an object.
func (f *fixture) put(data string) segno.Hash {
	f.Helper()
	b := f.store.Objects().Batch()
	defer b.Close()
	name, err := b.Put(f.Context(), []byte(data))
	must(f, err)
	staged, err := b.Stage(f.Context())
	must(f, err)
	must(f, f.store.Objects().Keep(f.Context(), staged))
	return name
}

// pack writes an archive of a checkpoint.
func (f *fixture) pack(at segno.CommitID, o pack.Options) (string, *archive.Manifest) {
	f.Helper()
	state, cleanup, err := (&pack.Packer{Store: f.store, Temp: f.TempDir()}).State(f.Context(), at, o)
	must(f, err)
	name := filepath.Join(f.TempDir(), "run.ckpt")
	m, err := archive.Write(f.Context(), name, state, archive.WriteOptions{})
	must(f, err)
	must(f, cleanup())
	return name, m
}

// open opens an archive until the test ends.
func (f *fixture) open(name string) *archive.Reader {
	f.Helper()
	r, err := archive.Open(name)
	must(f, err)
	f.Cleanup(func() { r.Close() })
	return r
}

// target is another machine.
type target struct{ dir, home string }

func newTarget(t testing.TB) target {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	return target{filepath.Join(dir, "new", "elsewhere"), filepath.Join(dir, "home")}
}

// into returns the options that load everything to the machine.
func (m target) into() pack.Into {
	return pack.Into{Dir: m.dir, TrustSession: true, Home: func(string) string { return m.home }}
}

// tree describes a directory: names, types, contents, links, whether files are executable, and
// their times. It is nil if there is no such directory.
func tree(t testing.TB, dir string) map[string]string {
	t.Helper()
	if _, err := os.Lstat(dir); err != nil {
		return nil
	}
	out := map[string]string{}
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		switch {
		case d.IsDir():
			out[rel] = "directory"
		case d.Type()&fs.ModeSymlink != 0:
			to, err := os.Readlink(path)
			out[rel] = "link to " + to
			return err
		default:
			data, err := os.ReadFile(path)
			out[rel] = fmt.Sprintf("%x executable=%v %v", sha256.Sum256(data), info.Mode()&0o100 != 0, info.ModTime().UnixNano())
			return err
		}
		return nil
	}))
	return out
}

// contents returns the contents of all regular files below dir, by path.
func contents(t testing.TB, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		data, err := os.ReadFile(path)
		out[rel] = string(data)
		return err
	}))
	return out
}
