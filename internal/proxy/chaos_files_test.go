package proxy_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/dalsegno/segno/internal/testing/acptest"
	"github.com/dalsegno/segno/internal/vfs"
)

// file is the file in the directory to which the conversation's tools write.
func (k *talk) file() string { return k.name + ".txt" }

// mineFile is the user's own file in a directory.
const mineFile = "mine.md"

func (k *talk) mineNow() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.userFile[k.place]
}

// userEdits writes a file as the user does.
func (k *talk) userEdits() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.userFile[k.place] += fmt.Sprintf("version %d\n", strings.Count(k.userFile[k.place], "\n")+1)
	return os.WriteFile(filepath.Join(k.cwd, mineFile), []byte(k.userFile[k.place]), 0o600)
}

// filesAgree checks the files of every conversation.
func (c *chaos) filesAgree() {
	for _, k := range c.talks {
		k.filesAgree()
	}
}

// filesAgree checks that the directory's files match the conversation: each line of its
// turns, no line of an undone turn, and the user's file unchanged.
func (k *talk) filesAgree() {
	var want []string
	for _, line := range k.ledger() {
		if k.mine(line) && !slices.Contains(k.knows, line) {
			want = append(want, line)
		}
	}
	got, err := acptest.ReadLedger(filepath.Join(k.cwd, k.file()))
	if err != nil {
		k.t.Error(err)
	}
	got = slices.DeleteFunc(got, func(line string) bool { return slices.Contains(k.stray, line) && !slices.Contains(want, line) })
	want = slices.DeleteFunc(want, func(line string) bool { return slices.Contains(k.stray, line) && !slices.Contains(got, line) })
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		k.t.Errorf("the conversation %s did %q, and its file holds %q", k.name, want, got)
	}
	data, err := os.ReadFile(filepath.Join(k.cwd, mineFile))
	if mine := k.mineNow(); err != nil || string(data) != mine {
		k.t.Errorf("the user's file holds %q, %v; the user wrote %q", data, err, mine)
	}
	if _, err := os.Stat(filepath.Join(k.cwd, "refused.txt")); !errors.Is(err, fs.ErrNotExist) {
		k.t.Errorf("a call that the user refused wrote a file: %v", err)
	}
}

// storeTime is the time for which the store is locked or full: longer than segno waits for
// it at a tool call, shorter than segno waits at a turn's end.
const storeTime = 600 * time.Millisecond

// lockStore holds the store's lock for storeTime, as another process would.
func (c *chaos) lockStore() {
	db, err := sql.Open("sqlite", filepath.Join(c.dir, "home", "data", "segno", "segno.db")+"?_txlock=immediate")
	if err != nil {
		c.t.Error(err)
		return
	}
	defer db.Close()
	ctx, stop := context.WithTimeout(c.ctx, 10*time.Second)
	defer stop()
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		c.tell("the store is not locked: %v", err) // segno holds the lock, or there is no store yet
		return
	}
	c.wait(storeTime)
	if err := tx.Rollback(); err != nil {
		c.t.Error(err)
	}
}

// fillStore fills the store's disk for storeTime.
func (c *chaos) fillStore() {
	if err := os.WriteFile(c.fullFile(), nil, 0o600); err != nil {
		c.t.Error(err)
		return
	}
	c.wait(storeTime)
	if err := os.Remove(c.fullFile()); err != nil {
		c.t.Error(err)
	}
}

// fullVar is the environment variable that names a file. While the file exists, the store's
// disk is full for a segno of this binary.
const fullVar = "SEGNO_TEST_FULL"

func (c *chaos) fullFile() string { return filepath.Join(c.dir, "full") }

// fullFS is a file system on a disk that is full while a file exists.
type fullFS struct {
	vfs.FS
	flag string
}

func (f fullFS) full(op, name string) error {
	if _, err := os.Stat(f.flag); err != nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: name, Err: syscall.ENOSPC}
}

func (f fullFS) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	if flag&(os.O_WRONLY|os.O_RDWR|os.O_CREATE) != 0 {
		if err := f.full("open", name); err != nil {
			return nil, err
		}
	}
	file, err := f.FS.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return fullFile{file, f}, nil
}

type fullFile struct {
	vfs.File
	fs fullFS
}

func (f fullFile) Write(data []byte) (int, error) {
	if err := f.fs.full("write", f.Name()); err != nil {
		return 0, err
	}
	return f.File.Write(data)
}

func (f fullFS) Mkdir(name string, perm fs.FileMode) error {
	if err := f.full("mkdir", name); err != nil {
		return err
	}
	return f.FS.Mkdir(name, perm)
}

func (f fullFS) Rename(from, to string) error {
	if err := f.full("rename", to); err != nil {
		return err
	}
	return f.FS.Rename(from, to)
}
