package agent

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/dalsegno/segno"
)

// Values is an agent's state: values by key, as JSON. What is changed during a
// step becomes durable with the step. All methods may be called at once; what they
// return are copies.
type Values struct {
	mu    sync.Mutex
	all   map[string]json.RawMessage
	dirty map[string]bool

	of    *Values // whose values these are, for what one call is given
	found map[string]mark
}

// mark is what a call found of a value, and what it left; nil is none.
type mark struct{ found, left json.RawMessage }

func newValues(all map[string]json.RawMessage) *Values {
	return &Values{all: maps.Clone(all), dirty: map[string]bool{}}
}

// forCall are the values as one call changes them, so that it can be taken back.
func (s *Values) forCall() *Values { return &Values{of: s, found: map[string]mark{}} }

// takeBack undoes what a call changed and nobody has changed since: its end was not
// heard, and it is made again. It reports whether there was anything.
func (s *Values) takeBack() (any bool) {
	all := s.lock()
	defer all.mu.Unlock()
	for key, t := range s.found {
		if now, ok := all.all[key]; ok == (t.left != nil) && bytes.Equal(now, t.left) {
			all.change(all, key, t.found)
			delete(s.found, key)
			any = true
		}
	}
	return any
}

// lock locks the values and returns whose they are.
func (s *Values) lock() *Values {
	all := s
	if s.of != nil {
		all = s.of
	}
	all.mu.Lock()
	return all
}

// change sets a value, or with nil takes it away; all is locked.
func (s *Values) change(all *Values, key string, raw json.RawMessage) {
	if s.of != nil {
		t, known := s.found[key]
		if !known {
			t.found = all.all[key]
		}
		t.left = raw
		s.found[key] = t
	}
	if raw == nil {
		all.remove(key)
	} else {
		all.put(key, raw)
	}
}

// Get reads a value into v and reports whether there is one.
func (s *Values) Get(key string, v any) (bool, error) {
	all := s.lock()
	raw, ok := all.all[key]
	all.mu.Unlock()
	if !ok {
		return false, nil
	}
	if err := json.Unmarshal(raw, v); err != nil {
		return true, segno.NewError(segno.KindCorrupt, "read state", key, err)
	}
	return true, nil
}

// Set sets a value. Keys that begin with a dot are the agent's own, and refused.
func (s *Values) Set(key string, v any) error {
	if err := notOwn(key); err != nil {
		return err
	}
	return s.set(key, v)
}

func notOwn(key string) error {
	if strings.HasPrefix(key, ".") {
		return segno.Errorf(segno.KindRefused, "write state", key, "keys that begin with a dot are the agent's own")
	}
	return nil
}

func (s *Values) set(key string, v any) error {
	raw, err := segno.Encode(v)
	if err != nil {
		return segno.NewError(segno.KindInvalid, "write state", key, err)
	}
	all := s.lock()
	defer all.mu.Unlock()
	s.change(all, key, raw)
	return nil
}

func (s *Values) put(key string, raw json.RawMessage) {
	if s.all == nil {
		s.all = map[string]json.RawMessage{}
	}
	if s.dirty == nil {
		s.dirty = map[string]bool{}
	}
	if old, ok := s.all[key]; ok && bytes.Equal(old, raw) {
		return
	}
	s.all[key] = raw
	s.dirty[key] = true
}

// Update changes a value in one go: edit gets what is there, nil if nothing is, and
// returns what shall be. Other changes wait meanwhile, so edit must not call s itself;
// an error changes nothing.
func (s *Values) Update(key string, edit func(old json.RawMessage) (any, error)) error {
	if err := notOwn(key); err != nil {
		return err
	}
	all := s.lock()
	defer all.mu.Unlock()
	v, err := edit(bytes.Clone(all.all[key]))
	if err != nil {
		return err
	}
	raw, err := segno.Encode(v)
	if err != nil {
		return fmt.Errorf("write state %s: %w", key, err)
	}
	s.change(all, key, raw)
	return nil
}

// Delete takes a value away; the agent's own stay.
func (s *Values) Delete(key string) {
	if notOwn(key) == nil {
		s.delete(key)
	}
}

func (s *Values) delete(key string) {
	all := s.lock()
	defer all.mu.Unlock()
	s.change(all, key, nil)
}

func (s *Values) remove(key string) {
	if _, ok := s.all[key]; ok {
		delete(s.all, key)
		s.dirty[key] = true
	}
}

// Keys returns the keys that begin with prefix, sorted.
func (s *Values) Keys(prefix string) (keys []string) {
	all := s.lock()
	defer all.mu.Unlock()
	for k := range all.all {
		if strings.HasPrefix(k, prefix) {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	return keys
}

// changes are the entries that make what was changed durable. settled is called
// once they are.
func (s *Values) changes() (entries []segno.Entry, settled func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	took := s.dirty
	for _, key := range slices.Sorted(maps.Keys(took)) {
		e := segno.Entry{Kind: segno.EntryState, Name: key}
		if raw, ok := s.all[key]; ok {
			e.Body = raw
		}
		entries = append(entries, e)
	}
	return entries, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, e := range entries {
			if raw, ok := s.all[e.Name]; ok == (e.Body != nil) && bytes.Equal(raw, e.Body) {
				delete(s.dirty, e.Name)
			}
		}
	}
}

// snapshot is a copy of everything.
func (s *Values) snapshot() map[string]json.RawMessage {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.all)
}
