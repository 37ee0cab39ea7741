package local_test

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	_ "modernc.org/sqlite" // the driver of OpenCode's database

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/timeline"
)

// wantKept checks whether the list shows the only session of a place as kept. 'segno sessions keep --all', which makes a brief
// list, must not skip a session that is not kept.
func wantKept(t *testing.T, p local.Place, store *local.Store, what string, want bool) {
	t.Helper()
	found, skipped := p.FindSessions(t.Context())
	if len(found) != 1 || len(skipped) > 0 {
		t.Fatalf("%s: found %+v, skipped %v", what, found, skipped)
	}
	list, err := p.Details(t.Context(), store, found)
	if err != nil || list[0].Err != nil || list[0].Kept != want {
		t.Errorf("%s: in the list kept is %t, %v, %v", what, list[0].Kept, err, list[0].Err)
	}
	brief, err := p.BriefDetails(t.Context(), store, found)
	if err != nil || brief[0].Err != nil || !want && brief[0].Kept && !brief[0].IsChanged {
		t.Errorf("%s: keep --all skips it: %+v, %v", what, brief[0], err)
	}
}

// keepOnly keeps a session and returns the number of its new turns.
func keepOnly(t *testing.T, store *local.Store, agent string, src segno.Source) int {
	t.Helper()
	k, err := store.SessionTimeline().KeepSession(t.Context(), timeline.KeepRequest{Agent: agent, Source: src})
	if err != nil {
		t.Fatal(err)
	}
	return k.Turns
}

// openCode is a database of OpenCode with one session.
type openCode struct {
	*testing.T
	db *sql.DB
	n  int
}

func (o *openCode) exec(query string, args ...any) {
	o.Helper()
	if _, err := o.db.Exec(query, args...); err != nil {
		o.Fatal(err)
	}
}

func (o *openCode) turn(words string) {
	o.Helper()
	for _, role := range []string{"user", "assistant"} {
		o.n++
		message := fmt.Sprintf("msg_%012d", o.n)
		o.exec("INSERT INTO message VALUES (?, 'ses_one', 1, 1, ?)", message, fmt.Sprintf(`{"role":%q}`, role))
		o.exec("INSERT INTO part VALUES (?, ?, 'ses_one', 1, 1, ?)", fmt.Sprintf("prt_%012d", o.n), message, fmt.Sprintf(`{"type":"text","text":%q}`, words))
	}
}

// TestNewTurnsOfOpenCodeAreNotKept keeps a session of OpenCode, which then gets a turn, and from which the user then undoes
// turns and continues with a short one.
func TestNewTurnsOfOpenCodeAreNotKept(t *testing.T) {
	home := t.TempDir()
	p := local.Place{Store: filepath.Join(home, "store"), UserHome: home, Data: local.Homes{"opencode": home}, Now: time.Now}
	db, err := sql.Open("sqlite", filepath.Join(home, "opencode.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	o := &openCode{T: t, db: db}
	o.exec(`CREATE TABLE session (id text, parent_id text, slug text, directory text, title text, version text, time_created integer, time_updated integer)`)
	o.exec(`CREATE TABLE message (id text, session_id text, time_created integer, time_updated integer, data text)`)
	o.exec(`CREATE TABLE part (id text, message_id text, session_id text, time_created integer, time_updated integer, data text)`)
	o.exec(`INSERT INTO session VALUES ('ses_one', NULL, 's', '/srv/p', 't', '1.18', 1, 2)`)
	for n := range 10 {
		o.turn(fmt.Sprint("long words ", n, strings.Repeat(" and more", 20)))
	}
	store, err := p.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	src := segno.Source{Session: "ses_one"}
	wantKept(t, p, store, "before", false)
	if n := keepOnly(t, store, "opencode", src); n != 10 {
		t.Errorf("kept %d turns", n)
	}
	wantKept(t, p, store, "kept", true)
	o.turn("short")
	wantKept(t, p, store, "with a new turn", false)
	if n := keepOnly(t, store, "opencode", src); n != 1 {
		t.Errorf("kept %d new turns", n)
	}
	o.exec("DELETE FROM message WHERE id > 'msg_000000000004'")
	o.exec("DELETE FROM part WHERE id > 'prt_000000000004'")
	o.turn("other")
	wantKept(t, p, store, "after an undo and a new turn", false)
	if n := keepOnly(t, store, "opencode", src); n != 1 {
		t.Errorf("kept %d turns after the undo", n)
	}
	wantKept(t, p, store, "kept again", true)
}

// TestNewTurnsOfARevertedCodexSessionAreNotKept keeps a session of Codex, in which the user then goes back to the first
// turn. Codex continues in another rollout, and the conversation is shorter than before.
func TestNewTurnsOfARevertedCodexSessionAreNotKept(t *testing.T) {
	const thread, segment = "01a20562-62f8-7731-83e7-000000000001", "01a20562-62f8-7731-83e7-000000000002"
	home := t.TempDir()
	p := local.Place{Store: filepath.Join(home, "store"), UserHome: home, Homes: local.Homes{"codex": home}, Now: time.Now}
	dir := filepath.Join(home, "sessions", "2026", "11", "22")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	ordinal := 0
	line := func(typ, payload string) string {
		ordinal++
		return fmt.Sprintf(`{"timestamp":"2026-11-22T22:31:03.685Z","ordinal":%d,"type":%q,"payload":%s}`+"\n", ordinal-1, typ, payload)
	}
	meta := func(more string) string {
		return line("session_meta", fmt.Sprintf(`{"id":%q,"timestamp":"2026-11-22T22:31:03.685Z","cwd":"/srv/p","originator":"codex_exec","cli_version":"0.169.0","history_mode":"paginated"%s}`, thread, more))
	}
	turn := func(key, words string) string {
		return line("event_msg", fmt.Sprintf(`{"type":"task_started","turn_id":%q}`, key)) +
			line("event_msg", fmt.Sprintf(`{"type":"item_completed","turn_id":%q,"item":{"type":"UserMessage","content":[{"type":"text","text":%q}]}}`, key, words)) +
			line("response_item", `{"type":"message","role":"assistant","content":[{"type":"output_text","text":"yes"}]}`) +
			line("event_msg", fmt.Sprintf(`{"type":"task_complete","turn_id":%q}`, key))
	}
	first := meta("") + turn("a", "alpha")
	end, at := len(first), ordinal
	rollouts := map[string]string{thread: first + turn("b", strings.Repeat("beta ", 500))}
	write := func() {
		for id, text := range rollouts {
			if err := os.WriteFile(filepath.Join(dir, "rollout-2026-11-22T22-31-03-"+id+".jsonl"), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	write()
	store, err := p.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	src := segno.Source{Session: thread}
	if n := keepOnly(t, store, "codex", src); n != 2 {
		t.Errorf("kept %d turns", n)
	}
	wantKept(t, p, store, "kept", true)
	ordinal = at
	rollouts[thread+"_"+segment] = meta(fmt.Sprintf(`,"history_base":{"thread_id":%q,"end_ordinal_exclusive":%d,"end_byte_offset":%d}`, thread, at, end)) + turn("c", "gamma")
	write()
	wantKept(t, p, store, "after going back and a new turn", false)
	if n := keepOnly(t, store, "codex", src); n != 1 {
		t.Errorf("kept %d turns after going back", n)
	}
	wantKept(t, p, store, "kept again", true)
}
