package codex_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/archive"
	"github.com/dalsegno/segno/internal/pack"
	"github.com/dalsegno/segno/internal/testing/agentrig"
	"github.com/dalsegno/segno/transcript/codex"
	"github.com/dalsegno/segno/workspace"
)

// TestArchive moves a session in an archive to another home and another path, and resumes it
// there.
func TestArchive(t *testing.T) {
	scenario(t, newest(t), func(s *stage) {
		secrets := []string{"auth.json", "history.jsonl", "sessions/2026/11/22/auth.json"}
		for _, name := range secrets {
			s.write(filepath.Join(s.agent.CodexHome(), name), `{"OPENAI_API_KEY":"a secret"}`)
		}
		s.write(filepath.Join(s.agent.Project, "kept.txt"), "kept\n")
		id, requests := s.record()
		positions := s.capture(s.agent, id)
		r := s.packed(positions[2])
		for _, e := range r.Manifest().Entries {
			if !strings.HasPrefix(e.Path, "agents/codex/workspace/") && !(strings.HasPrefix(e.Path, "agents/codex/session/sessions/") && strings.HasSuffix(e.Path, string(id)+".jsonl")) {
				s.Errorf("the archive has %s", e.Path)
			}
		}
		for _, isNew := range []bool{false, true} {
			other := s.install(s.agent.Version)
			got, err := pack.Unpack(s.ctx, r, pack.Into{Dir: filepath.Join(filepath.Dir(other.Project), "other", "place"), TrustSession: true,
				NewSession: isNew, Home: func(string) string { return other.CodexHome() }})
			if err != nil {
				s.Fatal(err)
			}
			placed := got.Agents[0]
			if want := []string{"codex", "resume", string(placed.Session), "-C", placed.Dir}; strings.Join(placed.Command, " ") != strings.Join(want, " ") || isNew == (placed.Session == id) {
				s.Errorf("unpacked %+v of %s", placed, id)
			}
			if data, err := os.ReadFile(filepath.Join(placed.Dir, "kept.txt")); err != nil || string(data) != "kept\n" {
				s.Errorf("unpacked %q, %v", data, err)
			}
			there := *other
			if there.Rig, err = other.In(placed.Dir); err != nil {
				s.Fatal(err)
			}
			thread, context := s.say(&there, prompts()[3], "resume", string(placed.Session))
			if thread != placed.Session {
				s.Errorf("Codex resumed %s as %s", placed.Session, thread)
			}
			s.sameContext("unpacked", context, requests[3])
			s.onlyRollouts(&there, secrets)
		}
	})
}

func (s *stage) write(path, content string) {
	s.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		s.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		s.Fatal(err)
	}
}

// onlyRollouts checks that the archive brought no other file of the source.
func (s *stage) onlyRollouts(a *agentrig.Codex, names []string) {
	s.Helper()
	for _, name := range names {
		if data, err := os.ReadFile(filepath.Join(a.CodexHome(), name)); err == nil && strings.Contains(string(data), "a secret") {
			s.Errorf("%s came along", name)
		}
	}
}

// packed commits a checkpoint of the project and a position, and writes an archive of it.
func (s *stage) packed(p segno.Position) *archive.Reader {
	s.Helper()
	fatal := func(err error) {
		s.Helper()
		if err != nil {
			s.Fatal(err)
		}
	}
	dir, err := workspace.Open(s.agent.Project, workspace.Options{ID: "w", Objects: s.store.Objects()})
	fatal(err)
	batch := s.store.Objects().Batch()
	defer batch.Close()
	snapshot, err := dir.Snapshot(s.ctx, batch)
	fatal(err)
	staged, err := batch.Stage(s.ctx)
	fatal(err)
	cp := &segno.Checkpoint{Kind: segno.CheckpointTurn, Turn: 3, Agent: codex.Agent, Workspace: &snapshot, Session: &p, Time: time.Now()}
	c := segno.Commit{ID: segno.CommitID(segno.NewID()), Thread: "thread", Create: &segno.Thread{ID: "thread"}, Checkpoint: cp, Staged: staged}
	_, err = s.store.Commit(s.ctx, c)
	fatal(err)
	state, cleanup, err := (&pack.Packer{Store: s.store, Temp: s.TempDir()}).State(s.ctx, c.ID, pack.Options{})
	fatal(err)
	name := filepath.Join(s.TempDir(), "run.ckpt")
	_, err = archive.Write(s.ctx, name, state, archive.WriteOptions{})
	fatal(err)
	fatal(cleanup())
	r, err := archive.Open(name)
	fatal(err)
	s.Cleanup(func() { r.Close() })
	return r
}
