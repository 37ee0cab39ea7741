package workspace

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/dalsegno/segno"
)

// objectReader reads the objects that an Apply writes: contents, attributes and times. It
// keeps the contents that prefetch read, up to a limit.
type objectReader struct {
	objects segno.Objects
	mu      sync.Mutex
	kept    map[segno.Hash][]byte
	room    int // how many bytes kept can still take
	attrs   map[segno.Hash][]xattr
	root    segno.Hash              // of the times
	times   map[string][]timeRecord // by directory
}

// maxKept is how much content stays in memory between prefetch and the writing.
const maxKept = 64 << 20

func newObjectReader(objects segno.Objects, times segno.Hash) *objectReader {
	return &objectReader{
		objects: objects, root: times, room: maxKept,
		kept: make(map[segno.Hash][]byte), attrs: make(map[segno.Hash][]xattr), times: make(map[string][]timeRecord),
	}
}

// prefetch reads contents, so that a missing or corrupt one is noticed before the first write.
func (r *objectReader) prefetch(ctx context.Context, names []segno.Hash) error {
	slices.SortFunc(names, func(a, b segno.Hash) int { return slices.Compare(a[:], b[:]) })
	fetch := func(name segno.Hash) error {
		_, err := r.content(ctx, name)
		return err
	}
	return newQueue(slices.Compact(names)).run(ctx, func() (func(segno.Hash) error, func()) { return fetch, func() {} })
}

// content returns a file's bytes, and keeps them if there is room.
func (r *objectReader) content(ctx context.Context, name segno.Hash) ([]byte, error) {
	r.mu.Lock()
	data, ok := r.kept[name]
	r.mu.Unlock()
	if ok {
		return data, nil
	}
	data, err := r.objects.Get(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("read content: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(data) <= r.room {
		r.room -= len(data)
		r.kept[name] = data
	}
	return data, nil
}

// xattrs returns a file's attributes; the zero hash has none.
func (r *objectReader) xattrs(ctx context.Context, name segno.Hash) ([]xattr, error) {
	if all, ok := r.attrs[name]; ok {
		return all, nil
	}
	all, err := load(ctx, r.objects, "attributes", name, decodeXattrs)
	if err == nil {
		r.attrs[name] = all
	}
	return all, err
}

// time returns the times' record at path, or nil.
func (r *objectReader) time(ctx context.Context, p string) (*timeRecord, error) {
	dir := dirOf(p)
	records, ok := r.times[dir]
	if !ok {
		name := r.root
		if dir != "" {
			up, err := r.time(ctx, dir)
			if err != nil {
				return nil, err
			}
			name = segno.Hash{}
			if up != nil {
				name = up.child
			}
		}
		var err error
		if records, err = loadTimes(ctx, r.objects, name); err != nil {
			return nil, err
		}
		r.times[dir] = records
	}
	i, ok := slices.BinarySearchFunc(records, path.Base(p), func(r timeRecord, name string) int { return strings.Compare(r.name, name) })
	if !ok {
		return nil, nil
	}
	return &records[i], nil
}
