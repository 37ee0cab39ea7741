package workspaces

import (
	"context"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
)

// maxCachedObject is the size of the largest object that is kept on the disk.
const maxCachedObject = 64 << 20

// touchAfter is the age at which the time of an object is renewed when it is read. The time orders objects by use.
const touchAfter = time.Hour

// objects keeps the objects of a store that were read, in files. An object is read from its file only if the file has the
// right hash, so a damaged file costs one more read from the store.
type objects struct {
	segno.Objects
	dir   string
	fs    vfs.FS
	now   func() time.Time
	added func(bytes int64)
}

// Get implements [segno.Objects].
func (o *objects) Get(ctx context.Context, name segno.Hash) ([]byte, error) {
	file := o.file(name)
	if data, err := os.ReadFile(file); err == nil {
		if segno.HashOf(data) == name {
			o.touch(file)
			return data, nil
		}
		_ = o.fs.Remove(file) // put replaces it otherwise
	}
	data, err := o.Objects.Get(ctx, name)
	if err == nil && len(data) <= maxCachedObject {
		o.put(file, data)
	}
	return data, err
}

// ContentFile opens the file of an object, so that package workspace can make a file by reflink. It checks only that the
// file exists: package workspace reads each file back.
func (o *objects) ContentFile(name segno.Hash) (*os.File, error) { return os.Open(o.file(name)) }

func (o *objects) file(name segno.Hash) string {
	text := hex.EncodeToString(name[:])
	return filepath.Join(o.dir, text[:2], text)
}

// put keeps an object. It ignores errors, for example of a full disk, because the object need not be kept. A file that is
// not complete has another hash, so put writes it in place.
func (o *objects) put(file string, data []byte) {
	const flags = os.O_WRONLY | os.O_CREATE | os.O_EXCL
	f, err := o.fs.OpenFile(file, flags, 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		if err = vfs.MkdirAll(o.fs, filepath.Dir(file)); err == nil {
			f, err = o.fs.OpenFile(file, flags, 0o600)
		}
	}
	if err != nil {
		return // another process may be writing it
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err != nil {
		_ = o.fs.Remove(file) // else the next Get does
		return
	}
	o.added(int64(len(data)))
}

// touch renews the time of an object that was not used for a while.
func (o *objects) touch(file string) {
	if fi, err := os.Lstat(file); err == nil && o.now().Sub(fi.ModTime()) > touchAfter {
		_ = o.fs.Chtimes(file, time.Time{}, o.now()) // at worst it is removed earlier than others
	}
}
