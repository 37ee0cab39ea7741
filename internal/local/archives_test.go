package local_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/internal/testing/faultfs"
	"github.com/dalsegno/segno/internal/vfs"
)

func archivesIn(t *testing.T, fsys vfs.FS) (local.Archives, string) {
	t.Helper()
	store := filepath.Join(t.TempDir(), "store")
	return local.Place{Store: store, UserHome: t.TempDir(), FS: fsys, Now: time.Now}.Archives(), filepath.Join(store, "archives")
}

func digestOf(text string) string { return "sha256:" + segno.HashOf([]byte(text)).String() }

// TestArchivesKeyIsMadeOnce lets many processes ask for the key of a new installation at once.
func TestArchivesKeyIsMadeOnce(t *testing.T) {
	a, dir := archivesIn(t, nil)
	keys := make([][]byte, 16)
	var group sync.WaitGroup
	for i := range keys {
		group.Go(func() {
			var err error
			if keys[i], err = a.Key(); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	for _, key := range keys {
		if len(key) != 32 || !bytes.Equal(key, keys[0]) {
			t.Fatalf("the keys are %x", keys)
		}
	}
	if fi, err := os.Stat(filepath.Join(dir, "key")); err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("the file of the key has %v, %v", fi.Mode(), err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, ".segno-*")); err != nil || len(left) > 0 {
		t.Errorf("temporary files stay: %v %v", left, err)
	}
}

// TestArchivesDamage damages each file. The error names the file, and the intact lines count.
func TestArchivesDamage(t *testing.T) {
	a, dir := archivesIn(t, nil)
	if _, err := a.Key(); err != nil {
		t.Fatal(err)
	}
	mine, lost := digestOf("mine"), digestOf("lost")
	for _, digest := range []string{lost, mine, mine} {
		if err := a.RecordWritten(t.Context(), digest); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.Allow(t.Context(), []string{"0123456789abcdef", "fedcba9876543210"}); err != nil {
		t.Fatal(err)
	}
	if err := a.Allow(t.Context(), []string{"secret\nvalue"}); segno.KindOf(err) != segno.KindInvalid {
		t.Errorf("a text that is not a fingerprint is allowed: %v", err)
	}
	for name, change := range map[string]func(string) string{
		"key":     func(s string) string { return s[1:] },
		"written": func(s string) string { return strings.Replace(s, lost, "sha256:x", 1) },
		"allowed": func(s string) string { return strings.TrimSuffix(s, "210\n") },
	} {
		path := filepath.Join(dir, name)
		text, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(path, []byte(change(string(text))), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	damaged := func(name string, err error) {
		t.Helper()
		if segno.KindOf(err) != segno.KindCorrupt || !strings.Contains(err.Error(), name) || segno.HintOf(err) == "" {
			t.Errorf("damage of %s is %v", name, err)
		}
	}
	_, err := a.Key()
	damaged("key", err)
	is, err := a.Wrote(lost)
	if damaged("written", err); is {
		t.Error("a damaged line names an archive")
	}
	if is, err := a.Wrote(mine); !is || err != nil {
		t.Errorf("the line after the damaged one is %v, %v", is, err)
	}
	allowed, err := a.Allowed()
	if damaged("allowed", err); len(allowed) != 1 || allowed[0] != "0123456789abcdef" {
		t.Errorf("allowed: %v", allowed)
	}
	if err := a.Allow(t.Context(), []string{"00000000ffffffff"}); err != nil {
		t.Fatal(err)
	}
	allowed, err = a.Allowed()
	if damaged("allowed", err); len(allowed) != 2 {
		t.Errorf("after another one: %v", allowed)
	}
}

// TestArchivesSurviveFaults fails each operation in turn. A record that was reported as written is
// there, and a second attempt succeeds.
func TestArchivesSurviveFaults(t *testing.T) {
	for n := 0; ; n++ {
		faults := faultfs.FailAt(n)
		a, dir := archivesIn(t, faults.Wrap(vfs.OS))
		key, keyErr := a.Key()
		recordErr := a.RecordWritten(t.Context(), digestOf("one"))
		if faults.Fired() && keyErr == nil && recordErr == nil {
			t.Errorf("operation %d failed and no call returned an error: %v", n, faults.Trace())
		}
		is, err := a.Wrote(digestOf("one"))
		if err != nil || recordErr == nil && !is {
			t.Errorf("operation %d: recorded %v, read %v %v", n, recordErr, is, err)
		}
		again, err := a.Key()
		if err != nil || keyErr == nil && !bytes.Equal(key, again) {
			t.Errorf("operation %d: the key was %x (%v) and is %x (%v)", n, key, keyErr, again, err)
		}
		if err := a.RecordWritten(t.Context(), digestOf("one")); err != nil {
			t.Errorf("operation %d: a second attempt: %v", n, err)
		}
		if _, err := os.Stat(filepath.Join(dir, "written")); errors.Is(err, os.ErrNotExist) {
			t.Errorf("operation %d: no file", n)
		}
		if !faults.Fired() {
			return
		}
	}
}
