package workspace

import (
	"crypto/sha256"
	"fmt"
	"io"
	"path"
	"slices"

	"github.com/dalsegno/segno"
)

// present is the state of a path right now.
type present struct {
	segno.Entity
	st      stat // zero if there is nothing
	suspect bool // its content may change while its stat stays
}

// treeReader finds out the present state of paths. It reads every file: a file that is about
// to be replaced is never judged by the index.
type treeReader struct {
	root    *dirHandle
	rules   *rules
	budget  budget
	clock   clock
	index   *node             // has which large files git ignores; may be nil
	guarded map[string]string // directory → why it, or one above it, is protected
	// listNames, if not nil, lists a directory of a file system on which a lookup may find an
	// entry by another spelling of its name.
	listNames func(dir string) ([]string, error)
	listed    map[string][]string // directory → its names
}

// look returns the entity at path p, a file with the hash of its content.
func (r *treeReader) look(p string) (present, error) {
	why, err := r.guard(dirOf(p))
	if err != nil || why != "" {
		return present{Entity: segno.Entity{Type: segno.EntityProtected, Why: why}}, err
	}
	dir, err := r.root.openDir(dirOf(p))
	if err != nil {
		if isAbsent(err) {
			err = nil
		}
		return present{}, err
	}
	defer dir.close()
	name := path.Base(p)
	st, exists, err := dir.find(name)
	if err != nil || !exists {
		return present{}, err
	}
	if exact, err := r.isExact(p); err != nil || !exact {
		return present{}, err
	}
	out := present{st: st}
	if why := r.protects(dir, p, &out.st); why != "" {
		out.Entity = segno.Entity{Type: segno.EntityProtected, Why: why}
		return out, nil
	}
	switch out.st.mode & typeMask {
	case typeSymlink:
		target, err := dir.readlink(name)
		out.Entity = segno.Entity{Type: segno.EntitySymlink, Target: target}
		return out, err
	case typeDir:
		xattrs, err := dirXattrs(dir, name)
		out.Entity = segno.Entity{Type: segno.EntityDir, Mode: out.st.perm(), Xattrs: xattrs, Owner: out.st.owner()}
		return out, err
	}
	return out, r.hashFile(dir, name, &out)
}

// protects returns why p, which is in dir, is protected, or "".
func (r *treeReader) protects(dir *dirHandle, p string, st *stat) string {
	in, name, isDir := dirOf(p), path.Base(p), st.is(typeDir)
	if isDir {
		if why := r.budget.tooDeep(in, name); why != "" {
			return why
		}
	}
	if why := special(st); why != "" {
		return why
	}
	if why, _ := r.rules.protects(in, name, isDir, dir); why != "" {
		return why
	}
	if isDir && r.rules.isCache(dir, name, p) && !r.rules.holdsCache(p) {
		return whyCache
	}
	if r.index != nil {
		if e := r.index.lookup(p); e != nil && e.kind == kindProtected && (e.note == whyLargeIgnore || e.note == whyBudget) && e.st == *st {
			return e.note
		}
	}
	return ""
}

// guard returns why nothing below dir may be touched, or "".
func (r *treeReader) guard(dir string) (why string, err error) {
	if dir == "" {
		return "", nil
	}
	if why, ok := r.guarded[dir]; ok {
		return why, nil
	}
	if why, err = r.guard(dirOf(dir)); why == "" && err == nil {
		why, err = r.guardOne(dir)
	}
	if err == nil {
		r.guarded[dir] = why
	}
	return why, err
}

// guardOne is guard without the directories above.
func (r *treeReader) guardOne(dir string) (string, error) {
	up, err := r.root.openDir(dirOf(dir))
	if err != nil {
		if isAbsent(err) {
			err = nil
		}
		return "", err
	}
	defer up.close()
	if st, err := up.lstat(path.Base(dir)); err == nil && st.is(typeDir) {
		if why := r.protects(up, dir, &st); why != "" {
			return fmt.Sprintf("%s is protected: %s", dir, why), nil
		}
	}
	return "", nil
}

// forget drops all knowledge about protection and names, because a file that was written may be a
// marker.
func (r *treeReader) forget() {
	clear(r.guarded)
	clear(r.listed)
}

// isExact reports whether the components of p are spelled as in their directories. A file
// system that ignores case finds README also as readme, and one that normalises Unicode finds
// é in both forms. If a step renames readme to README, README must count as absent: it would
// seem to be written already, and the removal of readme would remove it.
func (r *treeReader) isExact(p string) (bool, error) {
	if r.listNames == nil || p == "" {
		return true, nil
	}
	if exact, err := r.isExact(dirOf(p)); err != nil || !exact {
		return false, err
	}
	names, ok := r.listed[dirOf(p)]
	if !ok {
		var err error
		if names, err = r.listNames(dirOf(p)); err != nil {
			return false, err
		}
		r.listed[dirOf(p)] = names
	}
	_, found := slices.BinarySearch(names, path.Base(p))
	return found, nil
}

// hashFile reads the file called name, whose stat must still be out.st.
func (r *treeReader) hashFile(dir *dirHandle, name string, out *present) error {
	f, err := dir.open(name)
	if err != nil {
		return err
	}
	defer f.close()
	out.suspect = r.clock.trust(f.fd, &out.st) != trusted
	sum := sha256.New()
	if _, err := io.Copy(sum, io.LimitReader(f, maxFile+1)); err != nil {
		return err
	}
	attrs, err := f.xattrs()
	if err != nil {
		return err
	}
	st, err := f.stat()
	if err != nil {
		return err
	}
	out.Entity = segno.Entity{
		Type: segno.EntityFile, Mode: out.st.perm(), Size: out.st.size, Hash: segno.Hash(sum.Sum(nil)), Owner: out.st.owner(),
	}
	if st != out.st {
		out.Hash = segno.Hash{} // it is changing, and equal to nothing
	}
	if attrs != nil {
		out.Xattrs = segno.HashOf(attrs)
	}
	return nil
}

// dirXattrs returns the hash of a directory's attributes.
func dirXattrs(in *dirHandle, name string) (segno.Hash, error) {
	dir, err := in.openDir(name)
	if err != nil {
		return segno.Hash{}, err
	}
	defer dir.close()
	attrs, err := readXattrs(dir.fd)
	if err != nil || attrs == nil {
		return segno.Hash{}, err
	}
	return segno.HashOf(attrs), nil
}
