package generation_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/archive"
	"github.com/dalsegno/segno/generation"
	"github.com/dalsegno/segno/internal/local"
)

// leaksEnvironment makes the agent of a rig write its environment, which contains a key, to a file at each turn.
func (r *rig) leaksEnvironment(more func(turn int) string) {
	r.kind.more = func(turn int) string {
		return "AWS_KEY=" + secretText() + " env > vars; ls > seen; " + more(turn)
	}
}

// TestSecretInWorkspace leaves a file with a secret out of each archive, reports it once, and makes every checkpoint.
func TestSecretInWorkspace(t *testing.T) {
	r := newRig(t)
	r.leaksEnvironment(func(int) string { return "true" })
	c := r.config(2, 3)
	if err := generation.New(c).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.checkNotes("village-g002", 6)
	if failed := r.find(generation.EventNoCheckpoint); len(failed) > 0 {
		t.Errorf("the failures are %+v", failed)
	}
	omitted := r.find(generation.EventFileOmitted)
	if len(omitted) != 1 || omitted[0].Tick != 1 || omitted[0].Text != "agents/Ada/workspace/vars" || omitted[0].Error == "" {
		t.Errorf("the events are %+v", omitted)
	}
	s, _, err := generation.ReadStatus(t.Context(), c.Out, "village")
	if err != nil || s.Checkpoints != 6 || s.CheckpointFailures != 0 || s.SessionsOmitted != 0 || strings.Join(s.FilesOmitted, " ") != "agents/Ada/workspace/vars" {
		t.Errorf("the status is %+v, %v", s, err)
	}
	for tick := 1; tick <= 3; tick++ {
		r.checkOmits("vars", "village-g001/checkpoints", fmt.Sprintf("gen001-t%06d.ckpt", tick))
	}
	l, err := generation.ReadLog(c.Out, "village")
	if err != nil || len(l.Checkpoints) != 6 || l.Checkpoints[5].OmittedFiles != 1 || l.Checkpoints[5].Omitted != 0 {
		t.Errorf("the log is %+v, %v", l.Checkpoints, err)
	}
}

// checkOmits checks that an archive has the workspace of the agent except one file, which its manifest names.
func (r *rig) checkOmits(file string, elements ...string) {
	r.Helper()
	m := r.manifest(elements...)
	if len(m.Omitted) != 1 || m.Omitted[0].Path != "agents/Ada/workspace/"+file || m.Omitted[0].Why != archive.OmittedSecret {
		r.Errorf("%v lists as left out %+v", elements, m.Omitted)
	}
	if files := m.Tree("Ada", archive.Workspace); len(files) != 2 || m.World == nil {
		r.Errorf("%v has the files %+v", elements, files)
	}
}

// TestSecretInFileNamedSession has a file named session, which must not count as a conversation.
func TestSecretInFileNamedSession(t *testing.T) {
	r := newRig(t)
	r.kind.more = func(int) string { return "echo '" + secretText() + "' > session; mkdir -p '" + secretText() + "'" }
	if err := generation.New(r.config(1, 1)).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	omitted := r.find(generation.EventFileOmitted)
	if len(omitted) != 1 || omitted[0].Text != "agents/Ada/workspace/(secret), agents/Ada/workspace/session" || len(r.find(generation.EventOmitted)) > 0 {
		t.Errorf("the events are %+v", r.events)
	}
}

// TestSecretGoneAgain removes the file with the secret. The status no longer lists it.
func TestSecretGoneAgain(t *testing.T) {
	r := newRig(t)
	r.leaksEnvironment(func(turn int) string {
		if turn == 2 {
			return "rm vars"
		}
		return "true"
	})
	c := r.config(1, 2)
	if err := generation.New(c).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	s, _, err := generation.ReadStatus(t.Context(), c.Out, "village")
	if err != nil || len(s.FilesOmitted) != 0 || len(r.find(generation.EventFileOmitted)) != 1 {
		t.Errorf("the status is %+v, %v", s, err)
	}
}

// TestResumeWithoutOmittedFile continues a run whose archives lack a file. On the machine that made them, the agent
// gets the file back. On another machine an event names it.
func TestResumeWithoutOmittedFile(t *testing.T) {
	for name, isHere := range map[string]bool{"here": true, "elsewhere": false} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.leaksEnvironment(func(turn int) string {
				if turn == 3 {
					return "exit 1"
				}
				return "true"
			})
			c := r.config(1, 4)
			if err := generation.New(c).Run(t.Context()); segno.KindOf(err) != segno.KindIO {
				t.Fatal(err)
			}
			from := r.path("village-g001/checkpoints/gen001-t000002.ckpt")
			if !isHere {
				moved := filepath.Join(r.dir, "moved")
				if err := os.Rename(filepath.Dir(from), moved); err != nil { // with the archive of which it is a delta
					t.Fatal(err)
				}
				from = filepath.Join(moved, filepath.Base(from))
				place := local.Place{Store: filepath.Join(r.dir, "other store"), UserHome: filepath.Join(r.dir, "user"), Now: r.store.Place().Now}
				other, err := place.Open(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { other.Close() })
				r.store = other
				c = r.config(1, 4)
				c.Out, c.Trust, c.Ours = filepath.Join(r.dir, "other runs"), true, func(string) bool { return false }
			}
			c.ResumeFrom = from
			found := ""
			r.on = func(e generation.Event) {
				if e.Kind == generation.EventBegin {
					vars, _ := os.ReadFile(filepath.Join(c.Out, "village-g001/agents/Ada/workspace/vars")) // "" if the file does not exist
					found = string(vars)
				}
			}
			r.kind.more = nil
			if err := generation.New(c).Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			incomplete := r.find(generation.EventIncomplete)
			switch {
			case isHere && (!strings.Contains(found, secretText()) || len(incomplete) > 0):
				t.Errorf("the file is %q, and the events are %+v", found, incomplete)
			case !isHere && (found != "" || len(incomplete) != 1 || incomplete[0].Agent != "Ada" || !strings.Contains(incomplete[0].Error, "agents/Ada/workspace/vars")):
				t.Errorf("the file is %q, and the events are %+v", found, incomplete)
			}
		})
	}
}

// TestSecretInFileAndConversation has secrets in a file and in the conversation. Archives lack both.
func TestSecretInFileAndConversation(t *testing.T) {
	r := newRig(t)
	r.conversation(func(int) string { return "the key is " + secretText() })
	r.leaksEnvironment(func(int) string { return "true" })
	c := r.config(1, 1)
	if err := generation.New(c).Run(t.Context()); err == nil || !strings.Contains(err.Error(), "because of a secret: 1") {
		t.Fatalf("the error is %v", err)
	}
	if files := r.find(generation.EventFileOmitted); len(files) != 1 || files[0].Text != "agents/Ada/workspace/vars" {
		t.Errorf("the events of files are %+v", files)
	}
	if sessions := r.find(generation.EventOmitted); len(sessions) != 1 || sessions[0].Text != "agents/Ada/session" {
		t.Errorf("the events of conversations are %+v", sessions)
	}
}

// TestSecretInWorld puts a secret into the world. Every archive fails, because a world is one document. The generation
// continues.
func TestSecretInWorld(t *testing.T) {
	r := newRig(t)
	r.kind.more = func(int) string {
		return `curl -s -H "X-Session: $WORLD_SESSION" -d '{"do":"pass","say":"` + secretText() + `"}' "$WORLD_URL/act"`
	}
	c := r.config(1, 2)
	if err := generation.New(c).Run(t.Context()); err == nil || !strings.Contains(err.Error(), "failed checkpoints: 2") {
		t.Errorf("the error is %v", err)
	}
	r.checkNotes("village-g001", 2)
	failed := r.find(generation.EventNoCheckpoint)
	if len(failed) != 2 || !strings.Contains(failed[0].Error, "world.snapshot") || strings.Contains(failed[0].Error, secretText()) {
		t.Errorf("the failures are %+v", failed)
	}
}

// TestNextWorkspaceHasNoRebuiltDirectories has an agent make directories that a checkpoint leaves out. The
// workspace of the next generation has the others only.
func TestNextWorkspaceHasNoRebuiltDirectories(t *testing.T) {
	r := newRig(t)
	r.kind.more = func(int) string {
		return "ls -d */x >> seen 2>/dev/null; mkdir -p node_modules venv target cache; touch package.json node_modules/x venv/x target/x cache/x" +
			"; echo 'Signature: 8a477f597d28d172789f06886806bc55' > cache/CACHEDIR.TAG"
	}
	c := r.config(2, 1)
	if err := generation.New(c).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	l, err := generation.ReadLog(c.Out, "village")
	if err != nil || len(l.Rows) != 2 {
		t.Fatalf("the log is %+v, %v", l, err)
	}
	seen, err := os.ReadFile(r.path(l.Rows[1].WorkspaceOut, "seen"))
	if err != nil || string(seen) != "target/x\nvenv/x\n" {
		t.Errorf("the second generation saw %q, %v", seen, err)
	}
}
