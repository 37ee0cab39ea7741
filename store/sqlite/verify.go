package sqlite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/sqlstore"
)

// SQLite has no checksums of its pages, so a flipped bit in a key or a pointer reads as another value. Records
// have their own checksums. The store compares each value beside them with its second copy: an id in a row
// with the id in its index, and the head of a thread with the result that its newest commit recorded.

var (
	errKey   = errors.New("its key in the index is damaged")
	errHead  = errors.New("its head is not the one that its newest commit made")
	errPlace = errors.New("its place on the line is damaged") // a commit does not follow the commit that its row names
)

// missedRow is called for an id that the index of a table does not have. It looks for the id in the rows, and
// then once more in the index, because another process may have added the row meanwhile.
func missedRow(ctx context.Context, c *conn, op, table, id string) error {
	var inRows, inIndex bool
	if _, err := c.row(ctx, `SELECT EXISTS (SELECT 1 FROM `+table+` NOT INDEXED WHERE id = ?)`, []any{id}, &inRows); err != nil || !inRows {
		return err
	}
	if _, err := c.row(ctx, `SELECT EXISTS (SELECT 1 FROM `+table+` WHERE id = ?)`, []any{id}, &inIndex); err != nil || inIndex {
		return err
	}
	return corrupt(op, id, errKey)
}

// missedNode is called for a commit whose line came out empty. If the commit's row holds a node, the row's
// reference to its line or its thread is damaged.
func missedNode(ctx context.Context, c *conn, op, id string) error {
	if err := missedRow(ctx, c, op, "commits", id); err != nil {
		return err
	}
	var isNode bool
	_, err := c.row(ctx, `SELECT EXISTS (SELECT 1 FROM commits WHERE id = ? AND (checkpoint IS NOT NULL OR entries IS NOT NULL))`, []any{id}, &isNode)
	if err == nil && isNode {
		err = corrupt(op, id, errPlace)
	}
	return err
}

// verifyParents compares the ids of parents with the index. The ids of listed commits were compared before.
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

// missedSession is called for a session of which no thread was found. It looks for the session in the rows of
// the links, and for links whose thread is missing.
func (s *Store) missedSession(ctx context.Context, session segno.SessionID) error {
	const op = "list threads"
	return s.read(ctx, op, "", func(ctx context.Context, c *conn) error {
		var isDamaged bool
		_, err := c.row(ctx, `SELECT EXISTS (SELECT 1 FROM links l NOT INDEXED WHERE l.session = ?1
			AND (l.thread NOT IN (SELECT n FROM threads) OR NOT EXISTS (SELECT 1 FROM links x WHERE x.session = ?1)))`,
			[]any{s.records.Sealer.Name("session", string(session))}, &isDamaged)
		if err == nil && isDamaged {
			err = corrupt(op, string(session), errKey)
		}
		return err
	})
}

// missedObject is called for an object that the table does not have. The table is ordered by name and has no
// second copy of it, so missedObject reads all names: a name that differs from the wanted one in one byte, or
// that is out of order, is damaged.
func missedObject(ctx context.Context, c *conn, op string, stored, name segno.Hash) error {
	var before segno.Hash
	return storedNames(ctx, c, func(raw []byte) error {
		if len(raw) != len(before) || bytes.Compare(raw, before[:]) < 0 {
			return corrupt(op, name.String(), errKey)
		}
		different := 0
		for i := range raw {
			if raw[i] != stored[i] {
				different++
			}
		}
		if different == 1 {
			return corrupt(op, name.String(), errKey)
		}
		before = segno.Hash(raw)
		return nil
	})
}

// checkSchema compares the schema with that of this package: a damaged condition of an index would hide rows.
func checkSchema(ctx context.Context, c *conn, schema string) error {
	parts := 0
	err := c.rows(ctx, `SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%'`, nil, func(r sqlstore.Row) error {
		var name, text string
		if err := r.Scan(&name, &text); err != nil {
			return err
		}
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

// checkSize detects a database file whose last page was cut off in its middle: SQLite reads the lost part as
// zeros. SQLite itself refuses a file that lacks whole pages. checkSize does not open the file: when a process
// closes any descriptor of a file, POSIX drops all locks of that process on it, and other connections of the
// process rely on theirs.
func checkSize(ctx context.Context, c *conn, file string) error {
	// The newest pages of a database with a log are in the log.
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

// checkLog detects that the log was lost. SQLite creates the log before the file with the index of the log,
// and removes it after that file. So an index without a log remains if the log was lost while the store was
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

// headQuery reads a head together with the values that it is compared with, because another process may commit
// between two queries.
const headQuery = `SELECT t.hidden, t.seq, t.turn, t.epoch, t.link, coalesce(h.id, ''), coalesce(p.id, ''), l.record, t.owner, t.expires,
		t.seq = 0 OR m.head = t.head AND m.tip = t.tip AND m.high = t.turn AND m.link = t.link
			AND NOT EXISTS (SELECT 1 FROM commits y WHERE y.thread = t.n AND y.seq > t.seq),
		(SELECT z.id FROM threads z NOT INDEXED WHERE z.n = t.n) = ?1
			AND (t.head = 0 OR (SELECT x.n FROM commits x WHERE x.id = h.id) = t.head) AND (t.tip = 0 OR (SELECT x.n FROM commits x WHERE x.id = p.id) = t.tip)
	FROM threads t LEFT JOIN commits h ON h.n = t.head LEFT JOIN commits p ON p.n = t.tip LEFT JOIN links l ON l.n = t.link
		LEFT JOIN commits m ON m.thread = t.n AND m.seq = t.seq
	WHERE t.id = ?1`

// verifiedHead reads and verifies the head of a thread that is not deleted.
func (s *Store) verifiedHead(ctx context.Context, c *conn, id segno.ThreadID) (h segno.Head, err error) {
	const op = "read head"
	var isNewest, isID *bool
	var link int64
	var rec []byte
	l := leaseRow{thread: id}
	h.Thread = id
	found, err := c.row(ctx, headQuery, []any{string(id)},
		&l.hidden, &h.Seq, &h.Turn, &h.Epoch, &link, &h.Head, &h.Tip, &rec, &l.owner, &l.expires, &isNewest, &isID)
	l.epoch = h.Epoch
	switch {
	case err == nil && !found:
		if err = missedRow(ctx, c, op, "threads", string(id)); err == nil {
			err = notFound(op, string(id))
		}
	case err != nil:
	case isNewest == nil || !*isNewest:
		err = corrupt(op, string(id), errHead)
	case isID == nil || !*isID:
		err = corrupt(op, string(id), sqlstore.ErrID)
	default:
		err = l.verify(op, s.records.Sealer != nil)
	}
	if err == nil && link != 0 {
		h.Link, err = s.decodeLink(id, link, rec)
	}
	if err == nil && l.hidden {
		err = notFound(op, string(id))
	}
	if err != nil {
		return segno.Head{}, err
	}
	return h, nil
}
