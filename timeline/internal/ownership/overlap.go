package ownership

import (
	"slices"
	"time"

	"github.com/dalsegno/segno"
)

// The reasons why a path of a turn that overlapped with a turn of another thread may not be its own.
const (
	whyOnlyShared = "another thread was active, and this turn's tools did not name the path"
	whyNamedToo   = "tools of a concurrent turn of another thread name the path, too"
	whyRanToo     = "a concurrent turn of another thread ran a command, which may have changed the path, too"
)

// Work is what one of two turns that overlapped did, and when.
type Work struct {
	From, To time.Time // the turn worked between these times
	Evidence
	Again   bool            // it continued after its end: its checkpoint was amended later
	Amended bool            // as Again, and the store does not mark it as shared, so paths may be missing in its checkpoint
	Doubt   map[string]bool // paths that it may have changed
	Others  map[string]bool // paths that others changed last; its tools may have changed them before
	Changed map[string]bool // for another turn: paths that changed while both were at work; nil if unknown
}

// WhyContested returns the reason why a path that changed during a shared turn may not be reverted with it, or "". Both
// turns contain the changes made while they overlapped, and no snapshot shows which turn made them. The path belongs to
// this turn only if its own tools name it and those of the other turn do not. A command of the other turn need not name
// its files. The tools of this turn have overwritten its earlier writes. It made no later write if the file still has
// the content that the tools of this turn left, whose hash is left. Changes made while the turn ran alone belong to it.
func (w *Work) WhyContested(rivals []*Work, path string, left segno.Hash) string {
	alone := len(rivals) > 0
	for _, r := range rivals {
		names := r.Named(path)
		if r.Amended { // its checkpoint lacks paths that newer ones changed, too
			names = r.namedBetween(path, w.From, w.To)
		}
		// The checkpoint of a turn that continued after its end lacks the paths that newer checkpoints
		// changed, too.
		namesAgain := r.Again && r.namedBetween(path, w.From, w.To)
		if !r.mayHaveChanged(path) && !(r.Amended && names) && !namesAgain {
			continue
		}
		if alone = false; names {
			return whyNamedToo
		}
		since, sure := w.Since(path, left)
		if w.Named(path) && r.ranBeside(w, since, sure) {
			return whyRanToo
		}
	}
	if !alone && !w.Named(path) {
		return whyOnlyShared
	}
	return ""
}

// ranBeside reports whether the turn ran a command that may have changed any file while the turn own was at work. If
// sure is set, nothing changed the file after since, and commands that began later do not count.
func (w *Work) ranBeside(own *Work, since time.Time, sure bool) bool {
	return slices.ContainsFunc(w.Calls, func(c Call) bool {
		return !c.Confined && (c.Lost || !c.To.Before(own.From)) && !(sure && !c.From.Before(since))
	})
}

// mayHaveChanged reports whether a turn may have changed a path while both were at work.
func (w *Work) mayHaveChanged(path string) bool {
	return w.Changed == nil || w.Changed[path] || w.Doubt[path] || w.Others[path]
}

// Overwritten finds changes of a turn that another author has since overwritten or reverted, so that the newest change
// of the path does not show them.
type Overwritten struct {
	newest map[string]segno.Change // the changes that others made last, by path
	Own    []segno.Change          // the earlier changes that the turn may have made
}

// NewOverwritten returns an Overwritten without states. others are the paths of changes that others changed last.
func NewOverwritten(changes []segno.Change, others []string) *Overwritten {
	o := &Overwritten{newest: make(map[string]segno.Change, len(others))}
	isOther := make(map[string]bool, len(others))
	for _, p := range others {
		isOther[p] = true
	}
	for _, x := range changes {
		if isOther[x.Path] && !IsDirChange(x) {
			o.newest[x.Path] = x
		}
	}
	return o
}

// Add examines the changes from the beginning of the turn to a moment before which it ran a command. Moments are added
// newest first. If the state of a path at that moment differs from its first and its last state, the turn may have made
// the earlier change.
func (o *Overwritten) Add(then []segno.Change) {
	for _, x := range then {
		if now, ok := o.newest[x.Path]; ok && x.To != now.To && !IsDirChange(x) {
			o.Own = append(o.Own, segno.Change{Path: x.Path, From: x.From, To: x.To})
			delete(o.newest, x.Path)
		}
	}
}
