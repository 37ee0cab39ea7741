package workspace

import (
	"context"
	"crypto/sha256"
	"io"
	"path"
	"slices"

	"github.com/dalsegno/segno"
)

// present is the current state of a path.
type present struct {
	segno.Entity
	st      stat // zero if the path does not exist
	suspect bool // its content may change without a change of its stat
}

// diskReader determines the current state of paths. It reads every file and never relies on the
// index, because Apply is about to replace these files.
type diskReader struct {
	root    *dirHandle
	rules   *rules
	clock   clock
	index   *node             // records which large files git ignores; may be nil
	guarded map[string]string // directory → why the directory, or one above it, is protected
	// listNames lists a directory in which a lookup may find an entry by another spelling of its name. It returns nil for any
	// other directory.
	listNames func(dir string) ([]string, error)
	listed    map[string][]string // directory → its names, or nil
	exact     map[string]bool     // directory → whether all names in its path are spelled as in their directories
}

// newReader returns a reader of the tree at root. cached is the index in memory, or nil.
func (d *Dir) newReader(ctx context.Context, root *dirHandle, cached *cachedIndex) (*diskReader, error) {
	self, err := root.lstat("")
	if err != nil {
		return nil, pathError("restore", d.root, err)
	}
	r := &diskReader{
		root: root, clock: newClock(root, self), listNames: d.listNames,
		guarded: make(map[string]string), listed: make(map[string][]string), exact: make(map[string]bool),
	}
	if d.listNames == nil {
		r.listNames = root.foldedNames
	}
	if x := d.loadIndex(self, cached); x != nil {
		r.index = x.top
	}
	r.rules, err = d.rules(ctx, root)
	return r, err
}

// look returns the entity at path p. For a file, it includes the hash of the content.
func (r *diskReader) look(p string) (present, error) {
	why, err := r.guard(dirOf(p))
	if err != nil || why != "" {
		return present{Entity: segno.Entity{Type: segno.EntityProtected, Why: why}}, err
	}
	dir, err := r.root.openDir(dirOf(p))
	if isAbsent(err) {
		return present{}, nil
	}
	if err != nil {
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
func (r *diskReader) protects(dir *dirHandle, p string, st *stat) string {
	name := path.Base(p)
	if isGitFile(name, st) {
		return whyGit // written if it is missing, never changed
	}
	if why, _ := r.rules.verdict(dirOf(p), name, st, dir); why != "" {
		return why
	}
	if st.is(typeDir) && r.rules.isCache(dir, name, p) && !r.rules.holdsCache(p) {
		return whyCache
	}
	if r.index != nil {
		if e := r.index.lookup(p); e != nil && e.kind == kindProtected && (e.note == whyLargeIgnore || e.note == whyBudget) && e.st == *st {
			return e.note
		}
	}
	return ""
}

// guard returns why paths below dir must not change, or "".
func (r *diskReader) guard(dir string) (why string, err error) {
	if dir == "" {
		return "", nil
	}
	if why, ok := r.guarded[dir]; ok {
		return why, nil
	}
	if why, err = r.guard(dirOf(dir)); why == "" && err == nil {
		var up *dirHandle
		if up, err = r.root.openDir(dirOf(dir)); err == nil {
			if st, ok, _ := up.find(path.Base(dir)); ok && st.is(typeDir) {
				if why = r.protects(up, dir, &st); why != "" {
					why = dir + " is protected: " + why
				}
			}
			up.close()
		} else if isAbsent(err) {
			err = nil
		}
	}
	if err == nil {
		r.guarded[dir] = why
	}
	return why, err
}

// forget drops all cached protections and names, because a written file may be a marker.
func (r *diskReader) forget() {
	clear(r.guarded)
	r.forgetNames()
}

// forgetNames drops all cached names, because a step may have made another spelling.
func (r *diskReader) forgetNames() {
	clear(r.listed)
	clear(r.exact)
}

// isExact reports whether the components of p are spelled as in their directories. A file system
// that ignores case finds README also as readme, and one that normalises Unicode finds é in both
// forms. If a step renames readme to README, README must count as absent. Otherwise it would seem
// to be written already, and the removal of readme would remove it.
func (r *diskReader) isExact(p string) (exact bool, err error) {
	dir := dirOf(p)
	if exact, known := r.exact[dir]; known && !exact {
		return false, nil
	} else if !known && dir != "" {
		if exact, err = r.isExact(dir); err != nil {
			return false, err
		}
		if r.exact[dir] = exact; !exact {
			return false, nil
		}
	}
	names, ok := r.listed[dir]
	if !ok {
		if names, err = r.listNames(dir); err != nil {
			return false, err
		}
		r.listed[dir] = names
	}
	if names == nil {
		return true, nil
	}
	_, found := slices.BinarySearch(names, path.Base(p))
	return found, nil
}

// hashFile reads the file called name. Its stat must still equal out.st.
func (r *diskReader) hashFile(dir *dirHandle, name string, out *present) error {
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
	attrs, err := hashXattrs(f.fd)
	if err != nil {
		return err
	}
	st, err := f.stat()
	out.Entity = segno.Entity{Type: segno.EntityFile, Mode: out.st.perm(), Size: out.st.size, Xattrs: attrs, Owner: out.st.owner()}
	if st == out.st { // otherwise the file is changing, and equals no other
		out.Hash = segno.Hash(sum.Sum(nil))
	}
	return err
}

// dirXattrs returns the hash of a directory's attributes.
func dirXattrs(in *dirHandle, name string) (segno.Hash, error) {
	dir, err := in.openDir(name)
	if err != nil {
		return segno.Hash{}, err
	}
	defer dir.close()
	return hashXattrs(dir.fd)
}

// hashXattrs returns the name of the object with the attributes of an open file, or zero if it
// has none.
func hashXattrs(fd int) (segno.Hash, error) {
	attrs, err := readXattrs(fd)
	if err != nil || attrs == nil {
		return segno.Hash{}, err
	}
	return segno.HashOf(attrs), nil
}
