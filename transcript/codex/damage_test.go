package codex_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/testing/damage"
	"github.com/dalsegno/segno/internal/testing/recording"
	"github.com/dalsegno/segno/internal/testing/soak"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/transcript"
	"github.com/dalsegno/segno/transcript/codex"
)

// TestEveryDamageIsRepaired damages recorded sessions of two versions in every way, at random places.
// From the repaired copies, another model of Codex reads all remaining facts in order. In
// internal/testing/e2e/codex, Codex itself reads such copies.
func TestEveryDamageIsRepaired(t *testing.T) {
	kinds := damage.Codex()
	seeds := soak.Seeds(t, len(kinds), 50*len(kinds))
	for _, version := range []string{"0.125.0", "0.169.0"} {
		data, err := os.ReadFile("testdata/facts-" + version + ".jsonl")
		if err != nil {
			t.Fatal(err)
		}
		base := damage.NewFile(data, damage.CodexMessage)
		for _, seed := range seeds {
			name, f := base.Damaged(kinds, seed)
			t.Run(version+" "+name, func(t *testing.T) { repairDamaged(t, f, seed) })
		}
	}
}

// repairDamaged repairs a damaged session.
func repairDamaged(t *testing.T, f *damage.File, seed uint64) {
	t.Helper()
	home := t.TempDir()
	c := codex.New(home, codex.Options{FS: noSync{vfs.OS}})
	path := filepath.Join(home, "sessions/2026/11/26/rollout-2026-11-26T12-00-00-"+firstID+".jsonl")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, bytes.ReplaceAll(f.Bytes(), []byte("01a20562-62f8-7731-83e7-0000000000fa"), []byte(firstID)), 0o600); err != nil {
		t.Fatal(err)
	}
	copied, d, err := c.Repair(t.Context(), segno.Source{Session: firstID, Path: path}, segno.Target{Session: secondID, Dir: "/srv/p"}, transcript.LintOptions{})
	if err != nil {
		t.Fatalf("SEGNO_SEED=%d: %v", seed, err)
	}
	session := segno.SessionID(firstID)
	if copied.Session != "" {
		session = copied.Session
	}
	left := f.Left()
	got, err := factsOf(home, string(session))
	if err != nil && len(left) > 0 {
		t.Errorf("SEGNO_SEED=%d: %v", seed, err)
	}
	isFound := len(d.Findings) > 0 || len(left) == 0 || !f.IsSpoiled && d.Before.Refusal == ""
	if !isFound || !damage.Equal(got, left) {
		t.Errorf("SEGNO_SEED=%d: found %v; the copy has\n%q, want\n%q", seed, codesIn(d.Findings), got, left)
	}
	if (copied.Session == "") != (len(d.Findings) == 0 || len(left) == 0) {
		t.Errorf("SEGNO_SEED=%d: wrote %q for %v", seed, copied.Session, codesIn(d.Findings))
	}
}

func codesIn(found []transcript.Finding) (codes []string) {
	for _, f := range found {
		if !slices.Contains(codes, f.Code) {
			codes = append(codes, f.Code)
		}
	}
	return codes
}

// factsOf returns the facts in a session that Codex sends according to the other model.
func factsOf(home, session string) (out []string, err error) {
	items, err := recording.CodexContext(home, session)
	for _, text := range items {
		var item []any
		if json.Unmarshal([]byte(text), &item) == nil && item[0] != "think" {
			out = append(out, damage.Facts([]byte(text))...)
		}
	}
	return out, err
}
