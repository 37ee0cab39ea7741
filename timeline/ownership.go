package timeline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agents"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/timeline/internal/ownership"
)

// messageDelay is how long a message of an agent may be on its way to the process that records it.
const messageDelay = 2 * time.Second

// calls returns the tool calls of a turn's entries. end is the end of calls without a result, or zero if
// unknown. tasks has the ends of background tasks.
func (tx *txn) calls(entries []segno.Entry, dir string, end time.Time, tasks map[string]time.Time) []ownership.Call {
	return ownership.Calls(entries, tx.callContext(entries, dir, end, tasks))
}

func (tx *txn) callContext(entries []segno.Entry, dir string, end time.Time, tasks map[string]time.Time) ownership.Context {
	in := ownership.Context{End: end, Tasks: tasks, Dir: dir}
	p := permissionsOf(entries)
	in.Refused, in.Permitted = p.refused, p.given
	resolved := map[string]string{}
	in.Resolve = func(file string) string {
		if _, known := resolved[file]; !known {
			resolved[file] = vfs.RealPath(file)
		}
		return resolved[file]
	}
	return in
}

// openContext is callContext for an open turn. The process that records it may receive its calls late.
func (tx *txn) openContext(t *OpenTurn, entries []segno.Entry, end time.Time, tasks map[string]time.Time) ownership.Context {
	in := tx.callContext(entries, t.Source.Dir, end, tasks)
	if t.Owner != "" {
		in.Delay = messageDelay
	}
	return in
}

// evidenceOf returns the evidence about a turn that ends now, with an event.
func (tx *txn) evidenceOf(ctx context.Context, w *turnEnd) (*ownership.Evidence, error) {
	entries, bad, err := tx.Spool.Entries(ctx, w.turn.Key)
	if err != nil {
		return nil, err
	}
	entries = tx.withUnreported(ctx, &w.turn, entries)
	now := tx.Now()
	in := tx.openContext(&w.turn, entries, now, w.turn.allTaskEnds(entries, now))
	in.Left = now
	// A call of a subagent that still works has no result yet, so a missing result does not show that a call was not made.
	in.Resolved = w.turn.Owner == "" && !w.Interrupted && agents.HasAllResults(w.turn.Agent) && !w.turn.hasSubagent(entries)
	calls := append(ownership.Calls(entries, in), tx.expansions(ctx, &w.turn, entries, false)...)
	e := &ownership.Evidence{Calls: calls, Start: w.turn.earliest(), End: now, Root: tx.Workspace.Root()}
	w.whyAll = ownership.WhyWhole(entries, w.turn.Start, now, tx.knowsCalls(ctx, &w.turn, entries, w.Message))
	if w.whyAll == "" && w.turn.hasLostCalls(entries, bad) {
		w.whyAll = ownership.WhyLost
	}
	e.Whole = w.whyAll != ""
	return e, nil
}

// hasLostCalls reports whether records of the turn's calls were lost. entries are its entries, and bad is the number of damaged
// lines among them. The proxy may record the result of a call that began in an earlier turn.
func (t *OpenTurn) hasLostCalls(entries []segno.Entry, bad int) bool {
	isLoss := func(e segno.Entry) bool { return e.Kind == segno.EntryNote && e.Name == NoteLost }
	return bad > 0 || slices.ContainsFunc(entries, isLoss) || t.Owner == "" && ownership.LacksIntent(entries)
}

// earliest returns the time of the state before the turn, which may be older than the turn.
func (t *OpenTurn) earliest() time.Time {
	if t.BeforeTime.IsZero() {
		return t.Start
	}
	return t.BeforeTime
}

// touchTimes returns the times of changed paths and of the directories above them.
func (tx *txn) touchTimes(ctx context.Context, changes []segno.Change) (ownership.Times, error) {
	times := ownership.Times{".": {}}
	paths := []string{""}
	for _, x := range changes {
		for p := x.Path; p != "."; p = path.Dir(p) {
			if _, seen := times[p]; seen {
				break
			}
			times[p] = time.Time{}
			paths = append(paths, p)
		}
	}
	touched, err := tx.Workspace.Touched(ctx, paths)
	if err != nil {
		return nil, fmt.Errorf("look at files: %w", err)
	}
	times["."] = touched[0]
	for i, p := range paths[1:] {
		times[p] = touched[i+1]
	}
	return times, nil
}

// splitChanges separates the changes of a turn from those of others. It sets the snapshot that the turn
// left, and adds paths in doubt.
func (tx *txn) splitChanges(ctx context.Context, w *turnEnd, e *ownership.Evidence) error {
	before := w.turn.Before
	if before.Tree == w.present.Tree || !hasTree(before) {
		w.whyAll = ""
		return nil
	}
	if e.Whole && !w.Late {
		return nil
	}
	changes, err := tx.diff(ctx, before.Tree, w.present.Tree)
	if tx.deferred && errors.Is(err, segno.KindNotFound) {
		return nil // the state before is deferred and cannot be read yet
	}
	if err != nil {
		return err
	}
	times, err := tx.touchTimes(ctx, changes)
	if err != nil {
		return err
	}
	if !w.Late && e.ClocksDiffer(changes, times, tx.Now()) {
		w.whyAll = ownership.WhyClocks
		return nil
	}
	w.touched = times
	parts := ownership.Divide(changes, times, e.Start, e.Owner)
	own, err := tx.splitLines(ctx, w.batch, e, changes, times, &parts)
	if err != nil {
		return err
	}
	w.doubt, w.unnamed = append(parts.Doubt, w.doubt...), parts.Unnamed
	if len(parts.Others) > 0 {
		overwritten, err := tx.leaveOut(ctx, w, e, changes, parts.Others)
		if err != nil {
			return err
		}
		own = append(own, overwritten...)
	}
	if len(own) > 0 {
		w.after, err = tx.Workspace.WithChanges(ctx, w.batch, w.after, w.present, own)
	}
	return err
}

// leaveOut leaves the changes of others out of the state that the turn left. If another turn ran, it
// returns earlier changes of the turn that these changes have overwritten.
func (tx *txn) leaveOut(ctx context.Context, w *turnEnd, e *ownership.Evidence, changes []segno.Change, others []string) (overwritten []segno.Change, err error) {
	shared, err := tx.overlapsAnother(ctx, &w.turn, w.turn.Thread)
	if err != nil {
		return nil, err
	}
	if shared {
		w.others = others
		if overwritten, err = tx.findOverwritten(ctx, e, w, changes, others); err != nil {
			return nil, err
		}
		for _, x := range overwritten {
			w.doubt = append(w.doubt, x.Path)
		}
	}
	w.after, err = tx.Workspace.Compose(ctx, w.batch, w.present, *w.turn.Before, others)
	return overwritten, err
}

// pathsEntry records a list of paths of a turn: those that another author may have changed, or those that
// others changed while it ran. The names are bytes, because a name need not be valid UTF-8.
func pathsEntry(kind segno.EntryKind, paths []string, session segno.SessionID, at time.Time) segno.Entry {
	raw := make([][]byte, len(paths))
	for i, p := range paths {
		raw[i] = []byte(p)
	}
	body, _ := json.Marshal(raw) // byte slices always encode
	return segno.Entry{Kind: kind, Session: session, Time: at, Name: "segno", Body: body}
}

func listedPaths(entries []segno.Entry, kind segno.EntryKind) map[string]bool {
	all := map[string]bool{}
	for _, e := range entries {
		var raw [][]byte
		if e.Kind != kind || json.Unmarshal(e.Body, &raw) != nil {
			continue
		}
		for _, p := range raw {
			all[string(p)] = true
		}
	}
	return all
}
