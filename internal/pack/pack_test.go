package pack_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/archive"
	"github.com/dalsegno/segno/internal/pack"
	"github.com/dalsegno/segno/transcript/claude"
	"github.com/dalsegno/segno/workspace"
)

// TestARunMovesToAnotherMachine packs an earlier turn and the head, after the source is gone.
func TestARunMovesToAnotherMachine(t *testing.T) {
	f := newFixture(t)
	f.write(f.project, "src/a.go", "package a\n")
	must(t, os.Chmod(filepath.Join(f.project, "src/a.go"), 0o755))
	must(t, os.Symlink("src/a.go", filepath.Join(f.project, "link")))
	must(t, os.Mkdir(filepath.Join(f.project, "empty"), 0o755))
	f.say("alpha")
	f.sidecars()
	first := f.checkpoint("t", nil)
	early, earlySession := tree(t, f.project), contents(t, f.home)
	f.write(f.project, "src/b.go", "package a // b\n")
	f.say("beta")
	second := f.checkpoint("t", nil)
	late, lateSession := tree(t, f.project), contents(t, f.home)
	must(t, os.RemoveAll(f.home))
	must(t, os.RemoveAll(f.project))

	for _, c := range []struct {
		at      segno.CommitID
		files   map[string]string
		session map[string]string
	}{{first, early, earlySession}, {second, late, lateSession}} {
		name, m := f.pack(c.at, pack.Options{})
		if m.Cut.Consistency != archive.Quiet {
			t.Errorf("the cut is %q", m.Cut.Consistency)
		}
		to := newTarget(t)
		got, err := pack.Unpack(t.Context(), f.open(name), to.into())
		must(t, err)
		if diff := cmp.Diff(c.files, tree(t, to.dir)); diff != "" {
			t.Errorf("the workspace (-want +got):\n%s", diff)
		}
		want := map[string]string{}
		for name, content := range c.session {
			if !strings.HasPrefix(name, "session-env/") {
				want[strings.Replace(name, claude.Slug(f.project), claude.Slug(to.dir), 1)] = content
			}
		}
		if diff := cmp.Diff(want, contents(t, to.home)); diff != "" {
			t.Errorf("the agent's home (-want +got):\n%s", diff)
		}
		wantAgent := pack.UnpackedAgent{Name: "claude", Backend: "claude", Dir: to.dir, Session: sessionID, Command: []string{"claude", "--resume", sessionID}}
		if diff := cmp.Diff(&pack.Unpacked{Dir: to.dir, Agents: []pack.UnpackedAgent{wantAgent}}, got); diff != "" {
			t.Errorf("the result (-want +got):\n%s", diff)
		}
		if !slices.ContainsFunc(m.Omitted, func(o archive.Omission) bool {
			return o.Path == "agents/claude/session/session-env/"+sessionID+"/hook-0.sh" && o.Why == archive.OmittedCredential
		}) {
			t.Errorf("the dump of the environment is not listed: %+v", m.Omitted)
		}
	}
}

// TestTheSameCheckpointGivesTheSameBytes packs twice, at different times and places.
func TestTheSameCheckpointGivesTheSameBytes(t *testing.T) {
	f := newFixture(t)
	f.write(f.project, "a", "1")
	f.say("alpha")
	f.sidecars()
	at := f.checkpoint("t", nil)
	one, _ := f.pack(at, pack.Options{})
	f.say("beta")
	f.sidecars()
	f.write(filepath.Dir(f.transcript()), sessionID+"/subagents/agent-late.jsonl", "late")
	two, _ := f.pack(at, pack.Options{})
	must(t, os.RemoveAll(f.home))
	three, _ := f.pack(at, pack.Options{})
	want, err := os.ReadFile(one)
	must(t, err)
	for _, name := range []string{two, three} {
		if got, err := os.ReadFile(name); err != nil || !bytes.Equal(got, want) {
			t.Errorf("another archive of the checkpoint has other bytes (%v)", err)
		}
	}
	if got := f.open(one).Metadata().Created; !got.Equal(time.Date(2026, 3, 1, 12, 1, 0, 0, time.UTC)) {
		t.Errorf("created_at is %v", got)
	}
}

// TestWhatIsLeftOutIsListed has one omission of each kind.
func TestWhatIsLeftOutIsListed(t *testing.T) {
	f := newFixture(t)
	f.write(f.project, "package.json", "{}")
	f.write(f.project, "node_modules/x/index.js", "x")
	f.write(f.project, "tagged/CACHEDIR.TAG", "Signature: 8a477f597d28d172789f06886806bc55\n")
	f.write(f.project, ".git/config", "[core]")
	f.write(f.project, ".env", "A=1")
	f.write(f.project, ".segnoignore", "/private\n")
	f.write(f.project, "private/x", "x")
	f.write(f.project, "a:b", "x")
	f.write(f.project, "bad\xff", "x")
	must(t, syscall.Mkfifo(filepath.Join(f.project, "fifo"), 0o644))
	must(t, os.Symlink("/etc/passwd", filepath.Join(f.project, "out")))
	must(t, os.Symlink("x\xff", filepath.Join(f.project, "odd")))
	must(t, os.Symlink("package.json", filepath.Join(f.project, "fine")))
	_, m := f.pack(f.checkpoint("t", nil), pack.Options{})
	got := map[string]string{}
	for _, o := range m.Omitted {
		got[strings.TrimPrefix(o.Path, "agents/claude/workspace/")] = o.Why
	}
	want := map[string]string{
		"node_modules": archive.OmittedRebuildable, "tagged": archive.OmittedRebuildable, ".git": archive.OmittedProtected,
		".env": archive.OmittedCredential, "private": archive.OmittedProtected, "a:b": archive.OmittedName, "fifo": archive.OmittedSpecial,
		`"agents/claude/workspace/bad\377"`: archive.OmittedName, "out": archive.OmittedLink, "odd": archive.OmittedLink,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("omitted (-want +got):\n%s", diff)
	}
	if len(m.Entries) != 2 || len(m.Links) != 1 {
		t.Errorf("the archive has %+v and %+v", m.Entries, m.Links)
	}
}

// TestPartsCanBeLeftOut leaves out the session, or everything except the files.
func TestPartsCanBeLeftOut(t *testing.T) {
	f := newFixture(t)
	f.write(f.project, "a", "1")
	f.say("alpha")
	world := f.put(`{"format":"grid-v1","time":"12.5","content_hash":"sha256:ab"}`)
	at := f.checkpoint("t", func(cp *segno.Checkpoint) { cp.World = &segno.Document{Type: "grid-v1", Data: world} })

	_, all := f.pack(at, pack.Options{})
	if diff := cmp.Diff(&archive.WorldInfo{Format: "grid-v1", SimTime: "12.5", Hash: "sha256:ab"}, all.World); diff != "" {
		t.Errorf("the world (-want +got):\n%s", diff)
	}
	_, m := f.pack(at, pack.Options{OmitSession: true})
	if m.World == nil || m.Agents[0].SessionID != "" || len(m.Tree("claude", archive.Session)) != 0 ||
		!slices.ContainsFunc(m.Omitted, func(o archive.Omission) bool {
			return o.Path == "agents/claude/session" && o.Why == archive.OmittedByRequest
		}) {
		t.Errorf("without session: %+v", m)
	}
	_, m = f.pack(at, pack.Options{WorkspaceOnly: true})
	if m.World != nil || m.Agents[0].SessionID != "" || len(m.Entries) != 1 || len(m.Omitted) != 2 {
		t.Errorf("only the workspace: %+v", m)
	}
}

// TestTheCutSaysWhetherAllWasQuiet checks each reason why a state is not quiet.
func TestTheCutSaysWhetherAllWasQuiet(t *testing.T) {
	f := newFixture(t)
	f.say("alpha")
	for name, change := range map[string]func(*segno.Checkpoint){
		"quiet":       func(*segno.Checkpoint) {},
		"interrupted": func(cp *segno.Checkpoint) { cp.Interrupted = true },
		"shared":      func(cp *segno.Checkpoint) { cp.Shared = true },
		"saved":       func(cp *segno.Checkpoint) { cp.Kind = segno.CheckpointSave },
		"partial":     func(cp *segno.Checkpoint) { cp.Workspace.Unread = []string{"x"} },
	} {
		_, m := f.pack(f.checkpoint("t", change), pack.Options{})
		if want := map[bool]string{true: archive.Quiet, false: archive.Crash}[name == "quiet"]; m.Cut.Consistency != want {
			t.Errorf("%s: the cut is %q", name, m.Cut.Consistency)
		}
	}
}

// TestMembersBecomeAgents packs a run with a world and two agents, and one with odd names.
func TestMembersBecomeAgents(t *testing.T) {
	f := newFixture(t)
	f.write(f.project, "a", "1")
	f.say("alpha")
	alice := f.checkpoint("alice", nil)
	f.write(f.project, "b", "2")
	bob := f.checkpoint("bob", func(cp *segno.Checkpoint) { cp.Session = nil })
	world := f.put("opaque")
	run := f.checkpoint("run", func(cp *segno.Checkpoint) {
		cp.Kind, cp.Session, cp.Workspace = segno.CheckpointCut, nil, nil
		cp.World = &segno.Document{Type: "zork/1", Data: world}
		cp.Members = map[string]segno.CommitID{"alice": alice, "bob": bob, "a/b\x00": bob, "ALICE": bob}
	})
	name, m := f.pack(run, pack.Options{})
	var names []string
	for _, a := range m.Agents {
		names = append(names, a.Name)
	}
	if diff := cmp.Diff([]string{"ALICE", "a-b-", "alice-2", "bob"}, names); diff != "" {
		t.Fatalf("agents (-want +got):\n%s", diff)
	}
	if m.Cut.Consistency != archive.Quiet {
		t.Errorf("the cut is %q", m.Cut.Consistency)
	}
	to := newTarget(t)
	got, err := pack.Unpack(t.Context(), f.open(name), to.into())
	must(t, err)
	if data, err := os.ReadFile(got.World); err != nil || string(data) != "opaque" {
		t.Errorf("the world is %q, %v", data, err)
	}
	for _, a := range got.Agents {
		if want := filepath.Join(to.dir, "agents", a.Name, "workspace"); a.Dir != want || (a.Session != "") != (a.Name == "alice-2") {
			t.Errorf("%+v, want the directory %s", a, want)
		}
	}
	src, err := claude.New(to.home, claude.Options{}).Find(t.Context(), sessionID)
	must(t, err)
	if want := claude.Slug(filepath.Join(to.dir, "agents/alice-2/workspace")); filepath.Base(filepath.Dir(src.Path)) != want {
		t.Errorf("the session is at %s, want the project %s", src.Path, want)
	}
	if _, err := os.Lstat(filepath.Join(to.dir, "agents/alice-2/session")); err == nil {
		t.Error("the session is beside the workspace, too")
	}
}

// losingStore is a store that lost an object or a commit.
type losingStore struct {
	segno.Store
	object segno.Hash
	commit segno.CommitID
}

func (s losingStore) Objects() segno.Objects { return losingObjects{s.Store.Objects(), s.object} }

func (s losingStore) Load(ctx context.Context, at segno.CommitID, w segno.Window) (*segno.Line, error) {
	if at == s.commit {
		return nil, segno.NewError(segno.KindNotFound, "load", string(at), nil)
	}
	return s.Store.Load(ctx, at, w)
}

type losingObjects struct {
	segno.Objects
	lost segno.Hash
}

func (o losingObjects) Get(ctx context.Context, name segno.Hash) ([]byte, error) {
	if name == o.lost {
		return nil, segno.NewError(segno.KindNotFound, "get object", name.String(), nil)
	}
	return o.Objects.Get(ctx, name)
}

// TestALostPartIsCorrupt removes each part of a checkpoint in turn. Only a missing checkpoint
// itself is not damage.
func TestALostPartIsCorrupt(t *testing.T) {
	f := newFixture(t)
	f.write(f.project, "src/a", "content")
	f.say("alpha")
	f.sidecars()
	world := f.put("opaque")
	var cp segno.Checkpoint
	member := f.checkpoint("member", func(c *segno.Checkpoint) { cp = *c })
	at := f.checkpoint("t", func(c *segno.Checkpoint) {
		c.Session, c.Workspace, c.World = nil, nil, &segno.Document{Type: "x/1", Data: world}
		c.Members = map[string]segno.CommitID{"one": member}
	})
	must(t, os.RemoveAll(f.home))
	var objects []segno.Hash
	add := func(h segno.Hash) bool { objects = append(objects, h); return true }
	must(t, new(workspace.Tracer).Trace(t.Context(), f.store.Objects(), *cp.Workspace, add))
	must(t, claude.New(f.home, claude.Options{}).Trace(t.Context(), *cp.Session, f.store.Objects(), add))
	objects = append(objects, world, cp.Workspace.Tree)
	if len(objects) < 12 {
		t.Fatalf("only %d objects", len(objects))
	}
	try := func(s segno.Store) error {
		temp := t.TempDir()
		state, cleanup, err := (&pack.Packer{Store: s, Temp: temp}).State(t.Context(), at, pack.Options{})
		if err == nil {
			_, err = archive.Write(t.Context(), filepath.Join(temp, "a.ckpt"), state, archive.WriteOptions{})
		}
		must(t, cleanup())
		if left := tree(t, temp); err != nil && len(left) > 0 {
			t.Errorf("%v; it left %v", err, left)
		}
		return err
	}
	for _, lost := range objects {
		if err := try(losingStore{Store: f.store, object: lost}); segno.KindOf(err) != segno.KindCorrupt {
			t.Errorf("without object %s: %v", lost, err)
		}
	}
	if err := try(losingStore{Store: f.store, commit: member}); segno.KindOf(err) != segno.KindCorrupt {
		t.Errorf("without the member: %v", err)
	}
	if err := try(losingStore{Store: f.store, commit: at}); segno.KindOf(err) != segno.KindNotFound {
		t.Errorf("without the checkpoint: %v", err)
	}
	if err := try(f.store); err != nil {
		t.Error(err)
	}
}
