package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/store/sqlstore"
)

// objects implements [segno.Objects].
type objects struct{ s *Store }

// Objects implements [segno.Store].
func (s *Store) Objects() segno.Objects { return objects{s} }

// objectRow is the row of an object, which locates its stored bytes.
type objectRow struct {
	size, pack, at, length int64
	packName               string
	data                   []byte // for an object outside packs: its encoding and its encoded bytes
}

// objectColumns are the columns of an objectRow.
const objectColumns = `o.size, o.pack, o.at, o.length, coalesce(p.name, ''), s.data
	FROM objects o LEFT JOIN packs p ON p.n = o.pack LEFT JOIN small s ON o.pack = 0 AND s.n = o.at`

// dest returns the destinations of objectColumns.
func (o *objectRow) dest() []any {
	return []any{&o.size, &o.pack, &o.at, &o.length, &o.packName, &o.data}
}

// For an object in a pack, the column length contains its stored length and, in the lowest bits, its
// encoding.
const (
	encodingBits = 3
	encodingMask = 1<<encodingBits - 1
)

// storedBytes returns how many bytes the object occupies.
func (o *objectRow) storedBytes() int64 {
	if o.pack == 0 {
		return o.length
	}
	return o.length >> encodingBits
}

// Get implements [segno.Objects].
func (o objects) Get(ctx context.Context, name segno.Hash) ([]byte, error) {
	return o.s.readObject(ctx, o.s.records.ObjectName(name), name)
}

// readObject reads an object. stored is its name in the database; name is for errors. The row and the pack
// file are read one after the other, outside a transaction. A collection may move the object and remove the
// file between the two. If the file is missing, readObject therefore reads the row again.
func (s *Store) readObject(ctx context.Context, stored, name segno.Hash) (data []byte, err error) {
	const op = "read object"
	for range 2 {
		var at objectRow
		if err := s.read(ctx, op, name.String(), func(ctx context.Context, c *conn) error {
			found, err := c.row(ctx, `SELECT `+objectColumns+` WHERE o.name = ?`, []any{stored[:]}, at.dest()...)
			if err == nil && !found {
				err = cmp.Or(missedObject(ctx, c, op, stored, name), notFound(op, name.String()))
			}
			return err
		}); err != nil {
			return nil, err
		}
		if data, err = s.fetch(stored, name, at); !errors.Is(err, fs.ErrNotExist) {
			return data, fail(op, name.String(), err)
		}
	}
	return nil, corrupt(op, name.String(), err)
}

// fetch reads and decodes an object.
func (s *Store) fetch(stored, name segno.Hash, at objectRow) ([]byte, error) {
	raw, err := s.rawObject(name, at)
	if err != nil {
		return nil, err
	}
	return s.records.DecodeObject(stored, name, at.size, raw)
}

// rawObject returns the encoding of an object and its stored bytes. name is for errors.
func (s *Store) rawObject(name segno.Hash, at objectRow) ([]byte, error) {
	switch {
	case at.pack == 0:
		return at.data, nil
	case at.packName == "":
		return nil, corrupt("read object", name.String(), fmt.Errorf("pack %d has no record", at.pack))
	}
	bytes := make([]byte, 1+at.length>>encodingBits)
	bytes[0] = byte(at.length & encodingMask)
	err := s.packs.use(at.packName, func(file *os.File) error {
		_, err := file.ReadAt(bytes[1:], at.at)
		return err
	})
	if errors.Is(err, io.EOF) {
		err = corrupt("read object", name.String(), fmt.Errorf("pack %s is too short", at.packName))
	}
	return bytes, err
}

// Has implements [segno.Objects].
func (o objects) Has(ctx context.Context, name segno.Hash) (ok bool, err error) {
	err = o.s.read(ctx, "look for object", name.String(), func(ctx context.Context, c *conn) error {
		missing, err := o.s.missingObject(ctx, c, []segno.Hash{name})
		ok = missing.IsZero()
		return err
	})
	return ok && err == nil, err
}

// missingObject returns the first of names that is not in the store, or the zero hash.
func (s *Store) missingObject(ctx context.Context, c *conn, names []segno.Hash) (missing segno.Hash, err error) {
	for _, name := range names {
		stored := s.records.ObjectName(name)
		var one int
		if found, err := c.row(ctx, `SELECT 1 FROM objects WHERE name = ?`, []any{stored[:]}, &one); err != nil || !found {
			return name, err
		}
	}
	return missing, nil
}

func errCollected(op string, name segno.Hash) error {
	return segno.Errorf(segno.KindNotFound, op, name.String(), "the object was collected after the batch found it").
		WithHint("run the command again")
}

// Keep implements [segno.Objects]. It resets the age of the objects that the batch found in the store.
func (o objects) Keep(ctx context.Context, staged segno.Staged) error {
	const op = "keep objects"
	if staged.IsZero() {
		return nil
	}
	in, err := o.s.openStaged(ctx, staged)
	if err != nil {
		return fail(op, "", err)
	}
	return o.s.write(ctx, op, "", func(tx *tx) error {
		missing, err := o.s.missingObject(tx.ctx, tx.c, in.reused)
		if err == nil && !missing.IsZero() {
			err = errCollected(op, missing)
		}
		if err != nil {
			return err
		}
		now := o.s.options.Clock().Unix()
		for _, name := range in.reused {
			stored := o.s.records.ObjectName(name)
			tx.exec(`UPDATE objects SET born = ?1 WHERE name = ?2 AND born < ?1`, now, stored[:])
		}
		return o.s.insertStaged(tx, in)
	})
}

// staging is the result of a batch, read and verified before the transaction.
type staging struct {
	small  []segno.Object
	reused []segno.Hash // objects that the batch found in the store
	packs  []*packIndex
}

func (in *staging) isEmpty() bool { return len(in.small)+len(in.reused)+len(in.packs) == 0 }

// openStaged reads the indexes of the packs of a batch, which is too slow for a transaction. If a pack is
// missing, it may have been compressed since the batch was staged, and openStaged uses its replacement.
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
			var replacement string
			id := packID(name)
			query := `SELECT name FROM packs WHERE name >= ? AND name < ? AND name <> ?`
			err = sqlstore.ReadRow(ctx, database{s}, "commit", "pack "+name, query, []any{id + "-", id + ".", name}, &replacement)
			if err == nil {
				x, err = s.packs.index("commit", replacement)
			}
		}
		if err != nil {
			return in, err
		}
		in.packs = append(in.packs, x)
	}
	return in, nil
}

// insertStaged makes the new objects of a batch part of the store.
func (s *Store) insertStaged(tx *tx, in staging) error {
	now := s.options.Clock().Unix()
	for _, o := range in.small {
		stored := s.records.ObjectName(o.Name)
		var one int
		if tx.row(`SELECT 1 FROM objects WHERE name = ?`, []any{stored[:]}, &one) {
			continue // another commit added the same object after the batch looked for it
		}
		at := tx.insert(`INSERT INTO small (data) VALUES (?)`, o.Data)
		tx.exec(`INSERT INTO objects (name, size, born, pack, at, length) VALUES (?, ?, ?, 0, ?, ?)`, stored[:], o.Size, now, at, len(o.Data))
	}
	for _, x := range in.packs {
		if err := s.referToPack(tx, x, now); err != nil {
			return err
		}
	}
	return nil
}

// referToPack makes the objects of a pack part of the store. If an earlier commit or Keep of the same staging
// already refers to the pack or its replacement, referToPack does nothing. The file of a new pack must still
// exist: a collection removes old files under the write lock, which the caller must hold.
func (s *Store) referToPack(tx *tx, x *packIndex, now int64) error {
	var n int64
	if tx.row(`SELECT n FROM packs WHERE name = ? OR name >= ? AND name < ?`,
		[]any{x.name, packID(x.name) + "-", packID(x.name) + "."}, &n) {
		return nil
	}
	if _, err := os.Lstat(filepath.Join(s.packs.dir, x.name+packSuffix)); errors.Is(err, fs.ErrNotExist) {
		return notFound("commit", "pack "+x.name)
	}
	n = insertPack(tx, x.name, x.born.Unix(), len(x.entries))
	const columns, atOnce = `(?, ?, ?, ?, ?, ?)`, 64 // rows in a statement: the call takes most of the time of a row
	for entries := x.entries; len(entries) > 0; {
		rows := 1
		if len(entries) >= atOnce {
			rows = atOnce
		}
		args := make([]any, 0, 6*rows)
		for i := range entries[:rows] {
			e := &entries[i]
			args = append(args, e.name[:], e.size, now, n, e.at, e.column())
		}
		tx.exec(`INSERT OR IGNORE INTO objects (name, size, born, pack, at, length)
			VALUES `+columns+strings.Repeat(", "+columns, rows-1), args...)
		entries = entries[rows:]
	}
	return nil
}

func insertPack(tx *tx, name string, born int64, objects int) (n int64) {
	return tx.insert(`INSERT INTO packs (name, born, objects) VALUES (?, ?, ?)`, name, born, objects)
}

// storedNames calls each with the stored name of every object.
func storedNames(ctx context.Context, c *conn, each func(stored segno.Hash) error) error {
	var raw sql.RawBytes // valid until the next row
	return c.Query(ctx, `SELECT name FROM objects`, nil, []any{&raw}, func() error {
		if len(raw) != len(segno.Hash{}) {
			return corrupt("read object names", fmt.Sprintf("%x", raw), errKey)
		}
		return each(segno.Hash(raw))
	})
}
