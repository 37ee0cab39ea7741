package timeline

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/dalsegno/segno"
)

// TestChosenHunksAreApplied chooses random parts of random changes. The content must be what the chosen hunks say, read as a
// patch: the lines outside them are those of the present content.
func TestChosenHunksAreApplied(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		text := func(name string) []byte {
			lines := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", "d", "", "@@ -1,1 +1,1 @@", "-x", "\\"}), 0, 30).Draw(r, name)
			end := ""
			if len(lines) > 0 && rapid.Bool().Draw(r, name+" ends with a newline") {
				end = "\n"
			}
			return []byte(strings.Join(lines, "\n") + end)
		}
		from, to := text("from"), text("to")
		if rapid.Bool().Draw(r, "similar") {
			to = append(append(slices.Clone(from), "\nmore\n"...), to...)
		}
		c := segno.Change{Path: "a", From: file(string(from)), To: file(string(to))}
		if rapid.Bool().Draw(r, "mode") {
			c.To.Mode = 0o755
		}
		if c.From.Hash == c.To.Hash {
			return
		}
		b := &reverter{contents: map[segno.Hash][]byte{c.From.Hash: from, c.To.Hash: to}}
		parts, _, err := b.partsOf(t.Context(), c)
		if err != nil {
			r.Fatal(err)
		}
		var chosen []int
		for i := range parts {
			if rapid.Bool().Draw(r, "chosen") {
				chosen = append(chosen, i)
			}
		}
		got, err := b.chooseOf(t.Context(), c, chosen)
		if err != nil {
			r.Fatal(err)
		}
		rest, want := from, []byte{}
		for i, p := range parts {
			if p.attributes {
				if isTo := got.To.Mode == c.To.Mode; isTo != slices.Contains(chosen, i) {
					r.Fatalf("the mode is %o with the parts %v", got.To.Mode, chosen)
				}
				continue
			}
			before := bytes.Join(slices.Collect(bytes.Lines(from))[:p.from.begin], nil)
			want = append(want, before[len(from)-len(rest):]...)
			removed, added := readHunk(p.Text)
			if !bytes.HasPrefix(from[len(before):], removed) {
				r.Fatalf("the hunk does not fit: %q", p.Text)
			}
			rest = from[len(before)+len(removed):]
			if slices.Contains(chosen, i) {
				want = append(want, added...)
			} else {
				want = append(want, removed...)
			}
		}
		want = append(want, rest...)
		content, ok := b.contents[got.To.Hash]
		if !ok || !bytes.Equal(content, want) || got.To.Size != int64(len(want)) || got.From != c.From {
			r.Fatalf("the parts %v of %+v lead to %q (%v), want %q", chosen, parts, content, ok, want)
		}
	})
}

// readHunk returns the texts on both sides of a hunk.
func readHunk(hunk string) (from, to []byte) {
	lines := strings.SplitAfter(hunk, "\n")[1:]
	for i, line := range lines {
		if line == "" || line[0] == '\\' {
			continue
		}
		text := line[1:]
		if i+1 < len(lines) && strings.HasPrefix(lines[i+1], "\\ No newline") {
			text = strings.TrimSuffix(text, "\n")
		}
		if line[0] != '+' {
			from = append(from, text...)
		}
		if line[0] != '-' {
			to = append(to, text...)
		}
	}
	return from, to
}

func TestPartsOfOtherChangesAreWhole(t *testing.T) {
	link, dir := segno.Entity{Type: segno.EntitySymlink, Target: "x"}, segno.Entity{Type: segno.EntityDir, Mode: 0o755}
	binary := file("a\x00b")
	executable := file("1\n")
	executable.Mode = 0o755
	b := &reverter{contents: map[segno.Hash][]byte{binary.Hash: []byte("a\x00b"), file("1\n").Hash: []byte("1\n")}}
	for _, c := range []segno.Change{{From: file("1\n")}, {To: file("1\n")}, {From: file("1\n"), To: link}, {From: dir, To: file("1\n")},
		{From: file("1\n"), To: binary}, {From: file("1\n"), To: executable}} {
		parts, _, err := b.partsOf(t.Context(), c)
		if err != nil || len(parts) != 1 || parts[0].Text != "" {
			t.Errorf("%v to %v: %+v, %v", c.From.Type, c.To.Type, parts, err)
		}
		for _, which := range [][]int{{0}, {}} {
			got, err := b.chooseOf(t.Context(), c, which)
			if want := map[bool]segno.Entity{true: c.To, false: c.From}[len(which) > 0]; err != nil || got.To != want {
				t.Errorf("parts %v of %v to %v: %+v, %v", which, c.From.Type, c.To.Type, got.To, err)
			}
		}
		if _, err := b.chooseOf(t.Context(), c, []int{1}); segno.KindOf(err) != segno.KindInvalid {
			t.Errorf("a part that does not exist: %v", err)
		}
	}
}
