package sqlite

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"time"

	"github.com/dalsegno/segno"
)

// Converted counts the records that [Store.Convert] copied.
type Converted struct {
	Threads, Commits, Objects int
	Bytes                     int64 // the sum of the objects' sizes
}

// Convert copies the store to a new database file, sealed with the key of o or, if o has none, not sealed.
// The copy has the same ids, numbers and rows. It differs only in the parts that depend on the key: records
// and objects are sealed again, and keyed hashes are computed again.
//
// Convert reads back each record, each object and each row of the copy and compares them with the source. If
// a record of the source is damaged, it returns [segno.KindCorrupt]. The copy is durable when Convert returns
// nil. After an error, the caller must remove the copy. No other process may write to the source meanwhile.
//
// progress, if not nil, is called with the number of object bytes copied so far and their total.
func (s *Store) Convert(ctx context.Context, file string, o Options, progress func(done, total int64)) (Converted, error) {
	const op = "convert store"
	var done Converted
	copied, err := s.copyTo(ctx, file, o, &done, progress)
	if err != nil {
		return done, fail(op, s.dir, err)
	}
	o.ReadOnly = true
	to, err := Open(ctx, file, o)
	if err != nil {
		return done, err
	}
	verified := newRowHash()
	err = to.readRows(ctx, func(table string, row []any) error {
		verified.add(table, row)
		return nil
	})
	if err == nil {
		err = to.checkCopy(ctx, copied.terms)
	}
	if err == nil && !bytes.Equal(copied.Sum(nil), verified.Sum(nil)) {
		err = errors.New("the copy differs from the store")
	}
	return done, fail(op, s.dir, errors.Join(err, to.Close()))
}

// copied counts the rows that copyTo wrote.
type copied struct {
	rowHash
	terms int64 // the number of terms
}

// copyTo writes the copy.
func (s *Store) copyTo(ctx context.Context, file string, o Options, done *Converted, progress func(done, total int64)) (*copied, error) {
	to, err := Open(ctx, file, o)
	if err != nil {
		return nil, err
	}
	var total int64
	if progress != nil {
		err = s.read(ctx, "count objects", "", func(ctx context.Context, c *conn) error {
			_, err := c.row(ctx, `SELECT coalesce(sum(size), 0) FROM objects`, nil, &total)
			return err
		})
	}
	sums := &copied{rowHash: newRowHash()}
	if err == nil {
		err = to.write(ctx, "copy store", file, func(tx *tx) error {
			w := &rowWriter{tx: tx, s: to}
			if err := s.readRows(ctx, func(table string, row []any) error {
				sums.add(table, row)
				if err := w.write(table, row); err != nil {
					return err
				}
				done.count(table, row)
				if progress != nil && table == objectTable {
					progress(done.Bytes, total)
				}
				return ctx.Err()
			}); err != nil {
				return err
			}
			sums.terms = w.terms
			return w.finish()
		})
	}
	return sums, errors.Join(err, to.Close())
}

func (d *Converted) count(table string, row []any) {
	switch table {
	case "threads":
		d.Threads++
	case "commits":
		d.Commits++
	case objectTable:
		d.Objects++
		d.Bytes += row[1].(int64)
	}
}

// checkCopy verifies the parts that a comparison of rows does not: the indexes of the database, and the
// number of terms.
func (s *Store) checkCopy(ctx context.Context, wantTerms int64) error {
	return s.read(ctx, "check copy", s.file, func(ctx context.Context, c *conn) error {
		var terms int64
		if _, err := c.row(ctx, `SELECT count(*) FROM terms`, nil, &terms); err != nil {
			return err
		}
		if terms != wantTerms {
			return fmt.Errorf("the copy has %d terms instead of %d", terms, wantTerms)
		}
		var result string
		if _, err := c.row(ctx, "PRAGMA integrity_check(1)", nil, &result); err != nil {
			return err
		}
		if result != "ok" {
			return errors.New(result)
		}
		return nil
	})
}

// rowHash is the hash of a sequence of rows.
type rowHash struct{ hash.Hash }

func newRowHash() rowHash { return rowHash{sha256.New()} }

// add hashes a row. It precedes each value with its kind and length, so that different rows hash different
// bytes.
func (h rowHash) add(table string, row []any) {
	buf := append(make([]byte, 0, 256), table...)
	for _, value := range row {
		var data []byte
		kind := byte(0)
		switch v := value.(type) {
		case int64:
			kind, data = 1, binary.LittleEndian.AppendUint64(nil, uint64(v))
		case string:
			kind, data = 2, []byte(v)
		case []byte:
			kind, data = 3, v
		}
		buf = binary.LittleEndian.AppendUint64(append(buf, kind), uint64(len(data)))
		buf = append(buf, data...)
	}
	h.Write(append(buf, '\n'))
}

// readRows calls each with every row of the store in a fixed order. The values are those of a store without a
// key. readRows verifies each record that it reads.
func (s *Store) readRows(ctx context.Context, each func(table string, row []any) error) error {
	return s.readSnapshot(ctx, "read rows", s.dir, func(queryCtx context.Context, c *conn) error {
		for i := range tables {
			t := &tables[i]
			if t.name == "phases" && !s.hasPhases {
				continue
			}
			row := make([]any, t.width())
			dest := make([]any, len(row))
			for i := range row {
				dest[i] = &row[i]
			}
			if err := c.Query(queryCtx, t.query(), nil, dest, func() error {
				if err := t.open(s, row); err != nil {
					return corrupt("read "+t.name, fmt.Sprint(row[0]), err)
				}
				return each(t.name, row)
			}); err != nil {
				return err
			}
		}
		return s.readObjects(ctx, queryCtx, c, each)
	})
}

// rowWriter writes the rows of readRows to a new store.
type rowWriter struct {
	*tx
	s     *Store
	terms int64

	packs map[int64]packRow
	pack  *packWriter // the pack of the objects that are being written
	at    int64       // the number of that pack
}

// packRow is the row of a pack without the number of its objects.
type packRow struct {
	name string
	born int64
}

func (w *rowWriter) write(table string, row []any) error {
	switch table {
	case objectTable:
		return w.writeObject(row)
	case packTable:
		if w.packs == nil {
			w.packs = map[int64]packRow{}
		}
		w.packs[row[0].(int64)] = packRow{name: row[1].(string), born: row[2].(int64)}
		return nil
	}
	for i := range tables {
		if t := &tables[i]; t.name == table {
			if t.insert == nil {
				t.seal(w.s, row)
				w.exec(t.statement(), row[:t.columnCount()]...)
			} else {
				t.insert(w, row)
			}
			return w.err
		}
	}
	return fmt.Errorf("unknown table %s", table)
}

// finish finishes the last pack, and writes the packs without objects.
func (w *rowWriter) finish() error {
	if err := w.finishPack(); err != nil {
		return err
	}
	for n := range w.packs {
		if err := w.startPack(n); err != nil {
			return err
		}
		if err := w.finishPack(); err != nil {
			return err
		}
	}
	return w.err
}

// startPack creates the file of pack n, with the name and the age of the pack in the source.
func (w *rowWriter) startPack(n int64) (err error) {
	row, known := w.packs[n]
	if !known {
		return corrupt("copy pack", fmt.Sprint(n), errors.New("it has no record"))
	}
	w.at = n
	w.pack, err = createPack(w.s.options.FS, w.s.packs.dir, row.name, time.Unix(row.born, 0))
	return err
}

func (w *rowWriter) finishPack() error {
	if w.pack == nil {
		return w.err
	}
	if err := w.pack.finish(); err != nil {
		return err
	}
	row := w.packs[w.at]
	w.exec(`INSERT INTO packs (n, name, born, objects) VALUES (?, ?, ?, ?)`, w.at, row.name, row.born, len(w.pack.entries))
	delete(w.packs, w.at)
	w.pack = nil
	return w.err
}

// writeObject appends an object to its pack, or inserts it into the database.
func (w *rowWriter) writeObject(row []any) error {
	name, size, born := segno.Hash(row[0].([]byte)), row[1].(int64), row[2].(int64)
	pack, at, encoded := row[3].(int64), row[4].(int64), row[objectBytes].([]byte)
	stored := w.s.records.ObjectName(name)
	encoded = w.s.records.Sealer.Seal(encoded, "object", string(stored[:]))
	var length int64
	if pack == 0 {
		w.exec(`INSERT INTO small (n, data) VALUES (?, ?)`, at, encoded)
		length = int64(len(encoded))
	} else {
		if w.pack == nil || w.at != pack {
			if err := w.finishPack(); err != nil {
				return err
			}
			if err := w.startPack(pack); err != nil {
				return err
			}
		}
		if err := w.pack.add(stored, size, encoded); err != nil {
			return err
		}
		e := &w.pack.entries[len(w.pack.entries)-1]
		at, length = e.at, e.column()
	}
	w.exec(`INSERT INTO objects (name, size, born, pack, at, length) VALUES (?, ?, ?, ?, ?, ?)`, stored[:], size, born, pack, at, length)
	return w.err
}
