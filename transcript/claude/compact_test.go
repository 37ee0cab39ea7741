package claude_test

import (
	"bytes"
	"os"
	"slices"
	"testing"

	"github.com/dalsegno/segno"
)

// The fixture contains recorded lines of a session that was resumed with /compact as its first
// prompt. The boundary's logical parent is a record that was never written. The
// turn after the boundary follows the turn before it, whether or not an earlier capture read the
// file up to there.
func TestTurnAfterCompactFirst(t *testing.T) {
	for _, version := range []string{"2.1.197", "2.1.330"} {
		t.Run(version, func(t *testing.T) {
			d := newFixture(t, 0)
			data, err := os.ReadFile("testdata/compact-first-" + version + ".jsonl")
			if err != nil {
				t.Fatal(err)
			}
			compaction := bytes.Index(data, []byte(`"content":"/compact"`))
			compaction = bytes.LastIndexByte(data[:compaction], '\n') + 1
			write(t, d.path, data[:compaction])
			before := d.capture(t, nil, nil)
			if before.Position.Leaf == "" || len(before.Earlier) != 1 {
				t.Fatalf("before the compaction %+v was captured", before)
			}
			write(t, d.path, data)
			known := func(leaf string) bool { return leaf == before.Position.Leaf }
			for _, prev := range []*segno.Position{&before.Position, nil} {
				got := d.capture(t, prev, known)
				if got.Follows != before.Position.Leaf || got.Text[:5] != "gamma" {
					t.Errorf("the turn %q follows %q, want %q", got.Text, got.Follows, before.Position.Leaf)
				}
			}
			adopted := d.capture(t, nil, nil)
			var prompts []string
			for _, e := range adopted.Earlier {
				prompts = append(prompts, e.Prompt[:4])
			}
			if !slices.Equal(prompts, []string{"alph", "beta"}) {
				t.Errorf("adopted later, the session has the earlier turns %q", prompts)
			}
		})
	}
}

// If the parent of a prompt is not in the file, the prompt continues the line of its session:
// a lost or damaged line of the file must not cut off the turns before it.
func TestPromptWhoseParentIsMissing(t *testing.T) {
	d := newFixture(t, 2)
	before := d.capture(t, nil, nil).Position
	d.head = "99999999-aaaa-4bbb-8ccc-000000000000"
	prompt := d.prompt("go on")
	d.answer("so I do")
	d.flush(t)
	got := d.capture(t, &before, func(leaf string) bool { return leaf == before.Leaf })
	if got.Prompt != prompt || got.Follows != before.Leaf {
		t.Errorf("the turn of %s follows %q, want %s after %s", got.Prompt, got.Follows, prompt, before.Leaf)
	}
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}
