package timeline

import (
	"bytes"
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dalsegno/segno"
)

func file(content string) segno.Entity {
	return segno.Entity{Type: segno.EntityFile, Mode: 0o644, Hash: segno.HashOf([]byte(content)), Size: int64(len(content))}
}

// turnOf returns the changes of a turn from before to after; "" stands for a missing file.
func turnOf(before, after map[string]string) (changes []segno.Change) {
	for _, p := range []string{"a", "b", "c"} {
		if before[p] == after[p] {
			continue
		}
		c := segno.Change{Path: p}
		if before[p] != "" {
			c.From = file(before[p])
		}
		if after[p] != "" {
			c.To = file(after[p])
		}
		changes = append(changes, c)
	}
	return changes
}

// mergeNothing returns a conflict for each path that another author changed.
func mergeNothing(_ context.Context, _, ours, _ segno.Entity) (segno.Entity, string, error) {
	return ours, whyChanged, nil
}

func TestReversal(t *testing.T) {
	type files = map[string]string
	only := func(own string) func(string) string {
		return func(p string) string {
			if p == own {
				return ""
			}
			return "contested"
		}
	}
	tests := []struct {
		name      string
		states    []files // before the first turn, and after each
		present   files
		contested func(string) string
		force     bool
		want      files
		conflicts []string
	}{
		{name: "one turn, nothing since",
			states: []files{{"a": "1", "b": "1"}, {"a": "2", "c": "9"}}, present: files{"a": "2", "c": "9"},
			want: files{"a": "1", "b": "1"}},
		{name: "what people changed since stays",
			states: []files{{"a": "1"}, {"a": "2", "b": "2"}}, present: files{"a": "mine", "b": "2", "c": "mine"},
			want: files{"a": "mine", "c": "mine"}, conflicts: []string{"a"}},
		{name: "force writes over it",
			states: []files{{"a": "1"}, {"a": "2"}}, present: files{"a": "mine"}, force: true, want: files{"a": "1"}},
		{name: "two turns, newest first",
			states: []files{{"a": "1"}, {"a": "2"}, {"a": "3", "b": "3"}}, present: files{"a": "3", "b": "3"},
			want: files{"a": "1"}},
		{name: "what people did between the turns stays",
			states: []files{{"a": "1"}, {"a": "2"}}, present: files{"a": "2", "b": "mine"}, want: files{"a": "1", "b": "mine"}},
		{name: "already as the turn found it is no conflict",
			states: []files{{"a": "1"}, {"a": "2"}}, present: files{"a": "1"}, want: files{"a": "1"}},
		{name: "a conflict in the newer turn keeps the path for the older too",
			states: []files{{"a": "1"}, {"a": "2"}, {"a": "3"}}, present: files{"a": "2"},
			want: files{"a": "1"}},
		{name: "deleted by a person",
			states: []files{{}, {"a": "2"}}, present: files{}, want: files{}},
		{name: "a shared turn owns what its tools named",
			states: []files{{"a": "1", "b": "1"}, {"a": "2", "b": "2"}}, present: files{"a": "2", "b": "2"}, contested: only("a"),
			want: files{"a": "1", "b": "2"}, conflicts: []string{"b"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := reverter{force: tt.force, files: map[string]*reversal{}, merge: mergeNothing}
			for i := len(tt.states) - 1; i > 0; i-- {
				if err := r.add(t.Context(), turnOf(tt.states[i-1], tt.states[i]), entities(turnOf(tt.states[i], tt.present)), tt.contested); err != nil {
					t.Fatal(err)
				}
			}
			p := new(Plan)
			if err := p.setSteps(t.Context(), &r); err != nil {
				t.Fatal(err)
			}
			got := files{}
			for k, v := range tt.present {
				got[k] = v
			}
			for _, s := range p.Steps {
				if s.From != (segno.Entity{}) && s.From != file(tt.present[s.Path]) {
					t.Errorf("%s: the step expects what is not there", s.Path)
				}
				delete(got, s.Path)
				for _, content := range []string{"1", "2", "3"} {
					if s.To == file(content) {
						got[s.Path] = content
					}
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
			var conflicts []string
			for _, c := range p.Conflicts {
				conflicts = append(conflicts, c.Path)
			}
			if diff := cmp.Diff(tt.conflicts, conflicts); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestClipKeepsBothEnds(t *testing.T) {
	small := make([]byte, segno.MaxUnclipped)
	if got := segno.Clip(small); len(got) != segno.MaxUnclipped {
		t.Errorf("%d bytes were clipped to %d", segno.MaxUnclipped, len(got))
	}
	big := append(append([]byte("begin"), bytes.Repeat([]byte("x"), 1<<20)...), "end"...)
	got := segno.Clip(big)
	if len(got) > 6*segno.MaxUnclipped {
		t.Errorf("clipped to %d bytes", len(got))
	}
}

func TestIDs(t *testing.T) {
	seen := map[string]bool{}
	for range 1000 {
		id := segno.NewID()
		if len(id) != 26 || seen[id] {
			t.Fatal(id)
		}
		seen[id] = true
	}
	if segno.DerivedID("ab", "c") == segno.DerivedID("a", "bc") {
		t.Error("parts run together")
	}
	for _, bad := range []string{"", "\xff", string(make([]byte, segno.MaxID+1))} {
		if segno.KindOf(segno.CheckID("test", bad)) != segno.KindInvalid {
			t.Errorf("%q was accepted", bad)
		}
	}
}
