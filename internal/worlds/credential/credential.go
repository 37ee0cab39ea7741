// Package credential merges the files in which agents keep their logins. An agent with a home apart from the user's
// refreshes its login there, and the user's agent refreshes the login in the user's home. Neither refresh may
// overwrite a newer login, because a login server accepts a refresh token only once. Archives never contain these
// files. The package does not use the network, and its errors contain no content of a file.
package credential

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
)

// Result is the outcome of a merge. The names are those of logins in the file, such as "claudeAiOauth".
type Result struct {
	Agent string   `json:"agent"`
	File  string   `json:"file"`  // of the agent
	Taken []string `json:"taken"` // logins that were copied from the machine's file
	Kept  []string `json:"kept"`  // logins of the agent that stayed although the machine has others
}

const (
	op       = "merge login"
	maxSize  = 1 << 20
	maxTries = 5 // attempts to write a file that changes meanwhile
	lockWait = 10 * time.Second

	// openFlags prevent a wait for a FIFO that replaced the file after the check.
	openFlags = os.O_RDONLY | syscall.O_NONBLOCK
)

// Merge merges the logins of the machine, in the file userFile, into the file of an agent with its own home. If both
// files have a login to the same service, Merge keeps the login that expires later. If the two cannot be compared, or
// expire at the same time, it keeps the login in the newer file. The rest of the agent's file stays unchanged. If the
// machine has no file, only the mode of the agent's file changes. For an agent whose file is not known, Merge does
// nothing. fsys may be nil.
//
// Merge replaces the agent's file atomically and durably, with the mode 0600. The agent must not run in that home. If
// the file changes meanwhile, Merge reads it again. The error has [segno.KindRefused] for a symlink and for anything
// else that is not a regular file, and [segno.KindCorrupt] for a file that is not one JSON object; both files then
// stay unchanged.
func Merge(ctx context.Context, fsys vfs.FS, agent, home, userFile string) (Result, error) {
	r := Result{Agent: agent, Taken: []string{}, Kept: []string{}}
	f, known := fileOf(agent)
	if !known || userFile == "" {
		return r, nil
	}
	r.File = filepath.Join(home, f.homeDir, f.name)
	if fsys == nil {
		fsys = vfs.OS
	}
	machine, err := readUserFile(userFile)
	if err != nil {
		return r, err
	}
	if info, err := os.Lstat(home); err == nil && !info.IsDir() {
		return r, refusal(home)
	}
	root, err := fsys.OpenRoot(home)
	if err != nil {
		return r, segno.NewError(segno.KindIO, op, home, err)
	}
	defer root.Close()
	t := target{root: root, home: home, file: f}
	if machine.info == nil {
		return r, t.protectIfAny()
	}
	if err := t.makeDir(); err != nil {
		return r, err
	}
	unlock, err := t.lock(ctx)
	if err != nil {
		return r, err
	}
	defer unlock()
	for range maxTries {
		done, err := t.try(machine, &r)
		if err != nil || done {
			return r, err
		}
	}
	return r, segno.Errorf(segno.KindBusy, op, r.File, "another process writes it").WithHint("end the agent that runs there, and try again")
}

// content is the content of a file. info is nil if the file does not exist.
type content struct {
	document
	data []byte
	info fs.FileInfo
}

// readUserFile reads the file of the machine. It follows a symlink, because the user may use symlinks in the user's
// own home.
func readUserFile(name string) (content, error) {
	info, err := os.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return content{}, nil
	}
	if err == nil && !info.Mode().IsRegular() {
		return content{}, refusal(name)
	}
	var file *os.File
	if err == nil {
		file, err = os.OpenFile(name, openFlags, 0)
	}
	if err != nil {
		return content{}, segno.NewError(segno.KindIO, op, name, err)
	}
	defer file.Close()
	return readContent(file, info, name)
}

func refusal(name string) error {
	return segno.Errorf(segno.KindRefused, op, name, "it is a symlink, or neither a file nor a directory").WithHint("remove it, and log in again")
}

// readContent reads an open file, which must be the one that info describes.
func readContent(file interface {
	io.Reader
	Stat() (fs.FileInfo, error)
}, info fs.FileInfo, name string) (c content, err error) {
	now, err := file.Stat()
	if err == nil && !os.SameFile(now, info) {
		return c, refusal(name) // the file was replaced after the check
	}
	if err == nil {
		c.data, err = io.ReadAll(io.LimitReader(file, maxSize+1))
	}
	if err != nil {
		return c, segno.NewError(segno.KindIO, op, name, err)
	}
	if len(c.data) > maxSize {
		err = fmt.Errorf("it is larger than %d bytes", maxSize)
	} else {
		c.document, err = parse(c.data)
	}
	if err != nil {
		return c, segno.NewError(segno.KindCorrupt, op, name, err).WithHint("log in again, or remove the file")
	}
	c.info = now
	return c, nil
}

// target is the file of an agent in the agent's own home, where the agent may have written anything.
type target struct {
	root vfs.Root
	home string
	file
}

func (t *target) rel() string  { return filepath.Join(t.homeDir, t.name) }
func (t *target) path() string { return filepath.Join(t.home, t.rel()) }

// makeDir makes the directory of the file.
func (t *target) makeDir() error {
	dir := ""
	for part := range strings.SplitSeq(t.homeDir, string(filepath.Separator)) {
		parent := dir
		dir = filepath.Join(dir, part)
		info, err := t.root.Lstat(dir)
		if errors.Is(err, fs.ErrNotExist) {
			if err = t.root.Mkdir(dir, 0o700); err == nil {
				err = t.root.SyncDir(filepath.Join(".", parent))
			}
			if err == nil {
				info, err = t.root.Lstat(dir)
			}
		}
		if err != nil {
			return segno.NewError(segno.KindIO, op, filepath.Join(t.home, dir), err)
		}
		if !info.IsDir() {
			return refusal(filepath.Join(t.home, dir))
		}
	}
	return nil
}

// lock excludes merges by other processes in this home.
func (t *target) lock(ctx context.Context) (unlock func(), err error) {
	dir, err := t.root.OpenFile(t.homeDir, os.O_RDONLY, 0)
	if err != nil {
		return nil, segno.NewError(segno.KindIO, op, t.path(), err)
	}
	if err := vfs.Lock(ctx, dir, lockWait); errors.Is(err, vfs.ErrLocked) {
		return nil, errors.Join(segno.NewError(segno.KindBusy, op, t.path(), err).WithHint("try again"), dir.Close())
	}
	// Some network file systems cannot lock a directory. Merge detects a file that changes even without the lock.
	return func() { _ = dir.Close() }, ctx.Err() // nothing was written
}

// try merges once. done is false if the file changed meanwhile.
func (t *target) try(machine content, r *Result) (done bool, err error) {
	if err := t.removeStray(); err != nil {
		return false, err
	}
	own, err := t.read()
	if err != nil {
		return false, err
	}
	var data []byte
	if own.info == nil {
		data, r.Taken = machine.data, machine.names(t.file)
	} else {
		m := t.merge(own.document, machine.document, machine.info.ModTime().After(own.info.ModTime()))
		r.Taken, r.Kept = append([]string{}, m.taken...), append([]string{}, m.kept...)
		data = m.bytes()
		if same := own.bytes(); string(same) == string(data) {
			return true, t.protect(own.info)
		}
	}
	switch now, err := t.root.Lstat(t.rel()); {
	case errors.Is(err, fs.ErrNotExist) && own.info == nil:
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return false, segno.NewError(segno.KindIO, op, t.path(), err)
	case err != nil, own.info == nil, !os.SameFile(now, own.info), now.Size() != own.info.Size(), !now.ModTime().Equal(own.info.ModTime()):
		return false, nil
	}
	if err := vfs.Replace(t.root, t.rel(), data, 0o600); err != nil {
		return false, segno.NewError(segno.KindIO, op, t.path(), err)
	}
	return true, nil
}

// names returns the logins of a document.
func (d *document) names(f file) []string {
	m := f.merge(document{}, *d, true)
	return append([]string{}, m.taken...)
}

// read reads the agent's file.
func (t *target) read() (content, error) {
	info, err := t.root.Lstat(t.rel())
	if errors.Is(err, fs.ErrNotExist) {
		return content{}, nil
	}
	if err == nil && !info.Mode().IsRegular() {
		return content{}, refusal(t.path())
	}
	var file vfs.File
	if err == nil {
		file, err = t.root.OpenFile(t.rel(), openFlags, 0)
	}
	if err != nil {
		return content{}, segno.NewError(segno.KindIO, op, t.path(), err)
	}
	defer file.Close()
	return readContent(file, info, t.path())
}

// protect restricts an existing file to its user, with the mode 0600.
func (t *target) protect(info fs.FileInfo) error {
	if info.Mode().Perm() == 0o600 {
		return nil
	}
	if err := t.root.Chmod(t.rel(), 0o600); err != nil {
		return segno.NewError(segno.KindIO, op, t.path(), err)
	}
	return nil
}

// protectIfAny is protect for a file that may not exist.
func (t *target) protectIfAny() error {
	info, err := t.root.Lstat(t.rel())
	if err != nil || !info.Mode().IsRegular() {
		return nil // the agent has no login
	}
	return t.protect(info)
}

// removeStray removes the temporary files of a merge that was killed, because they contain a login.
func (t *target) removeStray() error {
	entries, err := os.ReadDir(filepath.Join(t.home, t.homeDir))
	for _, e := range entries {
		if err == nil && strings.HasPrefix(e.Name(), ".segno-") && e.Type().IsRegular() {
			err = t.root.Remove(filepath.Join(t.homeDir, e.Name()))
		}
	}
	if err != nil {
		return segno.NewError(segno.KindIO, op, t.path(), err)
	}
	return nil
}
