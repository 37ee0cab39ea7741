package kv

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/dalsegno/segno"
)

// located is where a commit is, and its line if that is known.
type located struct {
	place
	line []run
}

// A look-up stands in a group that is not its thread's and is written before the
// record it leads to. One that leads nowhere, or to another commit, is what a
// writer that was too late or too dead left; so a look-up is proved by the record.

// content is what the key of a look-up does not say: an id that is too long for one.
func (p place) content() []byte {
	if hashed := escape(string(p.thread)); hashed[0] == hashMark {
		return []byte(p.thread)
	}
	return nil
}

func (s *Store) decodePlace(key string, val []byte) (place, error) {
	content, err := s.code.unframe(key, val)
	if err != nil {
		return place{}, err
	}
	name := key[len(Group(key)):]
	thread, at := "", ""
	if i := strings.LastIndexByte(name, '/'); i > 0 {
		thread, at = name[:i], name[i+1:]
	}
	p := place{thread: segno.ThreadID(content)}
	if len(content) == 0 {
		p.thread = segno.ThreadID(unescape(thread))
	}
	if at != "" {
		p.area = at[0]
		p.pos, err = strconv.ParseUint(at[1:], 10, 64)
	}
	if err != nil || p.thread == "" || p.area != areaLog && p.area != areaOld {
		return place{}, damaged(key, errors.New("it names no place"))
	}
	return p, nil
}

// lookUps reads where a group of look-ups leads.
func (s *Store) lookUps(ctx context.Context, group string) (keys []string, at []place, err error) {
	for item, err := range s.kv.List(ctx, group, "", 0) {
		if err != nil {
			return nil, nil, err
		}
		p, err := s.decodePlace(item.Key, item.Val)
		if err != nil {
			return nil, nil, err
		}
		keys, at = append(keys, item.Key), append(at, p)
	}
	return keys, at, nil
}

// stale takes a look-up away that leads to a place where nothing is, if nobody can
// be about to write there: an expired thread left it. It returns the position at
// which the thread goes on.
func (s *Store) stale(ctx context.Context, key string, p place) (next uint64, err error) {
	st, err := s.fresh(ctx, p.thread, false)
	if err != nil {
		return 0, err
	}
	next = 1
	if st != nil {
		next = st.pos + 1
	}
	if p.area == areaOld || p.pos > next {
		err = s.kv.Delete(ctx, key, RevAny)
	}
	return next, err
}

// find returns a commit's record, or nil if there is none.
func (s *Store) find(ctx context.Context, id segno.CommitID) (*entry, error) {
	if id == "" {
		return nil, nil
	}
	if at, ok := s.places.get(id); ok {
		found, err := s.read(ctx, []place{at.place})
		if err != nil {
			return nil, err
		}
		if e := found[at.place]; e != nil && e.id == id {
			return e, s.complete(ctx, e, nil)
		}
		s.places.drop(id)
	}
	_, at, err := s.lookUps(ctx, commitGroup(id))
	if err != nil {
		return nil, err
	}
	found, err := s.read(ctx, at)
	if err != nil {
		return nil, err
	}
	for _, p := range at {
		if e := found[p]; e != nil && e.id == id {
			if err := s.complete(ctx, e, nil); err != nil {
				return nil, err
			}
			s.places.put(id, located{p, e.line.runs})
			return e, nil
		}
	}
	return nil, nil
}

// read reads records, in one round trip where the KV can; what is not there is
// not in the answer.
func (s *Store) read(ctx context.Context, places []place) (map[place]*entry, error) {
	found := make(map[place]*entry, len(places))
	if s.getter == nil {
		return found, s.readRanges(ctx, places, func(p place, val []byte) error {
			e, err := decodeEntry(s.code, p, val)
			found[p] = e
			return err
		})
	}
	keys := make([]string, len(places))
	for i, p := range places {
		keys[i] = p.key()
	}
	vals, err := s.getAll(ctx, keys)
	if err != nil {
		return nil, err
	}
	entries := make([]*entry, len(vals))
	err = shared(len(vals), func(from, to int) (err error) {
		for i := from; i < to && err == nil; i++ {
			if vals[i] != nil {
				entries[i], err = decodeEntry(s.code, places[i], vals[i])
			}
		}
		return err
	})
	for i, e := range entries {
		if e != nil {
			found[places[i]] = e
		}
	}
	return found, err
}

// readRanges reads neighbours, which come newest first, by one List.
func (s *Store) readRanges(ctx context.Context, places []place, take func(place, []byte) error) error {
	for len(places) > 0 {
		n := 1
		for n < len(places) && places[n].thread == places[0].thread && places[n].area == places[0].area && places[n].pos == places[n-1].pos-1 {
			n++
		}
		first := places[n-1]
		byKey := make(map[string]place, n)
		for _, p := range places[:n] {
			byKey[p.key()] = p
		}
		before := place{first.thread, first.area, first.pos - 1}.key()
		for item, err := range s.kv.List(ctx, threadGroup(first.thread)+areaName(first.area)+"/", before, n) {
			if err != nil {
				return err
			}
			if p, asked := byKey[item.Key]; asked {
				if err := take(p, item.Val); err != nil {
					return err
				}
			}
		}
		places = places[n:]
	}
	return nil
}

// mostKeys is how many keys one round trip asks for.
const mostKeys = 4096

// getAll reads keys; nil for what is not there.
func (s *Store) getAll(ctx context.Context, keys []string) ([][]byte, error) {
	vals := make([][]byte, 0, len(keys))
	for len(keys) > 0 {
		part := keys[:min(len(keys), mostKeys)]
		keys = keys[len(part):]
		if s.getter != nil {
			some, err := s.getter.GetAll(ctx, part)
			if err != nil {
				return nil, err
			}
			vals = append(vals, some...)
			continue
		}
		for _, key := range part {
			val, _, err := s.kv.Get(ctx, key)
			if err != nil && segno.KindOf(err) != segno.KindNotFound {
				return nil, err
			}
			vals = append(vals, val)
		}
	}
	return vals, nil
}
