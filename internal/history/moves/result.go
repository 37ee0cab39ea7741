// Package moves plans and makes moves for a user interface: undo, redo, restore, fork, op undo, pin, unpin, rename,
// delete and decisions. All user interfaces show its descriptions, so they use the same words.
package moves

import (
	"context"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history"
	"github.com/dalsegno/segno/internal/history/patch"
	"github.com/dalsegno/segno/timeline"
)

// Result is the result of undo, redo, restore and op undo.
type Result struct {
	Operation segno.OperationID `json:"operation"`
	Thread    segno.ThreadID    `json:"thread"`
	Head      segno.CommitID    `json:"head"`
	Turns     []int             `json:"turns"`
	Changes   []history.Change  `json:"changes"`
	Conflicts []UnwrittenPath   `json:"conflicts"`
	Kept      []UnwrittenPath   `json:"kept"`
	Point     *timeline.Point   `json:"point,omitempty"`
	Git       string            `json:"git,omitempty"` // moves git's HEAD, if it was at another commit then
	Session   segno.SessionID   `json:"session"`
	Command   []string          `json:"command"`
	Dir       string            `json:"session_dir,omitempty"` // where to run the command
	DryRun    bool              `json:"dry_run,omitempty"`
	Explanation
}

// NewResult returns the result of a plan. If moved is not nil, it returns the result of the
// finished move.
func NewResult(ctx context.Context, tl *timeline.Timeline, p *timeline.Plan, moved *timeline.MoveResult) (r Result, err error) {
	r = Result{Operation: p.Operation, Thread: p.Thread, Head: p.Target, Turns: append([]int{}, p.Turns...),
		Point: p.Point, Git: p.Git, Command: []string{}}
	if r.Changes, err = Changes(ctx, tl, p.Steps, false); err != nil {
		return r, err
	}
	history.MarkUnnamed(r.Changes, p.Unnamed)
	read := patch.FromStore(tl.Store.Objects())
	if r.Conflicts, err = UnwrittenPaths(ctx, read, p.Conflicts, p.Forced); err != nil {
		return r, err
	}
	if r.Kept, err = UnwrittenPaths(ctx, read, p.Kept, nil); err != nil || moved == nil {
		return r, err
	}
	r.Head = moved.Head.ID
	if moved.Link != nil {
		r.Session, r.Command, r.Dir = moved.Link.Session, moved.Run, moved.Link.Dir
	}
	return r, nil
}

// Changes is like [history.Signed], and adds the numbers of pages of databases. If tables is set, it also adds their
// tables.
func Changes(ctx context.Context, tl *timeline.Timeline, diff []segno.Change, tables bool) ([]history.Change, error) {
	out := history.Signed(diff)
	steps, err := tl.DatabaseSteps(ctx, diff, tables)
	for i := range out {
		if len(steps) > 0 && out[i].Type == string(segno.EntityDatabase) {
			out[i].Pages, out[i].Tables, out[i].Unread, steps = steps[0].Pages, steps[0].Tables, steps[0].Unread, steps[1:]
		}
	}
	return out, err
}

// UnwrittenPath is a path that a move does not write.
type UnwrittenPath struct {
	Path      string `json:"path"`
	PathBytes []byte `json:"path_bytes,omitempty"` // base64, if the path is not valid UTF-8
	Why       string `json:"why"`
	Diff      string `json:"diff,omitempty"` // for a conflict: from the present content to force's
}

// UnwrittenPaths converts conflicts to results. forced has the changes that force would make. Each
// result has the diff of its change.
func UnwrittenPaths(ctx context.Context, read patch.Reader, conflicts []segno.Conflict, forced []segno.Change) ([]UnwrittenPath, error) {
	changes := map[string]segno.Change{}
	for _, c := range forced {
		changes[c.Path] = c
	}
	out := make([]UnwrittenPath, len(conflicts))
	for i, c := range conflicts {
		out[i] = UnwrittenPath{Path: c.Path, PathBytes: segno.PathBytes(c.Path), Why: c.Why}
		name, isDatabase := segno.DatabaseName(c.Path)
		if isDatabase {
			out[i].Path, out[i].PathBytes = databaseLabel(name), segno.PathBytes(name)
		}
		switch change, ok := changes[c.Path]; {
		case !ok, i >= maxShown, isDatabase:
		case max(change.From.Size, change.To.Size) > maxShownBytes:
			out[i].Diff = tooLarge
		default:
			p, err := patch.Of(ctx, read, change, false)
			if err != nil {
				return nil, err
			}
			out[i].Diff = p.String()
		}
	}
	return out, nil
}

// databaseLabel returns the text for a database in a list of paths.
func databaseLabel(name string) string { return "database " + name }

// Limits of the conflicts that are shown with a diff: their number, and the size of a file.
const (
	maxShown      = 200
	maxShownBytes = 1 << 20
)

// The limits of the lists in a preview and an outcome. They keep the results small enough to send and show in one
// piece.
const (
	maxListed = 1000
	// maxDiffs limits the total bytes of the diffs of all conflicts.
	maxDiffs = 2 << 20
)

// first returns the first n elements of a list.
func first[T any](all []T, n int) []T { return all[:min(n, len(all))] }

// withShortDiffs returns the first conflicts, and limits their diffs.
func withShortDiffs(conflicts []UnwrittenPath) []UnwrittenPath {
	shown := first(conflicts, maxShown)
	for i, rest := 0, maxDiffs; i < len(shown); i++ {
		if rest -= len(shown[i].Diff); rest < 0 && shown[i].Diff != "" {
			shown[i].Diff = tooLarge
		}
	}
	return shown
}

// tooLarge replaces a diff that is too large.
const tooLarge = "# too large to show\n"
