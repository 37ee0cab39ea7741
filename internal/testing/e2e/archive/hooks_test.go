package archive_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/dalsegno/segno/internal/testing/agentrig"
	"github.com/dalsegno/segno/internal/testing/e2erig"
)

// hookSettings are settings of the agent with a hook that makes the file ran in the directory of the agent.
const hookSettings = `{"hooks":{"SessionStart":[{"hooks":[{"type":"command","command":"touch ran"}]}],
"UserPromptSubmit":[{"hooks":[{"type":"command","command":"touch ran"}]}]}}`

// TestNoHookOfAnArchiveRuns packs a project in which the agent runs a hook through a link, and
// unpacks it elsewhere in each way. The agent works there, and the hook does not run.
func TestNoHookOfAnArchiveRuns(t *testing.T) {
	e2erig.ScenarioOnNewest(t, map[string]string{"docs/settings.json": hookSettings, "sub/x": "x\n"}, func(s *e2erig.Stage) {
		project := s.Rig.Project
		for link, target := range map[string]string{".claude": "first", "first": "docs", "sub/.claude": "../docs"} {
			if err := os.Symlink(target, filepath.Join(project, link)); err != nil {
				s.Fatal(err)
			}
		}
		s.Say(e2erig.Prompt("alpha", "one"))
		if !hookRan(s, project) {
			s.Fatal("the agent does not run the hook in the project, so its absence elsewhere proves nothing")
		}
		s.Segno("save") // a checkpoint without the file that the hook made
		checkpoint, thread := filepath.Join(s.TempDir(), "run.ckpt"), filepath.Join(s.TempDir(), "thread.ckpt")
		s.Segno("pack", "-o", checkpoint)
		s.Segno("pack", "--thread", "-o", thread)
		forged, err := filepath.Abs("../../../../archive/testdata/linked.ckpt") // made by hand, with the same links
		if err != nil {
			s.Fatal(err)
		}
		rig, err := agentrig.New(s.TempDir(), s.Rig.Bin, s.Rig.ModelURL)
		if err != nil {
			s.Fatal(err)
		}
		for i, args := range [][]string{{checkpoint}, {thread, "--trust-session"}, {forged}} {
			to := filepath.Join(rig.Home, "in", string(rune('a'+i)))
			segnoAt(s, rig, append([]string{"unpack", "--to", to}, args...)...)
			for _, dir := range []string{to, filepath.Join(to, "sub")} {
				there, err := rig.In(dir)
				if err != nil {
					s.Fatal(err)
				}
				res, err := there.Print(s.Ctx, "hello")
				if err != nil {
					s.Fatal(err)
				}
				if _, err := res.Must(); err != nil {
					s.Fatal(err)
				}
				if hookRan(s, dir) {
					s.Errorf("unpacked from %v, a hook of the archive ran in %s", args, dir)
				}
				if _, err := os.Lstat(filepath.Join(dir, ".claude")); !errors.Is(err, os.ErrNotExist) {
					s.Errorf("unpacked from %v, .claude is in %s: %v", args, dir, err)
				}
			}
			if _, err := os.Stat(filepath.Join(to, "docs", "settings.json")); err != nil {
				s.Error(err)
			}
		}
	})
}

// hookRan reports whether the hook ran in a directory, and removes its file.
func hookRan(s *e2erig.Stage, dir string) bool {
	s.Helper()
	err := os.Remove(filepath.Join(dir, "ran"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		s.Fatal(err)
	}
	return err == nil
}
