package postgres_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/store/postgres"
	"github.com/dalsegno/segno/store/postgres/buckettest"
)

func openDirBucket(t *testing.T, dir string) *postgres.DirBucket {
	t.Helper()
	b, err := postgres.OpenDirBucket(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

func TestDirBucket(t *testing.T) {
	dirs := map[postgres.Bucket]string{}
	buckettest.Test(t, func(t *testing.T) postgres.Bucket {
		dir := t.TempDir()
		b := openDirBucket(t, dir)
		dirs[b] = dir
		return b
	}, buckettest.Options{Another: func(t *testing.T, of postgres.Bucket) postgres.Bucket { return openDirBucket(t, dirs[of]) }})
}

// TestADirBucketMustExist verifies that no bucket is created where a directory is missing.
func TestADirBucketMustExist(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "missing")
	if _, err := postgres.OpenDirBucket(dir); segno.KindOf(err) != segno.KindNotFound {
		t.Errorf("the bucket in a missing directory: %v", err)
	}
	for _, url := range []string{"file://host/srv", "file:srv", "file:///srv?x=y", "https:///srv", "file://me:pa55word@localhost/srv"} {
		if _, err := postgres.OpenDirBucketURL(url); segno.KindOf(err) != segno.KindInvalid {
			t.Errorf("%s: %v", url, err)
		}
	}
	b, err := postgres.OpenDirBucketURL("file://" + t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
}

// TestADirBucketIsItsDirectory verifies that no name leads out of the directory, and that only files with complete
// objects are listed.
func TestADirBucketIsItsDirectory(t *testing.T) {
	outer := t.TempDir()
	dir := filepath.Join(outer, "bucket")
	for _, name := range []string{"bucket/segno", "else"} {
		if err := os.MkdirAll(filepath.Join(outer, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	secret := filepath.Join(outer, "else", "secret")
	if err := os.WriteFile(secret, []byte("outside"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Dir(secret), filepath.Join(dir, "segno", "link")); err != nil {
		t.Fatal(err)
	}
	b := openDirBucket(t, dir)
	for _, name := range []string{"../else/secret", "segno/link/secret", secret, "segno/../segno/1", "", ".", "segno/.hidden"} {
		if data, err := b.Get(t.Context(), name); err == nil {
			t.Errorf("Get of %q returned %q", name, data)
		}
		if err := b.Put(t.Context(), name, []byte("changed")); err == nil {
			t.Errorf("Put of %q succeeded", name)
		}
		if err := b.Delete(t.Context(), name); err == nil {
			if data, err := os.ReadFile(secret); err != nil {
				t.Errorf("Delete of %q: %q, %v", name, data, err)
			}
		}
	}
	old, young := filepath.Join(dir, "segno", ".segno-old"), filepath.Join(dir, "segno", ".segno-young")
	for _, name := range []string{old, young} {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chtimes(old, time.Time{}, time.Now().Add(-24*time.Hour)); err != nil {
		t.Fatal(err)
	}
	if err := b.Put(t.Context(), "segno/1", []byte("1")); err != nil {
		t.Fatal(err)
	}
	var names []string
	for name, err := range b.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	if !slices.Equal(names, []string{"segno/1"}) {
		t.Errorf("List yields %q", names)
	}
	if _, err := os.Stat(old); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a temporary file of a killed process: %v", err)
	}
	if _, err := os.Stat(young); err != nil {
		t.Errorf("a temporary file that may be written now: %v", err)
	}
}
