package blame_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/insight/blame"
	"github.com/dalsegno/segno/timeline"
)

// turnsOf makes turns that each write the file f.
func turnsOf(t *testing.T, contents ...string) (h *authored, checkpoints []segno.Checkpoint) {
	h = newAuthored(t, 1)
	for i, content := range contents {
		src := segno.Source{Session: "session 0"}
		begun, err := h.tl.BeginTurn(t.Context(), timeline.Prompt{Agent: "test", Source: src, Text: fmt.Sprint(i + 1), Thread: h.threads[0]})
		h.must(err)
		h.must(os.WriteFile(filepath.Join(h.root, "f"), []byte(content), 0o644))
		c, err := h.tl.EndTurn(t.Context(), timeline.TurnEnd{Key: begun.Key, Source: src, Agent: "test"})
		h.must(err)
		h.threads[0] = c.Thread
		checkpoints = append(checkpoints, *c)
	}
	return h, checkpoints
}

// present returns the prompts of the turns that brought the lines of f, with numbers there, and other authors by name.
func present(t *testing.T, h *authored, b *blame.Blamer, at segno.CommitID) (string, error) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(h.root, "f"))
	h.must(err)
	lines, err := b.LinesSince(t.Context(), content, at, "f", blame.Unsaved, 0, len(blame.Texts(content)))
	return described(lines), err
}

func described(lines []blame.Line) string {
	var all []string
	for _, l := range lines {
		if l.Author == blame.Turn {
			all = append(all, fmt.Sprintf("%s:%d", l.Checkpoint.Prompt, l.Number))
		} else {
			all = append(all, string(l.Author))
		}
	}
	return strings.Join(all, " ")
}

func TestLinesOfEditedFiles(t *testing.T) {
	for name, x := range map[string]struct {
		contents []string
		want     string
	}{
		"a line is inserted":         {[]string{"a\nb\n", "a\nx\nb\n"}, "1:1 2:2 1:2"},
		"a line is deleted":          {[]string{"a\nb\nc\n", "a\nc\n"}, "1:1 1:3"},
		"a line is deleted and back": {[]string{"a\nb\nc\n", "a\nc\n", "a\nb\nc\n"}, "1:1 3:2 1:3"},
		"no newline at the end":      {[]string{"a\nb", "a\nb\nc", "a\nb\nc\n"}, "1:1 1:2 2:3"},
		"other line ends":            {[]string{"a\nb\n", "a\r\nb\n"}, "2:1 1:2"},
		"equal lines":                {[]string{"}\n", "}\n}\n"}, "1:1 2:2"},
		"all lines":                  {[]string{"a\nb\n", "c\n"}, "2:1"},
		"an empty file":              {[]string{"a\n", "", "a\n"}, "3:1"},
		"a binary file before":       {[]string{"\x00\n", "a\n"}, "2:1"},
		"distant edits":              {[]string{"a\n1\n2\n3\n4\n5\n6\n7\nb\n", "a\nx\n1\n2\n3\n4\n5\n6\n7\ny\n"}, "1:1 2:2 1:2 1:3 1:4 1:5 1:6 1:7 1:8 2:10"},
	} {
		t.Run(name, func(t *testing.T) {
			h, all := turnsOf(t, x.contents...)
			got, err := present(t, h, &blame.Blamer{Store: h.store, Content: h.content}, all[len(all)-1].ID)
			if h.must(err); got != x.want {
				t.Errorf("got %s, want %s", got, x.want)
			}
		})
	}
}

// TestRenamedAndEdited checks that a file that one turn renamed and edited keeps its lines if half of them stayed.
func TestRenamedAndEdited(t *testing.T) {
	for content, want := range map[string]string{"1\n2\n3\nx\n": "1:1 1:2 1:3 2:4", "1\n2\nx\ny\n": "1:1 1:2 2:3 2:4", "1\nx\ny\nz\n": "2:1 2:2 2:3 2:4"} {
		h, all := turnsOf(t, "1\n2\n3\n4\n")
		src := segno.Source{Session: "session 0"}
		begun, err := h.tl.BeginTurn(t.Context(), timeline.Prompt{Agent: "test", Source: src, Text: "2", Thread: all[0].Thread})
		h.must(err)
		h.must(os.Remove(filepath.Join(h.root, "f")))
		h.must(os.Remove(filepath.Join(h.root, "a")))
		h.must(os.WriteFile(filepath.Join(h.root, "dir", "f"), []byte(content), 0o644))
		c, err := h.tl.EndTurn(t.Context(), timeline.TurnEnd{Key: begun.Key, Source: src, Agent: "test"})
		h.must(err)
		lines, err := (&blame.Blamer{Store: h.store, Content: h.content}).LinesOf(t.Context(), []byte(content), c.ID, "dir/f")
		h.must(err)
		if got := described(lines); got != want {
			t.Errorf("%q: %s, want %s", content, got, want)
		}
	}
}

// TestDamageIsAnError checks that damage of a state is a typed error, and that lines are not by a turn that only seems to have
// brought them.
func TestDamageIsAnError(t *testing.T) {
	h, all := turnsOf(t, "a\n", "a\nb\n", "a\nb\nc\n")
	damaged := segno.HashOf([]byte("a\n"))
	b := &blame.Blamer{Store: h.store, Content: func(ctx context.Context, x segno.Hash) ([]byte, error) {
		if x == damaged {
			return nil, segno.Errorf(segno.KindCorrupt, "read object", x.String(), "its bytes do not hash to its name")
		}
		return h.content(ctx, x)
	}}
	if _, err := present(t, h, b, all[2].ID); segno.KindOf(err) != segno.KindCorrupt {
		t.Errorf("blame of a damaged state ended with %v", err)
	}
	b.Store = collected{h.store, all[1].ID}
	if got, err := present(t, h, b, all[2].ID); err != nil || got != "unknown unknown 3:3" {
		t.Errorf("blame of a collected state: %s, %v", got, err)
	}
}

// collected is a store without the commits before one.
type collected struct {
	segno.Store
	first segno.CommitID
}

func (c collected) Load(ctx context.Context, at segno.CommitID, w segno.Window) (*segno.Line, error) {
	line, err := c.Store.Load(ctx, at, w)
	if err != nil {
		return nil, err
	}
	for i, n := range line.Commits {
		if n.ID == c.first {
			line.Commits = line.Commits[i:]
			return line, nil
		}
	}
	return nil, segno.NewError(segno.KindNotFound, "load line", string(at), nil)
}
