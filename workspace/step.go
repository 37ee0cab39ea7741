package workspace

import (
	"path"
	"slices"
	"strings"

	"github.com/dalsegno/segno"
)

// step is one change to make and the decision about it.
type step struct {
	segno.Change
	found   present // the state of the path when the decision was made
	wrote   stat    // of the file that the step wrote; zero if it wrote none. A rename changes its ctime later
	verdict verdict
	why     string // the reason of a conflict
	// stripped is set if the path has the state To, but without setuid and setgid.
	stripped bool
}

// verdict is the decision about a step.
type verdict int

const (
	verdictWrite  verdict = iota
	verdictSkip           // the path has the state To, or must stay but is not a conflict
	verdictRefuse         // the path stays, and is a conflict
)

// whyStripped is the conflict at a file or directory that now belongs to another owner.
const whyStripped = "setuid and setgid were not restored: they were not recorded for its present owner"

// lendsTo reports whether the setuid and setgid of e may be set on the file with stat st: the
// snapshot must have recorded the owner of that file.
func lendsTo(e segno.Entity, st *stat) bool {
	return e.Owner == segno.Owner{Known: true, UID: st.uid, GID: st.gid}
}

// strip returns e without setuid and setgid.
func strip(e segno.Entity) segno.Entity {
	e.Mode, e.Owner = e.Mode&^setIDs, segno.Owner{}
	return e
}

func (s *step) refuse(why string) { s.verdict, s.why = verdictRefuse, why }

// equal compares entities. It treats a hard link and a file with the same content as equal.
// Which names share an inode matters only when links are made.
func equal(a, b segno.Entity) bool {
	if a.HasContent() && b.HasContent() {
		a.Type, a.Target, b.Type, b.Target = "", "", "", ""
	}
	return !differ(a, b)
}

// decide decides about one step from the present state of its path.
func (a *apply) decide(s *step) error {
	now, err := a.reader.look(s.Path)
	if isDenied(err) {
		s.refuse("it cannot be read: " + cause(err))
		return nil
	}
	if err != nil {
		return pathError("inspect", s.Path, err)
	}
	s.found = now
	switch {
	case s.decideProtected():
	case equal(now.Entity, s.To):
		shared, err := a.isStillLinked(s)
		if err == nil && !shared {
			s.verdict = verdictSkip
		}
		return err
	case s.To.Mode&setIDs != 0 && equal(now.Entity, strip(s.To)) && !lendsTo(s.To, &now.st):
		s.refuse(whyStripped)
	case equal(now.Entity, s.From) || isHalfway(now.Entity, s.From, s.To):
		s.verdict = verdictWrite
	case now.Type == segno.EntityNone:
		s.refuse("it was deleted since")
	case s.From.Type == segno.EntityNone:
		s.refuse("it was created since")
	default:
		s.refuse("it was changed since")
	}
	return nil
}

// decideProtected decides about a step that starts from, leads to or finds a protected entity,
// and returns false for any other step. Such a path is never written.
func (s *step) decideProtected() bool {
	const protected = segno.EntityProtected
	switch {
	case s.From.Type == protected && s.To.Type == segno.EntityNone,
		s.To.Type == protected && (s.From.Type == protected || s.found.Type == protected):
		s.verdict = verdictSkip // the step would lose nothing
	case s.found.Type == protected:
		s.refuse("it is protected: " + s.found.Why)
	case s.To.Type == protected:
		s.refuse("it was not stored: " + s.To.Why)
	case s.writesGit():
		s.refuse("it is protected: " + whyGit)
	default:
		return false
	}
	return true
}

// writesGit reports whether a step would write into a git directory, or make one. No snapshot contains that, but a tree from
// another machine may be forged: git would obey its configuration and its hooks. A snapshot contains the .git file of a
// submodule or worktree.
func (s *step) writesGit() bool {
	return s.To.Type != segno.EntityNone && (strings.Contains("/"+s.Path, "/"+gitName+"/") || isGitPath(s.Path) && !s.To.HasContent())
}

// isStillLinked reports whether the file at s's path, though equal to its To, is still the same
// file as the name from which it must be separated.
func (a *apply) isStillLinked(s *step) (bool, error) {
	if s.From.Type != segno.EntityHardLink || s.To.Type != segno.EntityFile || s.found.st.nlink < 2 {
		return false, nil
	}
	first, ok, err := a.reader.root.find(s.From.Target)
	if err != nil {
		return false, pathError("inspect", s.From.Target, err)
	}
	return ok && first.isSameFile(&s.found.st), nil
}

// isHalfway reports whether now is a state that an interrupted Apply leaves between from and
// to. None of these states contains data that could be lost.
func isHalfway(now, from, to segno.Entity) bool {
	dir, none := segno.EntityDir, segno.EntityNone
	switch {
	case now.Type == none:
		return from.Type != none && to.Type != none && (from.Type == dir) != (to.Type == dir)
	case now.Type != dir || to.Type != dir && from.Type != dir:
		return false
	case from.Type != dir:
		return true // made, but its mode was not set yet
	}
	isMode := func(e segno.Entity) bool { return now.Mode == e.Mode || now.Mode == e.Mode|ownerBits }
	if !isMode(from) && (to.Type != dir || !isMode(to)) {
		return false
	}
	return now.Xattrs == from.Xattrs || to.Type == dir && now.Xattrs == to.Xattrs
}

// ownerBits are the permissions that a directory needs so that its owner can write in it.
const ownerBits = 0o700

// checkParents refuses the steps whose path will not have a parent directory.
func (a *apply) checkParents() error {
	for _, s := range a.steps { // in the order of paths, so that parents come first
		if s.verdict != verdictWrite || s.To.Type == segno.EntityNone {
			continue
		}
		why, err := a.whyNoDir(dirOf(s.Path))
		if err != nil {
			return err
		}
		if why != "" {
			s.refuse(why)
		}
	}
	return nil
}

// whyNoDir returns why dir will not be a directory, or "".
func (a *apply) whyNoDir(dir string) (string, error) {
	if dir == "" {
		return "", nil
	}
	if s := a.byPath[dir]; s != nil && s.verdict != verdictRefuse {
		if s.To.Type == segno.EntityDir {
			return "", nil
		}
		if s.found.Type != segno.EntityProtected {
			return dir + " will not be a directory", nil
		}
	}
	now, err := a.reader.look(dir)
	if err != nil {
		return "", pathError("inspect", dir, err)
	}
	switch now.Type {
	case segno.EntityDir:
		return "", nil
	case segno.EntityNone:
		return a.whyNoDir(dirOf(dir)) // it will be made
	case segno.EntityProtected:
		return dir + " is protected: " + now.Why, nil
	}
	return dir + " is a " + string(now.Type), nil
}

// newSteps returns the steps for changes, sorted by path.
func newSteps(changes []segno.Change) ([]*step, error) {
	out := make([]*step, len(changes))
	for i, c := range changes {
		out[i] = &step{Change: c}
	}
	slices.SortFunc(out, func(a, b *step) int { return strings.Compare(a.Path, b.Path) })
	for i, s := range out {
		why := ""
		switch {
		case !validPath(s.Path):
			why = "the path is not inside the tree"
		case i > 0 && out[i-1].Path == s.Path:
			why = "the plan has two steps for this path"
		case !isComplete(s.To):
			why = "its target state is incomplete"
		}
		if why != "" {
			return nil, segno.Errorf(segno.KindInvalid, "restore", s.Path, "%s", why)
		}
	}
	return out, nil
}

// isComplete reports whether e has all data needed to write it.
func isComplete(e segno.Entity) bool {
	switch e.Type {
	case segno.EntityNone, segno.EntityProtected:
		return true
	case segno.EntitySymlink:
		return e.Target != ""
	case segno.EntityDir:
		return e.Mode <= permMask
	case segno.EntityFile, segno.EntityHardLink:
		return !e.Hash.IsZero() && e.Mode <= permMask && (e.Type == segno.EntityFile || validPath(e.Target))
	}
	return false
}

// dirOf returns the directory of a path, or "" for the root.
func dirOf(p string) string {
	if dir := path.Dir(p); dir != "." {
		return dir
	}
	return ""
}
