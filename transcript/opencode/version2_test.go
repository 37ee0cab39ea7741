package opencode_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/transcript"
	"github.com/dalsegno/segno/transcript/internal/sessionfile"
	"github.com/dalsegno/segno/transcript/opencode"
)

// schema2 has the tables of OpenCode 2, which was not run. session_v2 is the table of version 2.0.3 in
// https://github.com/getagentseal/codeburn/issues/1293, without its key to the table of projects. session_message is
// the table in packages/core/src/session/sql.ts of https://github.com/anomalyco/opencode. The rows of these tests have
// the shapes of packages/schema/src/session-message.ts in the same repository.
const schema2 = `
CREATE TABLE session_v2 (id text PRIMARY KEY, project_id text NOT NULL, workspace_id text, parent_id text, fork_session_id text,
	fork_boundary text, slug text NOT NULL, directory text NOT NULL, path text, title text, version text NOT NULL, share_url text,
	summary_additions integer, summary_deletions integer, summary_files integer, summary_diffs text, metadata text,
	cost real DEFAULT 0 NOT NULL, tokens_input integer DEFAULT 0 NOT NULL, tokens_output integer DEFAULT 0 NOT NULL,
	tokens_reasoning integer DEFAULT 0 NOT NULL, tokens_cache_read integer DEFAULT 0 NOT NULL, tokens_cache_write integer DEFAULT 0 NOT NULL,
	revert text, permission text, agent text, model text, time_created integer NOT NULL, time_updated integer NOT NULL, time_compacting integer,
	time_archived integer, time_suspended integer, resume_attempts integer DEFAULT 0 NOT NULL, time_idle integer, time_viewed integer, idle_outcome text);
CREATE TABLE session_message (id text PRIMARY KEY, session_id text NOT NULL REFERENCES session_v2(id) ON DELETE CASCADE, type text NOT NULL,
	seq integer NOT NULL, time_created integer NOT NULL, time_updated integer NOT NULL, data text NOT NULL);
CREATE UNIQUE INDEX session_message_session_seq_idx ON session_message (session_id, seq);`

// newHome2 is newHome with a session of OpenCode 2 and one of its subagent, and no tables of version 1.
func newHome2(t testing.TB) *home {
	t.Helper()
	h := newEmptyHome(t)
	h.exec(schema2)
	h.session2(main, nil, 2)
	h.session2(child, main, 2)
	return h
}

// session2 adds a session of OpenCode 2.
func (h *home) session2(id string, parent any, updated int64) {
	h.Helper()
	h.exec("INSERT INTO session_v2 (id, parent_id, project_id, slug, directory, version, time_created, time_updated) VALUES (?, ?, 'global', 'calm-river', ?, '2.0.3', 1, ?)",
		id, parent, dir, updated)
}

// message2 adds a message of OpenCode 2 and returns its id. The ids decrease, because seq defines the order.
func (h *home) message2(kind, data string) string {
	h.Helper()
	h.ids++
	id := fmt.Sprintf("msg_%012x%014d", 1<<40-h.ids, h.ids)
	h.exec("INSERT INTO session_message VALUES (?, ?, ?, ?, 1, 1, ?)", id, main, kind, h.ids, data)
	return id
}

const toolOutput = "a.txt from the tool"

// turn2 adds a turn and returns the id of its prompt.
func (h *home) turn2(prompt string) string {
	h.Helper()
	id := h.message2("user", fmt.Sprintf(`{"text":%q,"time":{"created":1}}`, prompt))
	h.message2("assistant", fmt.Sprintf(`{"agent":"build","model":{"id":"m","providerID":"p"},"time":{"created":1,"completed":2},"finish":"stop","content":[
		{"type":"reasoning","text":"hm"},
		{"type":"tool","id":"call_1","name":"shell","state":{"status":"completed","input":{"command":"ls"},"content":[{"type":"text","text":%q}]},"time":{"created":1}},
		{"type":"text","text":%q}]}`, toolOutput, "done "+prompt))
	h.message2("idle", `{"outcome":"succeeded","time":{"created":2}}`)
	return id
}

// stored returns the lines of a position from the store.
func (h *home) stored(p segno.Position) []string {
	h.Helper()
	r, err := sessionfile.OpenLog(context.Background(), h.store.Objects(), p.Log, p.Offset, nil)
	if err != nil {
		h.Fatal(err)
	}
	data, err := io.ReadAll(r)
	if err != nil || segno.HashOf(data) != p.SHA256 {
		h.Fatalf("stored %d bytes, %v", len(data), err)
	}
	return strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
}

// TestVersion2 lists and captures a session in a database that has only the tables of OpenCode 2. segno keeps records
// of an unknown type like the others.
func TestVersion2(t *testing.T) {
	h, ctx := newHome2(t), context.Background()
	h.message2("model-switched", `{"model":{"id":"m","providerID":"p"},"time":{"created":1}}`)
	first := h.turn2("alpha")
	before := h.capture(nil)
	if before.Position.Leaf != first || before.Text != "alpha" || string(before.Key) != first || before.Position.Version != "2.0.3" || before.Position.Dir != dir {
		t.Fatalf("captured %+v", before)
	}
	h.message2("teleport", `["of a later version", {"deep": 1}]`)
	h.message2("agent-switched", `{"agent":"plan","time":{"created":1}}`)
	second := h.turn2("beta")
	h.message2("compaction", `{"status":"completed","reason":"auto","summary":"so far","recent":"","time":{"created":1}}`)
	third := h.turn2("gamma")
	got := h.capture(&before.Position)
	if got.Position.Leaf != third || got.Follows != first || len(got.Earlier) != 1 || got.Earlier[0].Position.Leaf != second || got.Earlier[0].Prompt != "beta" {
		t.Fatalf("captured %+v", got)
	}
	if whole := h.capture(nil); whole.Position.SHA256 != got.Position.SHA256 {
		t.Error("an incremental capture and a whole one differ")
	}
	var types []string
	for _, text := range h.stored(got.Position)[1:] {
		var l struct{ ID, Type string }
		if err := json.Unmarshal([]byte(text), &l); err != nil || l.ID == "" {
			t.Fatalf("line %s: %v", text, err)
		}
		types = append(types, l.Type)
		has := strings.Contains(text, toolOutput) && strings.Contains(text, `"command":"ls"`) && strings.Contains(text, "done ")
		if has != (l.Type == "assistant") || strings.Contains(text, "of a later version") != (l.Type == "teleport") {
			t.Errorf("line %s", text)
		}
	}
	want := strings.Fields("model-switched user assistant idle teleport agent-switched user assistant idle compaction user assistant idle")
	if diff := cmp.Diff(want, types); diff != "" {
		t.Errorf("stored (-want +got):\n%s", diff)
	}

	listed := h.sessions()
	if len(listed) != 1 || listed[0].Session != main || listed[0].Modified.UnixMilli() != 2 || listed[0].Path != filepath.Join(h.data, "opencode.db") {
		t.Fatalf("listed %+v", listed)
	}
	header, err := h.c.Header(ctx, listed[0], 1<<20)
	if err != nil || header.Turns != 3 || header.Title != "alpha" || header.Dir != dir || header.End <= got.Earlier[0].Position.Offset || header.End > got.Position.Offset {
		t.Errorf("header %+v, %v", header, err)
	}
	endsAt := func() bool {
		t.Helper()
		is, err := h.c.EndsAt(ctx, segno.Source{Session: main}, got.Position)
		if err != nil {
			t.Error(err)
		}
		return is
	}
	if h.message2("model-switched", `{"model":{"id":"n","providerID":"p"},"time":{"created":1}}`); !endsAt() {
		t.Error("the choice of a model is taken for conversation")
	}
	if h.turn2("delta"); endsAt() {
		t.Error("another turn is not noticed")
	}
}

// TestVersion2IsNotWritten cuts, restores and moves a session of OpenCode 2. segno refuses each operation and runs no
// command of OpenCode.
func TestVersion2IsNotWritten(t *testing.T) {
	h, ctx := newHome2(t), context.Background()
	h.turn2("alpha")
	p := h.capture(nil).Position
	ran := h.importer(t, "touch DOCUMENT")
	refused := func(what string, err error) {
		t.Helper()
		if segno.KindOf(err) != segno.KindRefused || segno.HintOf(err) == "" || !strings.Contains(fmt.Sprint(err), "OpenCode 2") || strings.Contains(fmt.Sprint(err), "\n") {
			t.Errorf("%s: %v (%s)", what, err, segno.HintOf(err))
		}
		if _, err := os.Stat(ran); err == nil {
			t.Errorf("%s ran opencode", what)
		}
	}
	var noCut *transcript.NoCutError
	_, err := h.c.Cut(ctx, p, segno.Target{Session: cutID, Dir: dir}, h.store.Objects())
	if refused("cut", err); !errors.As(err, &noCut) {
		t.Errorf("an undo would fail with %v", err)
	}
	_, err = h.c.Relocate(ctx, segno.Source{Session: main}, "/else")
	refused("move", err)
	if src, err := h.c.Relocate(ctx, segno.Source{Session: main}, dir); err != nil || src.Session != main || src.Dir != dir {
		t.Errorf("relocated to its own directory: %+v, %v", src, err)
	}
	if _, err := h.c.Restore(ctx, p, dir, h.store.Objects()); segno.KindOf(err) != segno.KindConflict {
		t.Errorf("restored beside the session: %v", err)
	}
	h.exec("DELETE FROM session_message")
	h.exec("DELETE FROM session_v2")
	_, err = h.c.Restore(ctx, p, dir, h.store.Objects())
	if refused("restore", err); !errors.As(err, &noCut) {
		t.Errorf("a resume would fail with %v", err)
	}
}

// TestDivergedCopies has a session in the tables of both versions. The newer copy counts.
func TestDivergedCopies(t *testing.T) {
	for _, test := range []struct {
		updated int64 // the time of the copy in OpenCode 2; the time of the copy in OpenCode 1 is 2
		want    string
	}{{1, "beta"}, {2, "beta"}, {3, "gamma"}} {
		t.Run(fmt.Sprint(test.updated), func(t *testing.T) {
			h, ctx := newHome(t), context.Background()
			first := h.turn("alpha")
			kept := h.capture(nil)
			h.turn("beta")
			h.exec(schema2)
			h.session2(main, nil, test.updated)
			h.message2("user", `{"text":"alpha"}`)
			h.exec("UPDATE session_message SET id = ?", first) // an import keeps the ids
			h.message2("assistant", `{"content":[]}`)
			h.turn2("gamma")
			got := h.capture(&kept.Position)
			if got.Text != test.want || got.Follows != first || len(got.Earlier) != 0 {
				t.Errorf("captured %+v", got)
			}
			listed := h.sessions()
			if len(listed) != 1 || listed[0].Modified.UnixMilli() != max(2, test.updated) {
				t.Errorf("listed %+v", listed)
			}
			// segno can still cut the session as it kept it from OpenCode 1.
			document := h.importer(t, `cp "$2" DOCUMENT`)
			if _, err := h.c.Cut(ctx, kept.Position, segno.Target{Session: cutID, Dir: t.TempDir()}, h.store.Objects()); err == nil {
				t.Error("cut without a session in the database")
			}
			if data, err := os.ReadFile(document); err != nil || !strings.Contains(string(data), "done alpha") {
				t.Errorf("the document is %s, %v", data, err)
			}
		})
	}
}

// TestChannels has databases of other channels of OpenCode. One of them is damaged. segno names it and reads the
// others.
func TestChannels(t *testing.T) {
	h, ctx := newHome(t), context.Background()
	h.turn("alpha")
	next, err := sql.Open("sqlite", filepath.Join(h.data, "opencode-next.db"))
	if err != nil {
		t.Fatal(err)
	}
	main1 := *h
	h.db = next
	h.exec(schema2)
	h.session2(main, nil, 9)
	h.session2("ses_next", nil, 9)
	h.turn2("beta")
	if err := next.Close(); err != nil {
		t.Fatal(err)
	}
	listed := h.sessions()
	slices.SortFunc(listed, func(a, b transcript.SessionFile) int { return strings.Compare(string(a.Session), string(b.Session)) })
	if len(listed) != 2 || listed[0].Session != main || listed[0].Path != filepath.Join(h.data, "opencode-next.db") || listed[1].Session != "ses_next" {
		t.Errorf("listed %+v", listed)
	}
	if got := h.capture(nil); got.Text != "beta" {
		t.Errorf("captured %+v", got)
	}
	for name, text := range map[string]string{"opencode-bad.db": strings.Repeat("no database\n", 1000), "opencode-empty.db": "", "opencode-next.db-x": "no", "other.db": "no"} {
		if err := os.WriteFile(filepath.Join(h.data, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	sessions, failed := 0, ""
	for _, err := range h.c.Sessions(ctx) {
		if err == nil {
			sessions++
		} else {
			failed += err.Error() + "\n"
		}
	}
	if sessions != 2 || strings.Count(failed, "\n") != 2 || !strings.Contains(failed, "opencode-bad.db") || !strings.Contains(failed, "opencode-empty.db") {
		t.Errorf("%d sessions, and the errors\n%s", sessions, failed)
	}
	if got := h.capture(nil); got.Text != "beta" {
		t.Errorf("beside damage: captured %+v", got)
	}
	if _, err := h.c.Find(ctx, "ses_unknown"); segno.KindOf(err) != segno.KindIO {
		t.Errorf("a damaged database is taken for one without the session: %v", err)
	}
	_ = main1.db.Close()
	if err := os.Remove(filepath.Join(h.data, "opencode.db")); err != nil {
		t.Fatal(err)
	}
	if src, err := opencode.New(h.data, h.data).Find(ctx, main); err != nil || src.Path != filepath.Join(h.data, "opencode-next.db") {
		t.Errorf("without opencode.db: %+v, %v", src, err)
	}
}

// TestDamagedVersion2 has rows and tables that OpenCode 2 would not write. Each leads to one error.
func TestDamagedVersion2(t *testing.T) {
	for name, damage := range map[string]func(h *home){
		"a prompt of text":     func(h *home) { h.message2("user", "hello") },
		"a prompt of null":     func(h *home) { h.message2("user", "null") },
		"a prompt of a list":   func(h *home) { h.message2("user", " []") },
		"an empty prompt":      func(h *home) { h.message2("user", "") },
		"half an answer":       func(h *home) { h.message2("assistant", `{"content":[`) },
		"half of something":    func(h *home) { h.message2("teleport", `{`) },
		"no table of messages": func(h *home) { h.exec("DROP TABLE session_message") },
		"messages without order": func(h *home) {
			h.exec("DROP INDEX session_message_session_seq_idx")
			h.exec("ALTER TABLE session_message DROP COLUMN seq")
		},
		"no directory": func(h *home) { h.exec("ALTER TABLE session_v2 DROP COLUMN directory") },
	} {
		t.Run(name, func(t *testing.T) {
			h := newHome2(t)
			h.turn2("alpha")
			damage(h)
			if got, err := h.c.Capture(context.Background(), segno.Source{Session: main}, nil, h.store.Objects().Batch(), nil); err == nil {
				t.Errorf("captured %+v", got)
			} else if strings.Contains(err.Error(), "\n") {
				t.Errorf("the error has several lines: %v", err)
			}
		})
	}
	h := newHome2(t)
	h.message2("user", `{"text":["not a text"]}`)
	if got := h.capture(nil); got.Position.Leaf == "" || got.Text != "" {
		t.Errorf("a prompt without a text: captured %+v", got)
	}
}
