package opencode

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/transcript/internal/sessionfile"
)

// facts are the unchanging facts of a session. They are the first line of its stream.
type facts struct {
	Slug     string `json:"slug"`
	Version  string `json:"version"`
	Created  int64  `json:"created"`            // milliseconds since 1970
	OpenCode int    `json:"opencode,omitempty"` // 2 if the tables of OpenCode 2 have it
}

// sessionRow is a row of the table session or session_v2.
type sessionRow struct {
	facts
	ID, Dir, Title string
	Updated        int64  // milliseconds since 1970
	Size           int64  // size of all its messages and parts
	File           string // the database
}

// line is a line of a stream after the first one: a message, or a part of a message.
type line struct {
	ID      string          `json:"id"`
	Message string          `json:"message,omitempty"` // of a part
	Type    string          `json:"type,omitempty"`    // of a message of OpenCode 2
	Data    json.RawMessage `json:"data"`
}

// schema has the queries for the tables of one version of OpenCode.
type schema struct {
	version int // 0 for OpenCode 1, as in facts
	table   string
	list    string // the sessions of the main agent, or the one with an id
	lines   string // the messages and parts of a session
}

// schemas are in the order in which they are preferred for a session that is equally new in both. OpenCode 2 imports
// sessions of OpenCode 1, and does not change a copy until the user continues it.
func schemas() []schema {
	return []schema{
		{0, "session", `SELECT id, directory, title, slug, version, time_created, time_updated,
			(SELECT COALESCE(SUM(LENGTH(data)), 0) FROM message WHERE session_id = session.id)
			+ (SELECT COALESCE(SUM(LENGTH(data)), 0) FROM part WHERE session_id = session.id)
			FROM session WHERE (?1 = '' AND parent_id IS NULL) OR id = ?1`,
			`SELECT m.id, '', '', m.data, m.id AS message, '' AS part FROM message m WHERE m.session_id = ?1
			UNION ALL SELECT p.id, p.message_id, '', p.data, p.message_id, p.id FROM part p JOIN message m ON m.id = p.message_id WHERE p.session_id = ?1
			ORDER BY 5, 6`},
		{2, "session_v2", `SELECT id, directory, COALESCE(title, ''), slug, version, time_created, time_updated,
			(SELECT COALESCE(SUM(LENGTH(data)), 0) FROM session_message WHERE session_id = session_v2.id)
			FROM session_v2 WHERE (?1 = '' AND parent_id IS NULL) OR id = ?1`,
			`SELECT id, '', type, data, '', '' FROM session_message WHERE session_id = ?1 ORDER BY seq, id`},
	}
}

// files returns the databases: opencode.db, then those of the other channels of OpenCode.
func (c *Transcripts) files() ([]string, error) {
	list, err := os.ReadDir(c.data)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	files := []string{filepath.Join(c.data, "opencode.db")}
	for _, f := range list {
		if name := f.Name(); strings.HasPrefix(name, "opencode-") && strings.HasSuffix(name, ".db") {
			files = append(files, filepath.Join(c.data, name))
		}
	}
	return files, err
}

// open opens a database for reading. If no process has written to it since it was closed, SQLite
// needs no other file, so none is created beside it.
func open(file string) (*sql.DB, error) {
	fi, err := os.Stat(file)
	if err == nil && !fi.Mode().IsRegular() {
		err = fs.ErrNotExist
	}
	if err != nil {
		return nil, err
	}
	how := "mode=ro&_pragma=busy_timeout(2000)"
	if wal, err := os.Stat(file + "-wal"); err != nil || wal.Size() == 0 {
		how = "mode=ro&immutable=1"
	}
	return sql.Open("sqlite", "file:"+(&url.URL{Path: file}).EscapedPath()+"?"+how)
}

// list returns the main agent's sessions: all of them, or only the one with an id. A session that is in several
// tables or databases is listed once, as the newest of its copies, which may have diverged. failed has an error for
// each database and table that cannot be read.
func (c *Transcripts) list(ctx context.Context, id segno.SessionID) (out []sessionRow, failed []error) {
	const op = "list sessions"
	files, err := c.files()
	if err != nil {
		failed = append(failed, sessionfile.IOError(op, c.data, err))
	}
	var all []sessionRow
	for _, file := range files {
		rows, errs := listFile(ctx, file, id)
		all = append(all, rows...)
		for _, err := range errs {
			if !errors.Is(err, fs.ErrNotExist) {
				failed = append(failed, sessionfile.IOError(op, file, err))
			}
		}
	}
	newest := map[string]int{}
	for _, r := range all {
		i, isCopy := newest[r.ID]
		switch {
		case !isCopy:
			newest[r.ID] = len(out)
			out = append(out, r)
		case r.Updated > out[i].Updated:
			out[i] = r
		}
	}
	return out, failed
}

// listFile returns the sessions of one database.
func listFile(ctx context.Context, file string, id segno.SessionID) (rows []sessionRow, failed []error) {
	db, err := open(file)
	if err != nil {
		return nil, []error{err}
	}
	defer func() { _ = db.Close() }() // it was only read
	isOpenCode := false
	for _, s := range schemas() {
		tables := 0
		if err := db.QueryRowContext(ctx, "SELECT COUNT(*) FROM sqlite_master WHERE type = 'table' AND name = ?", s.table).Scan(&tables); err != nil {
			return nil, []error{err}
		}
		if tables == 0 {
			continue
		}
		isOpenCode = true
		found, err := listTable(ctx, db, s, id)
		if err != nil {
			failed = append(failed, err)
		}
		for _, r := range found {
			r.File = file
			rows = append(rows, r)
		}
	}
	if !isOpenCode {
		failed = append(failed, errors.New("it has no table of sessions"))
	}
	return rows, failed
}

// listTable returns the sessions of one table.
func listTable(ctx context.Context, db *sql.DB, s schema, id segno.SessionID) (rows []sessionRow, err error) {
	found, err := db.QueryContext(ctx, s.list, string(id))
	if err != nil {
		return nil, err
	}
	defer func() { _ = found.Close() }() // Err has its error
	for found.Next() {
		r := sessionRow{facts: facts{OpenCode: s.version}}
		if err := found.Scan(&r.ID, &r.Dir, &r.Title, &r.Slug, &r.Version, &r.Created, &r.Updated, &r.Size); err != nil {
			return nil, err
		}
		rows = append(rows, r)
	}
	return rows, found.Err()
}

func (c *Transcripts) find(ctx context.Context, id segno.SessionID) (sessionRow, error) {
	rows, failed := c.list(ctx, id)
	switch {
	case len(rows) > 0:
		return rows[0], nil
	case len(failed) > 0:
		return sessionRow{}, failed[0] // it may have the session
	}
	return sessionRow{}, fs.ErrNotExist
}

// read reads a session whole.
func (c *Transcripts) read(ctx context.Context, op string, src segno.Source) (*sessionfile.Conversation, error) {
	if err := sessionfile.CheckSession(op, src.Session); err != nil {
		return nil, err
	}
	row, err := c.find(ctx, src.Session)
	if err == nil {
		err = sessionfile.CheckConversation(op, string(src.Session), row.Size)
	}
	if err != nil {
		return nil, sessionfile.IOError(op, string(src.Session), err)
	}
	s := newStream(row.facts)
	if err := readLines(ctx, row, s); err != nil {
		return nil, sessionfile.IOError(op, string(src.Session), err)
	}
	s.Position = segno.Position{Agent: Agent, Session: src.Session, Path: row.File, Dir: row.Dir, Version: row.Version}
	return &s.Conversation, nil
}

// readLines adds the messages and parts of a session to a stream, in one consistent view.
func readLines(ctx context.Context, row sessionRow, s *stream) error {
	db, err := open(row.File)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }() // it was only read
	all := schemas()
	from := all[slices.IndexFunc(all, func(s schema) bool { return s.version == row.OpenCode })]
	rows, err := db.QueryContext(ctx, from.lines, row.ID)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // Err has its error
	for rows.Next() {
		var l line
		var data, order string
		if err := rows.Scan(&l.ID, &l.Message, &l.Type, &data, &order, &order); err != nil {
			return err
		}
		l.Data = json.RawMessage(data)
		if err := s.add(l); err != nil {
			return fmt.Errorf("read %s: %w", l.ID, err)
		}
	}
	return rows.Err()
}
