package kvtest

import (
	"context"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/store/kv"
)

// Map is a [kv.KV] in memory that is also a [kv.Batcher]. It is the shortest implementation of both
// interfaces. One lock guards all fields.
type Map struct {
	clock func() time.Time

	mu     sync.Mutex
	groups map[string]*mapGroup
	puts   uint64
}

// mapGroup is one group of keys. It is dropped with its last key.
type mapGroup struct {
	keys    []string // sorted
	items   map[string]kv.Item
	expires time.Time // zero if it does not expire
}

var (
	_ kv.KV      = (*Map)(nil)
	_ kv.Batcher = (*Map)(nil)
)

// NewMap returns an empty Map. Groups expire according to clock; nil means time.Now.
func NewMap(clock func() time.Time) *Map {
	if clock == nil {
		clock = time.Now
	}
	return &Map{clock: clock, groups: map[string]*mapGroup{}}
}

// begin locks the map for one call.
func (m *Map) begin(ctx context.Context) (end func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	return m.mu.Unlock, nil
}

// group returns a group. It returns an empty one if the group does not exist or has expired. An empty
// group is not in m.groups; apply adds it with its first key.
func (m *Map) group(name string) *mapGroup {
	g := m.groups[name]
	if g != nil && !g.expires.IsZero() && !m.clock().Before(g.expires) {
		delete(m.groups, name)
		g = nil
	}
	if g == nil {
		g = &mapGroup{items: map[string]kv.Item{}}
	}
	return g
}

func (m *Map) item(key string) (kv.Item, bool) {
	x, exists := m.group(kv.Group(key)).items[key]
	x.Val = append([]byte{}, x.Val...)
	return x, exists
}

// check returns an error unless the condition of a change holds.
func (m *Map) check(o kv.Op) error {
	g := m.group(kv.Group(o.Key))
	x, exists := g.items[o.Key]
	others := len(g.items)
	if exists {
		others--
	}
	switch {
	case o.Alone && others > 0:
		return segno.Errorf(segno.KindConflict, "write key", o.Key, "its group contains other keys")
	case o.If == kv.RevAny, o.If == kv.RevSome && exists, o.If == kv.RevNone && !exists, exists && x.Rev == o.If:
		return nil
	}
	return segno.NewError(segno.KindConflict, "write key", o.Key, nil)
}

// apply makes one change. The caller must have checked its condition.
func (m *Map) apply(o kv.Op) (rev kv.Rev) {
	name := kv.Group(o.Key)
	g := m.group(name)
	wasEmpty := len(g.items) == 0
	_, exists := g.items[o.Key]
	at, _ := slices.BinarySearch(g.keys, o.Key)
	switch {
	case o.Val != nil:
		if !exists {
			g.keys = slices.Insert(g.keys, at, o.Key)
		}
		m.puts++
		rev = kv.Rev(strconv.FormatUint(m.puts, 10))
		g.items[o.Key] = kv.Item{Key: o.Key, Val: append([]byte{}, o.Val...), Rev: rev}
	case exists && o.Delete:
		g.keys = slices.Delete(g.keys, at, at+1)
		delete(g.items, o.Key)
	}
	if len(g.items) == 0 {
		delete(m.groups, name)
		return rev
	}
	m.groups[name] = g
	if until := m.clock().Add(o.TTL); o.TTL > 0 && (wasEmpty || !g.expires.IsZero()) && until.After(g.expires) {
		g.expires = until
	}
	return rev
}

// Get implements [kv.KV].
func (m *Map) Get(ctx context.Context, key string) ([]byte, kv.Rev, error) {
	end, err := m.begin(ctx)
	if err != nil {
		return nil, "", err
	}
	defer end()
	x, exists := m.item(key)
	if !exists {
		return nil, "", segno.NewError(segno.KindNotFound, "read key", key, nil)
	}
	return x.Val, x.Rev, nil
}

// Put implements [kv.KV].
func (m *Map) Put(ctx context.Context, key string, val []byte, ifRev kv.Rev) (kv.Rev, error) {
	revs, err := m.Batch(ctx, []kv.Op{{Key: key, Val: val, If: ifRev}})
	if err != nil {
		return "", err
	}
	return revs[0], nil
}

// Delete implements [kv.KV].
func (m *Map) Delete(ctx context.Context, key string, ifRev kv.Rev) error {
	_, err := m.Batch(ctx, []kv.Op{{Delete: true, Key: key, If: ifRev}})
	return err
}

// List implements [kv.KV]. It yields the keys that existed when it began.
func (m *Map) List(ctx context.Context, prefix, after string, limit int) iter.Seq2[kv.Item, error] {
	return func(yield func(kv.Item, error) bool) {
		end, err := m.begin(ctx)
		if err != nil {
			yield(kv.Item{}, err)
			return
		}
		var found []kv.Item
		for _, key := range m.keys(prefix) {
			if key > after && strings.HasPrefix(key, prefix) && (limit <= 0 || len(found) < limit) {
				x, _ := m.item(key)
				found = append(found, x)
			}
		}
		end()
		for _, x := range found {
			if !yield(x, nil) {
				return
			}
		}
	}
}

// keys returns the sorted keys of the groups that may have keys with a prefix.
func (m *Map) keys(prefix string) (keys []string) {
	if name := kv.Group(prefix); strings.HasSuffix(name, "}") {
		return m.group(name).keys
	}
	for _, name := range slices.Collect(maps.Keys(m.groups)) {
		keys = append(keys, m.group(name).keys...)
	}
	slices.Sort(keys)
	return keys
}

// GetAll implements [kv.Batcher].
func (m *Map) GetAll(ctx context.Context, keys []string) ([][]byte, error) {
	end, err := m.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	vals := make([][]byte, len(keys))
	for i, key := range keys {
		if x, exists := m.item(key); exists {
			vals[i] = x.Val
		}
	}
	return vals, nil
}

// Batch implements [kv.Batcher]. It makes all changes together.
func (m *Map) Batch(ctx context.Context, ops []kv.Op) ([]kv.Rev, error) {
	end, err := m.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	for _, o := range ops {
		if err := m.check(o); err != nil {
			return nil, err
		}
	}
	revs := make([]kv.Rev, len(ops))
	for i, o := range ops {
		revs[i] = m.apply(o)
	}
	return revs, nil
}
