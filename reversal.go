package segno

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"sort"
	"strings"
)

// reversal works out, path by path, what taking changes back would write. It
// starts from the present and is given one turn's changes at a time; a path that
// is not what the turn left is somebody else's by now and becomes a conflict.
type reversal struct {
	force     bool
	now       map[string]Entity // what stands at a path in the present
	want      map[string]Entity // what will stand there
	conflicts map[string]string
	contested func(path string) string // why a path may hold someone else's work; nil if none does
}

// add takes one set of changes, each leading From what is to be written To what
// should stand there now, from the present: what differs between what the turn
// left and the present. owned says whether the turn's own tools named a path.
func (r *reversal) add(changes []Change, present map[string]Entity, owned func(path string) bool) {
	if r.want == nil {
		r.now, r.want, r.conflicts = map[string]Entity{}, map[string]Entity{}, map[string]string{}
	}
	for _, c := range changes {
		cur, seen := r.want[c.Path]
		if !seen {
			if cur, seen = present[c.Path]; !seen {
				cur = c.To
			}
			r.now[c.Path] = cur
		}
		switch {
		case r.conflicts[c.Path] != "" && !r.force:
		case cur == c.From:
			r.want[c.Path] = cur
		case !r.force && r.contested != nil && r.contested(c.Path) != "":
			r.conflicts[c.Path] = r.contested(c.Path)
		case cur != c.To && !r.force:
			r.conflicts[c.Path] = "changed since the turn"
		case owned != nil && !owned(c.Path) && !r.force:
			r.conflicts[c.Path] = whyUnnamed
		default:
			r.want[c.Path] = c.From
		}
	}
}

// reverse adds the changes that lead from tree to target: a turn taken back, or
// done again. turn is the checkpoint taken back, nil if none is.
func (m *Mover) reverse(ctx context.Context, r *reversal, tree, target Hash, turn *Checkpoint, now present) error {
	if tree.IsZero() || target.IsZero() {
		return nil // a turn from before segno: its files were not recorded
	}
	changes, err := m.Workspace.Diff(ctx, target, tree)
	if err != nil {
		return fmt.Errorf("compare checkpoints: %w", err)
	}
	since, err := m.Workspace.Diff(ctx, tree, now.snap.Tree)
	if err != nil {
		return fmt.Errorf("compare workspace: %w", err)
	}
	var owned func(string) bool
	if r.contested = nil; turn != nil {
		if r.contested, err = m.contested(ctx, turn); err != nil {
			return err
		}
	}
	if turn != nil && turn.Shared {
		if owned, err = m.named(ctx, turn); err != nil {
			return err
		}
	}
	r.add(changes, entities(since), owned)
	return nil
}

func entities(changes []Change) map[string]Entity {
	m := make(map[string]Entity, len(changes))
	for _, c := range changes {
		m[c.Path] = c.To
	}
	return m
}

// named returns whether a turn's own tools named a path: it, or a directory above
// it, stands in the input of one of them.
func (m *Mover) named(ctx context.Context, turn *Checkpoint) (func(string) bool, error) {
	var said strings.Builder
	entries, err := m.entriesOf(ctx, turn)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if e.Kind != EntryIntent {
			continue
		}
		var in any
		if json.Unmarshal(e.Body, &in) == nil {
			collect(&said, in)
		}
	}
	return naming(said.String(), m.Workspace.Root()), nil
}

// entriesOf returns a turn's entries: those of its checkpoint's commit, and of the
// steps below it if it has some.
func (m *Mover) entriesOf(ctx context.Context, turn *Checkpoint) (entries []Entry, err error) {
	for last := 1; ; last *= 8 {
		line, err := m.Store.Load(ctx, turn.ID, Window{Last: last, Entries: true})
		if err != nil {
			return nil, err
		}
		entries = nil
		for i := len(line.Commits) - 1; i >= 0; i-- {
			n := &line.Commits[i]
			if c := n.Checkpoint; c != nil && i < len(line.Commits)-1 && (c.Kind != KindStep || c.Turn != turn.Turn) {
				return entries, nil
			}
			entries = append(entries, n.Entries...)
		}
		if len(line.Commits) < last {
			return entries, nil
		}
	}
}

// naming returns whether text names a path: absolute, or relative to root, and
// not as a part of another. In doubt it does not.
func naming(text, root string) func(string) bool {
	return func(p string) bool {
		for ; p != "."; p = path.Dir(p) {
			if stands(text, root+"/"+p) || stands(text, p) || stands(text, "./"+p) {
				return true
			}
		}
		return false
	}
}

// stands reports whether word stands in text with nothing of a path around it.
func stands(text, word string) bool {
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

// collect writes every string of a JSON value.
func collect(to *strings.Builder, v any) {
	switch v := v.(type) {
	case string:
		to.WriteString(v)
		to.WriteByte('\n')
	case []any:
		for _, x := range v {
			collect(to, x)
		}
	case map[string]any:
		for key, x := range v {
			if key != "description" { // prose names things it does not touch
				collect(to, x)
			}
		}
	}
}

// take makes a reversal's result the plan's steps.
func (p *Plan) take(r reversal, now present) {
	var changes []Change
	for name, want := range r.want {
		if _, lost := r.conflicts[name]; !lost || r.force {
			changes = append(changes, Change{Path: name, From: r.now[name], To: want})
		}
	}
	p.split(changes)
	if !r.force {
		for name, why := range r.conflicts {
			p.Conflicts = append(p.Conflicts, Conflict{Path: name, Why: why})
		}
	}
	sort.Slice(p.Conflicts, func(i, j int) bool { return p.Conflicts[i].Path < p.Conflicts[j].Path })
}

// split sorts changes into steps that can be taken and paths that stay because
// one side of them is protected: recorded, and not stored.
func (p *Plan) split(changes []Change) {
	for _, c := range changes {
		switch {
		case c.From == c.To:
		case c.From.Type == EntityProtected:
			p.Kept = append(p.Kept, Conflict{Path: c.Path, Why: "protected: " + c.From.Why})
		case c.To.Type == EntityProtected && c.From.Type == EntityNone:
			p.Kept = append(p.Kept, Conflict{Path: c.Path, Why: "was protected, cannot be brought back: " + c.To.Why})
		case c.To.Type == EntityProtected:
			p.Conflicts = append(p.Conflicts, Conflict{Path: c.Path, Why: "was protected then: " + c.To.Why})
		default:
			p.Steps = append(p.Steps, c)
		}
	}
	sort.Slice(p.Steps, func(i, j int) bool { return p.Steps[i].Path < p.Steps[j].Path })
	sort.Slice(p.Kept, func(i, j int) bool { return p.Kept[i].Path < p.Kept[j].Path })
}

// within keeps the changes at or below paths, and the directories above that
// have to be there for them.
func within(changes []Change, paths []string) []Change {
	if len(paths) == 0 {
		return changes
	}
	var in []Change
	above := map[string]bool{}
	for _, c := range changes {
		for _, p := range paths {
			if c.Path == p || p == "." || strings.HasPrefix(c.Path, p+"/") {
				in = append(in, c)
				for d := path.Dir(c.Path); d != "."; d = path.Dir(d) {
					above[d] = c.To.Type != EntityNone
				}
				break
			}
		}
	}
	for _, c := range changes {
		if above[c.Path] && c.From.Type == EntityNone && c.To.Type == EntityDir && !contains(in, c.Path) {
			in = append(in, c)
		}
	}
	return in
}

func contains(changes []Change, p string) bool {
	for _, c := range changes {
		if c.Path == p {
			return true
		}
	}
	return false
}
