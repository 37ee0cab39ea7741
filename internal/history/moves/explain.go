package moves

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history"
	"github.com/dalsegno/segno/internal/history/patch"
	"github.com/dalsegno/segno/internal/history/printable"
	"github.com/dalsegno/segno/timeline"
)

// Explanation is what a user needs beside the changes of a plan to decide on an undo or a redo.
type Explanation struct {
	// Of has the turns of the plan, in its order.
	Of []TurnOf `json:"of,omitempty"`
	// Stays are the paths that differ from the turns' own result, because the user or another program changed them, and that the
	// move does not change.
	Stays      []string `json:"stays,omitempty"`
	StaysBytes [][]byte `json:"stays_bytes,omitempty"`
}

// TurnOf names the author of a turn.
type TurnOf struct {
	Turn   int    `json:"turn"`
	Agent  string `json:"agent"`
	Prompt string `json:"prompt"`
	Time   string `json:"time"`
}

// Explain adds the numbers of lines that a plan adds and deletes in each file and, for undo and redo, the explanation.
func (r *Result) Explain(ctx context.Context, tl *timeline.Timeline, p *timeline.Plan) error {
	if tl.Workspace == nil {
		return nil
	}
	if err := r.countLines(ctx, patch.FromStore(tl.Store.Objects()), p.Steps); err != nil || len(p.Turns) == 0 || p.Finishes != "" {
		return err
	}
	h, err := history.Read(ctx, tl.Store, p.Thread)
	if err != nil {
		return err
	}
	from := h.Head.Tip
	if p.Verb == segno.VerbUndo {
		from = h.Head.Head
	}
	line := h.Line(from)
	for _, turn := range p.Turns {
		i := slices.IndexFunc(line, func(c *segno.Checkpoint) bool {
			return c.Turn == turn && (c.Kind == segno.CheckpointTurn || c.Kind == segno.CheckpointStep)
		})
		if i >= 0 {
			c := line[i]
			r.Of = append(r.Of, TurnOf{Turn: turn, Agent: c.Agent, Prompt: c.Prompt, Time: c.Time.UTC().Format(time.RFC3339Nano)})
		}
	}
	return r.findStays(ctx, tl, h, p)
}

// findStays compares the files before and after each change that no turn made: those between the head and the target of an undo,
// and those since the head.
func (r *Result) findStays(ctx context.Context, tl *timeline.Timeline, h *history.History, p *timeline.Plan) error {
	head := h.ByID[h.Head.Head]
	if head == nil || Paths(p) != "" { // the user named the paths to change, so all others stay
		return nil
	}
	pairs := [][2]segno.Hash{{head.Tree(), p.Before.Tree}}
	if p.Verb == segno.VerbUndo {
		pairs = append(pairs, outsideTurns(h, head, p.Target)...)
	}
	planned := map[string]bool{}
	for _, c := range slices.Concat(p.Conflicts, p.Kept) {
		planned[c.Path] = true
	}
	for _, c := range p.Steps {
		planned[c.Path] = true
	}
	for _, pair := range pairs {
		if pair[0].IsZero() || pair[1].IsZero() || pair[0] == pair[1] {
			continue
		}
		diff, err := tl.Workspace.Diff(ctx, pair[0], pair[1])
		if err != nil {
			return err
		}
		for _, x := range diff {
			if !planned[x.Path] && x.From.Type != segno.EntityDir && x.To.Type != segno.EntityDir {
				r.Stays = append(r.Stays, x.Path)
			}
		}
	}
	slices.Sort(r.Stays)
	r.Stays = slices.Compact(r.Stays)
	r.StaysBytes = history.PathsBytes(r.Stays)
	return nil
}

// outsideTurns returns the trees before and after each change that no turn made, from the head down to the target.
func outsideTurns(h *history.History, head *segno.Checkpoint, target segno.CommitID) (pairs [][2]segno.Hash) {
	for _, c := range h.Line(head.ID) {
		if c.ID == target {
			break
		}
		if parent := h.ParentWithFiles(c); parent != nil && (c.Kind == segno.CheckpointExternal || c.Kind == segno.CheckpointSave) {
			pairs = append(pairs, [2]segno.Hash{parent.Tree(), c.Tree()})
		}
	}
	return pairs
}

// countLines counts the lines that each step adds and deletes. It skips a plan that is not listed path by path, and large files.
func (r *Result) countLines(ctx context.Context, read patch.Reader, steps []segno.Change) error {
	if len(steps) > maxPaths {
		return nil
	}
	for i, c := range steps {
		if c.From.Type != segno.EntityFile || c.To.Type != segno.EntityFile || max(c.From.Size, c.To.Size) > maxShownBytes {
			continue
		}
		p, err := patch.Of(ctx, read, c, false)
		if err != nil {
			return err
		}
		r.Changes[i].LinesAdded, r.Changes[i].LinesDeleted = p.Added, p.Deleted
	}
	return nil
}

// turnsOf lists the turns of a plan.
func (t *Text) turnsOf(of []TurnOf) {
	const most = 10
	for i, turn := range of {
		if i == most {
			t.linef("  and %d more", len(of)-most)
			break
		}
		t.linef("  %s of %s: %s", t.paint(Bold, fmt.Sprintf("t%d", turn.Turn)), printable.Inline(turn.Agent), printable.Quote(timeline.Title(turn.Prompt)))
	}
}

// stays names the paths of others that a move does not change.
func (t *Text) stays(paths []string) {
	const most = 5
	if len(paths) == 0 {
		return
	}
	names := make([]string, 0, most)
	for _, path := range paths[:min(len(paths), most)] {
		names = append(names, segno.QuotePath(path))
	}
	text := "  stays as it is, because no turn of these changed it: " + strings.Join(names, ", ")
	if more := len(paths) - len(names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	t.linef("%s", t.paint(Dim, text))
}
