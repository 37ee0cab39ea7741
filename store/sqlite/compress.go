package sqlite

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/store/record"
	"github.com/dalsegno/segno/internal/store/sqlstore"
)

// plainPackSize is the size of a plain pack: the amount that one step of [Store.CompressPacks] compresses.
const plainPackSize = 4 << 20

// plainPacks writes the objects that a batch stores plain. Goroutines that call add at the same time write to
// different packs, so that none waits for the disk writes of another. The zero value is ready to use.
type plainPacks struct {
	mu        sync.Mutex // guards the fields below
	all       []*packWriter
	idle      []*packWriter // not full, and not in use
	finishing int           // the number of packs that are being finished in the background
	err       error         // the error of a finish
	group     sync.WaitGroup
}

// add appends an object. stored is its name in the database. A full pack is finished in the background. If
// the disk is too slow, all callers wait until a pack is finished.
func (p *plainPacks) add(s *Store, stored segno.Hash, data []byte) error {
	const maxFinishing = 32 // each has an open file
	e, encoded := record.Plain, data
	if z := s.records.Sealer; z != nil {
		sealed := z.Seal(append([]byte{byte(e)}, data...), "object", string(stored[:]))
		e, encoded = record.Encoding(sealed[0]), sealed[1:]
	}
	pack, err := p.take(s)
	if err == nil {
		err = pack.addAs(e, stored, int64(len(data)), encoded)
	}
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case pack.at < plainPackSize:
		p.idle = append(p.idle, pack)
	case p.finishing < maxFinishing:
		p.finishLocked(pack)
	default:
		return pack.close()
	}
	return nil
}

// take returns a pack to which no other goroutine appends.
func (p *plainPacks) take(s *Store) (pack *packWriter, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		return nil, p.err
	}
	if n := len(p.idle); n > 0 {
		pack, p.idle = p.idle[n-1], p.idle[:n-1]
		return pack, nil
	}
	if pack, err = s.createPack(newPackName() + plainSuffix); err == nil {
		p.all = append(p.all, pack)
	}
	return pack, err
}

// finishLocked finishes a pack in the background, except for its directory entry. The next take or finish returns its
// error.
func (p *plainPacks) finishLocked(pack *packWriter) {
	p.finishing++
	p.group.Go(func() {
		err := pack.close()
		p.mu.Lock()
		defer p.mu.Unlock()
		p.finishing--
		p.err = errors.Join(p.err, err)
	})
}

// finish makes all packs, and the pack with the compressed objects of the batch, durable and returns their names. compressed
// may be nil. The packs are synced at the same time. One sync of the directory serves all of them, because on a file system
// with a journal each one writes the journal. The caller must not call add meanwhile.
func (p *plainPacks) finish(compressed *packWriter) (names []string, err error) {
	p.mu.Lock()
	packs := p.all
	if compressed != nil {
		packs = append([]*packWriter{compressed}, p.all...)
		p.finishLocked(compressed)
	}
	for _, pack := range p.idle {
		p.finishLocked(pack)
	}
	p.idle = nil
	p.mu.Unlock()
	p.group.Wait()
	if p.err != nil || len(packs) == 0 {
		return nil, p.err
	}
	for _, pack := range packs {
		names = append(names, pack.name)
	}
	return names, packs[0].fs.SyncDir(packs[0].dir)
}

// remove deletes all packs. The caller must not call add meanwhile.
func (p *plainPacks) remove() error {
	p.group.Wait()
	var errs []error
	for _, pack := range p.all {
		errs = append(errs, pack.remove())
	}
	p.all, p.idle = nil, nil
	return errors.Join(errs...)
}

// CompressPacks compresses up to max of the packs that large batches stored plain, or all of them if max is
// negative. Each has a few megabytes and must be older than an hour. CompressPacks replaces a pack in one
// transaction and removes the old file afterwards. A failure or a kill leaves the old pack or the new one,
// and at worst a file that [Store.Collect] removes. Damaged objects remain in their pack. CompressPacks must
// not run at the same time as Erase or Check.
func (s *Store) CompressPacks(ctx context.Context, max int) error {
	const op = "compress packs"
	type pack struct {
		n    int64
		name string
	}
	var p pack
	plain, err := sqlstore.List(ctx, database{s}, op, "", `SELECT n, name FROM packs WHERE name LIKE '%`+plainSuffix+`' AND born <= ?
		ORDER BY n`, []any{s.options.Clock().Add(-minAge).Unix()}, []any{&p.n, &p.name}, func() (pack, error) { return p, nil })
	if err != nil {
		return err
	}
	for i := 0; i < len(plain) && max != 0; i++ {
		moved, err := s.compressPack(ctx, plain[i].n, plain[i].name)
		if err != nil {
			return fail(op, plain[i].name, err)
		}
		if moved {
			max--
		}
	}
	return nil
}

// compressPack replaces a plain pack and reports whether it moved an object.
func (s *Store) compressPack(ctx context.Context, n int64, name string) (moved bool, err error) {
	x, err := s.packs.index("compress packs", name)
	if kind := segno.KindOf(err); kind == segno.KindNotFound || kind == segno.KindCorrupt {
		return false, nil // Check reports the damage
	}
	var used []storedObject
	if err == nil {
		used, err = s.usedObjects(ctx, n, x)
	}
	var to *packWriter
	if err == nil {
		to, err = s.repack(ctx, name, used, true)
	}
	if err != nil || to == nil {
		return false, err
	}
	err = s.write(ctx, "compress packs", name, func(tx *tx) error {
		applyMoves(tx, []packMove{{from: n, to: to}}, s.options.Clock().Unix())
		return nil
	})
	if segno.KindOf(err) == segno.KindBusy {
		return false, errors.Join(err, to.remove()) // the transaction has not begun
	}
	if err != nil {
		return false, err // the transaction may have been committed, and the new pack is needed then
	}
	// Other packs remain regardless of their age, because an open turn may refer to an old pack that no
	// commit names yet.
	return true, s.sweepPacks(ctx, time.Time{}, map[string]bool{name: true, to.name: true})
}

// usedObjects returns the objects that the database reads from pack n, which has the index x.
func (s *Store) usedObjects(ctx context.Context, n int64, x *packIndex) (used []storedObject, err error) {
	err = s.readApart(ctx, "compress packs", x.name, func(ctx context.Context, c *conn) error {
		for _, e := range x.entries {
			var one int
			found, err := c.row(ctx, `SELECT 1 FROM objects WHERE name = ? AND pack = ?`, []any{e.name[:], n}, &one)
			if err != nil {
				return err
			}
			if found {
				used = append(used, storedObject{e.name, objectRow{size: e.size, pack: n, at: e.at, length: e.column()}})
			}
		}
		return nil
	})
	return used, err
}

// repack compresses objects of a pack into a new pack. The result is nil if there are none. If skipDamaged is
// set, a damaged object remains in its pack, where Check finds it. Otherwise repack fails, so that no copy of
// damaged bytes gets the checksum of a new pack.
func (s *Store) repack(ctx context.Context, name string, objects []storedObject, skipDamaged bool) (*packWriter, error) {
	to, err := s.createPack(packID(name) + "-" + newPackName())
	if err != nil {
		return nil, err
	}
	for _, o := range objects {
		o.packName = name
		data, fetchErr := s.fetch(o.name, o.name, o.objectRow)
		if fetchErr != nil && skipDamaged {
			continue
		}
		if err = cmp.Or(fetchErr, ctx.Err()); err == nil {
			err = to.add(o.name, o.size, s.records.EncodeObject(nil, o.name, data, s.records.Compressor.Small))
		}
		if err != nil {
			break
		}
	}
	if err == nil && len(to.entries) > 0 {
		if err = to.finish(); err == nil {
			return to, nil
		}
	}
	return nil, errors.Join(err, to.remove())
}

// packMove is a pack whose used objects were copied to a new pack.
type packMove struct {
	from int64
	to   *packWriter
}

// applyMoves makes objects refer to their new packs. An object that came into use after its pack was
// rewritten remains in the old pack, and then the old pack remains, too.
func applyMoves(tx *tx, moves []packMove, now int64) {
	for _, m := range moves {
		n := insertPack(tx, m.to.name, now, len(m.to.entries))
		for i := range m.to.entries {
			e := &m.to.entries[i]
			tx.exec(`UPDATE objects SET pack = ?, at = ?, length = ? WHERE name = ? AND pack = ?`, n, e.at, e.column(), e.name[:], m.from)
		}
		tx.exec(`DELETE FROM packs WHERE n IN (?, ?) AND NOT EXISTS (SELECT 1 FROM objects o WHERE o.pack = packs.n)`, m.from, n)
	}
}
