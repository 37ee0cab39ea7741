package segno

import (
	"context"
	"encoding/json"
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
// turn may not be reverted with it, or "". The snapshots cannot tell: both turns see
// what changed while they overlapped. So a path is this turn's only if its own tools
// name it and those of no turn that overlapped with it do.
func (m *Mover) overlapped(ctx context.Context, turn *Checkpoint) (func(path string) string, error) {
	entries, err := m.entriesOf(ctx, turn)
	if err != nil {
		return nil, err
	}
	own := m.naming(entries)
	others, err := m.overlapping(ctx, turn, began(turn, entries))
	if err != nil {
		return nil, err
	}
	return func(path string) string {
		if !own(path) {
			return whyOnlyShared
		}
		for _, named := range others {
			if named(path) {
				return whyNamedToo
			}
		}
		return ""
	}, nil
}

// overlapping returns, for each turn of another thread that overlapped with turn in
// the workspace, whether its tools named a path. start is when turn began.
func (m *Mover) overlapping(ctx context.Context, turn *Checkpoint, start time.Time) (named []func(path string) bool, err error) {
	for c, err := range m.Store.Checkpoints(ctx, CheckpointQuery{Workspace: m.Workspace.ID()}) {
		if err != nil {
			return nil, err
		}
		if c.Thread == turn.Thread || !c.Shared || !c.endsTurn() || c.Time.Before(start) {
			continue
		}
		entries, err := m.entriesOf(ctx, &c)
		if err != nil {
			return nil, err
		}
		if began(&c, entries).Before(turn.Time) {
			named = append(named, m.naming(entries))
		}
	}
	return named, nil
}

// began is when a turn began: the time of its first entry.
func began(turn *Checkpoint, entries []Entry) time.Time {
	start := turn.Time
	for _, e := range entries {
		if !e.Time.IsZero() && e.Time.Before(start) {
			start = e.Time
		}
	}
	return start
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
