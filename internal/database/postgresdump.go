package database

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"

	"github.com/dalsegno/segno"
)

// pgState is the content of a PostgreSQL database: the statements of pg_dump that create its objects before
// and after the rows are loaded, and the rows of each table as COPY writes them.
type pgState struct {
	// NoPublic is set if the database lacks the schema public. pg_dump does not mention it.
	NoPublic  bool         `json:"no_public,omitempty"`
	Before    segno.Hash   `json:"before,omitzero"`
	After     segno.Hash   `json:"after,omitzero"`
	Tables    []pgTable    `json:"tables"`
	Sequences []pgSequence `json:"sequences,omitempty"`
	// Large has the large objects. Each is one line with the id and the content, as COPY writes
	// them.
	Large segno.Hash `json:"large,omitzero"`
}

type pgTable struct {
	Name    string     `json:"name"`    // includes the schema; quoted
	Columns string     `json:"columns"` // quoted; without generated columns
	Rows    int64      `json:"rows"`
	Bytes   int64      `json:"bytes"`
	Content segno.Hash `json:"content,omitzero"`
}

// columnList returns the list of columns of a COPY statement. A table may have no columns.
func (t pgTable) columnList() string {
	if t.Columns == "" {
		return ""
	}
	return " (" + t.Columns + ")"
}

type pgSequence struct {
	Name   string `json:"name"`
	Last   string `json:"last"`
	Called bool   `json:"called"`
}

// statement returns the statement that sets the sequence to the saved state.
func (q pgSequence) statement() string {
	return fmt.Sprintf("SELECT pg_catalog.setval(%s, %s, %t)", quoteLiteral(q.Name), q.Last, q.Called)
}

// pgStateHead begins the object of a [pgState]. The content of a SQLite database is a list of hashes, which never
// begins with this text.
const pgStateHead = "segno postgres 1\n"

func (p *pgState) encode() ([]byte, error) {
	data, err := json.Marshal(p)
	return append([]byte(pgStateHead), data...), err
}

// decodePgState reads the object of a content. The state is nil for a SQLite database.
func decodePgState(name segno.Hash, data []byte) (*pgState, error) {
	text, ok := bytes.CutPrefix(data, []byte(pgStateHead))
	if !ok {
		return nil, nil
	}
	state := &pgState{}
	if err := json.Unmarshal(text, state); err != nil {
		return nil, segno.NewError(segno.KindCorrupt, "read database", name.String(), err)
	}
	return state, nil
}

// readPgState reads the content of a PostgreSQL database. The state is nil for a SQLite database.
func readPgState(ctx context.Context, objects getter, name segno.Hash) (*pgState, error) {
	if name.IsZero() {
		return nil, nil
	}
	data, err := objects.Get(ctx, name)
	if err != nil {
		return nil, segno.NewError(segno.KindCorrupt, "read database", name.String(), err)
	}
	return decodePgState(name, data)
}

// texts returns the names of the texts of a state.
func (p *pgState) texts() []segno.Hash {
	all := []segno.Hash{p.Before, p.After, p.Large}
	for _, t := range p.Tables {
		all = append(all, t.Content)
	}
	return all
}

const pgDumpHint = "install the client programs of PostgreSQL, in the version of the server or a newer one"

func findPgDump() (string, error) {
	path, err := exec.LookPath("pg_dump")
	if err != nil {
		return "", errors.New("the program pg_dump is not installed")
	}
	return path, nil
}

// pgDump reads a database in one transaction.
type pgDump struct {
	*postgresSession
	batch  segno.Batch
	recent *recent

	state pgState
	bytes int64
}

// begin connects, begins the transaction and returns the evidence (see selectEvidence) of its
// snapshot.
func (d *pgDump) begin(ctx context.Context) (evidence string, err error) {
	rows, err := d.open(ctx, `BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; `+selectEvidence)
	if err != nil {
		return "", err
	}
	if len(rows) != 1 {
		return "", errors.New("the server returned no value")
	}
	return rows[0][0], nil
}

// run saves the database and returns the name of its content.
func (d *pgDump) run(ctx context.Context) (segno.Hash, error) {
	if err := d.checkSupported(ctx); err != nil {
		return segno.Hash{}, err
	}
	if err := d.checkRights(ctx); err != nil {
		return segno.Hash{}, err
	}
	rows, err := d.conn.Exec(ctx, `SELECT pg_export_snapshot(), to_regnamespace('public') IS NULL`)
	if err != nil {
		return segno.Hash{}, err
	}
	d.state.NoPublic = rows[0][1] == "t"
	before, after := d.startPgDump(ctx, rows[0][0], "pre-data"), d.startPgDump(ctx, rows[0][0], "post-data")
	err = d.rows(ctx)
	for ended, to := range map[chan pgDumpResult]*segno.Hash{before: &d.state.Before, after: &d.state.After} {
		text := <-ended // wait even after an error, because pg_dump uses the transaction
		if err = cmp.Or(err, text.err); err == nil {
			*to, err = d.schema(ctx, text.out)
		}
	}
	if err != nil {
		return segno.Hash{}, err
	}
	data, err := d.state.encode()
	if err != nil {
		return segno.Hash{}, err
	}
	return d.recent.put(ctx, d.batch, data)
}

// rows saves tables, sequences and large objects.
func (d *pgDump) rows(ctx context.Context) (err error) {
	if d.state.Sequences, err = d.sequences(ctx); err != nil {
		return err
	}
	if err := d.tables(ctx); err != nil {
		return err
	}
	d.state.Large, err = d.large(ctx)
	return err
}

// large saves the large objects.
func (d *pgDump) large(ctx context.Context) (segno.Hash, error) {
	t, err := d.text(ctx, `COPY (SELECT oid, lo_get(oid) FROM pg_catalog.pg_largeobject_metadata ORDER BY oid) TO STDOUT`)
	return t.Content, err
}

type pgDumpResult struct {
	out []byte
	err error
}

// startPgDump runs pg_dump while the rows are saved.
func (d *pgDump) startPgDump(ctx context.Context, snapshot, section string) chan pgDumpResult {
	ended := make(chan pgDumpResult, 1)
	go func() {
		out, err := d.pgDump(ctx, snapshot, section)
		ended <- pgDumpResult{out, err}
	}()
	return ended
}

func (d *pgDump) writer(ctx context.Context) *chunkWriter {
	return &chunkWriter{ctx: ctx, batch: d.batch, recent: d.recent}
}

// text saves the result of a COPY statement.
func (d *pgDump) text(ctx context.Context, statement string) (t pgTable, err error) {
	w := d.writer(ctx)
	if err := d.conn.CopyTo(ctx, w, statement); err != nil {
		return t, cmp.Or(w.failure, err)
	}
	t.Rows, t.Bytes = w.lines, w.bytes
	d.bytes += w.bytes
	t.Content, err = w.finish()
	return t, storeError{err}.orNil()
}

// tables saves the rows of all tables. Rows are sorted by the primary key, because an update moves
// a row within the table's file.
func (d *pgDump) tables(ctx context.Context) error {
	rows, err := d.conn.Exec(ctx, listTables)
	if err != nil {
		return err
	}
	for _, r := range rows {
		statement := fmt.Sprintf("COPY (SELECT %s FROM ONLY %s ORDER BY %s) TO STDOUT", r[1], r[0], cmp.Or(r[2], "ctid"))
		t, err := d.text(ctx, statement)
		if err != nil {
			return err
		}
		t.Name, t.Columns = r[0], r[1]
		d.state.Tables = append(d.state.Tables, t)
	}
	return nil
}

// listTables lists the tables with rows: name, columns that are not generated, columns of the primary key.
const listTables = `SELECT quote_ident(n.nspname) || '.' || quote_ident(c.relname),
	coalesce((SELECT string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum) FROM pg_attribute a
		WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''), ''),
	coalesce((SELECT string_agg(quote_ident(a.attname), ', ' ORDER BY k.place) FROM pg_index i, unnest(i.indkey::int2[]) WITH ORDINALITY k(attnum, place), pg_attribute a
		WHERE i.indrelid = c.oid AND i.indisprimary AND a.attrelid = c.oid AND a.attnum = k.attnum AND k.place <= i.indnkeyatts), '')
	FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
	WHERE c.relkind = 'r' AND c.relpersistence <> 't' AND n.nspname <> 'information_schema' AND n.nspname !~ '^pg_'
	AND NOT EXISTS (SELECT FROM pg_depend x WHERE x.classid = 'pg_class'::regclass AND x.objid = c.oid AND x.deptype = 'e')
	ORDER BY n.nspname COLLATE "C", c.relname COLLATE "C"`

// schema saves the statements of a section of pg_dump.
func (d *pgDump) schema(ctx context.Context, text []byte) (segno.Hash, error) {
	w := d.writer(ctx)
	if _, err := w.Write(withoutMeta(text)); err != nil {
		return segno.Hash{}, storeError{err}
	}
	d.bytes += w.bytes
	h, err := w.finish()
	return h, storeError{err}.orNil()
}

func (d *pgDump) pgDump(ctx context.Context, snapshot, section string) ([]byte, error) {
	program, err := findPgDump()
	if err != nil {
		return nil, err
	}
	target, err := d.pg.Resolve(d.at.URL)
	if err != nil {
		return nil, err
	}
	// The password must not be an argument, which all users of the machine can read.
	info := fmt.Sprintf("host=%s port=%d user=%s dbname=%s application_name=segno connect_timeout=5", conninfo(target.Hosts[0]), target.Port,
		conninfo(target.User), conninfo(target.Database))
	cmd := exec.CommandContext(ctx, program, "--dbname="+info, "--no-password", "--section="+section, "--snapshot="+snapshot,
		"--lock-wait-timeout="+fmt.Sprint(busyMillis), "--encoding=UTF8", "--no-subscriptions")
	cmd.Env = append(os.Environ(), "LC_ALL=C", "PGTZ=UTC")
	if target.Password != "" {
		cmd.Env = append(cmd.Env, "PGPASSWORD="+target.Password)
	}
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaint
	if err := cmd.Run(); err != nil {
		line, _, _ := strings.Cut(strings.TrimSpace(strings.ReplaceAll(complaint.String(), "pg_dump: ", "")), "\n")
		if target.Password != "" {
			line = strings.ReplaceAll(line, target.Password, "…")
		}
		return nil, fmt.Errorf("pg_dump: %s", cmp.Or(line, err.Error()))
	}
	return out.Bytes(), nil
}

// conninfo quotes a value of a connection string.
func conninfo(text string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(text) + "'"
}

// withoutMeta removes the versions and the lines for psql from the output of pg_dump, because they differ between dumps
// of the same content. The lines for psql contain a random key.
func withoutMeta(text []byte) []byte {
	if m := regexp.MustCompile(`(?m)^\\restrict (\S+)$`).FindSubmatch(text); m != nil && bytes.Index(text, m[0]) < 4096 {
		key := string(m[1])
		text = bytes.Replace(text, []byte("\n\\restrict "+key+"\n"), []byte("\n"), 1)
		if i := bytes.LastIndex(text, []byte("\n\\unrestrict "+key+"\n")); i >= 0 {
			text = append(text[:i:i], text[i+len("\n\\unrestrict "+key):]...)
		}
	}
	for _, prefix := range []string{"-- Dumped from database version ", "-- Dumped by pg_dump version "} {
		if i := bytes.Index(text, []byte("\n"+prefix)); i >= 0 {
			end := i + 1 + bytes.IndexByte(text[i+1:], '\n')
			text = append(text[:i:i], text[end:]...)
		}
	}
	return text
}

// unknownSetting is a line of pg_dump 17 and later. A server before version 17 does not know the setting, and would refuse the statement.
const unknownSetting = "\nSET transaction_timeout = 0;\n"

// knownSetting has the effect of unknownSetting on servers that know the setting, and none on others.
const knownSetting = "\nSELECT pg_catalog.set_config(name, '0', false) FROM pg_catalog.pg_settings WHERE name = 'transaction_timeout';\n"

// readStatements reads statements of pg_dump in a form that servers of all versions execute. The text in the store stays as pg_dump wrote it,
// because it is the content that moves compare.
func readStatements(ctx context.Context, objects getter, name segno.Hash) (string, error) {
	text, err := copyAll(ctx, objects, name)
	settings, objectText, found := strings.Cut(text, "\n-- Name: ") // the first object
	if found {
		objectText = "\n-- Name: " + objectText
	}
	return strings.Replace(settings, unknownSetting, knownSetting, 1) + objectText, err
}

// storeError marks an error of segno's store, as opposed to one of the server.
type storeError struct{ error }

func (e storeError) orNil() error {
	if e.error == nil {
		return nil
	}
	return e
}

// copyAll reads a whole text.
func copyAll(ctx context.Context, objects getter, name segno.Hash) (string, error) {
	r, err := newChunkReader(ctx, objects, name)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	_, err = io.Copy(&b, r)
	return b.String(), err
}

// savePostgres saves a PostgreSQL database, or returns its newest state if it did not change since.
func (w *Attached) savePostgres(ctx context.Context, b segno.Batch, at Attachment, cached cacheEntries) (saved, error) {
	s := postgresSession{pg: w.options.Postgres, at: at}
	defer s.close(ctx)
	failed := func(err error) (saved, error) {
		var own storeError
		switch {
		case ctx.Err() != nil:
			return saved{}, segno.NewError(segno.KindCancelled, "save database", at.Name, ctx.Err())
		case errors.As(err, &own):
			return saved{}, own.error
		}
		return unread(at, w.explainLocks(ctx, at, err)), nil
	}
	d := pgDump{postgresSession: &s, batch: b, recent: w.recent}
	evidence, err := d.begin(ctx)
	if err != nil {
		return failed(err)
	}
	last := cached[at.Name]
	known, err := w.isStored(ctx, b, last.State.Content)
	if err != nil {
		return saved{}, err
	}
	if known && string(last.Fingerprint) == evidence {
		return last.State, nil
	}
	content, err := d.run(ctx)
	if err != nil {
		return failed(err)
	}
	state := saved{Name: at.Name, Kind: at.Kind, Content: content, Bytes: d.bytes}
	cached[at.Name] = cacheEntry{Fingerprint: fingerprint(evidence), State: state}
	return state, nil
}

func quoteLiteral(text string) string {
	text = "'" + strings.ReplaceAll(text, "'", "''") + "'"
	if strings.Contains(text, `\`) {
		text = " E" + strings.ReplaceAll(text, `\`, `\\`)
	}
	return text
}

func quoteName(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// diffTables returns the tables that differ between two states, sorted by name. A nil state has no tables.
func diffTables(before, after *pgState) (changes []segno.TableChange) {
	empty := &pgState{}
	before, after = cmp.Or(before, empty), cmp.Or(after, empty)
	byName := map[string]pgTable{}
	for _, t := range before.Tables {
		byName[t.Name] = t
	}
	for _, t := range after.Tables {
		was, ok := byName[t.Name]
		delete(byName, t.Name)
		switch {
		case !ok:
			changes = append(changes, segno.TableChange{Name: t.Name, Before: -1, After: t.Rows})
		case was != t:
			changes = append(changes, segno.TableChange{Name: t.Name, Before: was.Rows, After: t.Rows})
		}
	}
	for name, t := range byName {
		changes = append(changes, segno.TableChange{Name: name, Before: t.Rows, After: -1})
	}
	slices.SortFunc(changes, func(a, b segno.TableChange) int { return strings.Compare(a.Name, b.Name) })
	return changes
}
