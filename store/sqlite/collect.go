package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/store/sqlstore"
)

// minAge is the age below which a collection keeps every object, because a batch may take that long until its
// commit.
const minAge = time.Hour

// Collect implements [segno.Collector]. It keeps the commits and objects that the heads and tips of threads
// reach, all their nodes that were not amended, pins, operations and workspaces, and the checkpoints of the
// policy. Without a Trace, it drops no object.
//
// Collect does most of its work while other writers continue: it finds the objects to keep, and copies the
// used part of each pack that is mostly unused to a new pack. Then one transaction reads the commits made
// since then, and deletes the rest. Collect removes files last.
func (s *Store) Collect(ctx context.Context, p segno.CollectPolicy) (segno.Collection, error) {
	return s.collect(ctx, "collect", &p, false)
}

// Erase implements [segno.Eraser]. It rewrites the database with VACUUM and empties its log, because SQLite
// leaves deleted rows in free pages and in the log. Both need a moment without other users. [segno.KindBusy]
// means that the rows are deleted but their bytes may remain, and that the caller should call Erase again. A
// process that is killed during Erase may leave a pack that is younger than an hour; a later collection
// removes it.
func (s *Store) Erase(ctx context.Context, p segno.CollectPolicy) (segno.Collection, error) {
	const op = "erase"
	done, err := s.collect(ctx, op, &p, true)
	if err != nil || p.DryRun {
		return done, err
	}
	return done, s.vacuum(ctx, op)
}

// collection is a run of Collect or Erase, with the objects that it will delete.
type collection struct {
	*sqlstore.Graph
	segno.Collection

	s     *Store
	now   time.Time
	drop  map[segno.Hash]objectRow // by their names in the database
	packs map[int64]*packUse
}

// storedObject is an object with its name in the database.
type storedObject struct {
	name segno.Hash
	objectRow
}

// packUse records how much of a pack is used.
type packUse struct {
	name         string
	born         int64
	used, unused int64          // bytes
	objects      []storedObject // the used objects
	copies       int            // the number of additional objects in the pack that the database has elsewhere
}

func (s *Store) collect(ctx context.Context, op string, p *segno.CollectPolicy, erase bool) (segno.Collection, error) {
	x := &collection{Graph: sqlstore.NewGraph(s.common, p, erase), s: s, now: s.options.Clock()}
	var known int64 // the graph includes the commits up to this number
	err := s.readApart(ctx, op, "", func(queryCtx context.Context, c *conn) error {
		if _, err := c.row(queryCtx, `SELECT coalesce(max(n), 0) FROM commits`, nil, &known); err != nil {
			return err
		}
		return x.plan(ctx, queryCtx, c, 0)
	})
	if err != nil || p.DryRun {
		return x.Collection, err
	}
	packs := map[string]bool{} // an erasure removes their files regardless of their age
	for _, use := range x.packs {
		packs[use.name] = erase
	}
	moves, err := x.rewritePacks(ctx)
	if err != nil {
		return segno.Collection{}, fail(op, "", err)
	}
	err = s.write(ctx, op, "", func(tx *tx) error {
		if err := x.plan(ctx, tx.ctx, tx.c, known); err != nil {
			return err
		}
		if err := x.delete(tx); err != nil {
			return err
		}
		applyMoves(tx, moves, x.now.Unix())
		return nil
	})
	if err != nil {
		return segno.Collection{}, err
	}
	return x.Collection, s.sweepPacks(ctx, x.now.Add(-minAge), packs)
}

// plan adds the commits after since to the graph and finds the nodes and objects to delete. It runs twice:
// first while other writers continue, to find the packs that are worth rewriting, and then in the transaction
// that deletes. The second run traces only the commits after the first one, so that the write lock is held
// only briefly. It reads all rows of objects again, because a writer may have kept or added objects
// meanwhile.
func (x *collection) plan(ctx, queryCtx context.Context, c *conn, since int64) error {
	if err := x.Read(queryCtx, c, since); err != nil {
		return err
	}
	x.Mark()
	if err := x.Trace(ctx); err != nil {
		return err
	}
	x.drop, x.packs = map[segno.Hash]objectRow{}, map[int64]*packUse{}
	x.Collection = segno.Collection{}
	_, x.Checkpoints = x.Unreachable()
	var n int64
	var use packUse
	err := c.Query(queryCtx, `SELECT n, name, born, objects FROM packs`, nil, []any{&n, &use.name, &use.born, &use.copies}, func() error {
		found := use
		x.packs[n] = &found
		return nil
	})
	if err != nil {
		return err
	}
	var name sql.RawBytes
	var o objectRow
	var born int64
	return c.Query(queryCtx, `SELECT name, size, pack, at, length, born FROM objects`, nil,
		[]any{&name, &o.size, &o.pack, &o.at, &o.length, &born}, func() error {
			use := x.packs[o.pack]
			if use == nil {
				use = new(packUse) // the object is in the database
			}
			use.copies--
			if stored := segno.Hash(name); x.Drops(stored, born <= x.now.Add(-minAge).Unix()) {
				x.Objects++
				x.Bytes += o.storedBytes()
				use.unused += o.storedBytes()
				x.drop[stored] = o
			} else {
				x.Kept++
				use.used += o.storedBytes()
				if o.pack != 0 {
					use.objects = append(use.objects, storedObject{stored, o})
				}
			}
			return nil
		})
}

// delete deletes nodes and objects. The id and the digest of a commit remain, so that a repeated commit is
// not applied as a new one.
func (x *collection) delete(tx *tx) error {
	tx.exec(`PRAGMA secure_delete = ON`)
	nodes, _ := x.Unreachable()
	rows := make([]int64, len(nodes))
	for i, n := range nodes {
		rows[i] = n.Row
	}
	numbers, err := json.Marshal(rows)
	if err != nil {
		return err
	}
	tx.exec(`UPDATE commits SET line = NULL, depth = NULL, checkpoint = NULL, entries = NULL
		WHERE n IN (SELECT value FROM json_each(?))`, string(numbers))
	tx.exec(`DELETE FROM terms WHERE n IN (SELECT value FROM json_each(?))`, string(numbers)) // one scan of all terms
	for name, o := range x.drop {
		tx.exec(`DELETE FROM objects WHERE name = ?`, name[:])
		if o.pack == 0 {
			tx.exec(`DELETE FROM small WHERE n = ?`, o.at)
		}
	}
	if x.Erasure != nil {
		if err := x.eraseThreads(tx); err != nil {
			return err
		}
	}
	tx.exec(`DELETE FROM links WHERE thread IN (SELECT n FROM threads t WHERE hidden
		AND NOT EXISTS (SELECT 1 FROM commits c WHERE c.thread = t.n AND c.line IS NOT NULL))`)
	tx.exec(`DELETE FROM packs WHERE NOT EXISTS (SELECT 1 FROM objects o WHERE o.pack = packs.n)`)
	return nil
}

// eraseThreads deletes the records of deleted threads except for their nodes. The id of a thread remains.
func (x *collection) eraseThreads(tx *tx) error {
	for _, id := range x.Erasure.Threads {
		rec := x.s.records.ErasedThread(id)
		l := sqlstore.LeaseRow{Thread: id, Hidden: true}
		tx.row(`SELECT epoch FROM threads WHERE id = ?`, []any{string(id)}, &l.Epoch)
		tx.exec(`UPDATE threads SET record = ?, link = 0, owner = ?, expires = 0 WHERE id = ?`, rec, database{x.s}.LeaseOwner(&l), string(id))
	}
	tx.exec(`UPDATE commits SET link = 0 WHERE thread IN (SELECT n FROM threads WHERE hidden)`)
	tx.exec(`DELETE FROM links WHERE thread IN (SELECT n FROM threads WHERE hidden)`)
	for _, id := range x.Erasure.Workspaces {
		tx.exec(`UPDATE workspaces SET state = NULL WHERE id = ?`, string(id))
	}
	for _, id := range x.Erasure.Operations {
		tx.exec(`DELETE FROM operations WHERE id = ?`, string(id))
	}
	return nil
}

// vacuum writes the database to new pages and empties the log.
func (s *Store) vacuum(ctx context.Context, op string) error {
	return s.withWriter(ctx, segno.Synced, op, s.file, func(ctx context.Context, c *conn) error {
		if err := c.setImpatient(ctx, false); err != nil {
			return err
		}
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

// rewritePacks copies the used part of each pack that is mostly unused to a new pack. An erasure does this
// for each pack with an unused object or a copy of one, because an object that the database has elsewhere may
// be erased there. Nothing refers to the new packs yet.
func (x *collection) rewritePacks(ctx context.Context) (moves []packMove, err error) {
	for n, use := range x.packs {
		isMostlyUnused := use.unused > use.used && x.now.Unix()-use.born >= int64(minAge/time.Second)
		hasAnyUnused := use.unused > 0 || use.copies > 0
		if use.used == 0 || !isMostlyUnused && (x.Erasure == nil || !hasAnyUnused) {
			continue
		}
		to, err := x.s.repack(ctx, use.name, use.objects, false)
		if err != nil {
			return nil, err
		}
		if to != nil {
			moves = append(moves, packMove{from: n, to: to})
		}
	}
	return moves, nil
}

// sweepPacks removes the pack files that the database does not use and that are older than a batch may be:
// packs that were just dropped, and packs of batches that ended without a commit. It removes those in
// ofAnyAge regardless of their age: the database knew them, so no batch is writing them. sweepPacks holds the
// write lock, so that no commit adopts a pack meanwhile.
func (s *Store) sweepPacks(ctx context.Context, old time.Time, ofAnyAge map[string]bool) error {
	const op = "remove packs"
	files, err := os.ReadDir(s.packs.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fail(op, s.packs.dir, err)
	}
	return s.write(ctx, op, s.packs.dir, func(tx *tx) error {
		removed := false
		for _, file := range files {
			name, ok := strings.CutSuffix(file.Name(), packSuffix)
			if !ok {
				continue
			}
			path := filepath.Join(s.packs.dir, file.Name())
			var n int64
			isUsed := tx.row(`SELECT n FROM packs WHERE name = ?`, []any{name}, &n)
			if isUsed || tx.err != nil || !ofAnyAge[name] && !packBorn(path).Before(old) {
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

// packBorn returns when a pack was started, or when it was last written if its head cannot be read. For a
// file that cannot be opened, it returns a time in the far future.
func packBorn(path string) time.Time {
	future := time.Unix(1<<40, 0)
	f, err := os.Open(path)
	if err != nil {
		return future
	}
	defer f.Close()
	if born, err := readPackHead(f); err == nil {
		return born
	}
	fi, err := f.Stat()
	if err != nil {
		return future
	}
	return fi.ModTime()
}
