package opencode

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/url"
	"os"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/sessionfile"
)

// maxSize is the size of the largest session that is read.
const maxSize = 256 << 20

// facts are the unchanging facts of a session. They are the first line of its stream.
type facts struct {
	Slug    string `json:"slug"`
	Version string `json:"version"`
	Created int64  `json:"created"` // milliseconds since 1970
}

// sessionRow is a row of the table session.
type sessionRow struct {
	facts
	ID, Dir, Title string
	Updated        int64 // milliseconds since 1970
	Size           int64 // size of all its messages and parts
}

// line is a line of a stream after the first one: a message, or a part of a message.
type line struct {
	ID      string          `json:"id"`
	Message string          `json:"message,omitempty"` // of a part
	Data    json.RawMessage `json:"data"`
}

// open opens the database for reading. If no process has written to it since it was closed, SQLite
// needs no other file, so none is created beside it.
func (c *Transcripts) open() (*sql.DB, error) {
	fi, err := os.Stat(c.file)
	if err == nil && !fi.Mode().IsRegular() {
		err = fs.ErrNotExist
	}
	if err != nil {
		return nil, err
	}
	how := "mode=ro&_pragma=busy_timeout(2000)"
	if wal, err := os.Stat(c.file + "-wal"); err != nil || wal.Size() == 0 {
		how = "mode=ro&immutable=1"
	}
	return sql.Open("sqlite", "file:"+(&url.URL{Path: c.file}).EscapedPath()+"?"+how)
}

// list returns the main agent's sessions: all of them, or only the one with an id.
func (c *Transcripts) list(ctx context.Context, id segno.SessionID) (rows []sessionRow, err error) {
	db, err := c.open()
	if err != nil {
		return nil, err
	}
	defer func() { _ = db.Close() }() // it was only read
	found, err := db.QueryContext(ctx, `SELECT id, directory, title, slug, version, time_created, time_updated,
		(SELECT COALESCE(SUM(LENGTH(data)), 0) FROM message WHERE session_id = session.id)
		+ (SELECT COALESCE(SUM(LENGTH(data)), 0) FROM part WHERE session_id = session.id)
		FROM session WHERE (? = '' AND parent_id IS NULL) OR id = ?`, string(id), string(id))
	if err != nil {
		return nil, err
	}
	defer func() { _ = found.Close() }() // Err has its error
	for found.Next() {
		var r sessionRow
		if err := found.Scan(&r.ID, &r.Dir, &r.Title, &r.Slug, &r.Version, &r.Created, &r.Updated, &r.Size); err != nil {
			return nil, err
		}
		rows = append(rows, r)
	}
	return rows, found.Err()
}

// find returns a session.
func (c *Transcripts) find(ctx context.Context, id segno.SessionID) (sessionRow, error) {
	rows, err := c.list(ctx, id)
	if err == nil && len(rows) == 0 {
		err = fs.ErrNotExist
	}
	if err != nil {
		return sessionRow{}, err
	}
	return rows[0], nil
}

// read reads a session whole.
func (c *Transcripts) read(ctx context.Context, op string, src segno.Source) (*sessionfile.Conversation, error) {
	if err := sessionfile.CheckSession(op, src.Session); err != nil {
		return nil, err
	}
	row, err := c.find(ctx, src.Session)
	if err == nil && row.Size > maxSize {
		err = segno.Errorf(segno.KindInvalid, op, string(src.Session), "it is larger than %d MiB", maxSize>>20)
	}
	if err != nil {
		return nil, sessionfile.IOError(op, string(src.Session), err)
	}
	s := newStream(row.facts)
	if err := c.readLines(ctx, row.ID, s); err != nil {
		return nil, sessionfile.IOError(op, string(src.Session), err)
	}
	s.Position = segno.Position{Agent: Agent, Session: src.Session, Path: c.file, Dir: row.Dir, Version: row.Version}
	return &s.Conversation, nil
}

// readLines adds the messages and parts of a session to a stream, in one consistent view.
func (c *Transcripts) readLines(ctx context.Context, id string, s *stream) error {
	db, err := c.open()
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }() // it was only read
	rows, err := db.QueryContext(ctx, `SELECT m.id, '', m.data, m.id AS message, '' AS part FROM message m WHERE m.session_id = ?
		UNION ALL SELECT p.id, p.message_id, p.data, p.message_id, p.id FROM part p JOIN message m ON m.id = p.message_id WHERE p.session_id = ?
		ORDER BY 4, 5`, id, id)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // Err has its error
	for rows.Next() {
		var l line
		var data, order string
		if err := rows.Scan(&l.ID, &l.Message, &data, &order, &order); err != nil {
			return err
		}
		l.Data = json.RawMessage(data)
		if err := s.add(l); err != nil {
			return fmt.Errorf("read %s: %w", l.ID, err)
		}
	}
	return rows.Err()
}
