package sqlite

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
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
		err = corrupt(op, id, errors.New("its place on the line is damaged"))
	}
	return err
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
		if text == sealSchema {
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

// checkSize compares the length of a database file with the length in its header. A file
// whose end was cut off would read as pages of zeros. checkSize compares again if they
// differ, because another process may be writing.
func checkSize(file string) (err error) {
	const looks = 3
	for range looks {
		if err = sizeError(file); err == nil {
			return nil
		}
	}
	return err
}

func sizeError(file string) error {
	// The newest pages of a database with a log are in the log.
	if log, err := os.Stat(file + "-wal"); err == nil && log.Size() > 0 {
		return nil
	}
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	const headerSize = 100
	header := make([]byte, headerSize)
	n, headerErr := f.ReadAt(header, 0)
	fi, err := f.Stat()
	if err != nil || fi.Size() == 0 {
		return err
	}
	const magic = "SQLite format 3\x00"
	if begin := string(header[:min(n, len(magic))]); !strings.HasPrefix(magic, begin) {
		return nil // SQLite says that it is no database of its format
	}
	if headerErr != nil {
		return corrupt("open store", file, errors.New("the file is shorter than its header"))
	}
	page := int64(binary.BigEndian.Uint16(header[16:]))
	if page == 1 {
		page = 1 << 16
	}
	pages, changed, valid := int64(binary.BigEndian.Uint32(header[28:])), binary.BigEndian.Uint32(header[24:]), binary.BigEndian.Uint32(header[92:])
	if page == 0 || changed != valid {
		return nil // SQLite itself reports what is wrong with such a header
	}
	if fi.Size() < pages*page || fi.Size()%page != 0 {
		return corrupt("open store", file, errors.New("the end of the file is missing"))
	}
	return nil
}

// Head is read together with what it is compared with: another process may commit between
// two queries.
const verifiedHead = `SELECT t.n, t.hidden, t.head, t.tip, t.seq, t.turn, t.epoch, t.link,
		coalesce(h.id, ''), coalesce(p.id, ''), l.record,
		t.seq = 0 OR m.head = t.head AND m.tip = t.tip AND m.high = t.turn AND m.link = t.link
			AND NOT EXISTS (SELECT 1 FROM commits y WHERE y.thread = t.n AND y.seq > t.seq),
		(SELECT z.id FROM threads z NOT INDEXED WHERE z.n = t.n) = ?1
			AND (t.head = 0 OR (SELECT x.n FROM commits x WHERE x.id = h.id) = t.head) AND (t.tip = 0 OR (SELECT x.n FROM commits x WHERE x.id = p.id) = t.tip)
	FROM threads t LEFT JOIN commits h ON h.n = t.head LEFT JOIN commits p ON p.n = t.tip LEFT JOIN links l ON l.n = t.link
		LEFT JOIN commits m ON m.thread = t.n AND m.seq = t.seq
	WHERE t.id = ?1`

// verifiedThread is loadThread with the head compared.
func (s *Store) verifiedThread(ctx context.Context, c *conn, id segno.ThreadID) (*threadRow, error) {
	t := &threadRow{Head: segno.Head{Thread: id}}
	var isNewest, isID *bool
	found, err := c.row(ctx, verifiedHead, []any{string(id)},
		&t.n, &t.hidden, &t.head, &t.tip, &t.Seq, &t.Turn, &t.Epoch, &t.link, &t.Head.Head, &t.Head.Tip, &t.newest, &isNewest, &isID)
	switch {
	case err != nil:
		return nil, err
	case !found:
		return nil, missed(ctx, c, "read head", "threads", string(id))
	case isNewest == nil || !*isNewest:
		return nil, corrupt("read head", string(id), errHead)
	case isID == nil || !*isID:
		return nil, corrupt("read head", string(id), errID)
	case t.link != 0:
		t.Link, err = s.readLink(t.newest, id, t.link)
	}
	return t, err
}
