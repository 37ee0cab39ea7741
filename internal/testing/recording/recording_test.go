package recording_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dalsegno/segno/internal/testing/recording"
)

// TestContextsAreThoseOfTheAgents builds the context of each recorded session from its files. It must equal
// the context that the real agent sent when it resumed the session.
func TestContextsAreThoseOfTheAgents(t *testing.T) {
	all, err := recording.All()
	if err != nil || len(all) != 27 {
		t.Fatalf("%d recordings, %v", len(all), err)
	}
	for _, s := range all {
		t.Run(s.Agent+"/"+s.Name, func(t *testing.T) {
			home := filepath.Join(t.TempDir(), "home")
			if err := s.Install(home); err != nil {
				t.Fatal(err)
			}
			if s.Context == nil {
				return
			}
			got := contextOf(t, s, home)
			if diff := cmp.Diff(s.Context, got); diff != "" {
				t.Errorf("the context (-agent +model):\n%s", diff)
			}
		})
	}
}

func contextOf(t *testing.T, s recording.Session, home string) []string {
	t.Helper()
	if s.Agent == "codex" {
		got, err := recording.CodexContext(home, s.ID)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	found, err := filepath.Glob(filepath.Join(home, "projects", "*", s.ID+".jsonl"))
	if err != nil || len(found) != 1 {
		t.Fatal(found, err)
	}
	data, err := os.ReadFile(found[0])
	if err != nil {
		t.Fatal(err)
	}
	return recording.LoadClaude(data).Context("")
}
