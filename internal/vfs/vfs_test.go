package vfs_test

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dalsegno/segno/internal/testing/faultfs"
	"github.com/dalsegno/segno/internal/vfs"
)

func TestReplaceIsOldOrNewWhateverFails(t *testing.T) {
	for n := 0; ; n++ {
		name := filepath.Join(t.TempDir(), "head")
		if err := os.WriteFile(name, []byte("old"), 0o600); err != nil {
			t.Fatal(err)
		}
		faults := faultfs.FailAt(n)
		err := vfs.Replace(faults.Wrap(vfs.OS), name, []byte("new"), 0o600)
		if err == nil && faults.Fired() {
			t.Fatalf("operation %d failed and Replace returned no error", n)
		}
		if err != nil && !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("operation %d: the cause is lost: %v", n, err)
		}
		got, readErr := os.ReadFile(name)
		if readErr != nil || (string(got) != "old" && string(got) != "new") {
			t.Fatalf("operation %d left %q, %v", n, got, readErr)
		}
		if err == nil {
			if string(got) != "new" {
				t.Fatalf("it returned no error and the file contains %q", got)
			}
			return
		}
	}
}

func TestOrderOfReplace(t *testing.T) {
	dir := t.TempDir()
	faults := faultfs.FailAt(-1)
	if err := vfs.Replace(faults.Wrap(vfs.OS), filepath.Join(dir, "head"), []byte("new"), 0o600); err != nil {
		t.Fatal(err)
	}
	trace := regexp.MustCompile(`\.segno-\w+`).ReplaceAllString(strings.Join(faults.Trace(), "\n"), "TEMP")
	trace = strings.ReplaceAll(trace, filepath.Base(dir), "DIR")
	if diff := cmp.Diff("create: TEMP\nwrite: TEMP\nsync: TEMP\nrename: head\nsyncdir: DIR", trace); diff != "" {
		t.Error(diff)
	}
}

func TestARootIsNotLeft(t *testing.T) {
	dir := t.TempDir()
	inside := filepath.Join(dir, "in")
	if err := os.Mkdir(inside, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(dir, filepath.Join(inside, "out")); err != nil {
		t.Fatal(err)
	}
	root, err := vfs.OS.OpenRoot(inside)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for _, name := range []string{"../escaped", "out/escaped"} {
		if f, err := root.OpenFile(name, os.O_CREATE|os.O_WRONLY, 0o600); err == nil {
			f.Close()
			t.Errorf("%s was written outside", name)
		}
	}
}
