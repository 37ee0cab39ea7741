package ownership

import (
	"path/filepath"
	"slices"
	"time"

	"github.com/dalsegno/segno"
)

// Verdict is what the lines of a file show about its authors.
type Verdict uint8

const (
	Unchanged Verdict = iota // the file belongs to the owner of its newest change
	Split                    // the turn has the lines that its tools made, and another author has the others
	InDoubt                  // the turn and another author wrote it, and nothing shows which lines are whose
)

// Lines is what the calls that name a file show about the authors of its lines.
type Lines struct {
	Replays bool // the inputs of the calls show all their changes

	owner    Owner // of the newest change
	foreign  bool  // another author changed the file before one of the calls
	unknown  bool  // the time of the newest change before one of the calls is not known
	ran      bool  // a time shows that a command of the turn may have written the file
	between  bool  // a time shows that a formatter may have, or another author after a tool and before the turn's next call
	rewrites bool  // a command that names the file may have written it, and no time shows that
	over     bool  // a call wrote the whole file after another author had changed it
	wrote    bool  // the newest call wrote the present content
	before   bool  // a command began before the newest change
	formats  bool  // the newest change was made during a call that may also have formatted the file
	calls    int
}

// maxReplay is the size in bytes of the largest file whose lines are examined.
const maxReplay = 1 << 20

// LinesOf returns what the calls show about the lines of a file. ok is false if no tool that writes named files named
// it, or if others own it. touched is the time of its newest change, and parts has the owners of all paths.
func (e *Evidence) LinesOf(x segno.Change, touched time.Time, parts *Division) (l Lines, ok bool) {
	isFile := x.To.Type == segno.EntityFile && (x.From.Type == segno.EntityFile || x.From.Type == segno.EntityNone)
	if !isFile || touched.IsZero() {
		return l, false
	}
	l = Lines{Replays: max(x.From.Size, x.To.Size) <= maxReplay, before: e.RanBefore(latest(touched))}
	for _, m := range e.naming(x.Path) {
		switch c := &e.Calls[m.call]; {
		case c.Confined:
			l.add(e, x.Path, c)
			l.wrote = !c.Content.IsZero() && c.Content == x.To.Hash || l.wrote && c.Failed
		case !m.above && c.rewrites() && !c.From.After(latest(touched)):
			l.rewrites = true
		}
	}
	if l.calls == 0 {
		return l, false
	}
	l.see(e, x.Path, touched)
	l.formats = slices.ContainsFunc(e.naming(x.Path), func(m mention) bool {
		c := &e.Calls[m.call]
		return c.formats && !c.Failed && c.isRunning(latest(touched), touched)
	})
	switch l.owner = e.Owner(x, Touch{At: touched}); l.owner {
	case Turn, Ran:
		return l, slices.Contains(parts.Turn, x.Path)
	case Doubt:
		return l, slices.Contains(parts.Doubt, x.Path)
	}
	return l, false
}

// add adds the facts of a call that names the file, and of the moment before it.
func (l *Lines) add(e *Evidence, path string, c *Call) {
	switch seen, known := e.seen(path, c); {
	case !known:
		l.unknown = l.unknown || !c.Failed
	case seen.IsZero():
		l.foreign, l.ran, l.between, l.over = false, false, false, false // the earlier content is gone
	case !seen.Before(e.Start): // a file system's clock may be behind, but it is never ahead
		then := segno.Change{Path: path, To: segno.Entity{Type: segno.EntityFile}}
		l.foreign = l.foreign || !isTurn(e.Owner(then, Touch{At: seen}))
		l.see(e, path, seen)
	}
	if c.Failed {
		return
	}
	l.calls++
	edits := e.edits(path, c)
	l.Replays = l.Replays && !c.Lost && len(edits) > 0
	l.over = l.over || l.foreign && slices.ContainsFunc(edits, func(x edit) bool { return x.whole })
}

// edits returns the edits of a call in a file that it names, or nil if its input does not show them.
func (e *Evidence) edits(path string, c *Call) []edit {
	if c.patched == nil {
		return c.edits
	}
	if edits := c.patched[filepath.Join(e.Root, path)]; edits != nil {
		return edits
	}
	return c.patched[path] // the directory of the session is not known
}

// seen returns when a path changed last before a call that names it. The time is zero if there was no file.
func (e *Evidence) seen(path string, c *Call) (at time.Time, known bool) {
	if at, known = c.seen[filepath.Join(e.Root, path)]; !known {
		at, known = c.seen[path] // the directory of the session is not known
	}
	return at, known
}

// see adds the moment at which the file had a newest change. If a tool that names the file was running, the change is
// that tool's.
func (l *Lines) see(e *Evidence, path string, at time.Time) {
	ran := slices.ContainsFunc(e.Calls, func(c Call) bool { return !c.Confined && c.isRunning(latest(at), at) })
	between := false
	for _, m := range e.naming(path) {
		switch c := &e.Calls[m.call]; {
		case !c.Confined || c.Failed:
		case c.isRunning(latest(at), at): // the file system's clock may be behind
			return
		case at.After(c.To) && !at.After(c.Next):
			between = true
		}
	}
	l.ran, l.between = l.ran || ran, l.between || between && !ran
}

// isRunning reports whether the call began before a time and ended after another one.
func (c *Call) isRunning(began, ended time.Time) bool {
	return !began.Before(c.From) && (c.Lost || !ended.After(c.To))
}

// RanBefore reports whether a call that can write anything began before a time.
func (e *Evidence) RanBefore(at time.Time) bool {
	return slices.ContainsFunc(e.Calls, func(c Call) bool { return !c.Confined && !c.From.Add(-grain).After(at) })
}

// Comparison compares the present content of a file with the one that the turn's tools alone would have left.
type Comparison struct {
	Fits  bool // the changes of the tools could be applied to the content before the turn
	Same  bool // the contents are the same
	Apart bool // they differ in other places than those that the turn changed
}

// Verdict decides whose the lines of the file are.
func (l *Lines) Verdict(c Comparison) Verdict {
	shown := c.Fits && !l.ran && !l.over // the tools' changes are all changes of the turn, and only those
	switch {
	case l.owner == Doubt:
		if shown && !l.rewrites {
			return Split
		}
	case c.Same || l.wrote:
		if l.over { // the content may contain lines of the other author
			return InDoubt
		}
	case l.foreign:
		if shown && !l.rewrites && c.Apart {
			return Split
		}
		return InDoubt
	case shown && c.Apart && !(l.unknown && l.before) && !l.isFormatted():
		return Split
	case l.unknown && !l.isExplained(c), l.ran && l.between && c.Apart:
		return InDoubt // after a command wrote the file, either a formatter or another author did
	}
	return Unchanged
}

// isFormatted reports whether a formatter that ran during a call may have made the newest change, and no time shows another author.
func (l *Lines) isFormatted() bool { return l.formats && !l.unknown && !l.between }

// IsUnnamed reports whether the file has more than the changes of the tools that name it, because it changed while a command ran that does
// not name it, or while a formatter may have run. Either these made the rest, or another author.
func (l *Lines) IsUnnamed(c Comparison) bool {
	return (l.ran && !l.rewrites || l.isFormatted() && c.Apart) && !l.wrote && c.Fits && !c.Same
}

// AttributesVerdict decides which author changed the file's mode, owner or extended attributes. The tools that name the file change
// only its content, so a time that is not within one of their calls is the time of another author's change, unless a
// command of the turn may have made the change.
func (l *Lines) AttributesVerdict() Verdict {
	switch {
	case l.ran, l.owner != Doubt && !l.between && !l.foreign:
		return Unchanged
	case l.before:
		return InDoubt
	}
	return Split
}

// isExplained reports whether the turn alone can have made a file that differs from what its tools made, although the
// moments before its calls are not known. A formatter may have run after a call, but not before the first one. A
// difference in the same places as the turn's changes is taken for that of a formatter.
func (l *Lines) isExplained(c Comparison) bool {
	switch {
	case !l.Replays || l.ran:
		return true
	case c.Fits:
		return !c.Apart
	}
	return l.before || l.calls > 1
}

// Replay applies the edits of the calls that name a path to the content before the turn. The result is the content
// after the turn if no other author wrote the file. Replay returns false if an edit does not fit.
func (e *Evidence) Replay(path string, before []byte) (after []byte, ok bool) {
	after = before
	for _, m := range e.naming(path) {
		c := &e.Calls[m.call]
		if c.Failed {
			continue
		}
		if seen, known := e.seen(path, c); known && seen.IsZero() {
			after = nil
		}
		for _, edit := range e.edits(path, c) {
			if after, ok = edit.apply(after); !ok {
				return nil, false
			}
		}
	}
	return after, true
}

// Since returns the beginning of the newest call that named a path. From then on, the path has the state that the
// turn's tools gave it. sure is set if that call wrote the content whose hash is present. Then no other author changed
// the path after the call.
func (e *Evidence) Since(path string, present segno.Hash) (since time.Time, sure bool) {
	for _, m := range e.naming(path) {
		c := &e.Calls[m.call]
		since, sure = c.From, !c.Content.IsZero() && c.Content == present
	}
	return since, sure
}
