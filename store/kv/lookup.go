package kv

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/dalsegno/segno"
)

// A look-up is an index entry: a key from which the store finds a record. It is in a group outside its
// thread, and is written before the record. If its writer lost or died, a look-up may therefore refer to
// no record, or to another commit. It is valid only if the record confirms it.

// lookUp is a look-up that was read.
type lookUp struct {
	position
	key string
}

// lineEnd is the position of a commit, with the runs of its line if they are known.
type lineEnd struct {
	position
	line []run
}

// lookUpOp returns the change that writes a look-up. The value contains the thread's id if that is too
// long for the key.
func (s *Store) lookUpOp(group string, at position) Op {
	key, content := group+at.lookUpName(), []byte(nil)
	if escape(string(at.thread))[0] == hashMark {
		content = []byte(at.thread)
	}
	return Op{Key: key, Val: s.code.frame(key, content), If: RevAny, TTL: 2 * s.options.TTL}
}

func (s *Store) decodeLookUp(item Item) (lookUp, error) {
	key := item.Key
	content, err := s.code.unframe(key, item.Val)
	if err != nil {
		return lookUp{}, err
	}
	name := key[len(Group(key)):]
	p := position{thread: segno.ThreadID(content)}
	if i := strings.LastIndexByte(name, '/'); i > 0 && i+1 < len(name) {
		if p.thread == "" {
			p.thread = segno.ThreadID(unescape(name[:i]))
		}
		p.area = name[i+1]
		p.pos, err = strconv.ParseUint(name[i+2:], 10, 64)
	}
	if err != nil || p.thread == "" || p.area != areaLog && p.area != areaOld {
		return lookUp{}, damaged(key, errors.New("it has no position"))
	}
	return lookUp{p, key}, nil
}

// listLookUps reads a group of look-ups.
func (s *Store) listLookUps(ctx context.Context, group string) ([]lookUp, error) {
	return listDecoded(ctx, s.kv, group, s.decodeLookUp)
}

// listDecoded decodes all values of a group.
func listDecoded[T any](ctx context.Context, kv KV, group string, decode func(Item) (T, error)) (all []T, err error) {
	for item, err := range kv.List(ctx, group, "", 0) {
		if err != nil {
			return nil, err
		}
		x, err := decode(item)
		if err != nil {
			return nil, err
		}
		all = append(all, x)
	}
	return all, nil
}

// readLookUps reads a group of look-ups and the records to which they refer.
func (s *Store) readLookUps(ctx context.Context, group string) (all []lookUp, found map[position]*logRecord, err error) {
	if all, err = s.listLookUps(ctx, group); err != nil {
		return nil, nil, err
	}
	at := make([]position, len(all))
	for i, l := range all {
		at[i] = l.position
	}
	found, err = s.read(ctx, at)
	return all, found, err
}

// checkLookUp returns an error if a look-up refers to a position that the thread has passed but that has
// no record, because the KV has then lost the record. isNext reports that the thread's next record may
// be the one for which the look-up was written.
func (s *Store) checkLookUp(ctx context.Context, l lookUp) (isNext bool, err error) {
	if l.area == areaOld {
		return false, nil
	}
	st, err := s.readState(ctx, l.thread, false)
	if err != nil || l.pos > st.pos {
		return err == nil && l.pos == st.pos+1, err
	}
	found, err := s.read(ctx, []position{l.position}) // it may have been written after the look-up was read
	if err == nil && found[l.position] == nil {
		err = missing(l.position.key())
	}
	return false, err
}

// removeStale removes a look-up whose position has no record, if no writer can be about to write that
// record: the look-up is left over from an expired thread.
func (s *Store) removeStale(ctx context.Context, l lookUp) error {
	st, err := s.readState(ctx, l.thread, false)
	if err == nil && (l.area == areaOld || l.pos > st.pos+1) {
		err = s.kv.Delete(ctx, l.key, RevAny)
	}
	return err
}

// find returns the record of a node, with all runs of its line, or nil if the node does not exist.
func (s *Store) find(ctx context.Context, id segno.CommitID) (*logRecord, error) {
	found, err := s.ancestors(ctx, id, 1)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return found[0], s.completeLine(ctx, found[0], nil)
}

// read reads records, in one round trip if the KV supports that. The result leaves out records that do
// not exist.
func (s *Store) read(ctx context.Context, positions []position) (map[position]*logRecord, error) {
	keys := make([]string, len(positions))
	for i, p := range positions {
		keys[i] = p.key()
	}
	vals, err := s.getAll(ctx, keys)
	if err != nil {
		return nil, err
	}
	records := make([]*logRecord, len(vals))
	err = inParallel(len(vals), func(from, to int) (err error) {
		for i := from; i < to && err == nil; i++ {
			if vals[i] != nil {
				records[i], err = decodeLogRecord(s.code, positions[i], vals[i])
			}
		}
		return err
	})
	found := make(map[position]*logRecord, len(positions))
	for i, e := range records {
		if e != nil {
			found[positions[i]] = e
		}
	}
	return found, err
}

// maxKeys is the largest number of keys in one round trip.
const maxKeys = 4096

// getAll reads values. The value of a missing key is nil.
func (s *Store) getAll(ctx context.Context, keys []string) ([][]byte, error) {
	vals := make([][]byte, 0, len(keys))
	for part := range slices.Chunk(keys, maxKeys) {
		some, err := s.batcher.GetAll(ctx, part)
		if err != nil {
			return nil, err
		}
		vals = append(vals, some...)
	}
	return vals, nil
}

// get reads one value, which is nil if the key does not exist.
func (s *Store) get(ctx context.Context, key string) (val []byte, rev Rev, err error) {
	if val, rev, err = s.kv.Get(ctx, key); isKind(err, segno.KindNotFound) {
		return nil, RevNone, nil
	}
	return val, rev, err
}
