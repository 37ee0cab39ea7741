// Package ownership decides which author made a change of a file: a turn of an agent, or another
// author who works in the same directory at the same time, such as the user. It does no I/O.
//
// A change belongs to a turn only if a tool of the turn named the path, or if a call that can write anything was
// running at that time. Such a call is a command, a call of an MCP server or an unknown tool, a background task, or a
// process that a command left behind. Hooks or the proxy record the times of the calls. The time of a change is the
// ctime of the file, or the ctime of its directory if the path was deleted. No program can set a ctime, but a ctime
// shows only the newest change.
//
// If the calls of a turn are not known, the whole turn counts as one command; see [Evidence.Whole].
package ownership

import (
	"slices"
	"time"

	"github.com/dalsegno/segno"
)

// grain is the longest time by which a file system's clock may be behind the clock of a process.
// The kernel updates the time that it gives to files only at its ticks.
const grain = 10 * time.Millisecond

// coarsest is the coarsest resolution of a file system that stores whole seconds.
const coarsest = 2 * time.Second

// latest returns the latest time, on the clock of a process, of a change to which a file system gave a time. A time
// without a fraction of a second comes from a file system that stores none.
func latest(at time.Time) time.Time {
	if at.Nanosecond() == 0 {
		at = at.Add(coarsest)
	}
	return at.Add(grain)
}

// Owner is the author of a change, as seen from one turn.
type Owner uint8

const (
	Turn  Owner = iota // the turn: one of its tools named the path
	Ran                // the turn: a call that can write anything was running
	Doubt              // the turn, or another author, or both
	Other              // another author
)

// Touch has the facts that the file system shows about the newest change of a path. A watcher that knows the writing
// process would add it here.
type Touch struct {
	At time.Time
	// Moved is set if a directory above the path was renamed later. The path had another name at
	// the time of the change.
	Moved bool
}

// Func returns the owner of a change, as [Evidence.Owner] does.
type Func func(change segno.Change, t Touch) Owner

// Evidence has the known facts about a turn.
type Evidence struct {
	Calls []Call
	Start time.Time // the turn did nothing before this time; zero if it is not known
	End   time.Time // the turn worked until then; zero if only the times of the calls matter
	Exact bool      // the turn did nothing after End
	// Whole is set if the calls or their times are not known. A change until End then belongs to the turn, and a later
	// change is in doubt.
	Whole bool
	Root  string // root of the workspace

	index *index // index of the calls, made when it is first needed
}

// Owner returns the owner of a change, according to all calls of the turn.
func (e *Evidence) Owner(change segno.Change, t Touch) Owner {
	if t.At.IsZero() {
		return Doubt
	}
	owner := Other
	if e.Whole {
		at := t.At
		if e.Exact {
			at = latest(at)
		}
		if !at.After(e.End) {
			return Turn
		}
		owner = Doubt
	}
	naming := e.naming(change.Path)
	for i := range e.Calls {
		names, above := false, false
		if len(naming) > 0 && naming[0].call == i {
			names, above = true, naming[0].above
			naming = naming[1:]
		}
		owner = min(owner, e.Calls[i].owner(change, t, names, above, e.End))
	}
	return owner
}

// owner returns the owner of a change if only one call of the turn is considered. names is set if the call names the
// path, and above if it names only a directory above it. The turn worked until end.
func (c *Call) owner(change segno.Change, t Touch, names, above bool, end time.Time) Owner {
	touched := t.At
	if latest(touched).Before(c.From) {
		return c.ownerBefore(change, names)
	}
	gone := change.To.Type == segno.EntityNone
	running := c.Lost || !touched.After(c.To)
	if c.Orphaned {
		end = c.To
	}
	sure := running && !(c.Lost && touched.After(end)) // the call may have ended with the turn, or with the agent
	if c.keeps() && (above || isDirOrSymlink(change.To)) {
		names = false // the tool writes a file, so another author put a directory or a symlink in its place
	}
	names = names || t.Moved && c.Confined && sure // it may have used the path's old name
	if above && !c.Confined && !sure && !(gone && c.deletes()) {
		names = false // a command that lists or tests a directory writes few files below it
	}
	switch {
	case names && !(gone && c.keeps()):
		return c.ownerOfNamed(change, touched, sure)
	case c.Confined:
		return Other
	case sure:
		return Ran
	case running, gone:
		// The time of a deleted path is that of its directory, which may have changed after the
		// call deleted the path.
		return Doubt
	}
	return Other
}

func isDirOrSymlink(e segno.Entity) bool {
	return e.Type == segno.EntityDir || e.Type == segno.EntitySymlink
}

// ownerOfNamed returns the owner of a change to a path that the call names, if the path changed after the call had
// begun. sure is set if the call certainly ran at that time.
func (c *Call) ownerOfNamed(change segno.Change, touched time.Time, sure bool) Owner {
	gone := change.To.Type == segno.EntityNone
	switch {
	case !c.Content.IsZero() && c.Content == change.To.Hash:
		return Turn // the file has the content that the tool wrote
	case sure, gone && c.deletes():
		return Turn
	case !c.Confined:
		return Doubt
	case c.Failed:
		return Other
	case !gone && !touched.After(c.Next): // a formatter, which runs on the files that a tool wrote
		return Turn
	}
	return Doubt
}

// ownerBefore returns the owner of a change that is older than the call, according to the record. A tool that wrote a file leaves a time
// within its call, so an older time means that the agent's message was late.
func (c *Call) ownerBefore(change segno.Change, names bool) Owner {
	switch {
	case !c.Late || !names || !c.keeps() || c.Failed || c.Lost || change.To.Type == segno.EntityNone:
		return Other
	case !c.Content.IsZero() && c.Content == change.To.Hash:
		return Turn
	}
	return Doubt
}

// naming returns the calls that may write a path, because they name it or a directory above it.
func (e *Evidence) naming(path string) []mention {
	if e.index == nil {
		e.index = newIndex(e.Calls, e.Root)
	}
	return e.index.naming(path)
}

// Named reports whether a call of the turn named a path.
func (e *Evidence) Named(path string) bool { return len(e.naming(path)) > 0 }

// NamesChange reports whether a call of the turn named the path of a change. A command that names a directory above the
// path counts only if it deletes: one that lists or tests the directory says nothing about the files below it.
func (e *Evidence) NamesChange(x segno.Change) bool {
	return slices.ContainsFunc(e.naming(x.Path), func(m mention) bool { return e.Calls[m.call].namesChange(x, m) })
}

// NamesChangeBetween is NamesChange for the calls that worked between two times.
func (e *Evidence) NamesChangeBetween(x segno.Change, from, to time.Time) bool {
	return slices.ContainsFunc(e.naming(x.Path), func(m mention) bool {
		c := &e.Calls[m.call]
		return c.worksBetween(from, to) && c.namesChange(x, m)
	})
}

func (c *Call) namesChange(x segno.Change, m mention) bool {
	return !m.above || c.Confined || x.To.Type == segno.EntityNone && c.deletes()
}

func (c *Call) worksBetween(from, to time.Time) bool {
	return !c.From.After(to) && (c.Lost || !c.To.Before(from))
}

// namedBetween reports whether a call that worked between two times named a path.
func (e *Evidence) namedBetween(path string, from, to time.Time) bool {
	return slices.ContainsFunc(e.naming(path), func(m mention) bool { return e.Calls[m.call].worksBetween(from, to) })
}
