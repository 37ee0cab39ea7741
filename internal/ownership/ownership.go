// Package ownership decides whose a change of a file is: a turn's of an agent, or another author's,
// such as the user, who works in the same directory meanwhile. It does no I/O.
//
// A change belongs to a turn only if a tool of the turn named the path, or if a call that can write
// anything was running when it happened: a command, a call of an MCP server or an unknown tool, a
// background task, or a process that a command left behind. The calls have times, which hooks or the
// proxy recorded. The time of a change is the ctime of the file, or of its directory for a path that is
// gone. No program can set a ctime, but it shows only the newest change.
//
// If the calls of a turn are not known, the whole turn counts as one command; see [Evidence.Whole].
package ownership

import (
	"slices"
	"time"

	"github.com/dalsegno/segno"
)

// Grain is how far the clock of a file system may be behind that of a process: the kernel takes the
// time for a file at its tick.
const Grain = 10 * time.Millisecond

// Owner is the author of a change, as seen from one turn.
type Owner uint8

// The owners.
const (
	Turn  Owner = iota // the turn: one of its tools named the path
	Ran                // the turn: a call that can write anything was running
	Doubt              // the turn, or another author, or both
	Other              // not the turn
)

// Touch is what the file system shows of the newest change of a path. A watcher that knows the process
// that wrote it would add that here.
type Touch struct {
	At time.Time
	// Moved is set if a directory above the path was renamed since: the path had another name then.
	Moved bool
}

// Func returns the owner of a change. [Evidence.Owner] is one.
type Func func(change segno.Change, t Touch) Owner

// Evidence is what is known about a turn.
type Evidence struct {
	Calls []Call
	Start time.Time // the turn was not at work before; zero if that is not known
	End   time.Time // it was at work until then; zero if only the calls matter
	Exact bool      // and not longer
	// Whole is set if the calls or their times are not known. A change until End is then the turn's, and
	// a later one is in doubt.
	Whole bool
	Root  string // of the workspace

	index *index // of the calls, once it is needed
}

// Owner returns the owner of a change.
func (e *Evidence) Owner(change segno.Change, t Touch) Owner {
	if t.At.IsZero() {
		return Doubt
	}
	owner := Other
	if e.Whole {
		sure := e.End
		if e.Exact {
			sure = sure.Add(-Grain) // a change of another author may have an older time than its own
		}
		if !t.At.After(sure) {
			return Turn
		}
		owner = Doubt
	}
	naming := e.naming(change.Path)
	for i := range e.Calls {
		names := len(naming) > 0 && naming[0] == i
		if names {
			naming = naming[1:]
		}
		owner = min(owner, e.Calls[i].owner(change, t, names, e.End))
	}
	return owner
}

// owner returns the owner of a change as one call of the turn shows it. names is set if the call names
// the path. The turn was at work until end.
func (c *Call) owner(change segno.Change, t Touch, names bool, end time.Time) Owner {
	touched := t.At
	if touched.Before(c.From.Add(-Grain)) {
		return c.ownerBefore(change, names)
	}
	gone := change.To.Type == segno.EntityNone
	running := c.Lost || !touched.After(c.To)
	sure := running && !(c.Lost && touched.After(end)) // the call may have ended with the turn
	names = names || t.Moved && c.Confined && sure     // it may have named the path as it was
	if !names || gone && c.keeps() {
		switch {
		case c.Confined:
			return Other
		case sure:
			return Ran
		case running, gone:
			// A path that is gone has the time of its directory, which may have changed since the
			// call removed the path.
			return Doubt
		}
		return Other
	}
	switch {
	case !c.Content.IsZero() && c.Content == change.To.Hash:
		return Turn // the file has the content that the tool wrote
	case sure, !gone && !touched.After(c.Next), gone && c.deletes():
		return Turn
	case c.Failed && c.Confined:
		return Other
	}
	return Doubt
}

// ownerBefore is owner for a change from before the call began, as far as the record shows. A tool that has written a file
// leaves a time within its call, so that an older time shows that the agent's message was late.
func (c *Call) ownerBefore(change segno.Change, names bool) Owner {
	switch {
	case !c.Late || !names || !c.keeps() || c.Failed || c.Lost || change.To.Type == segno.EntityNone:
		return Other
	case !c.Content.IsZero() && c.Content == change.To.Hash:
		return Turn
	}
	return Doubt
}

// naming returns the calls that name a path or a directory above it, as a path that they may write.
func (e *Evidence) naming(path string) []int {
	if e.index == nil {
		e.index = newIndex(e.Calls, e.Root)
	}
	return e.index.naming(path)
}

// Named reports whether a call of the turn named a path.
func (e *Evidence) Named(path string) bool { return len(e.naming(path)) > 0 }

// NamedBetween reports whether a call that worked between two times named a path.
func (e *Evidence) NamedBetween(path string, from, to time.Time) bool {
	return slices.ContainsFunc(e.naming(path), func(i int) bool {
		c := &e.Calls[i]
		return !c.From.After(to) && (c.Lost || !c.To.Before(from))
	})
}

// RanBefore reports whether a call that can write anything began before a time.
func (e *Evidence) RanBefore(at time.Time) bool {
	return slices.ContainsFunc(e.Calls, func(c Call) bool { return !c.Confined && !c.From.Add(-Grain).After(at) })
}
