package vfs_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dalsegno/segno/internal/testing/faultfs"
	"github.com/dalsegno/segno/internal/vfs"
)

func TestANewFileIsCompleteOrNotThere(t *testing.T) {
	for n := 0; ; n++ {
		name := filepath.Join(t.TempDir(), "page.html")
		faults := faultfs.FailAt(n)
		err := vfs.WriteNew(faults.Wrap(vfs.OS), name, strings.NewReader("content"), 0o600)
		data, readErr := os.ReadFile(name)
		if readErr == nil && string(data) != "content" {
			t.Fatalf("operation %d: the file has %q", n, data)
		}
		if err == nil && (faults.Fired() || readErr != nil) {
			t.Fatalf("operation %d: WriteNew returned no error, and the file: %v", n, readErr)
		}
		if err == nil {
			return
		}
	}
}

func TestANewFileReplacesNothing(t *testing.T) {
	name := filepath.Join(t.TempDir(), "page.html")
	if err := os.WriteFile(name, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	err := vfs.WriteNew(vfs.OS, name, strings.NewReader("content"), 0o600)
	if data, _ := os.ReadFile(name); !errors.Is(err, fs.ErrExist) || string(data) != "mine" {
		t.Fatalf("%q, %v", data, err)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(name), ".*")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func TestAScratchFileHasNoName(t *testing.T) {
	dir := t.TempDir()
	f, err := vfs.Scratch(vfs.OS, dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
