package sqlite

import (
	"context"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// packMove is a pack whose live objects were written to a new one.
type packMove struct {
	from    int64
	to      *packWriter
	objects int
}

// rewritePacks writes the live part of each pack that is mostly dead to a new
// pack, and while threads are erased that of each pack with anything dead. Nothing
// refers to those yet.
func (s *Store) rewritePacks(ctx context.Context, d *dropping) (moves []packMove, err error) {
	for n, use := range d.packs {
		mostlyDead := use.dead > use.live && d.now-use.born >= int64(grace/time.Second)
		if use.live == 0 || use.dead == 0 || !mostlyDead && d.erasing == nil {
			continue
		}
		to, err := s.rewritePack(ctx, use)
		if err != nil {
			return nil, err
		}
		moves = append(moves, packMove{from: n, to: to, objects: len(use.objects)})
	}
	return moves, nil
}

func (s *Store) rewritePack(ctx context.Context, use *packUse) (_ *packWriter, err error) {
	name := packID(use.name) + "-" + newPackName()
	if strings.HasSuffix(use.name, plainSuffix) {
		name += plainSuffix
	}
	to, err := s.createPack(name)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, to.abandon())
		}
	}()
	for i := range use.objects {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		o := &use.objects[i]
		at := place{size: o.size, pack: o.pack, at: o.at, length: o.length, name: use.name}
		if _, err := s.fetch(o.name, o.name, at); err != nil {
			return nil, err // damage stays where it is, for check to find
		}
		data, e, err := s.fetchPacked(o.name, at)
		if err != nil {
			return nil, err
		}
		if err := to.add(o.name, o.size, e, data); err != nil {
			return nil, err
		}
	}
	return to, to.seal()
}

// applyMoves points objects to their new packs. An object that came to life since
// the pack was rewritten stays in the old one, and so does that.
func applyMoves(ctx context.Context, tx *conn, moves []packMove, now int64) error {
	for _, m := range moves {
		r, err := tx.exec(ctx, `INSERT INTO packs (name, born, objects) VALUES (?, ?, ?)`, m.to.name, now, m.objects)
		if err != nil {
			return err
		}
		n, err := r.LastInsertId()
		if err != nil {
			return err
		}
		for i := range m.to.entries {
			e := &m.to.entries[i]
			if _, err := tx.exec(ctx, `UPDATE objects SET pack = ?, at = ?, length = ? WHERE name = ? AND pack = ?`,
				n, e.at, e.length<<encodingBits|int64(e.Encoding), e.name[:], m.from); err != nil {
				return err
			}
		}
		if _, err := tx.exec(ctx, `DELETE FROM packs WHERE n IN (?, ?) AND NOT EXISTS (SELECT 1 FROM objects o WHERE o.pack = packs.n)`, m.from, n); err != nil {
			return err
		}
	}
	return nil
}

// sweepPacks removes pack files the database does not know, if they are older
// than a batch may be: those just dropped, and those of batches that were broken
// off. Those in ofAnyAge go whatever their age: the database knew them, so no batch is
// writing them. It holds the write lock, so that no commit adopts one meanwhile.
func (s *Store) sweepPacks(ctx context.Context, old time.Time, ofAnyAge map[string]bool) error {
	const op = "remove packs"
	files, err := os.ReadDir(s.packs.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fail(op, s.packs.dir, err)
	}
	return s.write(ctx, op, s.packs.dir, func(ctx context.Context, tx *conn) error {
		removed := false
		for _, file := range files {
			name, ok := strings.CutSuffix(file.Name(), packSuffix)
			if !ok {
				continue
			}
			var n int64
			known, err := tx.row(ctx, `SELECT n FROM packs WHERE name = ?`, []any{name}, &n)
			if err != nil {
				return err
			}
			if known || !ofAnyAge[name] && !packBorn(filepath.Join(s.packs.dir, file.Name())).Before(old) {
				continue
			}
			s.packs.forget(name)
			if err := s.options.FS.Remove(filepath.Join(s.packs.dir, file.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			removed = true
		}
		if !removed {
			return nil
		}
		return s.options.FS.SyncDir(s.packs.dir)
	})
}

// packBorn is when a pack was begun; if it does not say, when it was last written.
// One that cannot be read is young for ever.
func packBorn(path string) time.Time {
	future := time.Unix(1<<40, 0)
	f, err := os.Open(path)
	if err != nil {
		return future
	}
	defer f.Close()
	head := make([]byte, packHead)
	if _, err := f.ReadAt(head, 0); err == nil && string(head[:len(packMagic)]) == packMagic {
		return time.Unix(int64(binary.LittleEndian.Uint64(head[len(packMagic):])), 0)
	}
	fi, err := f.Stat()
	if err != nil {
		return future
	}
	return fi.ModTime()
}
