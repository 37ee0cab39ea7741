package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/record"
)

// plainPackSize is how long a plain pack gets: as much as one step of
// [Store.CompressPacks] compresses.
const plainPackSize = 4 << 20

// plainPacks writes what a batch stores plain. Each goroutine that calls add at the same
// time writes to a pack that the others do not use, so none waits for another's disk write.
// The zero value is ready to use.
type plainPacks struct {
	mu      sync.Mutex // guards what follows
	all     []*packWriter
	idle    []*packWriter // not full, and not in use
	busy    int           // packs that are sealed in the background
	failed  error         // of sealing
	sealing sync.WaitGroup
}

// add appends an object, which the database calls named.
func (p *plainPacks) add(s *Store, named segno.Hash, data []byte) error {
	stored, e := data, record.Plain
	if s.seal != nil {
		sealed := s.seal.Seal(append([]byte{byte(record.Plain)}, data...), "object", string(named[:]))
		e, stored = record.Encoding(sealed[0]), sealed[1:]
	}
	pack, err := p.take(s)
	if err != nil {
		return err
	}
	if err := pack.add(named, int64(len(data)), e, stored); err != nil {
		return err
	}
	return p.give(pack)
}

// take returns a pack for one goroutine to append to.
func (p *plainPacks) take(s *Store) (*packWriter, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failed != nil {
		return nil, p.failed
	}
	if n := len(p.idle); n > 0 {
		pack := p.idle[n-1]
		p.idle = p.idle[:n-1]
		return pack, nil
	}
	pack, err := s.createPack(newPackName() + plainSuffix)
	if err == nil {
		p.all = append(p.all, pack)
	}
	return pack, err
}

// give returns a pack after use. A full one is sealed while the batch goes on, unless the
// disk is far behind: then the caller waits for it.
func (p *plainPacks) give(pack *packWriter) error {
	const mostBusy = 32 // each has a file open
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case pack.at < plainPackSize:
		p.idle = append(p.idle, pack)
	case p.busy < mostBusy:
		p.busy++
		p.sealing.Go(func() { p.sealOne(pack) })
	default:
		return pack.seal()
	}
	return nil
}

func (p *plainPacks) sealOne(pack *packWriter) {
	err := pack.seal()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.busy--
	p.failed = errors.Join(p.failed, err)
}

// seal makes all packs durable and returns their names. No add may be under way.
func (p *plainPacks) seal() (names []string, err error) {
	for _, pack := range p.idle { // at most as many as goroutines used the batch
		p.busy++
		p.sealing.Go(func() { p.sealOne(pack) })
	}
	p.idle = nil
	p.sealing.Wait()
	for _, pack := range p.all {
		names = append(names, pack.name)
	}
	return names, p.failed
}

// abandon removes all packs. No add may be under way.
func (p *plainPacks) abandon() error {
	p.sealing.Wait()
	var errs []error
	for _, pack := range p.all {
		errs = append(errs, pack.abandon())
	}
	p.all, p.idle = nil, nil
	return errors.Join(errs...)
}

// CompressPacks compresses up to most of the packs that large batches stored plain, each
// of at most a few megabytes and older than an hour. A pack is replaced in one
// transaction; its file is removed after it. A failure or a kill leaves the old pack or
// the new one, and at worst a file that [Store.Collect] removes. Objects that are damaged
// stay where they are. It must not run at the same time as Erase or Check.
func (s *Store) CompressPacks(ctx context.Context, most int) error {
	const op = "compress packs"
	type pack struct {
		n    int64
		name string
	}
	var plain []pack
	err := s.read(ctx, op, "", func(ctx context.Context, c *conn) error {
		return c.rows(ctx, `SELECT n, name FROM packs WHERE name LIKE '%`+plainSuffix+`' AND born <= ? ORDER BY n`,
			[]any{s.options.Clock().Add(-grace).Unix()}, func(r *sql.Rows) error {
				var p pack
				err := r.Scan(&p.n, &p.name)
				plain = append(plain, p)
				return err
			})
	})
	if err != nil {
		return err
	}
	for _, p := range plain {
		if most == 0 {
			break
		}
		moved, err := s.compressPack(ctx, p.n, p.name)
		if err != nil {
			return fail(op, p.name, err)
		}
		if moved {
			most--
		}
	}
	return nil
}

// compressPack replaces a plain pack and reports whether any object moved.
func (s *Store) compressPack(ctx context.Context, n int64, name string) (moved bool, err error) {
	x, err := s.packs.index("compress packs", name)
	if kind := segno.KindOf(err); kind == segno.KindNotFound || kind == segno.KindCorrupt {
		return false, nil // Check reports it
	}
	if err == nil {
		err = s.dropDead(ctx, n, x)
	}
	if err != nil {
		return false, err
	}
	to, err := s.createPack(packID(name) + "-" + newPackName())
	if err != nil {
		return false, err
	}
	err = s.copyCompressed(ctx, to, n, x)
	if err != nil || len(to.entries) == 0 {
		return false, errors.Join(err, to.abandon())
	}
	err = s.write(ctx, "compress packs", name, func(ctx context.Context, tx *conn) error {
		return applyMoves(ctx, tx, []packMove{{from: n, to: to, objects: len(to.entries)}}, s.options.Clock().Unix())
	})
	if segno.KindOf(err) == segno.KindBusy {
		return false, errors.Join(err, to.abandon()) // the transaction did not begin
	}
	if err != nil {
		return false, err // if the transaction took effect all the same, to is needed
	}
	// Not by age: an open turn may refer to an old pack that no commit has brought yet.
	return true, s.sweepPacks(ctx, time.Time{}, map[string]bool{name: true, to.name: true})
}

// dropDead leaves in x what the database still refers to in pack n.
func (s *Store) dropDead(ctx context.Context, n int64, x *packIndex) error {
	return s.read(ctx, "compress packs", x.name, func(ctx context.Context, c *conn) error {
		live := x.entries[:0]
		for _, e := range x.entries {
			var one int
			found, err := c.row(ctx, `SELECT 1 FROM objects WHERE name = ? AND pack = ?`, []any{e.name[:], n}, &one)
			if err != nil {
				return err
			}
			if found {
				live = append(live, e)
			}
		}
		x.entries = live
		return nil
	})
}

// copyCompressed writes the objects of x, which is pack n, to another pack.
func (s *Store) copyCompressed(ctx context.Context, to *packWriter, n int64, x *packIndex) error {
	for i := range x.entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		e := &x.entries[i]
		data, err := s.fetch(e.name, e.name, place{size: e.size, pack: n, at: e.at, length: e.length<<encodingBits | int64(e.Encoding), name: x.name})
		if err != nil {
			continue // Check reports it
		}
		stored, encoding := s.squeeze.Small([]byte{0}, data)
		stored[0] = byte(encoding)
		if s.seal != nil {
			stored = s.seal.Seal(stored, "object", string(e.name[:]))
		}
		if err := to.add(e.name, e.size, record.Encoding(stored[0]), stored[1:]); err != nil {
			return err
		}
	}
	return to.seal()
}

// replacement returns the name of the pack that replaced another one.
func (s *Store) replacement(ctx context.Context, name string) (by string, err error) {
	id := packID(name)
	err = s.read(ctx, "commit", name, func(ctx context.Context, c *conn) error {
		found, err := c.row(ctx, `SELECT name FROM packs WHERE name >= ? AND name < ? AND name <> ?`, []any{id + "-", id + ".", name}, &by)
		if err == nil && !found {
			err = notFound("commit", "pack "+name)
		}
		return err
	})
	return by, err
}
