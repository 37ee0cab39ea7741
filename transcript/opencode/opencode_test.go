package opencode_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/store/memory"
	"github.com/dalsegno/segno/transcript"
	"github.com/dalsegno/segno/transcript/opencode"
)

// schema has the columns that are read, as OpenCode 1.18.33 creates them.
const schema = `
CREATE TABLE session (id text PRIMARY KEY, parent_id text, slug text NOT NULL, directory text NOT NULL, title text NOT NULL,
	version text NOT NULL, time_created integer NOT NULL, time_updated integer NOT NULL);
CREATE TABLE message (id text PRIMARY KEY, session_id text NOT NULL, time_created integer NOT NULL, time_updated integer NOT NULL, data text NOT NULL);
CREATE TABLE part (id text PRIMARY KEY, message_id text NOT NULL, session_id text NOT NULL, time_created integer NOT NULL, time_updated integer NOT NULL, data text NOT NULL);`

const (
	main  = "ses_df9debf2cffex1PsrVneqS1i9M"
	child = "ses_df9debf2cffex1PsrVneqS1i9N"
	dir   = "/srv/api"
	cutID = "11111111-0000-4000-8000-000000000001"
)

// home is a database of OpenCode and a store.
type home struct {
	testing.TB
	data  string
	db    *sql.DB
	c     *opencode.Transcripts
	store *memory.Store
	ids   int
}

func newHome(t testing.TB) *home {
	t.Helper()
	h := newEmptyHome(t)
	h.exec(schema)
	h.exec("INSERT INTO session VALUES (?, NULL, 'misty-canyon', ?, 'the title', '1.18.33', 1, 2), (?, ?, 's', ?, 'task', '1.18.33', 1, 2)", main, dir, child, main, dir)
	return h
}

// newEmptyHome is newHome without tables.
func newEmptyHome(t testing.TB) *home {
	t.Helper()
	h := &home{TB: t, data: t.TempDir(), store: memory.New(nil)}
	t.Cleanup(func() { _ = h.store.Close() })
	h.c = opencode.New(h.data, t.TempDir())
	var err error
	if h.db, err = sql.Open("sqlite", "file:"+filepath.Join(h.data, "opencode.db")+"?_pragma=journal_mode(wal)"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.db.Close() })
	return h
}

func (h *home) exec(query string, args ...any) {
	h.Helper()
	if _, err := h.db.Exec(query, args...); err != nil {
		h.Fatal(err)
	}
}

func (h *home) id(kind string) string {
	h.ids++
	return fmt.Sprintf("%s_%012x%014d", kind, h.ids, h.ids)
}

// message adds a message with parts and returns its id.
func (h *home) message(data string, parts ...string) string {
	h.Helper()
	id := h.id("msg")
	h.exec("INSERT INTO message VALUES (?, ?, 1, 1, ?)", id, main, data)
	for _, p := range parts {
		h.exec("INSERT INTO part VALUES (?, ?, ?, 1, 1, ?)", h.id("prt"), id, main, p)
	}
	return id
}

// turn adds a turn and returns the id of its prompt.
func (h *home) turn(prompt string) string {
	h.Helper()
	text := func(s string) string { return fmt.Sprintf(`{"type":"text","text":%q}`, s) }
	id := h.message(`{"role":"user","summary":{"diffs":[]},"time":{"created":1}}`, text(prompt), `{"type":"text","synthetic":true,"text":"context"}`)
	h.message(fmt.Sprintf(`{"role":"assistant","parentID":%q}`, id), `{"type":"step-start"}`,
		`{"type":"tool","tool":"bash","callID":"c1","state":{"status":"completed","input":{"command":"ls"},"output":"a"}}`, text("done "+prompt))
	return id
}

func (h *home) capture(prev *segno.Position) segno.Captured {
	h.Helper()
	ctx := context.Background()
	b := h.store.Objects().Batch()
	defer b.Close()
	got, err := h.c.CaptureTurns(ctx, segno.Source{Session: main}, prev, nil, h.store.Objects(), b, nil)
	if err != nil {
		h.Fatal(err)
	}
	staged, err := b.Stage(ctx)
	if err == nil {
		err = h.store.Objects().Keep(ctx, staged)
	}
	if err != nil {
		h.Fatal(err)
	}
	return got
}

// sessions lists the sessions, and fails at an error.
func (h *home) sessions() (listed []transcript.SessionFile) {
	h.Helper()
	for f, err := range h.c.Sessions(context.Background()) {
		if err != nil {
			h.Fatal(err)
		}
		listed = append(listed, f)
	}
	return listed
}

// importer puts a command opencode into PATH. Its import copies the document and adds the session to the
// database, as the real one does.
func (h *home) importer(t *testing.T, script string) (document string) {
	t.Helper()
	bin := t.TempDir()
	document = filepath.Join(bin, "document.json")
	if err := os.WriteFile(filepath.Join(bin, "opencode"), []byte("#!/bin/sh\n"+strings.ReplaceAll(script, "DOCUMENT", document)), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	return document
}

// TestSessions lists and captures sessions while OpenCode has the database open.
func TestSessions(t *testing.T) {
	h, ctx := newHome(t), context.Background()
	first := h.turn("alpha")
	before := h.capture(nil)
	if before.Position.Leaf != first || before.Text != "alpha" || string(before.Key) != first || len(before.Earlier) != 0 || before.Position.Dir != dir || before.Position.Version != "1.18.33" {
		t.Fatalf("captured %+v", before)
	}
	second, third := h.turn("beta"), h.turn("gamma")
	h.exec(`UPDATE message SET data = json_set(data, '$.summary.diffs', json('["changed later"]')) WHERE id = ?`, first)
	got := h.capture(&before.Position)
	if got.Position.Leaf != third || got.Follows != first || len(got.Earlier) != 1 || got.Earlier[0].Position.Leaf != second || got.Earlier[0].Prompt != "beta" {
		t.Fatalf("captured %+v", got)
	}
	if whole := h.capture(nil); whole.Position.SHA256 != got.Position.SHA256 {
		t.Error("an incremental capture and a whole one differ")
	}
	listed := h.sessions()
	if len(listed) != 1 || listed[0].Session != main || listed[0].Modified.UnixMilli() != 2 {
		t.Fatalf("listed %+v", listed)
	}
	header, err := h.c.Header(ctx, listed[0], 1<<20)
	if diff := cmp.Diff(transcript.SessionHeader{Dir: dir, Title: "the title", Turns: 3, End: got.Position.Offset}, header); err != nil || diff != "" {
		t.Errorf("header: %v %s", err, diff)
	}
	for _, test := range []struct {
		p    segno.Position
		want bool
	}{{before.Position, false}, {got.Position, true}} {
		if is, err := h.c.EndsAt(ctx, segno.Source{Session: main}, test.p); err != nil || is != test.want {
			t.Errorf("ends at %s: %t, %v", test.p.Leaf, is, err)
		}
	}
	if _, err := h.c.Find(ctx, "ses_unknown"); segno.KindOf(err) != segno.KindNotFound {
		t.Errorf("found an unknown session: %v", err)
	}
	if src, err := h.c.Relocate(ctx, segno.Source{Session: main}, dir); err != nil || src.Session != main {
		t.Errorf("relocated to its own directory: %+v, %v", src, err)
	}
	if _, err := h.c.Relocate(ctx, segno.Source{Session: main}, "/else"); segno.KindOf(err) != segno.KindRefused {
		t.Errorf("relocated: %v", err)
	}
}

// TestCutIsImported cuts the first of two turns. The document has the messages of that turn under new ids
// in the same order, and nothing of the second turn.
func TestCutIsImported(t *testing.T) {
	h, ctx := newHome(t), context.Background()
	first, second := h.turn("alpha"), h.turn("beta")
	p := h.capture(nil).Earlier[0].Position
	document := h.importer(t, `test "$1" = import && cp "$2" DOCUMENT && echo imported`)
	target := segno.Target{Session: cutID, Dir: t.TempDir()}
	var noCut *transcript.NoCutError
	if _, err := h.c.Cut(ctx, p, target, h.store.Objects()); !errors.As(err, &noCut) {
		t.Errorf("the session is not in the database: %v", err)
	}
	var doc struct {
		Info     struct{ ID, Directory, Title string }
		Messages []struct {
			Info  struct{ ID, SessionID, ParentID, Role string }
			Parts []struct{ ID, MessageID, SessionID, Type, Text string }
		}
	}
	data, err := os.ReadFile(document)
	if err == nil {
		err = json.Unmarshal(data, &doc)
	}
	if err != nil {
		t.Fatal(err)
	}
	if doc.Info.ID == main || !strings.HasPrefix(doc.Info.ID, "ses_") || doc.Info.Directory != target.Dir || doc.Info.Title != "alpha" || len(doc.Messages) != 2 {
		t.Fatalf("the document is %s", data)
	}
	user, answer := doc.Messages[0], doc.Messages[1]
	if user.Info.ID >= answer.Info.ID || answer.Info.ParentID != user.Info.ID || user.Info.Role != "user" || answer.Info.Role != "assistant" {
		t.Errorf("messages %+v", doc.Messages)
	}
	if len(user.Parts) != 2 || len(answer.Parts) != 3 || answer.Parts[2].Text != "done alpha" || answer.Parts[1].MessageID != answer.Info.ID || answer.Parts[1].SessionID != doc.Info.ID {
		t.Errorf("parts %+v", doc.Messages)
	}
	for _, old := range []string{main, first, second} {
		if strings.Contains(string(data), old) {
			t.Errorf("the document has the id %s of the source: %s", old, data)
		}
	}
	h.exec("INSERT INTO session VALUES (?, NULL, 's', ?, 't', '1', 1, 3)", doc.Info.ID, target.Dir)
	src, err := h.c.Cut(ctx, p, target, h.store.Objects())
	if err != nil || string(src.Session) != doc.Info.ID || src.Dir != target.Dir {
		t.Errorf("cut to %+v, %v", src, err)
	}

	h.exec("DELETE FROM message")
	h.exec("DELETE FROM part")
	h.exec("DELETE FROM session")
	if _, err := h.c.Restore(ctx, p, target.Dir, h.store.Objects()); !errors.As(err, &noCut) {
		t.Errorf("restored without a session in the database: %v", err)
	}
	if data, err = os.ReadFile(document); err != nil || !strings.Contains(string(data), first) || !strings.Contains(string(data), main) || strings.Contains(string(data), second) {
		t.Errorf("the document to restore is %s, %v", data, err)
	}
}

// TestNoImport imports without the command, or with one that fails. The error is one line that a move shows.
func TestNoImport(t *testing.T) {
	h, ctx := newHome(t), context.Background()
	h.turn("alpha")
	p := h.capture(nil).Position
	cut := func() string {
		t.Helper()
		_, err := h.c.Cut(ctx, p, segno.Target{Session: cutID, Dir: t.TempDir()}, h.store.Objects())
		var noCut *transcript.NoCutError
		if !errors.As(err, &noCut) || strings.Contains(noCut.Why, "\n") {
			t.Errorf("cut: %v", err)
		}
		return fmt.Sprint(err)
	}
	h.importer(t, "echo first; echo no schema >&2; exit 3")
	if why := cut(); !strings.Contains(why, "no schema") {
		t.Error(why)
	}
	t.Setenv("PATH", t.TempDir())
	if why := cut(); !strings.Contains(why, "PATH") {
		t.Error(why)
	}
}

// TestDamagedDatabase has rows and files that OpenCode would not write. Each causes one error.
func TestDamagedDatabase(t *testing.T) {
	ctx := context.Background()
	for name, damage := range map[string]func(h *home){
		"a message of text":   func(h *home) { h.message(`hello`) },
		"a message of null":   func(h *home) { h.message(`null`) },
		"a part of a list":    func(h *home) { h.message(`{"role":"user"}`, `[]`) },
		"no table of parts":   func(h *home) { h.exec("DROP TABLE part") },
		"no title":            func(h *home) { h.exec("ALTER TABLE session DROP COLUMN title") },
		"a file that is text": func(h *home) { h.overwrite([]byte(strings.Repeat("no database\n", 1000))) },
		"an empty file":       func(h *home) { h.overwrite(nil) },
	} {
		t.Run(name, func(t *testing.T) {
			h := newHome(t)
			h.turn("alpha")
			damage(h)
			if got, err := h.c.Capture(ctx, segno.Source{Session: main}, nil, h.store.Objects().Batch(), nil); err == nil {
				t.Errorf("captured %+v", got)
			} else if strings.Contains(err.Error(), "\n") {
				t.Errorf("the error has several lines: %v", err)
			}
		})
	}
	h := newHome(t)
	if got := h.capture(nil); got.Position.Leaf != "" {
		t.Errorf("a session without messages has %+v", got)
	}
	none := opencode.New(filepath.Join(h.data, "none"), h.data)
	for f, err := range none.Sessions(ctx) {
		t.Errorf("without a database: %+v, %v", f, err)
	}
}

// overwrite replaces the database.
func (h *home) overwrite(data []byte) {
	h.Helper()
	_ = h.db.Close()
	for _, suffix := range []string{"-wal", "-shm"} {
		_ = os.Remove(filepath.Join(h.data, "opencode.db"+suffix))
	}
	if err := os.WriteFile(filepath.Join(h.data, "opencode.db"), data, 0o600); err != nil {
		h.Fatal(err)
	}
}

// TestReadingLeavesNoFiles reads a database that no process has open.
func TestReadingLeavesNoFiles(t *testing.T) {
	h := newHome(t)
	h.turn("alpha")
	if err := h.db.Close(); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(filepath.Join(h.data, "opencode.db"))
	if err != nil {
		t.Fatal(err)
	}
	if got := h.capture(nil); got.Text != "alpha" {
		t.Errorf("captured %+v", got)
	}
	after, err := os.ReadFile(filepath.Join(h.data, "opencode.db"))
	list, _ := os.ReadDir(h.data)
	if err != nil || len(list) != 1 || string(before) != string(after) {
		t.Errorf("reading left %v, %v", list, err)
	}
}

// TestCutKeepsTheInputOfCalls cuts a session with a call whose input has a number that no float64 has, names that are not
// sorted, and a string that is not valid UTF-16. The model of the new session sees the input that it wrote.
func TestCutKeepsTheInputOfCalls(t *testing.T) {
	h := newHome(t)
	const input = `{"zone":12345678901234567890,"amount":1.0,"text":"a \ud800 <b>"}`
	h.message(`{"role":"user","time":{"created":9007199254740993}}`, `{"type":"text","text":"alpha"}`)
	h.message(`{"role":"assistant"}`, `{"type":"tool","tool":"pay","callID":"c1","state":{"status":"completed","input":`+input+`,"output":"a"}}`)
	document := h.importer(t, `test "$1" = import && cp "$2" DOCUMENT && echo imported`)
	p := h.capture(nil).Position
	_, _ = h.c.Cut(context.Background(), p, segno.Target{Session: cutID, Dir: t.TempDir()}, h.store.Objects()) // nothing adds the session to the database
	data, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{input, `"created":9007199254740993`} {
		if !strings.Contains(string(data), want) {
			t.Errorf("the document does not have %s:\n%s", want, data)
		}
	}
}
