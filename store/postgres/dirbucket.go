package postgres

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
)

// DirBucket is a [Bucket] in a directory. Processes on several machines may share it if the directory is on a
// file system that they share and that has hard links, such as NFS. An object is a file, and a file has its
// name only once it is durable.
type DirBucket struct {
	dir  string
	root vfs.Root
}

var _ Bucket = (*DirBucket)(nil)

// OpenDirBucket opens the bucket in a directory, which must exist: a directory that is missing may be one that
// is not mounted. The caller closes the bucket after the store.
func OpenDirBucket(dir string) (*DirBucket, error) { return openDirBucket(vfs.OS, dir) }

// OpenDirBucketURL is [OpenDirBucket] for a URL like file:///srv/segno.
func OpenDirBucketURL(text string) (*DirBucket, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "file" || u.Host != "" && u.Host != "localhost" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || !path.IsAbs(u.Path) {
		return nil, segno.Errorf(segno.KindInvalid, "open bucket", "", "the URL names no directory of this machine").WithHint("give a URL like file:///srv/segno")
	}
	return OpenDirBucket(filepath.FromSlash(u.Path))
}

func openDirBucket(fsys vfs.FS, dir string) (*DirBucket, error) {
	root, err := fsys.OpenRoot(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, segno.NewError(segno.KindNotFound, "open bucket", dir, nil).WithHint("create the directory, or mount it")
	case err != nil:
		return nil, segno.NewError(segno.KindIO, "open bucket", dir, err)
	}
	return &DirBucket{dir: dir, root: root}, nil
}

// Close closes the directory.
func (b *DirBucket) Close() error { return b.root.Close() }

// isTemp reports whether a file is one that [vfs.WriteNew] has not named yet. A name of an object has no dot.
func isTemp(name string) bool { return strings.HasPrefix(path.Base(name), ".") }

// checkObjectName returns an error for a name that cannot be a path in the directory.
func checkObjectName(name string) error {
	if !fs.ValidPath(name) || name == "." || isTemp(name) {
		return &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	return nil
}

// checkObject returns [fs.ErrNotExist] for a name that is not an object: there is no file, or it is a
// directory, or a pipe that would block its reader.
func (b *DirBucket) checkObject(name string) error {
	info, err := b.root.Lstat(name)
	if errors.Is(err, syscall.ENOTDIR) || err == nil && !info.Mode().IsRegular() {
		return &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return err
}

// Put implements [Bucket].
func (b *DirBucket) Put(ctx context.Context, name string, data []byte) error {
	if err := errors.Join(ctx.Err(), checkObjectName(name)); err != nil {
		return err
	}
	if err := vfs.MkdirAllSynced(b.root, path.Dir(name)); err != nil {
		return err
	}
	return vfs.WriteNew(b.root, name, bytes.NewReader(data), 0o600)
}

// Get implements [Bucket].
func (b *DirBucket) Get(ctx context.Context, name string) ([]byte, error) {
	if err := errors.Join(ctx.Err(), checkObjectName(name)); err != nil {
		return nil, err
	}
	if err := b.checkObject(name); err != nil {
		return nil, err
	}
	f, err := b.root.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

// Delete implements [Bucket]. The deletion is not synced: after a crash of the machine the object may exist
// again, and the next collection deletes it.
func (b *DirBucket) Delete(ctx context.Context, name string) error {
	if err := errors.Join(ctx.Err(), checkObjectName(name)); err != nil {
		return err
	}
	err := b.checkObject(name)
	if err == nil {
		err = b.root.Remove(name)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// List implements [Bucket]. It removes temporary files that a killed process left an hour ago or earlier.
func (b *DirBucket) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		below := path.Dir(prefix + "x") // the deepest directory that has all names with the prefix
		err := fs.WalkDir(os.DirFS(b.dir), below, func(name string, d fs.DirEntry, err error) error {
			switch {
			case ctx.Err() != nil:
				return ctx.Err()
			case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
				return nil // it was deleted, or there is nothing with the prefix
			case err != nil:
				return err
			case d.IsDir():
				vfs.RemoveAbandoned(ctx, filepath.Join(b.dir, filepath.FromSlash(name)), func(e fs.DirEntry) bool { return e.Type().IsRegular() && isTemp(e.Name()) })
				return nil
			case d.Type().IsRegular() && !isTemp(name) && strings.HasPrefix(name, prefix) && !yield(name, nil):
				return fs.SkipAll
			}
			return nil
		})
		if err != nil {
			yield("", err)
		}
	}
}
