package kv

import (
	"context"
	"iter"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dalsegno/segno"
)

// Map is a [KV] in memory, with the abilities [Getter] and [Batcher]: what the
// interfaces mean in the fewest lines. One lock guards all of it.
type Map struct {
	clock func() time.Time

	mu    sync.Mutex
	keys  []string // in order
	items map[string]Item
	ends  map[string]time.Time // of groups that expire
	count uint64
}

var (
	_ KV      = (*Map)(nil)
	_ Getter  = (*Map)(nil)
	_ Batcher = (*Map)(nil)
)

// NewMap returns an empty Map. clock tells when groups expire; nil is time.Now.
func NewMap(clock func() time.Time) *Map {
	if clock == nil {
		clock = time.Now
	}
	return &Map{clock: clock, items: map[string]Item{}, ends: map[string]time.Time{}}
}

// begin takes the lock for one call and drops the groups whose time is over.
func (m *Map) begin(ctx context.Context) (end func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	for group, end := range m.ends {
		if !m.clock().Before(end) {
			delete(m.ends, group)
			for first := m.group(group); len(first) > 0; first = m.group(group) {
				m.drop(first[0])
			}
		}
	}
	return m.mu.Unlock, nil
}

// group returns the first two keys of a group.
func (m *Map) group(group string) (first []string) {
	at, _ := slices.BinarySearch(m.keys, group)
	for _, key := range m.keys[at:min(at+2, len(m.keys))] {
		if Group(key) == group {
			first = append(first, key)
		}
	}
	return first
}

func (m *Map) set(key string, val []byte) Rev {
	if _, there := m.items[key]; !there {
		at, _ := slices.BinarySearch(m.keys, key)
		m.keys = slices.Insert(m.keys, at, key)
	}
	m.count++
	rev := Rev(strconv.FormatUint(m.count, 10))
	m.items[key] = Item{Key: key, Val: append([]byte{}, val...), Rev: rev}
	return rev
}

func (m *Map) drop(key string) {
	if at, there := slices.BinarySearch(m.keys, key); there {
		m.keys = slices.Delete(m.keys, at, at+1)
		delete(m.items, key)
	}
}

func (m *Map) holds(key string, ifRev Rev) error {
	x, there := m.items[key]
	switch {
	case ifRev == RevAny, ifRev == RevSome && there, ifRev == RevNone && !there, there && x.Rev == ifRev:
		return nil
	}
	return segno.NewError(segno.KindConflict, "write key", key, nil)
}

// Get implements [KV].
func (m *Map) Get(ctx context.Context, key string) ([]byte, Rev, error) {
	end, err := m.begin(ctx)
	if err != nil {
		return nil, "", err
	}
	defer end()
	x, there := m.items[key]
	if !there {
		return nil, "", segno.NewError(segno.KindNotFound, "read key", key, nil)
	}
	return append([]byte{}, x.Val...), x.Rev, nil
}

// Put implements [KV].
func (m *Map) Put(ctx context.Context, key string, val []byte, ifRev Rev) (Rev, error) {
	end, err := m.begin(ctx)
	if err != nil {
		return "", err
	}
	defer end()
	if err := m.holds(key, ifRev); err != nil {
		return "", err
	}
	return m.set(key, val), nil
}

// Delete implements [KV].
func (m *Map) Delete(ctx context.Context, key string, ifRev Rev) error {
	end, err := m.begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	if err := m.holds(key, ifRev); err != nil {
		return err
	}
	m.drop(key)
	return nil
}

// List implements [KV]. What it yields is of the moment it began.
func (m *Map) List(ctx context.Context, prefix, after string, limit int) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		end, err := m.begin(ctx)
		if err != nil {
			yield(Item{}, err)
			return
		}
		var found []Item
		at, _ := slices.BinarySearch(m.keys, max(prefix, after))
		for _, key := range m.keys[at:] {
			if !strings.HasPrefix(key, prefix) || limit > 0 && len(found) == limit {
				break
			}
			if key > after {
				x := m.items[key]
				x.Val = append([]byte{}, x.Val...)
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

// GetAll implements [Getter].
func (m *Map) GetAll(ctx context.Context, keys []string) ([][]byte, error) {
	end, err := m.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	vals := make([][]byte, len(keys))
	for i, key := range keys {
		if x, there := m.items[key]; there {
			vals[i] = append([]byte{}, x.Val...)
		}
	}
	return vals, nil
}

// Batch implements [Batcher]; all of it is done together.
func (m *Map) Batch(ctx context.Context, ops []Op) ([]Rev, error) {
	end, err := m.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	for _, o := range ops {
		if err := m.holds(o.Key, o.If); err != nil {
			return nil, err
		}
		first := m.group(Group(o.Key))
		if o.Alone && slices.ContainsFunc(first, func(key string) bool { return key != o.Key }) {
			return nil, segno.Errorf(segno.KindConflict, "write key", o.Key, "it is not alone in its group")
		}
	}
	revs := make([]Rev, len(ops))
	for i, o := range ops {
		group := Group(o.Key)
		before := m.group(group)
		switch o.Do {
		case ActPut:
			revs[i] = m.set(o.Key, o.Val)
		case ActDelete:
			m.drop(o.Key)
		}
		now := m.group(group)
		_, mortal := m.ends[group]
		switch until := m.clock().Add(o.TTL); {
		case len(now) == 0:
			delete(m.ends, group)
		case o.TTL > 0 && (len(before) == 0 || mortal) && until.After(m.ends[group]):
			m.ends[group] = until
		}
	}
	return revs, nil
}
