package segno

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"strings"
	"time"
)

// Why a path of a turn that overlapped with another thread's may not be its own.
const (
	whyOnlyShared = "another thread was at work and this turn's tools did not name it"
	whyNamedToo   = "a turn of another thread was at work and its tools name it, too"
)

// overlapped returns a function that says why a path that changed during a shared
// turn may not be reverted with it, or "". Both turns see what changed while they
// overlapped, and no snapshot tells whose change it was. Such a path is this turn's
// only if its own tools name it and those of the other turn do not. What changed while
// the turn was alone is its own.
func (m *Mover) overlapped(ctx context.Context, turn *Checkpoint) (func(path string) string, error) {
	own, err := m.spanOf(ctx, turn)
	if err != nil {
		return nil, err
	}
	rivals, err := m.rivals(ctx, turn, own)
	if err != nil {
		return nil, err
	}
	return func(path string) string {
		alone := len(rivals) > 0
		for _, r := range rivals {
			if !r.may(path) {
				continue
			}
			if alone = false; r.named(path) {
				return whyNamedToo
			}
		}
		if !alone && !own.named(path) {
			return whyOnlyShared
		}
		return ""
	}, nil
}

// span is a turn in time.
type span struct {
	start, end    time.Time
	before, after Hash // the files
	named         func(path string) bool
}

// known reports whether a span has all that tells what changed in it.
func (s *span) known() bool {
	return s.start.Before(s.end) && !s.before.IsZero() && !s.after.IsZero()
}

// spanOf returns a turn's span. It began at the time of its first entry.
func (m *Mover) spanOf(ctx context.Context, turn *Checkpoint) (*span, error) {
	entries, err := m.entriesOf(ctx, turn)
	if err != nil {
		return nil, err
	}
	line, err := m.line(ctx, turn.ID)
	if err != nil {
		return nil, err
	}
	s := &span{start: turn.Time, end: turn.Time, after: turn.Tree(), named: m.naming(entries),
		before: treeOf(line[1+partsOf(turn, line[1:]):])}
	for _, e := range entries {
		if !e.Time.IsZero() && e.Time.Before(s.start) {
			s.start = e.Time
		}
	}
	return s, nil
}

// rival is a turn of another thread that overlapped with a turn.
type rival struct {
	*span
	changed map[string]bool // paths that changed while both were at work; nil if that is not known
}

// may reports whether a turn may have changed a path while both were at work.
func (r *rival) may(path string) bool { return r.changed == nil || r.changed[path] }

// rivals returns the turns of other threads that overlapped with turn, whose span is
// own, in the workspace.
func (m *Mover) rivals(ctx context.Context, turn *Checkpoint, own *span) (rivals []*rival, err error) {
	for c, err := range m.Store.Checkpoints(ctx, CheckpointQuery{Workspace: m.Workspace.ID()}) {
		if err != nil {
			return nil, err
		}
		if c.Thread == turn.Thread || !c.Shared || !c.endsTurn() || c.Time.Before(own.start) {
			continue
		}
		s, err := m.spanOf(ctx, &c)
		if err != nil {
			return nil, err
		}
		if s.known() && s.start.After(own.end) {
			continue
		}
		r := &rival{span: s}
		if r.changed, err = m.changedInBoth(ctx, own, s); err != nil {
			return nil, err
		}
		rivals = append(rivals, r)
	}
	return rivals, nil
}

// changedInBoth returns the paths that changed while two turns were both at work: from
// the beginning of the later one to the end of the one that ended first.
func (m *Mover) changedInBoth(ctx context.Context, a, b *span) (map[string]bool, error) {
	if !a.known() || !b.known() {
		return nil, nil
	}
	from, to := a.before, a.after
	if b.start.After(a.start) {
		from = b.before
	}
	if b.end.Before(a.end) {
		to = b.after
	}
	changes, err := m.Workspace.Diff(ctx, from, to)
	if err != nil {
		return nil, fmt.Errorf("compare overlapping turns: %w", err)
	}
	changed := make(map[string]bool, len(changes))
	for _, c := range changes {
		changed[c.Path] = true
	}
	return changed, nil
}

// naming returns whether the tools of a turn with these entries named a path: the
// input of one of them contains it, or a directory above it.
func (m *Mover) naming(entries []Entry) func(path string) bool {
	var said strings.Builder
	for _, e := range entries {
		if e.Kind != EntryIntent {
			continue
		}
		var in any
		if json.Unmarshal(e.Body, &in) == nil {
			collect(&said, in)
		}
	}
	return naming(said.String(), m.Workspace.Root())
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
