package workspace

import (
	"path"
	"time"

	"github.com/dalsegno/segno"
)

// The further reasons why [ReadPath] returns a path as protected.
const (
	whyNotFile   = "not a file or a symlink"
	whyMetadata  = "has extended attributes, several names, or setuid or setgid"
	whyRulesEdit = ".segnoignore changed"
	whyLimit     = "larger than is saved after a call"
)

// PathState is the state of one path.
type PathState struct {
	Entity  segno.Entity // the zero Entity if the path does not exist; for a file without the hash
	Content []byte       // of a file
	// Changed is when the path last changed in any way. It is zero if the path does not exist, or if its next change may
	// leave the time as it is.
	Changed time.Time
}

// ReadPath returns the present state of the path rel below root, which is a real path, as a snapshot would save it. A caller
// that has no store uses it to save single files. A path that a snapshot would not save, or that is not a plain file of at
// most limit bytes or a symlink, is returned as protected, without its content. exclude is as in [Options]. Everything is
// protected if the root's .segnoignore changed since the time since, because an agent may have removed a rule, and if
// hadRules is set, which says that there was such a file, and there is none now.
func ReadPath(root, rel string, exclude []string, since time.Time, hadRules bool, limit int64) (out PathState, err error) {
	top, err := openRealDir(root)
	if err != nil {
		return out, err
	}
	defer top.close()
	text, err := top.readFile(ignoreName, maxIgnoreFile)
	if err != nil && !isGone(err) {
		return out, err
	}
	if st, ok, err := top.find(ignoreName); err != nil || ok && st.ctime >= since.UnixNano() || !ok && hadRules {
		return protectedPath(whyRulesEdit), err
	}
	own := (&Dir{root: root}).inTree(exclude)
	r := &diskReader{root: top, rules: newRules(text, reserved{own: own}, nil, newBudget()), guarded: make(map[string]string), listed: make(map[string][]string), exact: make(map[string]bool), listNames: top.foldedNames}
	if why, err := r.guard(dirOf(rel)); err != nil || why != "" {
		return protectedPath(why), err
	}
	dir, err := top.openDir(dirOf(rel))
	if err == nil {
		defer dir.close()
		out, err = r.readIn(dir, rel, limit)
	}
	if isAbsent(err) {
		return PathState{}, nil
	}
	return out, err
}

// readIn is ReadPath for a path in a directory that is not protected.
func (r *diskReader) readIn(dir *dirHandle, rel string, limit int64) (out PathState, err error) {
	st, err := dir.lstat(path.Base(rel))
	if err != nil {
		return out, err
	}
	if exact, err := r.isExact(rel); err != nil || !exact {
		return out, err
	}
	if why := r.protects(dir, rel, &st); why != "" {
		return protectedPath(why), nil
	}
	self, err := r.root.lstat("")
	if err != nil {
		return out, err
	}
	if c := newClock(r.root, self); !c.racy(&st) {
		out.Changed = time.Unix(0, st.ctime).UTC()
	}
	switch {
	case st.is(typeSymlink):
		out.Entity.Type = segno.EntitySymlink
		out.Entity.Target, err = dir.readlink(path.Base(rel))
	case !st.is(typeFile):
		out = protectedPath(whyNotFile)
	case st.size > limit:
		out = protectedPath(whyLimit)
	default:
		err = readPlain(dir, path.Base(rel), &st, &out)
	}
	return out, err
}

func protectedPath(why string) PathState {
	return PathState{Entity: segno.Entity{Type: segno.EntityProtected, Why: why}}
}

// readPlain reads a file whose stat is st. A file that changes meanwhile, or that has more than a content and permission
// bits, becomes protected.
func readPlain(dir *dirHandle, name string, st *stat, out *PathState) error {
	f, err := dir.open(name)
	if isAbsent(err) {
		*out = protectedPath(whyChanging)
		return nil
	}
	if err != nil {
		return err
	}
	defer f.close()
	out.Content = make([]byte, st.size)
	n, err := readFull(f, out.Content)
	if err != nil {
		return err
	}
	xattrs, err := f.xattrs()
	if err != nil {
		return err
	}
	if now, err := f.stat(); err != nil || now != *st || int64(n) != st.size {
		*out = protectedPath(whyChanging)
		return err
	}
	if st.nlink > 1 || st.mode&setIDs != 0 || xattrs != nil {
		*out = protectedPath(whyMetadata)
		return nil
	}
	out.Entity = segno.Entity{Type: segno.EntityFile, Mode: st.perm(), Size: st.size}
	return nil
}
