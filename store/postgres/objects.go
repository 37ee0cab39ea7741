package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/record"
	"github.com/jackc/pgx/v5"
)

// objects is the store's object part.
type objects struct{ s *Store }

// Objects implements [segno.Store].
func (s *Store) Objects() segno.Objects { return objects{s} }

// Get implements [segno.Objects].
func (o objects) Get(ctx context.Context, name segno.Hash) ([]byte, error) {
	const op = "read object"
	var size int64
	var stored []byte
	var body *string
	kept := o.s.named(name)
	err := o.s.row(ctx, op, name.String(), `SELECT size, data, body FROM {}objects WHERE name = $1`, []any{kept[:]}, &size, &stored, &body)
	if err != nil {
		return nil, err
	}
	if body != nil {
		if err := o.s.enter(ctx, op); err != nil {
			return nil, err
		}
		defer o.s.calls.Done()
		if stored, err = o.s.getBody(ctx, op, name.String(), *body); err != nil {
			return nil, o.s.fail(ctx, op, name.String(), err)
		}
	}
	if len(stored) > 0 {
		if stored, err = o.s.seal.Open(stored, "object", string(kept[:])); err != nil {
			return nil, corrupt(op, name.String(), err)
		}
	}
	if len(stored) == 0 {
		return nil, corrupt(op, name.String(), errors.New("its bytes are missing"))
	}
	data, err := o.s.squeeze.Expand(record.Encoding(stored[0]), stored[1:], size)
	if err != nil {
		return nil, corrupt(op, name.String(), err)
	}
	if segno.HashOf(data) != name {
		return nil, corrupt(op, name.String(), errors.New("its bytes are not what it is named for"))
	}
	return data, nil
}

// Has implements [segno.Objects].
func (o objects) Has(ctx context.Context, name segno.Hash) (ok bool, err error) {
	kept := o.s.named(name)
	err = o.s.row(ctx, "look for object", name.String(), `SELECT EXISTS (SELECT FROM {}objects WHERE name = $1)`, []any{kept[:]}, &ok)
	return ok, err
}

// Keep implements [segno.Objects]. Objects the batch found in the store are as young
// afterwards as those it brought.
func (o objects) Keep(ctx context.Context, staged segno.Staged) error {
	const op = "keep objects"
	if err := o.s.enter(ctx, op); err != nil {
		return err
	}
	defer o.s.calls.Done()
	now := o.s.options.now()
	brought, found, stale, err := o.s.unstage(staged)
	if err != nil || len(brought)+len(found) == 0 {
		return err
	}
	if !stale.IsZero() {
		return segno.Errorf(segno.KindNotFound, op, stale.String(), "it was staged more than a day ago").WithHint("stage the objects again")
	}
	return o.s.fail(ctx, op, "", o.s.patiently(ctx, func(ctx context.Context) error {
		return o.s.keep(ctx, brought, found, now.Unix())
	}))
}

func (s *Store) keep(ctx context.Context, brought []stagedObject, found []segno.Hash, born int64) error {
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		names := make([][]byte, len(found))
		for i := range found {
			names[i] = found[i][:]
		}
		slices.SortFunc(names, bytes.Compare)
		// Locked before they are counted: a collection may be about to drop them.
		rows, err := tx.Query(ctx, s.sql(`SELECT name FROM {}objects WHERE name = ANY($1::bytea[]) ORDER BY name FOR UPDATE`), names)
		if err != nil {
			return err
		}
		there, err := pgx.CollectRows(rows, pgx.RowTo[[]byte])
		if err != nil {
			return err
		}
		for _, name := range names {
			if !slices.ContainsFunc(there, func(x []byte) bool { return bytes.Equal(x, name) }) {
				return segno.Errorf(segno.KindNotFound, "keep objects", fmt.Sprintf("%x", name), "the object was collected after the batch found it").WithHint("run the command again")
			}
		}
		if _, err := tx.Exec(ctx, s.sql(`UPDATE {}objects SET born = $1 WHERE name = ANY($2::bytea[]) AND born < $1`), born, names); err != nil {
			return err
		}
		all, sizes, datas, bodies := columns(brought)
		_, err = tx.Exec(ctx, s.sql(fmt.Sprintf(insertObjects, "$1::bigint")+` FROM unnest($2::bytea[], $3::bigint[], $4::bytea[], $5::text[]) AS x(name, size, data, body)
			ON CONFLICT (name) DO UPDATE SET born = greatest(objects.born, excluded.born)`), born, all, sizes, datas, bodies)
		return err
	})
}

// stagedObject is an object a batch brings: its stored bytes, an encoding and what it
// encodes, or the name of the body that holds them.
type stagedObject struct {
	name segno.Hash
	size int64
	data []byte
	body string
}

// The first byte of a staged object's data.
const (
	stagedInline = 0 // an encoding and the encoded bytes follow
	stagedBody   = 1 // a body's name follows
)

// named is what an object is called in the database.
func (s *Store) named(h segno.Hash) segno.Hash { return s.seal.Hash("object", h) }

// called is what a commit calls an object of the database.
func (s *Store) called(w *written, kept []byte) segno.Hash {
	all := w.Refs()
	for _, o := range w.Staged.Objects {
		all = append(all, o.Name)
	}
	for _, h := range all {
		if segno.Hash(kept) == s.named(h) {
			return h
		}
	}
	return segno.Hash(kept)
}

// unstage sorts what a batch left into what it brings, in the order of names, and what
// it found in the store, both as they are called there. stale is one whose body may be
// gone by now.
func (s *Store) unstage(staged segno.Staged) (brought []stagedObject, found []segno.Hash, stale segno.Hash, err error) {
	if len(staged.Packs) > 0 {
		return nil, nil, stale, invalid("read staged objects", staged.Packs[0], errors.New("this store has no packs"))
	}
	seen := map[segno.Hash]bool{}
	now := s.options.now()
	for _, o := range staged.Objects {
		switch {
		case len(o.Data) == 0:
			found = append(found, s.named(o.Name))
			continue
		case seen[o.Name]:
			continue
		}
		seen[o.Name] = true
		x := stagedObject{name: s.named(o.Name), size: o.Size}
		if o.Data[0] == stagedInline {
			x.data = o.Data[1:]
		} else {
			x.body = string(o.Data[1:])
			_, born, err := readBodyName(x.body)
			if err != nil {
				return nil, nil, stale, invalid("read staged objects", o.Name.String(), err)
			}
			if now.Sub(born) > bodyLife {
				stale = o.Name
			}
		}
		brought = append(brought, x)
	}
	slices.SortFunc(brought, func(a, b stagedObject) int { return bytes.Compare(a.name[:], b.name[:]) })
	return brought, found, stale, nil
}

// columns are the objects as parameters of a statement.
func columns(all []stagedObject) (names [][]byte, sizes []int64, datas [][]byte, bodies []string) {
	for i := range all {
		o := &all[i]
		names, sizes, datas, bodies = append(names, o.name[:]), append(sizes, o.size), append(datas, o.data), append(bodies, o.body)
	}
	return names, sizes, datas, bodies
}
