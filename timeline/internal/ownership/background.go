package ownership

import (
	"path"
	"slices"

	"github.com/dalsegno/segno"
)

// All returns Turn for every change.
func All(segno.Change, Touch) Owner { return Turn }

// InDoubtIfRan returns the owners of changes after a turn's end. The user works then, too, so the fact that a task was
// running does not make a change the task's.
func InDoubtIfRan(of Func) Func {
	return func(c segno.Change, t Touch) Owner {
		if owner := of(c, t); owner != Ran {
			return owner
		}
		return Doubt
	}
}

// Beside returns the owners of changes as seen from the tasks of a turn in the background, while another turn of the
// session runs. A turn that certainly made the change gets it if the other turn is uncertain. If both turns may have
// made it, it is in doubt: for example, each ran a command at that time, and neither command named the path. If only a
// task may have made it, the turn of the task gets it, as a change that the user may have made; unsure collects its
// path.
func Beside(running, background Func, unsure map[string]bool) Func {
	return func(c segno.Change, at Touch) Owner {
		switch mine, theirs := running(c, at), background(c, at); {
		case theirs == Turn && mine != Turn:
			return Turn
		case theirs == Other, theirs != Turn && mine == Turn:
			return Other
		case mine == Other:
			unsure[c.Path] = true
			return Turn
		}
		return Doubt
	}
}

// ForBackground divides the changes since the newest checkpoint of a line for the turn of its oldest checkpoint. certain are
// the turn's. doubtful are the turn's, too, except for paths whose state in the turn's checkpoint is certain. alone is
// set if no other turn runs. The turn then gets the paths in doubt.
func (d *Division) ForBackground(alone bool, unsure map[string]bool) (certain, doubtful []string) {
	if alone {
		return slices.Concat(d.Turn, d.Dirs), d.Doubt
	}
	for _, p := range d.Turn {
		if unsure[p] {
			doubtful = append(doubtful, p)
		} else {
			certain = append(certain, p)
		}
	}
	return certain, doubtful
}

// WithoutChanged returns the paths that changes does not contain, or contains only as directories.
func WithoutChanged(paths []string, changes []segno.Change) []string {
	changed := make(map[string]bool, len(changes))
	for _, c := range changes {
		if c.From.Type != segno.EntityDir && c.To.Type != segno.EntityDir {
			changed[c.Path] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(paths), func(p string) bool { return changed[p] })
}

// WithParents adds the directories above paths that exist after changes.
func WithParents(paths []string, changes []segno.Change) []string {
	gone := map[string]bool{}
	for _, c := range changes {
		gone[c.Path] = c.To.Type != segno.EntityDir
	}
	seen := map[string]bool{}
	for _, p := range paths {
		for d := path.Dir(p); d != "." && !seen[d]; d = path.Dir(d) {
			if seen[d] = true; !gone[d] {
				paths = append(paths, d)
			}
		}
	}
	return paths
}
