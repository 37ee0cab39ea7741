package workspace

import (
	"path"
	"slices"
	"strings"

	"github.com/dalsegno/segno"
)

// move is a step and what was decided about it.
type move struct {
	segno.Change
	was     present // what stood there when it was judged
	verdict verdict
	why     string // of a conflict
	// stripped says that the path became what To says without setuid and setgid.
	stripped bool
}

type verdict int

const (
	write verdict = iota
	taken         // its To is already there, or is left quietly
	refused
)

// whyStripped is the conflict about a file or directory that is another owner's now.
const whyStripped = "setuid and setgid were not restored: they were not recorded for its present owner"

// lendsTo reports whether the setuid and setgid of e may go to this owner.
func lendsTo(e segno.Entity, uid, gid uint32) bool {
	return e.Owner == segno.Owner{Known: true, UID: uid, GID: gid}
}

// strip returns e without setuid and setgid.
func strip(e segno.Entity) segno.Entity {
	e.Mode, e.Owner = e.Mode&^setIDs, segno.Owner{}
	return e
}

func (m *move) refuse(why string) { m.verdict, m.why = refused, why }

// isContent reports whether e has a content of its own to write.
func isContent(e segno.Entity) bool {
	return e.Type == segno.EntityFile || e.Type == segno.EntityHardLink
}

// equal compares entities. A hard link and a file of the same content are equal
// here: which names share an inode is looked at when links are made.
func equal(a, b segno.Entity) bool {
	if isContent(a) && isContent(b) {
		a.Type, a.Target, b.Type, b.Target = "", "", "", ""
	}
	return !differ(a, b)
}

// judge decides about one step from what stands at its path.
func (a *apply) judge(m *move) error {
	now, err := a.eyes.look(m.Path)
	if err != nil {
		if isDenied(err) {
			m.refuse("it cannot be read: " + cause(err))
			return nil
		}
		return pathError("look at", m.Path, err)
	}
	m.was = now
	none := now.Type == segno.EntityNone
	switch {
	case m.From.Type == segno.EntityProtected && (m.To.Type == segno.EntityProtected || m.To.Type == segno.EntityNone):
		m.verdict = taken // never touched, and nothing lost
	case now.Type == segno.EntityProtected && m.To.Type == segno.EntityProtected:
		m.verdict = taken
	case now.Type == segno.EntityProtected:
		m.refuse("it is protected: " + now.Why)
	case equal(now.Entity, m.To):
		shared, err := a.shared(m)
		if err != nil {
			return err
		}
		if !shared {
			m.verdict = taken
		}
	case m.To.Type == segno.EntityProtected:
		m.refuse("it was not stored: " + m.To.Why)
	case m.To.Mode&setIDs != 0 && equal(now.Entity, strip(m.To)) && !lendsTo(m.To, now.uid, now.gid):
		m.refuse(whyStripped)
	case equal(now.Entity, m.From) || halfway(now.Entity, m.From, m.To):
		m.verdict = write
	case none:
		m.refuse("it was deleted since")
	case m.From.Type == segno.EntityNone:
		m.refuse("it was created since")
	default:
		m.refuse("it was changed since")
	}
	return nil
}

// shared reports whether what stands at m's path, though equal to its To, is still
// the same file as the name it is to part from.
func (a *apply) shared(m *move) (bool, error) {
	if m.From.Type != segno.EntityHardLink || m.To.Type != segno.EntityFile || m.was.st.nlink < 2 {
		return false, nil
	}
	first, ok, err := a.eyes.stat(m.From.Target)
	if err != nil {
		return false, pathError("look at", m.From.Target, err)
	}
	return ok && first.same(&m.was.st), nil
}

// halfway reports whether now is what an Apply that was broken off leaves between
// from and to. None of these states holds anything that could be lost.
func halfway(now, from, to segno.Entity) bool {
	dir, none := segno.EntityDir, segno.EntityNone
	switch {
	case now.Type == none:
		return from.Type != none && to.Type != none && (from.Type == dir) != (to.Type == dir)
	case now.Type != dir || to.Type != dir && from.Type != dir:
		return false
	case from.Type != dir:
		return true // made, and its mode not yet set
	}
	if now.Mode != from.Mode && now.Mode != from.Mode|ownerBits && (to.Type != dir || now.Mode != to.Mode && now.Mode != to.Mode|ownerBits) {
		return false
	}
	return now.Xattrs == from.Xattrs || to.Type == dir && now.Xattrs == to.Xattrs
}

// ownerBits are the permissions a directory needs to be written in.
const ownerBits = 0o700

// consider looks at the steps together: what is made needs a directory to stand in.
func (a *apply) consider() error {
	for _, m := range a.moves { // in the order of paths, so that parents come first
		if m.verdict != write || m.To.Type == segno.EntityNone {
			continue
		}
		why, err := a.standing(path.Dir(m.Path))
		if err != nil {
			return err
		}
		if why != "" {
			m.refuse(why)
		}
	}
	return nil
}

// standing returns why dir will not be a directory, or "".
func (a *apply) standing(dir string) (string, error) {
	if dir == "." {
		return "", nil
	}
	if m := a.byPath[dir]; m != nil && m.verdict != refused {
		if m.To.Type == segno.EntityDir {
			return "", nil
		}
		if m.was.Type != segno.EntityProtected {
			return dir + " is not to be a directory", nil
		}
	}
	now, err := a.eyes.look(dir)
	if err != nil {
		return "", pathError("look at", dir, err)
	}
	switch now.Type {
	case segno.EntityDir:
		return "", nil
	case segno.EntityNone:
		return a.standing(path.Dir(dir)) // to be made
	case segno.EntityProtected:
		return dir + " is protected: " + now.Why, nil
	}
	return dir + " is a " + string(now.Type), nil
}

func knownTypes() []segno.EntityType {
	return []segno.EntityType{segno.EntityNone, segno.EntityFile, segno.EntityDir, segno.EntitySymlink,
		segno.EntityHardLink, segno.EntityProtected}
}

// plan makes moves of steps, in the order of their paths.
func plan(steps []segno.Change) ([]*move, error) {
	out := make([]*move, len(steps))
	for i, s := range steps {
		out[i] = &move{Change: s}
	}
	slices.SortFunc(out, func(a, b *move) int { return strings.Compare(a.Path, b.Path) })
	for i, m := range out {
		switch {
		case !validPath(m.Path):
			return nil, invalidStep(m.Path, "the path is not one inside the tree")
		case i > 0 && out[i-1].Path == m.Path:
			return nil, invalidStep(m.Path, "there are two steps for it")
		case !slices.Contains(knownTypes(), m.To.Type),
			isContent(m.To) && (m.To.Hash.IsZero() || m.To.Mode > permMask),
			m.To.Type == segno.EntityHardLink && !validPath(m.To.Target),
			m.To.Type == segno.EntitySymlink && m.To.Target == "",
			m.To.Type == segno.EntityDir && m.To.Mode > permMask:
			return nil, invalidStep(m.Path, "what it is to become is incomplete")
		}
	}
	return out, nil
}
