package terminal_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dalsegno/segno/internal/testing/e2erig"
)

// TestAHookRefusesAPrompt sends a prompt that a hook of the user refuses. No turn is open after it: segno undoes the turn before, and keeps
// what the user changed since.
func TestAHookRefusesAPrompt(t *testing.T) {
	e2erig.ScenarioIfDrawn(t, map[string]string{"a.txt": "0\n"}, func(s *e2erig.Stage) {
		hook := filepath.Join(t.TempDir(), "hook")
		if err := os.WriteFile(hook, []byte("#!/bin/sh\nif grep -q forbidden; then echo '{\"decision\":\"block\",\"reason\":\"not today\"}'; fi\n"), 0o700); err != nil {
			s.Fatal(err)
		}
		settings, err := json.Marshal(map[string]any{"hooks": map[string]any{"UserPromptSubmit": []any{map[string]any{"hooks": []any{map[string]any{"type": "command", "command": hook}}}}}})
		if err != nil {
			s.Fatal(err)
		}
		s.Write(".claude/settings.local.json", string(settings))
		tui := s.TUI()
		s.Type(tui, e2erig.Prompt("alpha", s.Writes("a.txt", "1\n"), "answer one"), "answer one")
		if err := tui.Prompt(s.Ctx, "forbidden"); err != nil {
			s.Fatal(err)
		}
		if err := tui.WaitText(s.Ctx, "not today"); err != nil {
			s.Fatal(err)
		}
		s.Poll("the agent's note of the refusal", func() bool { return strings.Contains(allOf(s.Transcripts()), "blocked by hook") })
		s.Write("new.txt", "mine\n")
		undoes(s, "2")
		wantFiles(s, map[string]string{"a.txt": "0\n", "new.txt": "mine\n"})
		if ts := s.Turns(); len(ts) != 2 || !ts[1].Interrupted || ts[1].Prompt != "forbidden" {
			s.Errorf("the turns are %+v", ts)
		}
	})
}
