package ownership

import (
	"path"
	"slices"
	"strings"
	"time"

	"github.com/dalsegno/segno"
)

// Division groups the paths of changes by owner.
type Division struct {
	Turn   []string // changed by the turn, or while one of its commands ran
	Others []string // changed by another author
	Doubt  []string // the author is not known
	// Unnamed has those of the turn that changed while a command ran, in another way than the tools that name them show.
	Unnamed []string
	Dirs    []string // directories in doubt, except those that got the owner of their contents
}

// Times has the ctime of each changed path and of each directory above it. The root of the
// workspace is ".".
type Times map[string]time.Time

// ClocksDiffer reports whether the times of files and the times of the turn come from different clocks. It returns true
// if a path that changed during the turn has a time before the beginning of the turn, after now, or before the call
// that wrote the path.
func (e *Evidence) ClocksDiffer(changes []segno.Change, times Times, now time.Time) bool {
	for _, x := range changes {
		touched := times[x.Path]
		if touched.IsZero() {
			continue
		}
		if since, wrote := e.Since(x.Path, x.To.Hash); wrote && latest(touched).Before(since) {
			return true
		}
		newest := touched
		for dir := path.Dir(x.Path); ; dir = path.Dir(dir) {
			if times[dir].After(newest) {
				newest = times[dir]
			}
			if dir == "." {
				break
			}
		}
		if latest(newest).Before(e.Start) || touched.After(now.Add(grain)) {
			return true
		}
	}
	return false
}

// isTurn reports whether a change belongs to the turn.
func isTurn(o Owner) bool { return o == Turn || o == Ran }

// changeTime returns the latest time at which a rename of a directory above p may have moved p, or
// zero. A rename changes the time of the directory and that of its parent, but not the times of its
// contents. It considers only directories for which counts returns true.
func changeTime(p string, times Times, counts func(dir string) bool) (at time.Time) {
	for dir := path.Dir(p); dir != "."; dir = path.Dir(dir) {
		renamed := times[dir]
		if parent := times[path.Dir(dir)]; parent.Before(renamed) {
			renamed = parent
		}
		if counts(dir) && renamed.After(at) {
			at = renamed
		}
	}
	return at
}

// ownerAmong returns the owner of a change. It uses the time of the path and the times of the
// directories above it, because the user may have renamed such a directory after the turn. changed
// holds all changes by path. start is when the turn began, or zero.
func ownerAmong(x segno.Change, changed map[string]segno.Change, times Times, start time.Time, of Func) Owner {
	touched := times[x.Path]
	if !start.IsZero() && !touched.IsZero() && latest(touched).Before(start) {
		// The path is older than the turn, so a rename of a directory above it moved it.
		at := changeTime(x.Path, times, func(string) bool { return true })
		if latest(at).Before(start) {
			return Doubt
		}
		return of(x, Touch{At: at})
	}
	if x.To.Type == segno.EntityNone {
		return of(x, Touch{At: touched})
	}
	at := changeTime(x.Path, times, func(dir string) bool {
		c, ok := changed[dir]
		return ok && c.From.Type != segno.EntityDir && c.To.Type == segno.EntityDir
	})
	first := of(x, Touch{At: touched, Moved: at.After(touched)})
	if then := of(x, Touch{At: at}); !at.After(touched) || then == first || isTurn(then) && isTurn(first) {
		return first
	}
	return Doubt // either author may have moved a file of the other
}

// Divide decides the owner of each change. start is when the turn began, or zero.
func Divide(changes []segno.Change, times Times, start time.Time, of Func) (d Division) {
	own := make(map[string]Owner, len(changes))
	changed := make(map[string]segno.Change, len(changes))
	for _, x := range changes {
		changed[x.Path] = x
	}
	for _, x := range changes {
		own[x.Path] = ownerAmong(x, changed, times, start, of)
	}
	// A directory gets the owner of its contents, and all names of a file get the same owner.
	for i, x := range slices.Backward(changes) {
		if x.From.Type == segno.EntityHardLink || x.To.Type == segno.EntityHardLink {
			assignLink(x, own)
		} else if IsDirChange(x) {
			assignDir(x, changes[i+1:], own)
		}
	}
	for _, x := range changes {
		assignParents(x, changed, own)
	}
	for _, x := range changes {
		list := &d.Doubt
		switch own[x.Path] {
		case Turn, Ran:
			list = &d.Turn
		case Other:
			list = &d.Others
		case Doubt:
			if IsDirChange(x) {
				list = &d.Dirs
			}
		}
		*list = append(*list, x.Path)
	}
	return d
}

// IsDirChange reports whether a path is or was a directory.
func IsDirChange(x segno.Change) bool {
	return x.From.Type == segno.EntityDir || x.To.Type == segno.EntityDir
}

// assignLink gives a name of a file the same owner as the first name of the file.
func assignLink(x segno.Change, own map[string]Owner) {
	target := x.From.Target
	if x.From.Type != segno.EntityHardLink {
		target = x.To.Target
	}
	if first, changed := own[target]; changed && first != own[x.Path] && !(isTurn(first) && isTurn(own[x.Path])) {
		own[target], own[x.Path] = Doubt, Doubt
	} else if !changed && own[x.Path] == Other {
		own[x.Path] = Doubt
	}
}

// assignDir gives a directory the owner of the paths below it. after has the changes that sort
// after it, whose owners are already known.
func assignDir(x segno.Change, after []segno.Change, own map[string]Owner) {
	below, others := 0, 0
	for _, y := range after {
		if y.Path > x.Path+"0" { // '0' is the byte after '/'
			break
		}
		if strings.HasPrefix(y.Path, x.Path+"/") {
			if below++; own[y.Path] == Other {
				others++
			}
		}
	}
	switch isNewOrGone := x.From.Type == segno.EntityNone || x.To.Type == segno.EntityNone; {
	case below == 0:
	case isNewOrGone && others == below:
		own[x.Path] = Other
	case isNewOrGone:
		own[x.Path] = Turn
	case x.From.Type != x.To.Type && (others < below || own[x.Path] != Other):
		own[x.Path] = Doubt // a file replaced a directory, or the other way round
	}
}

// assignParents makes the owners of a path and the directories above it consistent. Nothing can be
// restored below a file, and the contents of another author's directory belong to that author. A
// change of a directory that existed before and still does concerns its attributes, and decides
// nothing about its contents.
func assignParents(x segno.Change, changes map[string]segno.Change, own map[string]Owner) {
	for dir := path.Dir(x.Path); dir != "."; dir = path.Dir(dir) {
		above, changed := own[dir]
		if c := changes[dir]; !changed || c.From.Type == segno.EntityDir && c.To.Type == segno.EntityDir {
			continue
		}
		if x.From.Type != segno.EntityNone && x.To.Type == segno.EntityNone && own[x.Path] == Other && above != Other {
			own[dir] = Other // restoring the contents also restores the directory
		}
		if x.To.Type != segno.EntityNone && own[x.Path] != Other && above == Other {
			own[x.Path] = Other
		}
	}
}
