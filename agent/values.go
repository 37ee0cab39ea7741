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

// Values is an agent's state: JSON values by key. Changes become durable with the step. The
// methods are safe for concurrent use and return copies.
type Values struct {
	mu    sync.Mutex
	all   map[string]json.RawMessage
	dirty map[string]bool

	// The view of a call records the call's changes, so that they can be reverted.
	of       *Values
	changed  map[string]valueChange
	recorded map[string]json.RawMessage // what the step in progress changed; nil without a step
}

// valueChange is a value before and after a call changed it; nil means that there is no value.
type valueChange struct{ before, after json.RawMessage }

func newValues(all map[string]json.RawMessage) *Values {
	s := &Values{all: map[string]json.RawMessage{}, dirty: map[string]bool{}}
	maps.Copy(s.all, all)
	return s
}

// forCall returns a view of the values for one call.
func (s *Values) forCall() *Values { return &Values{of: s, changed: map[string]valueChange{}} }

// revert reverts the changes of a call with an unknown outcome, except values that were
// changed again since. It reports whether it reverted any.
func (s *Values) revert() (any bool) {
	all := s.lock()
	defer all.mu.Unlock()
	for key, c := range s.changed {
		if now, ok := all.all[key]; ok == (c.after != nil) && bytes.Equal(now, c.after) {
			all.change(all, key, c.before)
			delete(s.changed, key)
			any = true
		}
	}
	return any
}

// lock locks the values, of which s may be a view, and returns them.
func (s *Values) lock() *Values {
	all := s
	if s.of != nil {
		all = s.of
	}
	all.mu.Lock()
	return all
}

// change sets a value, or deletes it if raw is nil. all is locked.
func (s *Values) change(all *Values, key string, raw json.RawMessage) {
	if s.of != nil {
		c, ok := s.changed[key]
		if !ok {
			c.before = all.all[key]
		}
		c.after = raw
		s.changed[key] = c
		if s.recorded != nil {
			s.recorded[key] = raw
		}
	}
	all.put(key, raw)
}

// startRecording begins to record the changes of a step, in the view of a call.
func (s *Values) startRecording() {
	all := s.lock()
	defer all.mu.Unlock()
	s.recorded = map[string]json.RawMessage{}
}

// stopRecording returns the values that the step changed.
func (s *Values) stopRecording() (changed []valueRecord) {
	all := s.lock()
	defer all.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(s.recorded)) {
		changed = append(changed, valueRecord{key, s.recorded[key]})
	}
	s.recorded = nil
	return changed
}

// replay repeats the changes of a step.
func (s *Values) replay(changed []valueRecord) {
	all := s.lock()
	defer all.mu.Unlock()
	for _, c := range changed {
		s.change(all, c.Key, c.Value)
	}
}

// load sets a value that the caller commits.
func (s *Values) load(key string, raw json.RawMessage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all[key] = raw
}

// Get decodes a value into v and reports whether it exists.
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

// Set sets a value. It refuses keys that begin with a dot: they are reserved for the agent.
func (s *Values) Set(key string, v any) error {
	if err := checkKey(key); err != nil {
		return err
	}
	return s.set(key, v)
}

func checkKey(key string) error {
	if strings.HasPrefix(key, ".") {
		return segno.Errorf(segno.KindRefused, "write state", key, "keys that begin with a dot are reserved for the agent")
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

// put sets a value, or deletes it if raw is nil. s is locked.
func (s *Values) put(key string, raw json.RawMessage) {
	if s.all == nil {
		s.all, s.dirty = map[string]json.RawMessage{}, map[string]bool{}
	}
	if old, ok := s.all[key]; ok == (raw != nil) && bytes.Equal(old, raw) {
		return
	}
	if s.all[key] = raw; raw == nil {
		delete(s.all, key)
	}
	s.dirty[key] = true
}

// Update changes a value atomically: edit receives the value, nil if there is none, and
// returns the new one. edit must not call methods of s. If edit returns an error, Update changes
// nothing.
func (s *Values) Update(key string, edit func(old json.RawMessage) (any, error)) error {
	if err := checkKey(key); err != nil {
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

// Delete deletes a value. It ignores the agent's reserved keys.
func (s *Values) Delete(key string) {
	if checkKey(key) == nil {
		s.delete(key)
	}
}

func (s *Values) delete(key string) {
	all := s.lock()
	defer all.mu.Unlock()
	s.change(all, key, nil)
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

// changes returns entries with the values changed since the last commit. The caller calls
// saved after it has committed them.
func (s *Values) changes() (entries []segno.Entry, saved func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(s.dirty)) {
		entries = append(entries, segno.Entry{Kind: segno.EntryState, Name: key, Body: s.all[key]}) // no body deletes the key
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

// snapshot returns a copy of all values.
func (s *Values) snapshot() map[string]json.RawMessage {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.all)
}
