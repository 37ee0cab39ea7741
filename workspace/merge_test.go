package workspace_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/dalsegno/segno/workspace"
)

func TestMerge(t *testing.T) {
	tests := []struct {
		name               string
		base, ours, theirs string
		want, conflict     string
	}{
		{"only ours changed", "1\n2\n", "1\nx\n", "1\n2\n", "1\nx\n", ""},
		{"only theirs changed", "1\n2\n", "1\n2\n", "y\n2\n", "y\n2\n", ""},
		{"both made the same change", "1\n2\n", "1\nx\n", "1\nx\n", "1\nx\n", ""},
		{"hunks with a line between", "1\n2\n3\n", "x\n2\n3\n", "1\n2\ny\n", "x\n2\ny\n", ""},
		{"adjacent hunks", "1\n2\n", "x\n2\n", "1\ny\n", "", "the same lines were changed"},
		{"the same line", "1\n2\n3\n", "1\nx\n3\n", "1\ny\n3\n", "", "the same lines were changed"},
		{"insertions at the same place", "1\n2\n", "1\nx\n2\n", "1\ny\n2\n", "", "the same lines were changed"},
		{"one side empties the file", "1\n2\n3\n", "", "1\n2\ny\n", "", "the same lines were changed"},
		{"from nothing", "", "x\n", "y\n", "", "the same lines were changed"},
		{"no newline at the end", "1\n2\n3", "x\n2\n3", "1\n2\n3\n", "x\n2\n3\n", ""},
		{"line endings are part of the line", "1\r\n2\r\n3\r\n", "1\n2\r\n3\r\n", "1\r\n2\r\n4\r\n", "1\n2\r\n4\r\n", ""},
		{"a line that could be inserted at two places", "a\n}\nb\n", "a\n}\n}\nb\n", "a\n} // end\nb\n", "", "the same lines were changed"},
		{"binary", "1\n2\n3\n", "x\n2\n3\n", "1\n2\n\x00\n", "", "a binary file was changed"},
		{"too large", strings.Repeat("1\n", 8<<20), "x\n", "y\n", "", "the file is too large to merge"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, conflict := workspace.Merge([]byte(tt.base), []byte(tt.ours), []byte(tt.theirs))
			if string(got) != tt.want || conflict != tt.conflict {
				t.Errorf("Merge = %q, %q; want %q, %q", got, conflict, tt.want, tt.conflict)
			}
		})
	}
}

// versions draws a content, and two contents that are made from it by edits of lines.
func versions(r *rapid.T) (base, ours, theirs []byte) {
	line := rapid.SampledFrom([]string{"", "}", "{", "return nil", "a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k"})
	lines := rapid.SliceOfN(line, 0, 40).Draw(r, "base")
	text := func(lines []string, newline bool) []byte {
		s := strings.Join(lines, "\n")
		if newline && len(lines) > 0 {
			s += "\n"
		}
		return []byte(s)
	}
	edited := func(label string) []byte {
		out := append([]string{}, lines...)
		for range rapid.IntRange(0, 4).Draw(r, label+" edits") {
			at := rapid.IntRange(0, len(out)).Draw(r, label+" at")
			end := min(len(out), at+rapid.IntRange(0, 3).Draw(r, label+" lines"))
			in := rapid.SliceOfN(line, 0, 3).Draw(r, label+" new")
			out = append(out[:at:at], append(in, out[end:]...)...)
		}
		return text(out, rapid.IntRange(0, 9).Draw(r, label+" newline") > 0)
	}
	return text(lines, rapid.IntRange(0, 9).Draw(r, "newline") > 0), edited("ours"), edited("theirs")
}

// TestMergeAgreesWithGit merges generated versions with Merge and with git. If Merge finds no
// conflict, git must not find one either, and must have the same result. Git may merge more,
// because it decides where an ambiguous edit was made.
func TestMergeAgreesWithGit(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	clean, gits := 0, 0
	rapid.Check(t, func(r *rapid.T) {
		base, ours, theirs := versions(r)
		merged, conflict := workspace.Merge(base, ours, theirs)
		want, ok := gitMerge(t, dir, base, ours, theirs)
		if ok {
			gits++
		}
		if conflict != "" {
			return
		}
		clean++
		if !ok || !bytes.Equal(merged, want) {
			r.Fatalf("base %q\nours %q\ntheirs %q\nmerged %q\ngit %q (clean: %v)", base, ours, theirs, merged, want, ok)
		}
	})
	t.Logf("%d clean, %d for git", clean, gits)
}

// gitMerge returns the merge of three versions by git merge-file, and whether it was
// clean.
func gitMerge(t *testing.T, dir string, base, ours, theirs []byte) ([]byte, bool) {
	names := []string{filepath.Join(dir, "ours"), filepath.Join(dir, "base"), filepath.Join(dir, "theirs")}
	for i, content := range [][]byte{ours, base, theirs} {
		must(t, os.WriteFile(names[i], content, 0o600))
	}
	out, err := exec.Command("git", append([]string{"merge-file", "-p"}, names...)...).Output()
	return out, err == nil
}

// TestMergeLaws checks properties of random versions: the order of the sides does not matter, a
// side that changed nothing adds nothing, and merging in the other direction reverts a merge, or
// is a conflict.
func TestMergeLaws(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		base, ours, theirs := versions(r)
		merged, conflict := workspace.Merge(base, ours, theirs)
		other, otherConflict := workspace.Merge(base, theirs, ours)
		if conflict != otherConflict || !bytes.Equal(merged, other) {
			r.Fatalf("the sides are not equal: %q (%s), %q (%s)", merged, conflict, other, otherConflict)
		}
		for _, side := range [][]byte{ours, theirs} {
			if same, why := workspace.Merge(base, side, base); why != "" || !bytes.Equal(same, side) {
				r.Fatalf("merged with the base: %q (%s), want %q", same, why, side)
			}
		}
	})
}

// TestMergeCanBeReverted merges edits of different parts of a file, and reverts one of them by
// merging in the other direction. The other edit must remain.
func TestMergeCanBeReverted(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		lines := make([]string, rapid.IntRange(8, 40).Draw(r, "lines"))
		for i := range lines {
			lines[i] = fmt.Sprintf("line %d", i)
		}
		half := len(lines) / 2
		edit := func(label string, from, end int) []byte {
			out := append([]string{}, lines...)
			at := rapid.IntRange(from, end-1).Draw(r, label+" at")
			to := rapid.IntRange(at, end).Draw(r, label+" to")
			in := make([]string, rapid.IntRange(1, 3).Draw(r, label+" new"))
			for i := range in {
				in[i] = fmt.Sprintf("%s %d", label, i)
			}
			return []byte(strings.Join(append(out[:at:at], append(in, out[to:]...)...), "\n"))
		}
		base := []byte(strings.Join(lines, "\n"))
		ours, theirs := edit("ours", 0, half-1), edit("theirs", half, len(lines)-1)
		merged, conflict := workspace.Merge(base, ours, theirs)
		if conflict != "" {
			r.Fatalf("base %q\nours %q\ntheirs %q: %s", base, ours, theirs, conflict)
		}
		back, conflict := workspace.Merge(theirs, merged, base)
		if conflict != "" || !bytes.Equal(back, ours) {
			r.Fatalf("base %q\nours %q\ntheirs %q\nmerged %q\nreverted %q (%s)", base, ours, theirs, merged, back, conflict)
		}
	})
}

// TestMergeIsBounded merges contents that are slow to compare. Merge must give up.
func TestMergeIsBounded(t *testing.T) {
	alternate := func(lines, period int) []byte {
		var b bytes.Buffer
		for i := range lines {
			b.WriteString([]string{"a\n", "b\n"}[i/period%2])
		}
		return b.Bytes()
	}
	for lines, want := range map[int]string{150_000: "the versions differ too much to merge", 250_000: "the file is too large to merge"} {
		_, conflict := workspace.Merge(alternate(lines, 3), alternate(lines, 5), alternate(lines, 7))
		if conflict != want {
			t.Errorf("%d lines: %q, want %q", lines, conflict, want)
		}
	}
}

func FuzzMerge(f *testing.F) {
	f.Add([]byte("1\n2\n3\n"), []byte("x\n2\n3\n"), []byte("1\n2\ny\n"))
	f.Add([]byte("1\n2\n3"), []byte(""), []byte("1\n\n\n"))
	f.Add([]byte("a\n}\nb\n"), []byte("a\n}\n}\nb\n"), []byte("a\n}\n\nb"))
	f.Fuzz(func(t *testing.T, base, ours, theirs []byte) {
		merged, conflict := workspace.Merge(base, ours, theirs)
		other, otherConflict := workspace.Merge(base, theirs, ours)
		if conflict != otherConflict || !bytes.Equal(merged, other) {
			t.Fatalf("the sides are not equal: %q (%s), %q (%s)", merged, conflict, other, otherConflict)
		}
		if conflict == "" {
			// Every line of the result is a line of a version.
			for line := range bytes.Lines(merged) {
				if !bytes.Contains(base, line) && !bytes.Contains(ours, line) && !bytes.Contains(theirs, line) {
					t.Fatalf("line %q is of no version", line)
				}
			}
		}
	})
}
