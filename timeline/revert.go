package timeline

import (
	"context"
	"fmt"
	"path"
	"sort"
	"strings"

	"github.com/dalsegno/segno"
)

// reverter computes, path by path, the writes that revert changes. It starts from the present
// and receives the changes of one turn at a time. If a path differs from the state that the
// turn left, another author changed it since: both changes are merged, or the path is a
// conflict.
type reverter struct {
	force     bool
	merger    *merger                 // nil merges nothing
	now       map[string]segno.Entity // the present state of a path
	hidden    map[string]bool         // paths that were saved, and are protected in the present
	targets   []segno.Hash            // the trees that the changes lead to
	want      map[string]segno.Entity // what will be there
	merged    map[string]bool         // want has changes of both sides
	conflicts map[string]string       // why the path stays as it is
	forced    map[string]segno.Entity // what would be at a path with a conflict if force were set
}

// add adds one set of changes. Each leads From the state to write To the state that the turn
// left. present has the paths that differ from the state that the turn left. contested
// returns why a path may not belong to this turn alone, or "".
func (r *reverter) add(ctx context.Context, changes []segno.Change, present map[string]segno.Entity, contested func(path string) string) error {
	if r.want == nil {
		r.now, r.want, r.conflicts = map[string]segno.Entity{}, map[string]segno.Entity{}, map[string]string{}
		r.merged, r.forced = map[string]bool{}, map[string]segno.Entity{}
	}
	for _, c := range changes {
		cur, seen := r.want[c.Path]
		if !seen {
			if cur, seen = present[c.Path]; !seen {
				cur = c.To
			}
			r.now[c.Path], r.want[c.Path] = cur, cur
		}
		r.forced[c.Path] = c.From
		if cur == c.From || r.conflicts[c.Path] != "" {
			continue
		}
		want, why, err := r.revert(ctx, c, cur, contested)
		if err != nil {
			return err
		}
		switch {
		case why == "":
			r.want[c.Path] = want
			r.merged[c.Path] = cur != c.To && want != c.From
		case r.force:
			r.want[c.Path], r.merged[c.Path] = c.From, false
		default:
			r.conflicts[c.Path] = why
		}
	}
	return nil
}

// revert returns what cur becomes once a change is reverted, or why it cannot be.
func (r *reverter) revert(ctx context.Context, c segno.Change, cur segno.Entity, contested func(string) string) (segno.Entity, string, error) {
	if contested != nil {
		if why := contested(c.Path); why != "" {
			return cur, why, nil
		}
	}
	switch {
	case cur == c.To:
		return c.From, "", nil
	case r.merger == nil:
		return cur, whyChanged, nil
	}
	return r.merger.merge(ctx, c.To, cur, c.From)
}

// reverse adds the changes that lead from tree to target, which undo or redo a turn. turn is
// the undone checkpoint, nil in a redo.
func (tx *txn) reverse(ctx context.Context, r *reverter, tree, target segno.Hash, turn *segno.Checkpoint, now currentState) error {
	if tree.IsZero() || target.IsZero() {
		return nil // a turn from before segno: its files were not recorded
	}
	changes, err := tx.Workspace.Diff(ctx, target, tree)
	if err != nil {
		return fmt.Errorf("compare checkpoints: %w", err)
	}
	since, err := tx.Workspace.Diff(ctx, tree, now.snap.Tree)
	if err != nil {
		return fmt.Errorf("compare workspace: %w", err)
	}
	var contested func(string) string
	if turn != nil {
		if contested, err = tx.contestedPaths(ctx, turn, changes); err != nil {
			return err
		}
	}
	if err := r.add(ctx, changes, entities(since), contested); err != nil {
		return err
	}
	r.targets = append(r.targets, target)
	r.hide(since)
	return tx.reverseUnsaved(ctx, r, target, changes, now)
}

func entities(changes []segno.Change) map[string]segno.Entity {
	m := make(map[string]segno.Entity, len(changes))
	for _, c := range changes {
		m[c.Path] = c.To
	}
	return m
}

// commitEntries returns a turn's entries: those of its checkpoint's commit, and of the
// steps below it if it has some.
func (tx *txn) turnEntries(ctx context.Context, turn *segno.Checkpoint) (entries []segno.Entry, err error) {
	for last := 1; ; last *= 8 {
		line, err := tx.Store.Load(ctx, turn.ID, segno.Window{Last: last, Entries: true})
		if err != nil {
			return nil, err
		}
		entries = nil
		for i := len(line.Commits) - 1; i >= 0; i-- {
			n := &line.Commits[i]
			if c := n.Checkpoint; c != nil && i < len(line.Commits)-1 && (c.Kind != segno.CheckpointStep || c.Turn != turn.Turn) {
				return entries, nil
			}
			entries = append(entries, n.Entries...)
		}
		if len(line.Commits) < last {
			return entries, nil
		}
	}
}

// mentions returns whether text names a path: absolute, or relative to root, and
// not as a part of another. In doubt it does not.
func mentions(text, root string) func(string) bool {
	return func(p string) bool {
		for ; p != "."; p = path.Dir(p) {
			if containsWord(text, root+"/"+p) || containsWord(text, p) || containsWord(text, "./"+p) {
				return true
			}
		}
		return false
	}
}

// containsWord reports whether word stands in text with nothing of a path around it.
func containsWord(text, word string) bool {
	const inPath = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/~"
	for from := 0; ; {
		i := strings.Index(text[from:], word)
		if i < 0 {
			return false
		}
		i += from
		end := strings.TrimPrefix(text[i+len(word):], "/") // a directory may be written with one
		before := i == 0 || !strings.Contains(inPath, text[i-1:i])
		after := end == "" || !strings.Contains(inPath, end[:1]) || (end[0] == '.' && (len(end) == 1 || !strings.Contains(inPath, end[1:2])))
		if before && after {
			return true
		}
		from = i + 1
	}
}

// collectStrings writes every string of a JSON value.
func collectStrings(to *strings.Builder, v any) {
	switch v := v.(type) {
	case string:
		to.WriteString(v)
		to.WriteByte('\n')
	case []any:
		for _, x := range v {
			collectStrings(to, x)
		}
	case map[string]any:
		for key, x := range v {
			if key != "description" { // prose names things it does not touch
				collectStrings(to, x)
			}
		}
	}
}

// setSteps makes a reversal's result the plan's steps.
func (p *Plan) setSteps(ctx context.Context, r *reverter) error {
	var changes []segno.Change
	for name, want := range r.want {
		if why := r.conflicts[name]; why != "" {
			p.Conflicts = append(p.Conflicts, segno.Conflict{Path: name, Why: why})
			p.Forced = append(p.Forced, segno.Change{Path: name, From: r.now[name], To: r.forced[name]})
			continue
		}
		changes = append(changes, segno.Change{Path: name, From: r.now[name], To: want, Merged: r.merged[name]})
	}
	p.split(changes)
	p.hide(r)
	sort.Slice(p.Conflicts, func(i, j int) bool { return p.Conflicts[i].Path < p.Conflicts[j].Path })
	sort.Slice(p.Forced, func(i, j int) bool { return p.Forced[i].Path < p.Forced[j].Path })
	if r.merger == nil {
		return nil
	}
	return r.merger.stageMerged(ctx, p.Steps)
}

// splitChanges sorts changes into steps that can be taken and paths that stay because
// one side of them is protected: recorded, and not stored.
func (p *Plan) split(changes []segno.Change) {
	for _, c := range changes {
		switch {
		case c.From == c.To:
		case path.Base(c.Path) == ".git" && c.From.Type != segno.EntityNone && c.From.Type != segno.EntityProtected:
			p.Kept = append(p.Kept, segno.Conflict{Path: c.Path, Why: "protected: git"}) // restored if it is gone, never changed
		case c.From.Type == segno.EntityProtected && isSaved(c.To):
			p.hidden = append(p.hidden, c.Path)
			p.Conflicts = append(p.Conflicts, segno.Conflict{Path: c.Path, Why: "protected now, cannot be brought back: " + c.From.Why})
		case c.From.Type == segno.EntityProtected:
			p.Kept = append(p.Kept, segno.Conflict{Path: c.Path, Why: "protected: " + c.From.Why})
		case c.To.Type == segno.EntityProtected && c.From.Type == segno.EntityNone:
			p.Kept = append(p.Kept, segno.Conflict{Path: c.Path, Why: "was protected, cannot be brought back: " + c.To.Why})
			p.Lost = true
		case c.To.Type == segno.EntityProtected:
			p.Conflicts = append(p.Conflicts, segno.Conflict{Path: c.Path, Why: "was protected then: " + c.To.Why})
		default:
			p.Steps = append(p.Steps, c)
		}
	}
	sort.Slice(p.Steps, func(i, j int) bool { return p.Steps[i].Path < p.Steps[j].Path })
	sort.Slice(p.Kept, func(i, j int) bool { return p.Kept[i].Path < p.Kept[j].Path })
}

// filterPaths keeps the changes at or below paths, and the directories above that
// have to be there for them.
func filterPaths(changes []segno.Change, paths []string) []segno.Change {
	if len(paths) == 0 {
		return changes
	}
	var in []segno.Change
	above := map[string]bool{}
	for _, c := range changes {
		for _, p := range paths {
			if c.Path == p || p == "." || strings.HasPrefix(c.Path, p+"/") {
				in = append(in, c)
				for d := path.Dir(c.Path); d != "."; d = path.Dir(d) {
					above[d] = c.To.Type != segno.EntityNone
				}
				break
			}
		}
	}
	for _, c := range changes {
		if above[c.Path] && c.From.Type == segno.EntityNone && c.To.Type == segno.EntityDir && !contains(in, c.Path) {
			in = append(in, c)
		}
	}
	return in
}

func contains(changes []segno.Change, p string) bool {
	for _, c := range changes {
		if c.Path == p {
			return true
		}
	}
	return false
}
