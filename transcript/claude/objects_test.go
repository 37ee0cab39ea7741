package claude_test

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
)

// memoryObjects are objects in memory. An object of a batch can be read immediately.
type memoryObjects struct {
	mu   sync.Mutex
	data map[segno.Hash][]byte
	puts int
	size int64 // of all new objects
}

func newMemoryObjects() *memoryObjects { return &memoryObjects{data: map[segno.Hash][]byte{}} }

func (s *memoryObjects) Get(_ context.Context, name segno.Hash) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	data, ok := s.data[name]
	if !ok {
		return nil, segno.NewError(segno.KindNotFound, "get object", name.String(), nil)
	}
	if segno.HashOf(data) != name {
		return nil, segno.NewError(segno.KindCorrupt, "get object", name.String(), nil)
	}
	return bytes.Clone(data), nil
}

func (s *memoryObjects) Has(_ context.Context, name segno.Hash) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.data[name]
	return ok, nil
}

func (s *memoryObjects) Put(_ context.Context, data []byte) (segno.Hash, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.puts++
	name := segno.HashOf(data)
	if _, ok := s.data[name]; !ok {
		s.data[name] = bytes.Clone(data)
		s.size += int64(len(data))
	}
	return name, nil
}

func (s *memoryObjects) Batch() segno.Batch                          { return s }
func (s *memoryObjects) Keep(context.Context, segno.Staged) error    { return nil }
func (s *memoryObjects) Stage(context.Context) (segno.Staged, error) { return segno.Staged{}, nil }
func (s *memoryObjects) Close() error                                { return nil }
func (s *memoryObjects) corrupt(name segno.Hash, change func([]byte) []byte) {
	s.data[name] = change(s.data[name])
}

// snapshot reads a directory tree into a map, to compare before and after.
func snapshot(t testing.TB, root string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := walkFiles(root, func(path string) error {
		data, err := os.ReadFile(path)
		out[path] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func walkFiles(root string, do func(path string) error) error {
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		return do(path)
	})
}

// noSync is the operating system without fsync, for speed.
type noSync struct{ vfs.FS }

func (q noSync) OpenFile(name string, flag int, perm fs.FileMode) (vfs.File, error) {
	f, err := q.FS.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return noSyncFile{f}, nil
}

func (noSync) SyncDir(string) error { return nil }

type noSyncFile struct{ vfs.File }

func (noSyncFile) Sync() error { return nil }
