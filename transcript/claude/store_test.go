package claude_test

import (
	"bytes"
	"context"
	"os"
	"sync"
	"testing"

	"github.com/dalsegno/segno"
)

// shelf is objects in memory. What a batch staged can be read at once.
type shelf struct {
	mu   sync.Mutex
	data map[segno.Hash][]byte
	puts int
	size int64 // of all new objects
}

func newShelf() *shelf { return &shelf{data: map[segno.Hash][]byte{}} }

func (s *shelf) Get(_ context.Context, name segno.Hash) ([]byte, error) {
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

func (s *shelf) Has(_ context.Context, name segno.Hash) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.data[name]
	return ok, nil
}

func (s *shelf) Put(_ context.Context, data []byte) (segno.Hash, error) {
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

func (s *shelf) Batch() segno.Batch                          { return s }
func (s *shelf) Keep(context.Context, segno.Staged) error    { return nil }
func (s *shelf) Stage(context.Context) (segno.Staged, error) { return segno.Staged{}, nil }
func (s *shelf) Close() error                                { return nil }
func (s *shelf) spoil(name segno.Hash, change func([]byte) []byte) {
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
