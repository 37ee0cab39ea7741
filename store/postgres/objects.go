package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/store/ledger"
	"github.com/dalsegno/segno/internal/store/sqlstore"
	"github.com/jackc/pgx/v5"
)

// objects implements [segno.Objects].
type objects struct{ s *Store }

// Objects implements [segno.Store].
func (s *Store) Objects() segno.Objects { return objects{s} }

// Get implements [segno.Objects].
func (o objects) Get(ctx context.Context, name segno.Hash) ([]byte, error) {
	const op = "read object"
	var size int64
	var data []byte
	var body *string
	stored := o.s.records.ObjectName(name)
	err := sqlstore.ReadRow(ctx, database{o.s}, op, name.String(), `SELECT size, data, body FROM {}objects WHERE name = $1`,
		[]any{stored[:]}, &size, &data, &body)
	if err != nil {
		return nil, err
	}
	if body != nil {
		if err := o.s.once(ctx, op, name.String(), func(ctx context.Context) (err error) {
			data, err = o.s.getBody(ctx, op, name.String(), *body)
			return err
		}); err != nil {
			return nil, err
		}
	}
	return o.s.records.DecodeObject(stored, name, size, data)
}

// Has implements [segno.Objects].
func (o objects) Has(ctx context.Context, name segno.Hash) (ok bool, err error) {
	stored := o.s.records.ObjectName(name)
	err = sqlstore.ReadRow(ctx, database{o.s}, "look for object", name.String(),
		`SELECT EXISTS (SELECT FROM {}objects WHERE name = $1)`, []any{stored[:]}, &ok)
	return ok, err
}

// Batch implements [segno.Objects].
func (o objects) Batch() segno.Batch { return ledger.NewBatch(sink{o}) }

// sink is the [ledger.Sink] of the store. Before a commit it writes only bodies. Drop has nothing to do,
// because a collection deletes a body that no commit names.
type sink struct{ objects }

// Encode implements [ledger.Sink]: a large object becomes a body.
func (k sink) Encode(ctx context.Context, name segno.Hash, data []byte) (o segno.Object, err error) {
	stored := k.s.records.ObjectName(name)
	o = segno.Object{Name: name, Size: int64(len(data)), Data: k.s.records.EncodeObject([]byte{stagedInline}, stored, data,
		k.s.records.Compressor.Small)}
	if len(o.Data) <= maxInRow {
		return o, nil
	}
	err = k.s.once(ctx, "put object", name.String(), func(ctx context.Context) error {
		body, err := k.s.putBody(ctx, stored, o.Data[1:])
		o.Data = append([]byte{stagedBody}, body...)
		return err
	})
	return o, err
}

// Spill implements [ledger.Sink]. It writes small objects to the table of bodies, because a bucket is slow
// for many small objects.
func (k sink) Spill(ctx context.Context, all []segno.Object) ([]segno.Object, error) {
	now := k.s.options.now()
	var names []string
	var datas [][]byte
	for i := range all {
		if all[i].Data[0] != stagedInline {
			continue
		}
		name := rowBodyName(k.s.records.ObjectName(all[i].Name), now)
		names, datas = append(names, name), append(datas, all[i].Data[1:])
		all[i].Data = append([]byte{stagedBody}, name...)
	}
	return all, k.s.once(ctx, "put object", "", func(ctx context.Context) error { return k.s.putRowBodies(ctx, names, datas, now) })
}

// Finish implements [ledger.Sink].
func (k sink) Finish(ctx context.Context) ([]string, error) {
	return nil, k.s.once(ctx, "stage objects", "", func(context.Context) error { return nil })
}

// Drop implements [ledger.Sink].
func (k sink) Drop() error { return nil }

// Keep implements [segno.Objects]. It resets the age of the objects that the batch found in the store.
func (o objects) Keep(ctx context.Context, staged segno.Staged) error {
	const op = "keep objects"
	now := o.s.options.now()
	brought, expired, err := o.s.stagedObjects(staged)
	if err != nil || staged.IsZero() {
		return err
	}
	if !expired.IsZero() {
		return segno.Errorf(segno.KindNotFound, op, expired.String(), "it was staged more than a day ago").
			WithHint("stage the objects again")
	}
	var found [][]byte
	for _, x := range staged.Objects {
		if len(x.Data) == 0 {
			stored := o.s.records.ObjectName(x.Name)
			found = append(found, stored[:])
		}
	}
	slices.SortFunc(found, bytes.Compare)
	return o.s.call(ctx, op, "", func(ctx context.Context) error {
		return o.s.keep(o.s.writeContext(ctx), brought, found, now.Unix())
	})
}

func (s *Store) keep(ctx context.Context, brought []stagedObject, found [][]byte, born int64) error {
	return pgx.BeginTxFunc(ctx, s.db, pgx.TxOptions{}, func(tx pgx.Tx) error {
		// Lock the rows first, because a collection may be about to delete them.
		var name []byte
		present := map[string]bool{}
		err := querier{s, tx}.Query(ctx, `SELECT name FROM {}objects WHERE name = ANY($1::bytea[]) ORDER BY name FOR UPDATE`, []any{found},
			[]any{&name}, func() error {
				present[string(name)] = true
				return nil
			})
		if missing := slices.IndexFunc(found, func(x []byte) bool { return !present[string(x)] }); err == nil && missing >= 0 {
			err = segno.Errorf(segno.KindNotFound, "keep objects", fmt.Sprintf("%x", found[missing]),
				"the object was collected after the batch found it").WithHint("run the command again")
		}
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, s.sql(`UPDATE {}objects SET born = $1 WHERE name = ANY($2::bytea[]) AND born < $1`), born,
			found); err != nil {
			return err
		}
		names, sizes, datas, bodies := columns(brought)
		_, err = tx.Exec(ctx, s.sql(fmt.Sprintf(insertObjects, "$1::bigint")+`
			FROM unnest($2::bytea[], $3::bigint[], $4::bytea[], $5::text[]) AS x(name, size, data, body)
			ON CONFLICT (name) DO UPDATE SET born = greatest(objects.born, excluded.born)`), born, names, sizes, datas, bodies)
		return err
	})
}

// stagedObject is an object of a batch that is not yet in the store.
type stagedObject struct {
	name segno.Hash // the name in the database
	size int64
	data []byte // the encoding and the encoded bytes, or nil if they are in a body
	body string // the name of the body, or ""
}

// The first byte of a staged object's data.
const (
	stagedInline = 0 // an encoding and the encoded bytes follow
	stagedBody   = 1 // the name of a body follows
)

// stagedObjects returns the new objects of a batch, sorted by name. expired is an object that was staged so
// long ago that its body may have been deleted, or the zero hash.
func (s *Store) stagedObjects(staged segno.Staged) (brought []stagedObject, expired segno.Hash, err error) {
	const op = "read staged objects"
	if len(staged.Packs) > 0 {
		return nil, expired, segno.NewError(segno.KindInvalid, op, staged.Packs[0], errors.New("this store has no packs"))
	}
	seen := map[segno.Hash]bool{}
	for _, o := range staged.Objects {
		if len(o.Data) == 0 || seen[o.Name] {
			continue
		}
		seen[o.Name] = true
		x := stagedObject{name: s.records.ObjectName(o.Name), size: o.Size}
		if o.Data[0] == stagedInline {
			x.data = o.Data[1:]
		} else {
			x.body = string(o.Data[1:])
			_, born, err := parseBodyName(x.body)
			if err != nil {
				return nil, expired, segno.NewError(segno.KindInvalid, op, o.Name.String(), err)
			}
			if s.options.now().Sub(born) > bodyLife {
				expired = o.Name
			}
		}
		brought = append(brought, x)
	}
	slices.SortFunc(brought, func(a, b stagedObject) int { return bytes.Compare(a.name[:], b.name[:]) })
	return brought, expired, nil
}

// columns returns the objects as arguments of a statement.
func columns(all []stagedObject) (names [][]byte, sizes []int64, datas [][]byte, bodies []string) {
	for i := range all {
		o := &all[i]
		names, sizes, datas, bodies = append(names, o.name[:]), append(sizes, o.size), append(datas, o.data), append(bodies, o.body)
	}
	return names, sizes, datas, bodies
}
