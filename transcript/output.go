package transcript

import (
	"crypto/rand"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/dalsegno/segno/internal/vfs"
)

// output is a file that appears under its name only when it is complete. Blocks
// are written in the background, one at a time, while the next is filled.
type output struct {
	fs    vfs.FS
	temp  string
	name  string
	file  vfs.File
	buf   []byte
	spare []byte
	busy  chan error // gives the result of the write under way; nil if there is none
	size  int64
	begun int64  // bytes that the kernel was asked to write to the disk
	sum   uint32 // CRC-32C of what was written
	gone  bool   // the temporary name is
}

// stretch is how many bytes are written before the disk begins on them. The sync at
// the end of a long transcript then waits for the last stretch only.
const stretch = 4 << 20

// create begins a file that will be called name. Its directory must exist.
func create(fsys vfs.FS, name string) (*output, error) {
	temp := filepath.Join(filepath.Dir(name), ".segno-"+rand.Text())
	f, err := fsys.OpenFile(temp, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	return &output{fs: fsys, temp: temp, name: name, file: f}, nil
}

func (o *output) Write(p []byte) (int, error) {
	if len(o.buf)+len(p) > blockSize && len(o.buf) > 0 {
		if err := o.flush(); err != nil {
			return 0, err
		}
	}
	o.buf = append(o.buf, p...)
	return len(p), nil
}

// flush begins to write what is in the buffer.
func (o *output) flush() error {
	if err := o.wait(); err != nil || len(o.buf) == 0 {
		return err
	}
	full, done := o.buf, make(chan error, 1)
	o.buf, o.spare, o.busy = o.spare[:0], full, done
	go func() {
		o.sum = crc32.Update(o.sum, crc32.MakeTable(crc32.Castagnoli), full)
		_, err := o.file.Write(full)
		o.size += int64(len(full))
		if ahead := o.size - o.begun; ahead >= stretch {
			vfs.WriteBack(o.file, o.begun, ahead)
			o.begun = o.size
		}
		done <- err
	}()
	return nil
}

// wait waits for the write under way.
func (o *output) wait() error {
	if o.busy == nil {
		return nil
	}
	err := <-o.busy
	o.busy = nil
	return err
}

// restart forgets what was written.
func (o *output) restart() error {
	if err := o.wait(); err != nil {
		return err
	}
	o.buf, o.size, o.begun, o.sum = o.buf[:0], 0, 0, 0
	if err := o.file.Truncate(0); err != nil {
		return err
	}
	_, err := o.file.Seek(0, io.SeekStart)
	return err
}

// drain waits until all is written.
func (o *output) drain() error {
	if err := o.flush(); err != nil {
		return err
	}
	return o.wait()
}

// settle makes what was written durable and reads it back.
func (o *output) settle() error {
	if err := o.drain(); err != nil {
		return err
	}
	synced := make(chan error, 1)
	go func() { synced <- o.file.Sync() }()
	return errors.Join(o.matches(o.file), <-synced)
}

// matches reports whether f holds what was written.
func (o *output) matches(f io.ReaderAt) error {
	sum := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	n, err := io.Copy(sum, io.NewSectionReader(f, 0, o.size+1))
	if err != nil {
		return err
	}
	if n != o.size || sum.Sum32() != o.sum {
		return fmt.Errorf("%s: the bytes read back are not those written", filepath.Base(o.name))
	}
	return nil
}

// publish gives the file its name, and never another file's place: the error is
// [fs.ErrExist] if the name is taken by other bytes. The same bytes are as good,
// so that what was broken off can be repeated.
func (o *output) publish() error {
	err := o.fs.Link(o.temp, o.name)
	if unlinkable(err) {
		if _, err := os.Lstat(o.name); err == nil {
			return o.taken()
		}
		err := o.fs.Rename(o.temp, o.name)
		o.gone = err == nil
		return err
	}
	if errors.Is(err, fs.ErrExist) {
		return o.taken()
	}
	if err != nil {
		return err
	}
	return o.drop()
}

// drop takes the temporary name away.
func (o *output) drop() error {
	err := o.fs.Remove(o.temp)
	o.gone = err == nil
	return err
}

// taken accepts a file of the same bytes under the name.
func (o *output) taken() error {
	f, err := openRegular(o.name)
	if err != nil {
		return err
	}
	defer f.Close()
	if o.matches(f) != nil {
		return fmt.Errorf("%s: %w", o.name, fs.ErrExist)
	}
	return o.drop()
}

// unlinkable reports whether a file system has no hard links.
func unlinkable(err error) bool {
	return errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EOPNOTSUPP) || errors.Is(err, syscall.ENOSYS)
}

// close closes the file and drops it if it has not been published.
func (o *output) close() {
	_ = o.wait() // whoever needed to know has asked
	o.file.Close()
	if !o.gone {
		_ = o.drop() // a stray file at worst; there is an error to tell already
	}
}
