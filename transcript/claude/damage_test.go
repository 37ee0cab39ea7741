package claude_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/testing/damage"
	"github.com/dalsegno/segno/internal/testing/recording"
	"github.com/dalsegno/segno/internal/testing/soak"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/transcript"
	"github.com/dalsegno/segno/transcript/claude"
)

// TestEveryDamageIsRepaired damages a recorded session in every way, several times at random places.
// From the repaired copy, another model of the agent's loader reads all remaining facts in order. In
// internal/testing/e2e/sessions, the agent itself reads such copies.
func TestEveryDamageIsRepaired(t *testing.T) {
	data, err := os.ReadFile("testdata/facts.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	base := damage.NewFile(data, damage.ClaudeMessage)
	kinds := damage.Claude()
	home := t.TempDir()
	c := claude.New(home, claude.Options{FS: noSync{vfs.OS}})
	for _, seed := range soak.Seeds(t, 2*len(kinds), 50*len(kinds)) {
		name, f := base.Damaged(kinds, seed)
		t.Run(name, func(t *testing.T) {
			id := segno.SessionID(fmt.Sprintf("c1a0de00-0000-4000-8000-%012d", seed))
			src := segno.Source{Session: id, Path: filepath.Join(home, string(id)+".jsonl"), Dir: "/srv/p"}
			if err := os.WriteFile(src.Path, f.Bytes(), 0o600); err != nil {
				t.Fatal(err)
			}
			to := segno.Target{Session: segno.SessionID(fmt.Sprintf("c1a0de00-0000-4000-8001-%012d", seed)), Dir: "/srv/p"}
			copied, d, err := c.Repair(t.Context(), src, to, transcript.LintOptions{})
			if err != nil {
				t.Fatalf("SEGNO_SEED=%d: %v", seed, err)
			}
			read := f.Bytes()
			if copied.Session != "" {
				if read, err = os.ReadFile(copied.Path); err != nil {
					t.Fatal(err)
				}
			}
			left, got := f.Left(), factsOf(read)
			isFound := len(d.Findings) > 0 || len(left) == 0 || !f.IsSpoiled && d.Before.Refusal == ""
			if !isFound || !damage.Equal(got, left) {
				t.Errorf("SEGNO_SEED=%d: found %v; the copy has\n%q, want\n%q", seed, codesOf(d.Findings), got, left)
			}
			if (copied.Session == "") != (len(d.Findings) == 0 || len(left) == 0) {
				t.Errorf("SEGNO_SEED=%d: wrote %q for %v", seed, copied.Session, codesOf(d.Findings))
			}
		})
	}
}

// factsOf returns the facts in a transcript that the agent sends according to the other model.
func factsOf(data []byte) (out []string) {
	for _, text := range recording.LoadClaude(data).Context("") {
		var item []any
		if json.Unmarshal([]byte(text), &item) == nil && item[0] != "think" {
			out = append(out, damage.Facts([]byte(text))...)
		}
	}
	return out
}
