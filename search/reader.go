package search

import (
	"bytes"
	"context"
	"slices"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history/turns"
	"github.com/dalsegno/segno/timeline"
)

// Reader reads the texts of checkpoints from a store.
type Reader struct {
	Store  segno.Store
	Finder timeline.PathFinder
	// Content returns the content of a file.
	Content func(ctx context.Context, h segno.Hash) ([]byte, error)
	// Turns reads conversations.
	Turns turns.Source
}

// Checkpoint returns a checkpoint.
func (r *Reader) Checkpoint(ctx context.Context, id segno.CommitID) (*segno.Checkpoint, error) {
	line, err := r.Store.Load(ctx, id, segno.Window{Last: 1})
	if err != nil {
		return nil, err
	}
	c := line.Commits[len(line.Commits)-1].Checkpoint
	if c == nil {
		return nil, segno.NewError(segno.KindNotFound, "read checkpoint", string(id), nil)
	}
	return c, nil
}

// Text reads the texts of a checkpoint, in all fields or, if f is not 0, in this one.
func (r *Reader) Text(ctx context.Context, c *segno.Checkpoint, f Field) (*Text, error) {
	t := &Text{}
	if isTurn := c.Kind == segno.CheckpointTurn || c.Kind == segno.CheckpointStep; isTurn && f <= Output {
		turn, err := r.Turn(ctx, c)
		if err != nil {
			return nil, err
		}
		t.addTurn(turn)
	}
	if f != 0 && f <= Output {
		return t, nil
	}
	changes, err := r.Finder.Changes(ctx, c)
	if err != nil {
		return nil, err
	}
	lines := 0
	for i := range changes {
		x := &changes[i]
		t.addPath(x)
		if lines < maxLineBytes && f <= Removed {
			n, err := r.addLines(ctx, t, x)
			if err != nil {
				return nil, err
			}
			lines += n
		}
	}
	return t, nil
}

// Turn reads the conversation since the checkpoint before. A Go agent makes a checkpoint of each step of a turn, and other
// commits between them. Only the first step of a turn has its prompt.
func (r *Reader) Turn(ctx context.Context, c *segno.Checkpoint) (*turns.Turn, error) {
	var nodes []segno.Node // newest first
	isFirst, window := true, segno.Window{Last: 1, Entries: true}
	if turns.IsOfGoAgent(c) {
		window.Last = 3
	}
	for n, err := range segno.Ancestors(ctx, r.Store, c.ID, window) {
		if err != nil {
			return nil, err
		}
		if up := n.Checkpoint; len(nodes) > 0 && up != nil {
			isFirst = up.Turn != c.Turn || up.Thread != c.Thread || up.Kind != segno.CheckpointStep
			break
		}
		if nodes = append(nodes, *n); !turns.IsOfGoAgent(c) {
			break
		}
	}
	slices.Reverse(nodes)
	turn, err := r.Turns.Read(ctx, nodes, c)
	if !isFirst {
		turn.Prompt = ""
	}
	return turn, err
}

// addTurn adds the texts of a turn.
func (t *Text) addTurn(turn *turns.Turn) {
	t.add(Prompt, turn.Prompt)
	for _, it := range turn.Items {
		switch {
		case it.Call != nil:
			t.add(Command, append(it.Call.Texts(), it.Call.Tool)...)
			t.add(Output, it.Call.Result)
		case it.Author == turns.Agent:
			t.add(Answer, it.Text)
		case it.Author == turns.User: // typed while the turn ran
			t.add(Prompt, it.Text)
		}
	}
}

func (t *Text) add(f Field, texts ...string) {
	for _, text := range texts {
		if strings.TrimSpace(text) != "" {
			t[f] = append(t[f], text)
		}
	}
}

// addPath adds a changed path. A renamed path has both of its names.
func (t *Text) addPath(x *timeline.PathChange) {
	f := map[timeline.Action]Field{timeline.Created: Created, timeline.Changed: Changed, timeline.Deleted: Deleted, timeline.Renamed: Renamed}[x.Action]
	t.add(f, x.Path)
	if x.From != "" {
		t.add(f, x.From)
	}
}

const (
	maxFileBytes = 1 << 20  // the lines of a larger file are not indexed
	maxLineBytes = 16 << 20 // of the files of one checkpoint whose lines are indexed
)

// addLines adds the lines that a change adds and removes. It returns the number of bytes read.
func (r *Reader) addLines(ctx context.Context, t *Text, x *timeline.PathChange) (int, error) {
	before, isText, err := r.lines(ctx, x.Before)
	if err != nil || !isText {
		return 0, err
	}
	after, isText, err := r.lines(ctx, x.After)
	if err != nil || !isText || x.Action == timeline.Renamed {
		return 0, err
	}
	added, removed := LinesBetween(before, after)
	t.add(Added, strings.Join(textsOf(added), "\n"))
	t.add(Removed, strings.Join(textsOf(removed), "\n"))
	return int(x.Before.Size + x.After.Size), nil
}

// lines returns the lines of an entity. isText is false for a binary or very large file. A path without content has no lines.
func (r *Reader) lines(ctx context.Context, e segno.Entity) (lines []string, isText bool, err error) {
	if !e.HasContent() {
		return nil, true, nil
	}
	if e.Size > maxFileBytes {
		return nil, false, nil
	}
	data, err := r.Content(ctx, e.Hash)
	if err != nil || bytes.IndexByte(data[:min(len(data), 8000)], 0) >= 0 {
		return nil, false, err
	}
	return strings.Split(strings.TrimSuffix(string(data), "\n"), "\n"), true, nil
}

// Line is a line of a file.
type Line struct {
	Number int // counted from 1
	Text   string
}

func textsOf(lines []Line) (texts []string) {
	for _, l := range lines {
		texts = append(texts, l.Text)
	}
	return texts
}

// LinesBetween returns the lines that are only in after, and those that are only in before. It does not compare their order: a
// line that only moved is in neither.
func LinesBetween(before, after []string) (added, removed []Line) {
	return missingIn(before, after), missingIn(after, before)
}

// missingIn returns the lines of which other has fewer.
func missingIn(other, lines []string) (missing []Line) {
	count := map[string]int{}
	for _, l := range other {
		count[strings.TrimSuffix(l, "\r")]++
	}
	for i, l := range lines {
		l = strings.TrimSuffix(l, "\r")
		if count[l]--; count[l] < 0 && strings.TrimSpace(l) != "" {
			missing = append(missing, Line{i + 1, l})
		}
	}
	return missing
}

// LineChange is a line with a text that a checkpoint added to a file or removed from it.
type LineChange struct {
	Change timeline.PathChange
	Line
	IsRemoved bool
}

// LinesWith returns the lines with a text that a checkpoint added or removed.
func (r *Reader) LinesWith(ctx context.Context, c *segno.Checkpoint, text string) (found []LineChange, err error) {
	changes, err := r.Finder.Changes(ctx, c)
	for i := 0; i < len(changes) && err == nil; i++ {
		x := &changes[i]
		if x.Action == timeline.Renamed {
			continue
		}
		var before, after []string
		var isText, isAlsoText bool
		if before, isText, err = r.lines(ctx, x.Before); err == nil {
			after, isAlsoText, err = r.lines(ctx, x.After)
		}
		if err != nil || !isText || !isAlsoText {
			continue
		}
		added, removed := LinesBetween(before, after)
		for n, l := range slices.Concat(added, removed) {
			if strings.Contains(l.Text, text) {
				found = append(found, LineChange{*x, l, n >= len(added)})
			}
		}
	}
	return found, err
}
