package opencode_test

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dalsegno/segno/internal/testing/e2erig"
	"github.com/dalsegno/segno/internal/testing/soak"
)

// TestFormatter lets OpenCode format the file that a tool edits. The undo of the turn also reverts the lines that only the formatter changed.
func TestFormatter(t *testing.T) {
	if !soak.IsDrawn(t) {
		return
	}
	t.Parallel()
	s, agent := e2erig.OpenCode(t, map[string]string{"a.txt": "1\ntwo\n3\n4\n5\nsix\n7\n",
		"opencode.json": `{"$schema":"https://opencode.ai/config.json","formatter":{"upper":{"command":["sed","-i","s/two/TWO/","$FILE"],"extensions":[".txt"]}}}`})
	file := filepath.Join(agent.Project, "a.txt")
	call := func(tool string, input map[string]any) map[string]any {
		input["filePath"] = file
		return map[string]any{"tool": tool, "input": input}
	}
	before := s.Tree()
	_, err := agent.RunOpenCode(s.Ctx, e2erig.Prompt("work\n", call("read", map[string]any{}), call("edit", map[string]any{"oldString": "six", "newString": "6"}), "done"))
	if err != nil {
		s.Fatal(err)
	}
	if got, want := s.Read("a.txt"), "1\nTWO\n3\n4\n5\n6\n7\n"; got != want {
		s.Fatalf("OpenCode made %q, want %q", got, want)
	}
	s.Segno("undo", "-y")
	if diff := cmp.Diff(before, s.Tree()); diff != "" {
		s.Errorf("files after undo (-want +got):\n%s", diff)
	}
}
