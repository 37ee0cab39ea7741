package chaostest

import (
	"context"
	"io/fs"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// bucket is a directory that answers slowly.
type bucket struct {
	dir  string
	slow time.Duration // at most
}

func (b bucket) wait(ctx context.Context) error {
	if b.slow == 0 {
		return ctx.Err()
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(rand.N(b.slow)):
		return nil
	}
}

// Put implements [postgres.Bucket]. The object has its name once it is complete.
func (b bucket) Put(ctx context.Context, name string, data []byte) error {
	if err := b.wait(ctx); err != nil {
		return err
	}
	path := filepath.Join(b.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(b.dir, "put-")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	if _, err = f.Write(data); err == nil {
		err = f.Close()
	}
	if err != nil {
		return err
	}
	return os.Link(f.Name(), path)
}

// Get implements [postgres.Bucket].
func (b bucket) Get(ctx context.Context, name string) ([]byte, error) {
	if err := b.wait(ctx); err != nil {
		return nil, err
	}
	return os.ReadFile(filepath.Join(b.dir, name))
}

// List implements [postgres.Bucket].
func (b bucket) List(_ context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		err := filepath.WalkDir(b.dir, func(path string, d fs.DirEntry, err error) error {
			name, relErr := filepath.Rel(b.dir, path)
			if err != nil || relErr != nil {
				return err
			}
			if !d.IsDir() && strings.HasPrefix(name, prefix) && !yield(name, nil) {
				return fs.SkipAll
			}
			return nil
		})
		if err != nil {
			yield("", err)
		}
	}
}

// Delete implements [postgres.Bucket].
func (b bucket) Delete(_ context.Context, name string) error {
	return os.RemoveAll(filepath.Join(b.dir, name))
}
