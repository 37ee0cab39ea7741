package workspace

import (
	"context"
	"fmt"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/dalsegno/segno"
)

// supply hands out what an Apply writes: contents, attributes and times. It keeps
// what it read for the check, up to a limit, for the writing.
type supply struct {
	objects segno.Objects
	wanted  map[segno.Hash]bool
	mu      sync.Mutex
	kept    map[segno.Hash][]byte
	room    int
	attrs   map[segno.Hash][]xattr
	root    segno.Hash              // of the times
	times   map[string][]timeRecord // by directory
}

// keepBytes is how much content stays in memory between check and writing.
const keepBytes = 64 << 20

func newSupply(objects segno.Objects, times segno.Hash) *supply {
	return &supply{
		objects: objects, root: times, room: keepBytes,
		wanted: make(map[segno.Hash]bool), kept: make(map[segno.Hash][]byte),
		attrs: make(map[segno.Hash][]xattr), times: make(map[string][]timeRecord),
	}
}

// want says that a content will be asked for.
func (s *supply) want(name segno.Hash) { s.wanted[name] = true }

// check reads everything that is wanted.
func (s *supply) check(ctx context.Context) error {
	names := make(chan segno.Hash, len(s.wanted))
	for name := range s.wanted {
		names <- name
	}
	close(names)
	errs := make(chan error, runtime.GOMAXPROCS(0))
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(s.wanted)) {
		wg.Go(func() {
			for name := range names {
				if err := s.read(ctx, name); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	wg.Wait()
	select {
	case err := <-errs:
		return err
	default:
		return nil
	}
}

func (s *supply) read(ctx context.Context, name segno.Hash) error {
	data, err := s.objects.Get(ctx, name)
	if err != nil {
		return fmt.Errorf("read content: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(data) <= s.room {
		s.room -= len(data)
		s.kept[name] = data
	}
	return nil
}

// content returns a file's bytes.
func (s *supply) content(ctx context.Context, name segno.Hash) ([]byte, error) {
	if data, ok := s.kept[name]; ok {
		return data, nil
	}
	data, err := s.objects.Get(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("read content: %w", err)
	}
	return data, nil
}

// xattrs returns a file's attributes; the zero hash has none.
func (s *supply) xattrs(ctx context.Context, name segno.Hash) ([]xattr, error) {
	if name.IsZero() {
		return nil, nil
	}
	if all, ok := s.attrs[name]; ok {
		return all, nil
	}
	data, err := s.objects.Get(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("read attributes: %w", err)
	}
	all, err := decodeXattrs(data)
	if err != nil {
		return nil, damaged("read attributes", name, err)
	}
	s.attrs[name] = all
	return all, nil
}

// mtime returns a file's modification time, if the times know it.
func (s *supply) mtime(ctx context.Context, p string) (int64, bool, error) {
	r, err := s.time(ctx, p)
	if r == nil || err != nil {
		return 0, false, err
	}
	return r.mtime, r.child.IsZero(), nil
}

// time returns the record at path, or nil.
func (s *supply) time(ctx context.Context, p string) (*timeRecord, error) {
	dir := path.Dir(p)
	records, ok := s.times[dir]
	if !ok {
		name := s.root
		if dir != "." {
			up, err := s.time(ctx, dir)
			if err != nil {
				return nil, err
			}
			name = segno.Hash{}
			if up != nil {
				name = up.child
			}
		}
		var err error
		if records, err = loadTimes(ctx, s.objects, name); err != nil {
			return nil, err
		}
		s.times[dir] = records
	}
	i, ok := slices.BinarySearchFunc(records, path.Base(p), func(r timeRecord, name string) int { return strings.Compare(r.name, name) })
	if !ok {
		return nil, nil
	}
	return &records[i], nil
}
