package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/dalsegno/segno"
)

// SQLite has no checksums of its pages, so a flipped bit in a key or a pointer reads as
// another value. Records have their own checksums. The store compares each value beside them with
// its second copy: an id in a row with the id in its index, a thread's head with the result
// that its newest commit recorded.

var (
	errKey  = errors.New("its key in the index is damaged")
	errHead = errors.New("its head is not the one that its newest commit made")
	errID   = errors.New("its id is not the one in the index")
	// errPlace is for a commit that does not follow the commit that its row names.
	errPlace = errors.New("its place on the line is damaged")
)

// missed is called for a key that the index of a table does not have. It looks through the
// rows themselves, and then once more into the index, since another process may have added
// the row meanwhile.
func missed(ctx context.Context, c *conn, op, table, id string) error {
	var inRows, inIndex bool
	if _, err := c.row(ctx, `SELECT EXISTS (SELECT 1 FROM `+table+` NOT INDEXED WHERE id = ?)`, []any{id}, &inRows); err != nil || !inRows {
		return err
	}
	if _, err := c.row(ctx, `SELECT EXISTS (SELECT 1 FROM `+table+` WHERE id = ?)`, []any{id}, &inIndex); err != nil || inIndex {
		return err
	}
	return corrupt(op, id, errKey)
}

// missedNode checks a commit whose line came out empty. If the commit's row holds a node, the
// row's link to its line or its thread is damaged.
func missedNode(ctx context.Context, c *conn, op, id string) error {
	if err := missed(ctx, c, op, "commits", id); err != nil {
		return err
	}
	var isNode bool
	_, err := c.row(ctx, `SELECT EXISTS (SELECT 1 FROM commits WHERE id = ? AND (checkpoint IS NOT NULL OR entries IS NOT NULL))`, []any{id}, &isNode)
	if err == nil && isNode {
		err = corrupt(op, id, errPlace)
	}
	return err
}

// checkParents compares the ids of parents with the index. Parents that are listed themselves
// were compared already.
func checkParents(ctx context.Context, c *conn, listed []segno.Node) error {
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

// missedSession is called for a session of which no thread was found. It looks through the
// rows of the links, and for links whose thread is gone.
func (s *Store) missedSession(ctx context.Context, session segno.SessionID) error {
	const op = "list threads"
	return s.read(ctx, op, "", func(ctx context.Context, c *conn) error {
		name := s.seal.Name("session", string(session))
		var isDamaged bool
		_, err := c.row(ctx, `SELECT EXISTS (SELECT 1 FROM links l NOT INDEXED WHERE l.session = ?1
			AND (l.thread NOT IN (SELECT n FROM threads) OR NOT EXISTS (SELECT 1 FROM links x WHERE x.session = ?1)))`, []any{name}, &isDamaged)
		if err == nil && isDamaged {
			err = corrupt(op, string(session), errKey)
		}
		return err
	})
}

// missedObject is called for an object that the table does not have. The table is ordered by
// name and has no second copy of it, so missedObject looks through all of it: a name that
// differs from the wanted one in a single byte, or that is out of order, is damaged.
func missedObject(ctx context.Context, c *conn, op string, named, name segno.Hash) error {
	var before segno.Hash
	return c.rows(ctx, `SELECT name FROM objects`, nil, func(r *sql.Rows) error {
		var raw sql.RawBytes
		if err := r.Scan(&raw); err != nil {
			return err
		}
		if len(raw) != len(before) || bytes.Compare(raw, before[:]) < 0 {
			return corrupt(op, name.String(), errKey)
		}
		other := 0
		for i := range raw {
			if raw[i] != named[i] {
				other++
			}
		}
		if other == 1 {
			return corrupt(op, name.String(), errKey)
		}
		before = segno.Hash(raw)
		return nil
	})
}

// checkSchema compares the schema with what makes a database: a damaged condition of an index
// would hide rows.
func checkSchema(ctx context.Context, c *conn, schema string) error {
	parts := 0
	err := c.rows(ctx, `SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%'`, nil, func(r *sql.Rows) error {
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

// checkSize looks for a database file whose last page was cut off in its middle: SQLite reads
// the lost part as zeros. A file that lacks whole pages SQLite refuses itself. checkSize does
// not open the file: when a process closes any descriptor of a file, POSIX drops all locks
// of that process on it, and other connections of the process rely on theirs.
func checkSize(ctx context.Context, c *conn, file string) error {
	// The newest pages of a database with a log are in the log.
	if log, err := os.Stat(file + "-wal"); err == nil && log.Size() > 0 {
		return nil
	}
	var page int64
	if _, err := c.row(ctx, "PRAGMA page_size", nil, &page); err != nil {
		return err
	}
	const looks = 3
	for look := 1; ; look++ {
		fi, err := os.Stat(file)
		if err != nil {
			return err
		}
		if fi.Size()%page == 0 {
			return nil
		}
		if look == looks { // before that another process may have been writing
			return corrupt("open store", file, errors.New("the end of the file is missing"))
		}
	}
}

// checkLog looks for a log that was lost. SQLite makes the log before the file with the index
// of the log, and removes it after that file: an index without a log is what is left if the
// log was lost while the store was open, or after its last process was killed. checkLog looks
// again, because another process may be closing the store.
func checkLog(file string) error {
	const looks = 3
	for range looks {
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
	return segno.Errorf(segno.KindCorrupt, "open store", file, "%s", "its log "+filepath.Base(file)+"-wal is missing").WithHint("put the log back; or remove " + filepath.Base(file) + "-shm to open the store without its newest commits")
}

// Head is read together with what it is compared with: another process may commit between
// two queries.
const verifiedHead = `SELECT t.n, t.hidden, t.head, t.tip, t.seq, t.turn, t.epoch, t.link,
		coalesce(h.id, ''), coalesce(p.id, ''), l.record,
		t.seq = 0 OR m.head = t.head AND m.tip = t.tip AND m.high = t.turn AND m.link = t.link
			AND NOT EXISTS (SELECT 1 FROM commits y WHERE y.thread = t.n AND y.seq > t.seq),
		(SELECT z.id FROM threads z NOT INDEXED WHERE z.n = t.n) = ?1
			AND (t.head = 0 OR (SELECT x.n FROM commits x WHERE x.id = h.id) = t.head) AND (t.tip = 0 OR (SELECT x.n FROM commits x WHERE x.id = p.id) = t.tip),
		t.owner, t.expires
	FROM threads t LEFT JOIN commits h ON h.n = t.head LEFT JOIN commits p ON p.n = t.tip LEFT JOIN links l ON l.n = t.link
		LEFT JOIN commits m ON m.thread = t.n AND m.seq = t.seq
	WHERE t.id = ?1`

// verifiedThread is loadThread with the head compared.
func (s *Store) verifiedThread(ctx context.Context, c *conn, id segno.ThreadID) (*threadRow, error) {
	t := &threadRow{Head: segno.Head{Thread: id}}
	var isNewest, isID *bool
	row := leaseRow{thread: id}
	found, err := c.row(ctx, verifiedHead, []any{string(id)},
		&t.n, &t.hidden, &t.head, &t.tip, &t.Seq, &t.Turn, &t.Epoch, &t.link, &t.Head.Head, &t.Head.Tip, &t.newest, &isNewest, &isID, &row.owner, &row.expires)
	row.hidden, row.epoch = t.hidden, t.Epoch
	switch {
	case err != nil:
		return nil, err
	case !found:
		return nil, missed(ctx, c, "read head", "threads", string(id))
	case isNewest == nil || !*isNewest:
		return nil, corrupt("read head", string(id), errHead)
	case isID == nil || !*isID:
		return nil, corrupt("read head", string(id), errID)
	}
	if err := row.check("read head", s.seal != nil); err != nil {
		return nil, err
	}
	if t.link != 0 {
		t.Link, err = s.readLink(t.newest, id, t.link)
	}
	return t, err
}
