package sqlite

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/store/sqlite/internal/checksumvfs"
)

// Older stores have no checksums of their pages, so the store would read a flipped bit in a key or a pointer as another
// value. Records have separate checksums. For each value outside a record, the store compares two copies: it compares
// an id in a row with the id in its index, and the head of a thread with the result that its newest commit recorded.

var (
	errKey   = errors.New("its key in the index is damaged")
	errHead  = errors.New("its head differs from the result of its newest commit")
	errPlace = errors.New("its position on the line is damaged") // a commit does not follow the commit that its row names
)

// missedRow checks ids that the caller did not find in the index of a table. It looks for all of them in one pass over
// the rows.
func missedRow(ctx context.Context, c *conn, op, table string, ids ...string) error {
	list, err := json.Marshal(ids)
	if err != nil {
		return err
	}
	var id string
	found, err := c.row(ctx, `SELECT t.id FROM `+table+` t NOT INDEXED WHERE t.id IN (SELECT value FROM json_each(?))
		AND NOT EXISTS (SELECT 1 FROM `+table+` x WHERE x.id = t.id)`, []any{string(list)}, &id)
	if err == nil && found {
		err = corrupt(op, id, errKey)
	}
	return err
}

// missedNode checks a commit to which Load found no line. If the commit's row holds a node, the row's
// reference to its line or its thread is damaged.
func missedNode(ctx context.Context, c *conn, op, id string) error {
	if err := missedRow(ctx, c, op, "commits", id); err != nil {
		return err
	}
	var isNode bool
	_, err := c.row(ctx, `SELECT EXISTS (SELECT 1 FROM commits WHERE id = ? AND (checkpoint IS NOT NULL OR entries IS NOT NULL))`,
		[]any{id}, &isNode)
	if err == nil && isNode {
		err = corrupt(op, id, errPlace)
	}
	return err
}

// verifyPages returns a function that verifies the pages of a list of checkpoints. Numbers of commits are never
// freed, so the function looks for gaps in the numbers of a thread: from the oldest number of a page to the oldest
// number of the page before it, and at the end of the list from the first number of the thread.
func (s *Store) verifyPages(ctx context.Context, q *segno.CheckpointQuery) func(page []segno.Node, isLast bool) error {
	const op = "list checkpoints"
	name := string(q.Thread)
	newest := int64(0) // the newest number that is not verified yet
	return func(page []segno.Node, isLast bool) error {
		if len(page) == 0 && q.Thread != "" {
			if _, err := s.Head(ctx, q.Thread); segno.KindOf(err) != segno.KindNotFound {
				return err
			}
		}
		if len(page) == 0 {
			return nil
		}
		return s.read(ctx, op, name, func(ctx context.Context, c *conn) error {
			if err := verifyParents(ctx, c, page); err != nil || q.Thread == "" {
				return err
			}
			oldest := page[len(page)-1].Seq
			if isLast {
				oldest = 1
			}
			newest = max(page[0].Seq, newest)
			var n int64
			_, err := c.row(ctx, `SELECT count(*) FROM commits INDEXED BY commits_seq
				WHERE thread = (SELECT n FROM threads WHERE id = ?) AND seq BETWEEN ? AND ?`, []any{name, oldest, newest}, &n)
			if err == nil && n != newest-oldest+1 {
				err = corrupt(op, name, fmt.Errorf("of the commits %d to %d, %d exist", oldest, newest, n))
			}
			newest = oldest
			return err
		})
	}
}

// verifyParents compares the ids of parents with the index. It omits the listed commits, whose ids were compared
// before.
func verifyParents(ctx context.Context, c *conn, listed []segno.Node) error {
	known := make(map[segno.CommitID]bool, len(listed))
	for i := range listed {
		known[listed[i].ID] = true
	}
	for i := range listed {
		at := &listed[i]
		if at.Parent == "" || known[at.Parent] {
			continue
		}
		var isParent bool
		_, err := c.row(ctx, `SELECT EXISTS (SELECT 1 FROM commits c JOIN commits p ON p.n = c.parent WHERE c.id = ? AND p.id = ?)`,
			[]any{string(at.ID), string(at.Parent)}, &isParent)
		if err == nil && !isParent {
			err = corrupt("list checkpoints", string(at.ID), errPlace)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// verifyThreads verifies the rows of deleted threads, because a list of threads does not contain them. If no thread
// has a session, it looks for the session in the rows of the links, and for links without a thread.
func (s *Store) verifyThreads(ctx context.Context, q *segno.ThreadQuery, isEmpty bool) error {
	const op = "list threads"
	return s.read(ctx, op, "", func(ctx context.Context, c *conn) error {
		if err := s.verifyDeleted(ctx, c); err != nil || !isEmpty || q.Session == "" {
			return err
		}
		var isDamaged bool
		_, err := c.row(ctx, `SELECT EXISTS (SELECT 1 FROM links l NOT INDEXED WHERE l.session = ?1
			AND (l.thread NOT IN (SELECT n FROM threads) OR NOT EXISTS (SELECT 1 FROM links x WHERE x.session = ?1)))`,
			[]any{s.records.Sealer.Name("session", string(q.Session))}, &isDamaged)
		if err == nil && isDamaged {
			err = corrupt(op, string(q.Session), errKey)
		}
		return err
	})
}

// missedObject checks an object that the caller did not find in the table. The table is ordered by name and has no
// second copy of the names, so missedObject reads all of them. A name is damaged if it differs from the wanted name
// in one byte, or if it is out of order.
func missedObject(ctx context.Context, c *conn, op string, stored, name segno.Hash) error {
	var before segno.Hash
	return storedNames(ctx, c, func(at segno.Hash) error {
		different := 0
		for i := range at {
			if at[i] != stored[i] {
				different++
			}
		}
		if different == 1 || bytes.Compare(at[:], before[:]) < 0 {
			return corrupt(op, name.String(), errKey)
		}
		before = at
		return nil
	})
}

// checkSchema compares the database's schema with the schema of this package, because a damaged condition of an index
// would hide rows.
func checkSchema(ctx context.Context, c *conn, schema string) error {
	parts := 0
	var name, text string
	err := c.Query(ctx, `SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%'`, nil,
		[]any{&name, &text}, func() error {
			if text == sealSchema || strings.Contains(phaseTriggers, text+";") {
				return nil
			}
			parts++
			if !strings.Contains(schema, text+";") {
				return corrupt("open store", name, errors.New("its part of the schema is damaged"))
			}
			return nil
		})
	if err == nil && parts != strings.Count(schema, "CREATE ") {
		err = corrupt("open store", "", fmt.Errorf("the schema has %d parts", parts))
	}
	return err
}

// checkSums verifies that a connection verifies the checksums of pages if and only if the version of the store requires
// checksums. Otherwise a flipped bit of the header could turn the checksums off.
func (s *Store) checkSums(ctx context.Context, c *conn) error {
	const op = "open store"
	var hasSums bool
	found, err := c.row(ctx, checksumvfs.Pragma, nil, &hasSums)
	switch {
	case err == nil && !found && s.hasSums:
		err = segno.Errorf(segno.KindRefused, op, s.dir, "the pages have checksums, which the given database does not maintain").
			WithHint("add the parameter vfs, with the value of sqlite.VFS, to the name of the database")
	case err == nil && hasSums != s.hasSums:
		err = corrupt(op, s.dir, errors.New("its version differs from the form of its pages"))
	}
	return err
}

// checkSize detects that the last page of a database file is incomplete, because SQLite would read the lost part as
// zeros. SQLite itself refuses a file that lacks whole pages. checkSize does not open the file: when a process closes
// any descriptor of a file, POSIX drops all locks of that process on the file, and other connections of this process
// rely on these locks.
func checkSize(ctx context.Context, c *conn, file string) error {
	// The newest pages of a database with a WAL are in the WAL.
	if log, err := os.Stat(file + "-wal"); err == nil && log.Size() > 0 {
		return nil
	}
	var page int64
	if _, err := c.row(ctx, "PRAGMA page_size", nil, &page); err != nil {
		return err
	}
	for range fileLooks {
		fi, err := os.Stat(file)
		if err != nil || fi.Size()%page == 0 {
			return err
		}
	}
	return corrupt("open store", file, errors.New("the end of the file is missing"))
}

// fileLooks is how often a check looks at a file that another process may be changing.
const fileLooks = 3

// checkLog detects that the WAL was lost. SQLite creates the WAL before the file with the index of the WAL,
// and removes it after that file. So an index without a WAL remains if the WAL was lost while the store was
// open, or after its last process was killed. checkLog looks several times, because another process may be
// closing the store.
func checkLog(file string) error {
	for range fileLooks {
		before, err := os.Stat(file + "-shm")
		if err != nil {
			return nil
		}
		if _, err := os.Stat(file + "-wal"); !errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if after, err := os.Stat(file + "-shm"); err != nil || !os.SameFile(before, after) {
			return nil
		}
	}
	base := filepath.Base(file)
	return segno.Errorf(segno.KindCorrupt, "open store", file, "its log %s-wal is missing", base).
		WithHint("put the log back; or remove " + base + "-shm to open the store without its newest commits")
}
