package opencode_test

import (
	"path/filepath"
	"testing"

	"github.com/dalsegno/segno/internal/testing/e2erig"
	"github.com/dalsegno/segno/internal/testing/soak"
)

// TestPointsInsideATurn restores the files after the first call of a turn. The second call fails, and segno receives its end.
func TestPointsInsideATurn(t *testing.T) {
	if !soak.IsDrawn(t) {
		return
	}
	t.Parallel()
	s, agent := e2erig.OpenCode(t, map[string]string{"a.txt": "0\n"})
	file := filepath.Join(agent.Project, "a.txt")
	call := func(tool string, input map[string]any) map[string]any {
		return map[string]any{"tool": tool, "input": input}
	}
	_, err := agent.RunOpenCode(s.Ctx, e2erig.Prompt("work\n",
		call("read", map[string]any{"filePath": file}),
		call("write", map[string]any{"filePath": file, "content": "1\n"}),
		call("edit", map[string]any{"filePath": file, "oldString": "none", "newString": "x"}),
		call("edit", map[string]any{"filePath": file, "oldString": "1", "newString": "2"}), "done"))
	if err != nil {
		s.Fatal(err)
	}
	var shown struct {
		Calls []struct {
			Tool   string
			Done   bool
			Result map[string]any
		}
	}
	s.JSON(&shown, "show", "t1")
	if len(shown.Calls) != 4 {
		s.Fatalf("the turn has the calls %+v", shown.Calls)
	}
	for i, c := range shown.Calls {
		if _, hasError := c.Result["error"]; !c.Done || hasError != (i == 2) {
			s.Errorf("call %d is %+v", i+1, c)
		}
	}
	s.Segno("restore", "t1.2", "-y")
	if got := s.Read("a.txt"); got != "1\n" {
		s.Errorf("after the second call, the file is %q", got)
	}
}
