package sessionfile

import (
	"crypto/rand"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/dalsegno/segno/internal/vfs"
)

// Output is a file that appears under its name only when it is complete. Blocks
// are written in the background, one at a time, while the caller fills the next.
type Output struct {
	fs     vfs.FS
	temp   string
	name   string
	file   vfs.File
	buf    []byte
	spare  []byte
	wait   func() error // waits for the write in progress
	size   int64
	synced int64  // bytes that the kernel was asked to write to the disk
	sum    uint32 // CRC-32C of the bytes written
	isGone bool   // the temporary name no longer exists
}

// writeBackSize is the number of written bytes after which the kernel is asked to write them to the
// disk. The sync at the end of a long transcript then waits only for the last bytes.
const writeBackSize = 4 << 20

// CreateOutput begins a file that will get this name. Its directory must exist.
func CreateOutput(fsys vfs.FS, name string) (*Output, error) {
	temp := filepath.Join(filepath.Dir(name), ".segno-"+rand.Text())
	f, err := fsys.OpenFile(temp, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	return &Output{fs: fsys, temp: temp, name: name, file: f, wait: func() error { return nil }}, nil
}

// WriteNew writes a whole file that appears under its name only when it is complete and durable. It
// makes the directory. The error is [fs.ErrExist] if a file with other bytes has the name.
func WriteNew(fsys vfs.FS, name string, data []byte) error {
	if err := vfs.MkdirAllSynced(fsys, filepath.Dir(name)); err != nil {
		return err
	}
	out, err := CreateOutput(fsys, name)
	if err != nil {
		return err
	}
	defer out.Close()
	if _, err := out.Write(data); err != nil {
		return err
	}
	if err := out.Sync(); err != nil {
		return err
	}
	if err := out.Publish(); err != nil {
		return err
	}
	return fsys.SyncDir(filepath.Dir(name))
}

func (o *Output) Write(p []byte) (int, error) {
	if len(o.buf)+len(p) > BlockSize && len(o.buf) > 0 {
		if err := o.startWrite(); err != nil {
			return 0, err
		}
	}
	o.buf = append(o.buf, p...)
	return len(p), nil
}

// startWrite waits for the write in progress and starts to write the buffer.
func (o *Output) startWrite() error {
	if err := o.wait(); err != nil || len(o.buf) == 0 {
		return err
	}
	full, result := o.buf, make(chan error, 1)
	o.buf, o.spare, o.wait = o.spare[:0], full, sync.OnceValue(func() error { return <-result })
	go func() {
		o.sum = crc32.Update(o.sum, Castagnoli(), full)
		_, err := o.file.Write(full)
		o.size += int64(len(full))
		if ahead := o.size - o.synced; ahead >= writeBackSize {
			vfs.WriteBack(o.file, o.synced, ahead)
			o.synced = o.size
		}
		result <- err
	}()
	return nil
}

// Restart discards the bytes written so far.
func (o *Output) Restart() error {
	if err := o.wait(); err != nil {
		return err
	}
	o.buf, o.size, o.synced, o.sum = o.buf[:0], 0, 0, 0
	if err := o.file.Truncate(0); err != nil {
		return err
	}
	_, err := o.file.Seek(0, io.SeekStart)
	return err
}

// flush waits until all is written.
func (o *Output) flush() error {
	if err := o.startWrite(); err != nil {
		return err
	}
	return o.wait()
}

// SetTime sets the modification time. Later writes change it again.
func (o *Output) SetTime(t time.Time) error {
	if err := o.flush(); err != nil {
		return err
	}
	return o.fs.Chtimes(o.temp, t, t)
}

// Sync makes the bytes durable. At the same time it reads them back and compares them.
func (o *Output) Sync() error {
	if err := o.flush(); err != nil {
		return err
	}
	synced := make(chan error, 1)
	go func() { synced <- o.file.Sync() }()
	return errors.Join(o.compare(o.file), <-synced)
}

// compare returns an error unless f has the bytes that were written.
func (o *Output) compare(f io.ReaderAt) error {
	sum := crc32.New(Castagnoli())
	n, err := io.Copy(sum, io.NewSectionReader(f, 0, o.size+1))
	if err != nil {
		return err
	}
	if n != o.size || sum.Sum32() != o.sum {
		return fmt.Errorf("%s: the bytes read back are not those written", filepath.Base(o.name))
	}
	return nil
}

// Publish gives the file its name. It never replaces a file. The error is [fs.ErrExist] if a file
// with other bytes has the name. If a file with the same bytes has it, Publish succeeds, so that an
// interrupted operation can be repeated.
func (o *Output) Publish() error {
	err := o.fs.Link(o.temp, o.name)
	if hasNoLinks(err) {
		if _, statErr := os.Lstat(o.name); statErr != nil {
			err = o.fs.Rename(o.temp, o.name)
			o.isGone = err == nil
			return err
		}
		err = fs.ErrExist
	}
	if errors.Is(err, fs.ErrExist) {
		err = o.compareExisting()
	}
	if err != nil {
		return err
	}
	return o.removeTemp()
}

func (o *Output) removeTemp() error {
	err := o.fs.Remove(o.temp)
	o.isGone = err == nil
	return err
}

// compareExisting returns [fs.ErrExist] unless the existing file of this name has the same bytes.
func (o *Output) compareExisting() error {
	f, err := vfs.OpenRegular(o.name)
	if err != nil {
		return err
	}
	defer f.Close()
	if o.compare(f) != nil {
		return fmt.Errorf("%s: %w", o.name, fs.ErrExist)
	}
	return nil
}

// hasNoLinks reports whether an error of Link means that the file system has no hard links.
func hasNoLinks(err error) bool {
	return errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EOPNOTSUPP) || errors.Is(err, syscall.ENOSYS)
}

// Close closes the file and removes it if it has not been published.
func (o *Output) Close() {
	_ = o.wait() // a failed write was already reported, or the file is discarded
	o.file.Close()
	if !o.isGone {
		_ = o.removeTemp() // at worst a hidden file remains, and the caller already has an error
	}
}
