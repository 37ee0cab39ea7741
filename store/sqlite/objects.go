package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/record"
)

// objects is the store's object part.
type objects struct{ s *Store }

// Objects implements [segno.Store].
func (s *Store) Objects() segno.Objects { return objects{s} }

const findObject = `SELECT o.size, o.pack, o.at, o.length, coalesce(p.name, ''), s.data
	FROM objects o LEFT JOIN packs p ON p.n = o.pack LEFT JOIN small s ON o.pack = 0 AND s.n = o.at WHERE o.name = ?`

// place is where an object is kept.
type place struct {
	size, pack, at, length int64
	name                   string // of the pack
	data                   []byte // of a small one: its encoding and its stored bytes
}

// Get implements [segno.Objects].
func (o objects) Get(ctx context.Context, name segno.Hash) ([]byte, error) {
	return o.s.object(ctx, o.s.named(name), name)
}

// object reads the object that the database calls named; name is what an error calls it.
func (s *Store) object(ctx context.Context, named, name segno.Hash) ([]byte, error) {
	const op = "read object"
	var lost error
	for range 2 {
		at, err := s.find(ctx, op, named, name)
		if err != nil {
			return nil, err
		}
		data, err := s.fetch(named, name, at)
		if errors.Is(err, fs.ErrNotExist) {
			lost = err // a collection may have moved it to another pack just now
			continue
		}
		return data, fail(op, name.String(), err)
	}
	return nil, corrupt(op, name.String(), lost)
}

func (s *Store) find(ctx context.Context, op string, named, name segno.Hash) (at place, err error) {
	err = s.read(ctx, op, name.String(), func(ctx context.Context, c *conn) error {
		found, err := c.row(ctx, findObject, []any{named[:]}, &at.size, &at.pack, &at.at, &at.length, &at.name, &at.data)
		if err == nil && !found {
			if err = missedObject(ctx, c, op, named, name); err == nil {
				err = notFound(op, name.String())
			}
		}
		return err
	})
	return at, err
}

// fetch reads, opens, expands and verifies an object.
func (s *Store) fetch(named, name segno.Hash, at place) ([]byte, error) {
	stored, e := at.data, record.Plain
	if at.pack == 0 {
		if len(stored) == 0 {
			return nil, corrupt("read object", name.String(), errors.New("its bytes are missing"))
		}
		e, stored = record.Encoding(stored[0]), stored[1:]
	} else {
		var err error
		if stored, e, err = s.fetchPacked(name, at); err != nil {
			return nil, err
		}
	}
	if s.seal != nil {
		open, err := s.seal.Open(append([]byte{byte(e)}, stored...), "object", string(named[:]))
		if err == nil && len(open) == 0 {
			err = record.ErrDamaged
		}
		if err != nil {
			return nil, corrupt("read object", name.String(), err)
		}
		e, stored = record.Encoding(open[0]), open[1:]
	}
	data, err := s.squeeze.Expand(e, stored, at.size)
	if err != nil {
		return nil, corrupt("read object", name.String(), err)
	}
	if s.named(segno.HashOf(data)) != named {
		return nil, corrupt("read object", name.String(), errors.New("its bytes are not what it is named for"))
	}
	return data, nil
}

// fetchPacked reads an object's stored bytes from its pack. The encoding is the
// byte before them in the index and in the row's length.
func (s *Store) fetchPacked(name segno.Hash, at place) (stored []byte, e record.Encoding, err error) {
	if at.name == "" {
		return nil, 0, corrupt("read object", name.String(), fmt.Errorf("pack %d has no record", at.pack))
	}
	e = record.Encoding(at.length & encodingMask)
	stored = make([]byte, at.length>>encodingBits)
	err = s.packs.use(at.name, func(file *os.File) error {
		_, err := file.ReadAt(stored, at.at)
		return err
	})
	if errors.Is(err, io.EOF) {
		err = corrupt("read object", name.String(), fmt.Errorf("pack %s is too short", at.name))
	}
	return stored, e, err
}

// The length column of an object in a pack is its stored length and, in the
// lowest bits, its encoding.
const (
	encodingBits = 3
	encodingMask = 1<<encodingBits - 1
)

// Has implements [segno.Objects].
func (o objects) Has(ctx context.Context, name segno.Hash) (ok bool, err error) {
	const op = "look for object"
	err = o.s.read(ctx, op, name.String(), func(ctx context.Context, c *conn) error {
		ok, err = hasObject(ctx, c, o.s.named(name))
		return err
	})
	return ok, err
}

// hasObject looks for an object by what it is called in the database.
func hasObject(ctx context.Context, c *conn, name segno.Hash) (bool, error) {
	var one int
	return c.row(ctx, `SELECT 1 FROM objects WHERE name = ?`, []any{name[:]}, &one)
}

// Keep implements [segno.Objects]. Objects the batch found in the store are as
// young afterwards as those it brought.
func (o objects) Keep(ctx context.Context, staged segno.Staged) error {
	const op = "keep objects"
	if staged.IsZero() {
		return nil
	}
	in, err := o.s.openStaged(ctx, staged)
	if err != nil {
		return fail(op, "", err)
	}
	return o.s.write(ctx, op, "", func(ctx context.Context, tx *conn) error {
		if err := o.s.adopt(ctx, tx, in); err != nil {
			return err
		}
		now := o.s.options.Clock().Unix()
		for _, name := range in.reused {
			named := o.s.named(name)
			if _, err := tx.exec(ctx, `UPDATE objects SET born = ?1 WHERE name = ?2 AND born < ?1`, now, named[:]); err != nil {
				return err
			}
		}
		return nil
	})
}

// staging is what a batch left, read and checked before the transaction.
type staging struct {
	small  []segno.Object
	reused []segno.Hash // the batch found them in the store
	packs  []*packIndex
}

func (s *Store) openStaged(ctx context.Context, staged segno.Staged) (in staging, err error) {
	for _, o := range staged.Objects {
		if len(o.Data) == 0 {
			in.reused = append(in.reused, o.Name)
		} else {
			in.small = append(in.small, o)
		}
	}
	for _, name := range staged.Packs {
		if err := ctx.Err(); err != nil {
			return in, err
		}
		x, err := s.packs.index("commit", name)
		if segno.KindOf(err) == segno.KindNotFound {
			if name, err = s.replacement(ctx, name); err == nil {
				x, err = s.packs.index("commit", name)
			}
		}
		if err != nil {
			return in, err
		}
		in.packs = append(in.packs, x)
	}
	return in, nil
}

// applyObjects makes what a commit brings part of the store and checks that all
// it needs is there.
func (s *Store) applyObjects(ctx context.Context, tx *conn, w *written) error {
	if err := s.adopt(ctx, tx, w.staged); err != nil {
		return err
	}
	for _, name := range w.needs {
		ok, err := hasObject(ctx, tx, s.named(name))
		if err != nil {
			return err
		}
		if !ok {
			return segno.Errorf(segno.KindNotFound, "commit", string(w.ID), "object %s does not exist", name)
		}
	}
	return nil
}

func (s *Store) adopt(ctx context.Context, tx *conn, in staging) error {
	now := s.options.Clock().Unix()
	for _, name := range in.reused {
		ok, err := hasObject(ctx, tx, s.named(name))
		if err != nil {
			return err
		}
		if !ok {
			return segno.Errorf(segno.KindNotFound, "commit", name.String(), "the object was collected after the batch found it").WithHint("run the command again")
		}
	}
	for _, o := range in.small {
		if err := adoptSmall(ctx, tx, o, s.named(o.Name), now); err != nil {
			return err
		}
	}
	for _, x := range in.packs {
		if err := s.adoptPack(ctx, tx, x, now); err != nil {
			return err
		}
	}
	return nil
}

func adoptSmall(ctx context.Context, tx *conn, o segno.Object, named segno.Hash, now int64) error {
	ok, err := hasObject(ctx, tx, named)
	if err != nil || ok {
		return err
	}
	r, err := tx.exec(ctx, `INSERT INTO small (data) VALUES (?)`, o.Data)
	if err != nil {
		return err
	}
	at, err := r.LastInsertId()
	if err != nil {
		return err
	}
	_, err = tx.exec(ctx, `INSERT INTO objects (name, size, born, pack, at, length) VALUES (?, ?, ?, 0, ?, ?)`,
		named[:], o.Size, now, at, len(o.Data))
	return err
}

// adoptPack makes a pack's objects the store's. A pack adopted before, by a
// commit or Keep of the same staging, is left as it is, and so is its replacement. One that is not must still
// be there: a collection removes old ones under the write lock we hold.
func (s *Store) adoptPack(ctx context.Context, tx *conn, x *packIndex, now int64) error {
	var n int64
	if found, err := tx.row(ctx, `SELECT n FROM packs WHERE name = ? OR name >= ? AND name < ?`,
		[]any{x.name, packID(x.name) + "-", packID(x.name) + "."}, &n); err != nil || found {
		return err
	}
	if _, err := os.Lstat(filepath.Join(s.packs.dir, x.name+packSuffix)); errors.Is(err, fs.ErrNotExist) {
		return notFound("commit", "pack "+x.name)
	}
	r, err := tx.exec(ctx, `INSERT INTO packs (name, born, objects) VALUES (?, ?, ?)`, x.name, x.born.Unix(), len(x.entries))
	if err != nil {
		return err
	}
	if n, err = r.LastInsertId(); err != nil {
		return err
	}
	return insertPacked(ctx, tx, n, x.entries, now)
}

// atOnce is how many rows one statement inserts: most of the cost of a row is
// the call.
const atOnce = 64

func insertPacked(ctx context.Context, tx *conn, pack int64, entries []packEntry, born int64) error {
	const values = `(?, ?, ?, ?, ?, ?)`
	for len(entries) > 0 {
		n := 1
		if len(entries) >= atOnce {
			n = atOnce
		}
		args := make([]any, 0, 6*n)
		for i := range entries[:n] {
			e := &entries[i]
			args = append(args, e.name[:], e.size, born, pack, e.at, e.length<<encodingBits|int64(e.Encoding))
		}
		query := `INSERT OR IGNORE INTO objects (name, size, born, pack, at, length) VALUES ` + values
		for range n - 1 {
			query += `, ` + values
		}
		if _, err := tx.exec(ctx, query, args...); err != nil {
			return err
		}
		entries = entries[n:]
	}
	return nil
}

// names calls each with what every object is called in the database.
func names(ctx context.Context, c *conn, each func(segno.Hash) error) error {
	return c.rows(ctx, `SELECT name FROM objects`, nil, func(r *sql.Rows) error {
		var raw sql.RawBytes
		if err := r.Scan(&raw); err != nil {
			return err
		}
		return each(segno.Hash(raw))
	})
}
