package sqlite

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/store/record"
	"github.com/dalsegno/segno/internal/store/sqlstore"
)

// table describes how [Store.Convert] copies a table.
type table struct {
	name    string
	columns string // the columns that are copied
	more    string // additional columns of the query, to which the records are sealed
	from    string // the source of the query, and its order
	// open replaces the values of a row with those of a store without a key, and verifies them.
	open func(s *Store, row []any) error
	// seal is the inverse of open. It may change the records in place.
	seal func(s *Store, row []any)
	// insert, if not nil, inserts the row instead of seal.
	insert func(w *rowWriter, row []any)
}

func (t *table) columnCount() int { return strings.Count(t.columns, ",") + 1 }

func (t *table) width() int {
	if t.more == "" {
		return t.columnCount()
	}
	return t.columnCount() + strings.Count(t.more, "|") + 1
}

// query returns the query for all rows. Column names refer to the table x.
func (t *table) query() string {
	list := "x." + strings.ReplaceAll(t.columns, ", ", ", x.")
	if t.more != "" {
		list += ", " + strings.ReplaceAll(t.more, "|", ", ")
	}
	return "SELECT " + list + " FROM " + t.from
}

func (t *table) statement() string {
	return "INSERT INTO " + t.name + " (" + t.columns + ") VALUES (?" + strings.Repeat(", ?", t.columnCount()-1) + ")"
}

const packTable = "packs"

// tables holds all tables except objects and small, in the order in which they are copied.
var tables = [...]table{
	{name: "threads", columns: "n, id, hidden, head, tip, seq, turn, epoch, link, changed, workspace, owner, expires, record",
		from: "threads x ORDER BY x.n", open: openThread, seal: sealThread},
	{name: "commits", columns: "n, id, thread, seq, parent, line, depth, turn, high, head, tip, epoch, link, digest, checkpoint, entries",
		more: "coalesce(t.id, '')|coalesce(p.id, '')",
		from: "commits x LEFT JOIN threads t ON t.n = x.thread LEFT JOIN commits p ON p.n = x.parent ORDER BY x.n",
		open: openCommit, seal: sealCommit},
	{name: "terms", columns: "n", more: "x.id|coalesce(t.id, '')|coalesce(p.id, '')|x.checkpoint|x.seq|t.record",
		from: `commits x NOT INDEXED LEFT JOIN threads t ON t.n = x.thread LEFT JOIN commits p ON p.n = x.parent
			WHERE x.line IS NOT NULL ORDER BY x.n`,
		open: openTerms, insert: insertTerms},
	{name: "pins", columns: "n, name", more: "c.id", from: "pins x LEFT JOIN commits c ON c.n = x.n ORDER BY x.n",
		open: openPin, seal: sealPin},
	{name: "links", columns: "n, thread, session, record", more: "coalesce(t.id, '')",
		from: "links x LEFT JOIN threads t ON t.n = x.thread ORDER BY x.n", open: openLink, seal: sealLinkRow},
	{name: "workspaces", columns: "rowid, id, path, device, inode, record, state", from: "workspaces x ORDER BY x.rowid",
		open: openWorkspace, seal: sealWorkspace},
	{name: "operations", columns: "n, id, workspace, record", from: "operations x ORDER BY x.n",
		open: openOperation, seal: sealOperation},
	{name: "phases", columns: "phase, id, thread", from: "phases x ORDER BY x.phase, x.id",
		open: func(*Store, []any) error { return nil }, seal: func(*Store, []any) {}},
	{name: packTable, columns: "n, name, born", from: "packs x ORDER BY x.n", open: func(*Store, []any) error { return nil }},
}

// bytesOf returns a value of a column as bytes, or nil for NULL. A column may contain text where later
// versions write bytes.
func bytesOf(value any) []byte {
	switch v := value.(type) {
	case []byte:
		return v
	case string:
		return []byte(v)
	}
	return nil
}

func textOf(value any) string { return string(bytesOf(value)) }

func numberOf(value any) int64 {
	n, _ := value.(int64)
	return n
}

// openValue opens a record and returns it as a value of a column: NULL stays NULL.
func (s *Store) openValue(value any, place ...string) (any, error) {
	if value == nil {
		return nil, nil
	}
	return s.records.Sealer.Open(bytesOf(value), place...)
}

func (s *Store) sealValue(value any, place ...string) any {
	if value == nil {
		return nil
	}
	return s.records.Sealer.Seal(value.([]byte), place...)
}

// The positions of columns in rows of threads.
const (
	threadID      = 1
	threadHidden  = 2
	threadEpoch   = 7
	threadOwner   = 11
	threadExpires = 12
	threadRecord  = 13
)

func leaseOf(row []any) sqlstore.LeaseRow {
	return sqlstore.LeaseRow{Thread: segno.ThreadID(textOf(row[threadID])), Hidden: numberOf(row[threadHidden]) != 0,
		Owner: bytesOf(row[threadOwner]), Expires: numberOf(row[threadExpires]), Epoch: uint64(numberOf(row[threadEpoch]))}
}

// openThread leaves the owner of a lease without its checksum.
func openThread(s *Store, row []any) (err error) {
	l := leaseOf(row)
	if _, err := s.records.Thread(l.Thread, bytesOf(row[threadRecord])); err != nil {
		return err
	}
	if row[threadRecord], err = s.openValue(row[threadRecord], "thread", string(l.Thread)); err != nil {
		return err
	}
	if err := (database{s}).VerifyLease("read thread", &l); err != nil {
		return err
	}
	owner := []byte{}
	if len(l.Owner) > 0 {
		owner, err = s.records.Sealer.Open(l.Owner, "lease", string(l.Thread))
	}
	row[threadOwner] = owner
	return err
}

func sealThread(s *Store, row []any) {
	l := leaseOf(row)
	row[threadRecord] = s.sealValue(row[threadRecord], "thread", string(l.Thread))
	if len(l.Owner) > 0 {
		l.Owner = s.records.Sealer.Seal(l.Owner, "lease", string(l.Thread))
	}
	row[threadOwner] = database{s}.LeaseOwner(&l)
}

// The positions of columns in rows of commits.
const (
	commitID         = 1
	commitSeq        = 3
	commitLine       = 5
	commitDigest     = 13
	commitCheckpoint = 14
	commitEntries    = 15
	commitThread     = 16 // the id
	commitParent     = 17 // the id
)

func openCommit(s *Store, row []any) (err error) {
	thread, id, parent := textOf(row[commitThread]), textOf(row[commitID]), textOf(row[commitParent])
	if row[commitLine] != nil {
		n := sqlstore.Node{Node: segno.Node{ID: segno.CommitID(id), Thread: segno.ThreadID(thread), Parent: segno.CommitID(parent),
			Seq: numberOf(row[commitSeq])}}
		n.Records[sqlstore.Checkpoint], n.Records[sqlstore.Entries] = bytesOf(row[commitCheckpoint]), bytesOf(row[commitEntries])
		if _, err := s.records.DecodeOne(n); err != nil {
			return err
		}
	}
	digest := bytesOf(row[commitDigest])
	if len(digest) != record.DigestLength {
		return errors.New("its digest is damaged")
	}
	row[commitDigest] = s.records.Sealer.OpenDigest(digest)
	if row[commitCheckpoint], err = s.openValue(row[commitCheckpoint], "checkpoint", thread, id, parent); err != nil {
		return err
	}
	row[commitEntries], err = s.openValue(row[commitEntries], "entries", thread, id, parent)
	return err
}

func sealCommit(s *Store, row []any) {
	thread, id, parent := textOf(row[commitThread]), textOf(row[commitID]), textOf(row[commitParent])
	row[commitDigest] = s.records.Sealer.SealDigest(row[commitDigest].([]byte))
	row[commitCheckpoint] = s.sealValue(row[commitCheckpoint], "checkpoint", thread, id, parent)
	row[commitEntries] = s.sealValue(row[commitEntries], "entries", thread, id, parent)
}

// openTerms replaces the columns of a commit with the values by which queries find the commit, because a term
// cannot be computed from the term under another key.
func openTerms(s *Store, row []any) error {
	at := segno.Node{ID: segno.CommitID(textOf(row[1])), Thread: segno.ThreadID(textOf(row[2])), Parent: segno.CommitID(textOf(row[3])),
		Seq: numberOf(row[5])}
	c, err := s.records.Checkpoint(bytesOf(row[4]), at)
	if err != nil {
		return err
	}
	t, err := s.records.Thread(at.Thread, bytesOf(row[6]))
	if err != nil {
		return err
	}
	fields := record.TermFields(c)
	if at.Seq == 1 && t.ParentThread != "" {
		fields = append(fields, record.TermField{Field: parentField, Value: string(t.ParentThread)})
	}
	var list []byte
	for _, f := range fields {
		list = fmt.Appendf(list, "%q %q\n", f.Field, f.Value)
	}
	for i := 1; i < len(row); i++ {
		row[i] = nil
	}
	row[1] = list // for the comparison
	row[2] = fields
	return nil
}

func insertTerms(w *rowWriter, row []any) {
	fields, _ := row[2].([]record.TermField)
	for _, f := range fields {
		w.terms += w.exec(`INSERT OR IGNORE INTO terms (term, n) VALUES (?, ?)`, w.s.records.Sealer.Term(f.Field, f.Value), row[0])
	}
}

// openPin leaves the name as text, as in a store without a key.
func openPin(s *Store, row []any) error {
	name, err := s.records.Pin(segno.CommitID(textOf(row[2])), bytesOf(row[1]))
	row[1] = name
	return err
}

func sealPin(s *Store, row []any) {
	if s.records.Sealer != nil {
		row[1] = s.records.Sealer.Seal([]byte(row[1].(string)), "pin", textOf(row[2]))
	}
}

func openLink(s *Store, row []any) (err error) {
	thread, n := segno.ThreadID(textOf(row[4])), numberOf(row[0])
	l, err := s.decodeLink(thread, n, bytesOf(row[3]))
	if err != nil {
		return err
	}
	if s.records.Sealer.Name("session", string(l.Session)) != textOf(row[2]) {
		return errKey
	}
	row[2] = string(l.Session)
	row[3], err = s.openValue(row[3], "link", string(thread), strconv.FormatInt(n, 10))
	return err
}

func sealLinkRow(s *Store, row []any) {
	row[2] = s.records.Sealer.Name("session", row[2].(string))
	row[3] = s.sealLink(segno.ThreadID(textOf(row[4])), numberOf(row[0]), row[3].([]byte))
}

// openWorkspace verifies the keys of a workspace. A workspace without a record has none.
func openWorkspace(s *Store, row []any) (err error) {
	id := textOf(row[1])
	if row[5] != nil {
		w, err := s.records.Workspace(segno.WorkspaceID(id), bytesOf(row[5]), nil)
		if err != nil {
			return err
		}
		path, device, inode := sqlstore.WorkspaceKeys(s.records.Sealer, w.Path, w.Device, w.Inode)
		if !bytes.Equal(path, bytesOf(row[2])) || device != numberOf(row[3]) || inode != numberOf(row[4]) {
			return errKey
		}
		row[2], row[3], row[4] = []byte(w.Path), int64(w.Device), int64(w.Inode)
	}
	if row[6] != nil {
		if _, err := s.records.State(segno.WorkspaceID(id), bytesOf(row[6])); err != nil {
			return err
		}
	}
	if row[5], err = s.openValue(row[5], "workspace", id); err == nil {
		row[6], err = s.openValue(row[6], "state", id)
	}
	return err
}

func sealWorkspace(s *Store, row []any) {
	id := textOf(row[1])
	if row[5] != nil {
		row[2], row[3], row[4] = values(sqlstore.WorkspaceKeys(s.records.Sealer, textOf(row[2]), uint64(numberOf(row[3])),
			uint64(numberOf(row[4]))))
	}
	row[5] = s.sealValue(row[5], "workspace", id)
	row[6] = s.sealValue(row[6], "state", id)
}

func values(path []byte, device, inode int64) (any, any, any) { return path, device, inode }

func openOperation(s *Store, row []any) (err error) {
	id, workspace := textOf(row[1]), textOf(row[2])
	if _, err := s.records.Operation(segno.OperationID(id), segno.WorkspaceID(workspace), bytesOf(row[3])); err != nil {
		return err
	}
	row[3], err = s.openValue(row[3], "operation", workspace, id)
	return err
}

func sealOperation(s *Store, row []any) {
	row[3] = s.sealValue(row[3], "operation", textOf(row[2]), textOf(row[1]))
}

const (
	objectTable = "objects"
	// objectBytes is the position of the encoding and the stored bytes in a row of objects.
	objectBytes = 5
)

// readObjects calls each with every object: name, size, born, pack, the number of its row in small or 0, and
// its encoding with the stored bytes. The objects of a pack are consecutive.
func (s *Store) readObjects(ctx, queryCtx context.Context, c *conn, each func(table string, row []any) error) error {
	type object struct {
		storedObject
		born int64
	}
	var all []object
	var stored []byte
	var o object
	err := c.Query(queryCtx, `SELECT o.name, o.born, o.size, o.pack, o.at, o.length, coalesce(p.name, '')
		FROM objects o LEFT JOIN packs p ON p.n = o.pack`, nil, []any{&stored, &o.born, &o.size, &o.pack, &o.at, &o.length, &o.packName},
		func() error {
			if len(stored) != len(o.name) {
				return corrupt("read object", fmt.Sprintf("%x", stored), errKey)
			}
			o.name = segno.Hash(stored)
			all = append(all, o)
			return ctx.Err()
		})
	if err != nil {
		return err
	}
	// Sort here, because SQLite would sort in a temporary file.
	slices.SortFunc(all, func(a, b object) int { return cmp.Or(cmp.Compare(a.pack, b.pack), cmp.Compare(a.at, b.at)) })
	for _, o := range all {
		if o.pack == 0 {
			if _, err := c.row(queryCtx, `SELECT data FROM small WHERE n = ?`, []any{o.at}, &o.data); err != nil {
				return err
			}
		}
		name, encoded, err := s.plainObject(o.storedObject)
		if err != nil {
			return err
		}
		row := []any{name[:], o.size, o.born, o.pack, int64(0), encoded}
		if o.pack == 0 {
			row[4] = o.at
		}
		if err := cmp.Or(each(objectTable, row), ctx.Err()); err != nil {
			return err
		}
	}
	return nil
}

// plainObject returns the name of an object, and its encoding and bytes as in a store without a key.
func (s *Store) plainObject(o storedObject) (name segno.Hash, encoded []byte, err error) {
	raw, err := s.rawObject(o.name, o.objectRow)
	if err != nil {
		return name, nil, err
	}
	data, err := s.records.DecodeObject(o.name, o.name, o.size, raw)
	if err != nil {
		return name, nil, err
	}
	encoded, err = s.records.Sealer.Open(raw, "object", string(o.name[:]))
	return segno.HashOf(data), encoded, err
}
