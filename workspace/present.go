package workspace

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
)

// present is what stands at a path right now.
type present struct {
	segno.Entity
	st       stat // zero if there is nothing
	uid, gid uint32
	suspect  bool // its content may change and the stat stay
}

// eyes tell what is present. They read every file: what is about to be replaced is
// never taken from the index.
type eyes struct {
	*hands
	rules   *rules
	budget  budget
	clock   clock
	index   *node             // of use for what git was asked about; may be nil
	guarded map[string]string // directory → why it, or one above it, is protected
}

// look returns the entity at path p, a file with the hash of its content.
func (y *eyes) look(p string) (present, error) {
	dir, err := y.guard(path.Dir(p))
	if err != nil {
		return present{}, err
	}
	if dir != "" {
		return present{Entity: segno.Entity{Type: segno.EntityProtected, Why: dir}}, nil
	}
	at, name, err := y.parent(p)
	if isAbsent(err) {
		return present{}, nil
	}
	if err != nil {
		return present{}, err
	}
	fi, err := at.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return present{}, nil
	}
	if err != nil {
		return present{}, err
	}
	out := present{st: statOf(fi)}
	out.uid, out.gid = ownerOf(fi)
	if why := y.verdict(at, p, name, &out.st); why != "" {
		out.Entity = segno.Entity{Type: segno.EntityProtected, Why: why}
		return out, nil
	}
	return out, y.describe(at, name, &out)
}

// describe fills in the entity of what is not protected.
func (y *eyes) describe(at vfs.Root, name string, out *present) error {
	switch out.st.mode & typeMask {
	case typeSymlink:
		target, err := at.Readlink(name)
		out.Entity = segno.Entity{Type: segno.EntitySymlink, Target: target}
		return err
	case typeDir:
		xattrs, err := dirXattrs(at, name)
		out.Entity = segno.Entity{Type: segno.EntityDir, Mode: out.st.perm(), Xattrs: xattrs, Owner: out.st.owner()}
		return err
	}
	return y.hashFile(at, name, out)
}

// verdict returns why path is protected, or "".
func (y *eyes) verdict(at vfs.Root, p, name string, st *stat) string {
	if st.is(typeDir) {
		if why := y.budget.tooDeep(dirOf(p), name); why != "" {
			return why
		}
	}
	if why := special(st); why != "" {
		return why
	}
	dir := strings.TrimSuffix(strings.TrimSuffix(p, name), "/")
	if why, _ := y.rules.named(dir, name, st.is(typeDir), nearby{at}); why != "" {
		return why
	}
	if st.is(typeDir) && y.rules.mayTag(p) && (nearby{at}).begins(name+"/"+cacheTag, cacheSignature) && !y.rules.holdsCache(p) {
		return whyCache
	}
	if y.index != nil {
		if e := y.index.lookup(p); e != nil && e.kind == kindProtected && (e.note == whyLargeIgnore || e.note == whyBudget) && e.st == *st {
			return e.note
		}
	}
	return ""
}

// guard returns why nothing below dir may be touched, or "".
func (y *eyes) guard(dir string) (string, error) {
	if dir == "." || dir == "" {
		return "", nil
	}
	if why, ok := y.guarded[dir]; ok {
		return why, nil
	}
	why, err := y.guard(path.Dir(dir))
	if why == "" && err == nil {
		var at vfs.Root
		var name string
		at, name, err = y.parent(dir)
		if err == nil {
			if fi, lerr := at.Lstat(name); lerr == nil && fi.IsDir() {
				st := statOf(fi)
				if own := y.verdict(at, dir, name, &st); own != "" {
					why = fmt.Sprintf("%s is protected: %s", dir, own)
				}
			}
		}
		if isAbsent(err) {
			err = nil
		}
	}
	if err == nil {
		y.guarded[dir] = why
	}
	return why, err
}

// forget drops what is known about protection: what was written may be a marker.
func (y *eyes) forget() { clear(y.guarded) }

// hashFile reads the file a name stands for, which must be the one already seen.
func (y *eyes) hashFile(at vfs.Root, name string, out *present) error {
	f, err := at.OpenFile(name, readFlags, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	out.suspect = y.clock.trust(int(f.Fd()), &out.st) != trusted
	sum := sha256.New()
	if _, err := io.Copy(sum, io.LimitReader(f, maxFile+1)); err != nil {
		return err
	}
	attrs, err := readXattrs(int(f.Fd()))
	if err != nil {
		return err
	}
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	out.Entity = segno.Entity{Type: segno.EntityFile, Mode: out.st.perm(), Size: out.st.size, Hash: segno.Hash(sum.Sum(nil)), Owner: out.st.owner()}
	if statOf(fi) != out.st {
		out.Hash = segno.Hash{} // it is moving, and equal to nothing
	}
	if attrs != nil {
		out.Xattrs = segno.HashOf(attrs)
	}
	return nil
}

// dirXattrs returns the name of a directory's attributes.
func dirXattrs(at vfs.Root, name string) (segno.Hash, error) {
	f, err := at.OpenFile(name, readFlags, 0)
	if err != nil {
		return segno.Hash{}, err
	}
	defer f.Close()
	attrs, err := readXattrs(int(f.Fd()))
	if err != nil || attrs == nil {
		return segno.Hash{}, err
	}
	return segno.HashOf(attrs), nil
}
