package sqlite

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/sqlstore"
)

// minAge is the age below which a collection keeps every object: as long as a batch may take to its commit.
const minAge = time.Hour

// Collect implements [segno.Collector]. It keeps what the heads and tips of threads reach, all their nodes
// that were not amended, pins, operations and workspaces, and the checkpoints of the policy. Without a Trace
// it drops no object.
//
// Most of the work is done beside other writers: finding what is reached, and writing the used part of a pack
// that is mostly unused to a new one. Then one transaction reads the commits since, and deletes the rest. It
// removes files last.
func (s *Store) Collect(ctx context.Context, p segno.CollectPolicy) (segno.Collection, error) {
	return s.collect(ctx, "collect", &p, false)
}

// Erase implements [segno.Eraser]. It rewrites the database with VACUUM and empties its log, because SQLite
// leaves deleted rows in free pages and in the log. Both need a moment without other users:
// [segno.KindBusy] means that the rows are deleted but their bytes may remain, and the caller calls Erase
// again. A process that is killed during Erase may leave a pack that is younger than an hour; a later
// collection removes it.
func (s *Store) Erase(ctx context.Context, p segno.CollectPolicy) (segno.Collection, error) {
	const op = "erase"
	done, err := s.collect(ctx, op, &p, true)
	if err != nil || p.DryRun {
		return done, err
	}
	return done, s.vacuum(ctx, op)
}

var graphQueries = sqlstore.GraphQueries{
	Pointers: `SELECT h.id, p.id FROM threads t LEFT JOIN commits h ON h.n = t.head LEFT JOIN commits p ON p.n = t.tip
		WHERE NOT t.hidden AND t.changed > ?1
		UNION ALL SELECT c.id, c.id FROM pins x JOIN commits c ON c.n = x.n`,
	Operations: `SELECT id, workspace, record FROM operations WHERE ?1 >= 0`,
}

// collection is a run of Collect or Erase, with the objects that it found to delete.
type collection struct {
	*sqlstore.Graph
	segno.Collection

	s       *Store
	policy  *segno.CollectPolicy
	now     time.Time
	objects []storedObject
	packs   map[int64]*packUse
}

type storedObject struct {
	objectRow
	name segno.Hash // in the database
	born int64
}

// packUse says how much of a pack is used.
type packUse struct {
	name         string
	born         int64
	used, unused int64 // bytes
	objects      []storedObject
}

func (s *Store) collect(ctx context.Context, op string, p *segno.CollectPolicy, erase bool) (segno.Collection, error) {
	x := &collection{Graph: sqlstore.NewGraph(&s.records, graphQueries, s.Objects(), p, erase), s: s, policy: p, now: s.options.Clock()}
	var known int64 // commits up to this number are in the graph
	err := s.readApart(ctx, op, "", func(queryCtx context.Context, c *conn) error {
		if _, err := c.row(queryCtx, `SELECT coalesce(max(n), 0) FROM commits`, nil, &known); err != nil {
			return err
		}
		return x.plan(ctx, queryCtx, c, 0)
	})
	if err != nil || p.DryRun {
		return x.Collection, err
	}
	packs := map[string]bool{} // an erasure removes their files whatever their age
	for _, use := range x.packs {
		packs[use.name] = erase
	}
	moves, err := x.rewritePacks(ctx)
	if err != nil {
		return segno.Collection{}, fail(op, "", err)
	}
	err = s.write(ctx, op, "", func(queryCtx context.Context, tx *conn) error {
		if err := x.plan(ctx, queryCtx, tx, known); err != nil {
			return err
		}
		if err := x.delete(queryCtx, tx); err != nil {
			return err
		}
		return applyMoves(queryCtx, tx, moves, x.now.Unix())
	})
	if err != nil {
		return segno.Collection{}, err
	}
	return x.Collection, s.sweepPacks(ctx, x.now.Add(-minAge), packs)
}

// plan adds the commits since a number to the graph and finds the nodes and objects to delete. It runs twice: first
// beside other writers, to find the packs that are worth rewriting, and then in the transaction that deletes. The
// second run traces only the commits since the first one, so the write lock is held for a short time. It does read
// all rows of objects again, because a writer may have kept or added objects meanwhile.
func (x *collection) plan(ctx, queryCtx context.Context, c *conn, since int64) error {
	if err := x.Read(queryCtx, c, since); err != nil {
		return err
	}
	x.Mark()
	if err := x.Trace(ctx); err != nil {
		return err
	}
	x.Collection, x.objects, x.packs = segno.Collection{}, nil, map[int64]*packUse{}
	for _, n := range x.Unreachable() {
		if n.Checkpoint != nil {
			x.Checkpoints++
		}
	}
	err := c.rows(queryCtx, `SELECT n, name, born FROM packs`, nil, func(r sqlstore.Row) error {
		var n int64
		u := new(packUse)
		err := r.Scan(&n, &u.name, &u.born)
		x.packs[n] = u
		return err
	})
	if err != nil {
		return err
	}
	var name sql.RawBytes
	return c.rows(queryCtx, `SELECT name, size, pack, at, length, born FROM objects`, nil, func(r sqlstore.Row) error {
		var o storedObject
		if err := r.Scan(&name, &o.size, &o.pack, &o.at, &o.length, &o.born); err != nil {
			return err
		}
		o.name = segno.Hash(name)
		x.planObject(&o)
		return nil
	})
}

// planObject decides about one object. A young object is kept even if nothing reaches it: a batch may have put it
// and not committed yet. An erasure deletes a young object if only deleted threads reach it.
func (x *collection) planObject(o *storedObject) {
	use := x.packs[o.pack]
	if use == nil {
		use = new(packUse) // the object is in the database
	}
	isYoung := o.born > x.now.Add(-minAge).Unix()
	if x.Reaches(o.name) || x.policy.Trace == nil || isYoung && !x.Erases(o.name) {
		x.Kept++
		use.used += o.storedBytes()
		if o.pack != 0 {
			use.objects = append(use.objects, *o)
		}
		return
	}
	x.Objects++
	x.Bytes += o.storedBytes()
	use.unused += o.storedBytes()
	x.objects = append(x.objects, *o)
}

// delete deletes nodes and objects. The id and the digest of a commit remain, so that a repeated commit is not
// applied as a new one.
func (x *collection) delete(ctx context.Context, tx *conn) error {
	all := &statements{ctx: ctx, tx: tx}
	all.exec(`PRAGMA secure_delete = ON`)
	for _, n := range x.Unreachable() {
		all.exec(`UPDATE commits SET line = NULL, depth = NULL, checkpoint = NULL, entries = NULL WHERE n = ?`, n.Row)
		all.exec(`DELETE FROM terms WHERE n = ?`, n.Row)
	}
	for i := range x.objects {
		o := &x.objects[i]
		all.exec(`DELETE FROM objects WHERE name = ?`, o.name[:])
		if o.pack == 0 {
			all.exec(`DELETE FROM small WHERE n = ?`, o.at)
		}
	}
	if x.Erasure() != nil {
		x.eraseThreads(all)
	}
	all.exec(`DELETE FROM links WHERE thread IN (SELECT n FROM threads t WHERE hidden
		AND NOT EXISTS (SELECT 1 FROM commits c WHERE c.thread = t.n AND c.line IS NOT NULL))`)
	all.exec(`DELETE FROM packs WHERE NOT EXISTS (SELECT 1 FROM objects o WHERE o.pack = packs.n)`)
	return all.err
}

// eraseThreads deletes what deleted threads leave besides nodes. The id of a thread remains.
func (x *collection) eraseThreads(all *statements) {
	for _, id := range x.Erasure().Threads {
		row := leaseRow{thread: id, hidden: true}
		if all.err == nil {
			_, all.err = all.tx.row(all.ctx, `SELECT epoch FROM threads WHERE id = ?`, []any{string(id)}, &row.epoch)
		}
		all.exec(`UPDATE threads SET record = ?, link = 0, owner = ?, expires = 0 WHERE id = ?`,
			x.s.records.ErasedThread(id), row.column(), string(id))
	}
	all.exec(`UPDATE commits SET link = 0 WHERE thread IN (SELECT n FROM threads WHERE hidden)`)
	all.exec(`DELETE FROM links WHERE thread IN (SELECT n FROM threads WHERE hidden)`)
	for _, id := range x.Erasure().Workspaces {
		all.exec(`UPDATE workspaces SET state = NULL WHERE id = ?`, string(id))
	}
	for _, id := range x.Erasure().Operations {
		all.exec(`DELETE FROM operations WHERE id = ?`, string(id))
	}
}

// statements executes statements until one fails.
type statements struct {
	ctx context.Context // of the transaction
	tx  *conn
	err error
}

func (x *statements) exec(query string, args ...any) {
	if x.err == nil {
		_, x.err = x.tx.exec(x.ctx, query, args...)
	}
}

// vacuum writes the database to new pages and empties the log.
func (s *Store) vacuum(ctx context.Context, op string) error {
	return s.withWriter(ctx, op, s.file, func(ctx context.Context, c *conn) error {
		return s.retryWhileBusy(ctx, c, func(ctx context.Context, c *conn) error {
			if _, err := c.sql.ExecContext(ctx, `VACUUM`); err != nil {
				return err
			}
			var busy, pages, moved int
			if _, err := c.row(ctx, `PRAGMA wal_checkpoint(TRUNCATE)`, nil, &busy, &pages, &moved); err != nil {
				return err
			}
			if busy != 0 {
				return segno.Errorf(segno.KindBusy, op, s.file, "another process reads the database, so its log cannot be emptied").
					WithHint("close the programs that use the store, then erase again")
			}
			return nil
		})
	})
}

// packMove is a pack whose used objects were written to a new pack.
type packMove struct {
	from int64
	to   *packWriter
}

// rewritePacks writes the used part of each pack that is mostly unused to a new pack. An erasure does so for
// each pack with anything unused. Nothing refers to the new packs yet.
func (x *collection) rewritePacks(ctx context.Context) (moves []packMove, err error) {
	for n, use := range x.packs {
		isMostlyUnused := use.unused > use.used && x.now.Unix()-use.born >= int64(minAge/time.Second)
		if use.used == 0 || use.unused == 0 || !isMostlyUnused && x.Erasure() == nil {
			continue
		}
		to, err := x.s.rewritePack(ctx, use)
		if err != nil {
			return nil, err
		}
		moves = append(moves, packMove{from: n, to: to})
	}
	return moves, nil
}

// rewritePack copies the used objects of a pack as they are encoded. It verifies each one first: a copy of damaged
// bytes would get the checksum of a new pack.
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
			err = errors.Join(err, to.remove())
		}
	}()
	for i := range use.objects {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		o := &use.objects[i]
		o.packName = use.name
		if _, err := s.fetch(o.name, o.name, o.objectRow); err != nil {
			return nil, err // a damaged object remains in its pack, for Check to find
		}
		encoded, err := s.fetchPacked(o.name, o.objectRow)
		if err == nil {
			err = to.add(o.name, o.size, encoded)
		}
		if err != nil {
			return nil, err
		}
	}
	return to, to.finish()
}

// applyMoves makes objects refer to their new packs. An object that something began to use after its pack was
// rewritten remains in the old pack, and then the old pack remains too.
func applyMoves(ctx context.Context, tx *conn, moves []packMove, now int64) error {
	for _, m := range moves {
		n, err := insertPack(ctx, tx, m.to.name, now, len(m.to.entries))
		if err != nil {
			return err
		}
		all := &statements{ctx: ctx, tx: tx}
		for i := range m.to.entries {
			e := &m.to.entries[i]
			all.exec(`UPDATE objects SET pack = ?, at = ?, length = ? WHERE name = ? AND pack = ?`, n, e.at, e.column(), e.name[:], m.from)
		}
		all.exec(`DELETE FROM packs WHERE n IN (?, ?) AND NOT EXISTS (SELECT 1 FROM objects o WHERE o.pack = packs.n)`, m.from, n)
		if all.err != nil {
			return all.err
		}
	}
	return nil
}

// sweepPacks removes the pack files that the database does not use, if they are older than a batch may be: the
// packs that were just dropped, and those of batches that ended without a commit. Those in ofAnyAge are removed
// whatever their age: the database knew them, so no batch is writing them. sweepPacks holds the write lock, so
// that no commit adopts a pack meanwhile.
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
			path := filepath.Join(s.packs.dir, file.Name())
			var n int64
			isUsed, err := tx.row(ctx, `SELECT n FROM packs WHERE name = ?`, []any{name}, &n)
			if err != nil {
				return err
			}
			if isUsed || !ofAnyAge[name] && !packBorn(path).Before(old) {
				continue
			}
			s.packs.forget(name)
			if err := s.options.FS.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
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

// packBorn returns when a pack was started, or when it was last written if its head is not readable. It is in
// the far future for a file that cannot be opened.
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
