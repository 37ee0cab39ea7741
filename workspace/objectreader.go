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

// objectReader reads the objects that an Apply writes: contents, attributes and times. It keeps
// the contents that prefetch read in memory, up to a limit.
type objectReader struct {
	objects segno.Objects
	mu      sync.Mutex
	kept    map[segno.Hash][]byte
	room    int // the number of bytes that kept can still hold
	attrs   map[segno.Hash][]xattr
	root    segno.Hash              // the root of the times objects
	times   map[string][]timeRecord // by directory
}

// maxKept is the largest size of contents that stay in memory between prefetch and the writes.
const maxKept = 64 << 20

func newObjectReader(objects segno.Objects, times segno.Hash) *objectReader {
	return &objectReader{
		objects: objects, root: times, room: maxKept,
		kept: make(map[segno.Hash][]byte), attrs: make(map[segno.Hash][]xattr), times: make(map[string][]timeRecord),
	}
}

// prefetch reads contents, so that a missing or corrupt one causes an error before the first
// write.
func (r *objectReader) prefetch(ctx context.Context, names []segno.Hash) error {
	slices.SortFunc(names, func(a, b segno.Hash) int { return slices.Compare(a[:], b[:]) })
	fetch := func(name segno.Hash) error {
		_, err := r.content(ctx, name)
		return err
	}
	return newQueue(slices.Compact(names)).run(ctx, func() (func(segno.Hash) error, func()) { return fetch, func() {} })
}

// content returns a file's bytes, and keeps them in memory if there is room.
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

// xattrs returns a file's attributes; none for the zero hash.
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

// time returns the record of the times at path, or nil.
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
