package local_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/local"
)

// codexHome is a home of Codex with rollouts.
type codexHome struct {
	*testing.T
	dir     string
	ordinal int
}

func (h *codexHome) line(typ, payload string) string {
	h.ordinal++
	return fmt.Sprintf(`{"timestamp":"2026-11-22T22:31:03.685Z","ordinal":%d,"type":%q,"payload":%s}`+"\n", h.ordinal-1, typ, payload)
}

func (h *codexHome) meta(session, dir, more string) string {
	return h.line("session_meta", fmt.Sprintf(`{"id":%q,"timestamp":"2026-11-22T22:31:03.685Z","cwd":%q,"originator":"codex_exec","cli_version":"0.169.0","history_mode":"paginated"%s}`, session, dir, more))
}

func (h *codexHome) turn(key string) string {
	return h.line("event_msg", fmt.Sprintf(`{"type":"task_started","turn_id":%q}`, key)) +
		h.line("event_msg", fmt.Sprintf(`{"type":"item_completed","turn_id":%q,"item":{"type":"UserMessage","content":[{"type":"text","text":%q}]}}`, key, key)) +
		h.line("response_item", `{"type":"message","role":"assistant","content":[{"type":"output_text","text":"yes"}]}`) +
		h.line("event_msg", fmt.Sprintf(`{"type":"task_complete","turn_id":%q}`, key))
}

func (h *codexHome) write(session, text string) {
	h.Helper()
	if err := os.WriteFile(filepath.Join(h.dir, "rollout-2026-11-22T22-31-03-"+session+".jsonl"), []byte(text), 0o600); err != nil {
		h.Fatal(err)
	}
}

// prompts returns the prompts on the line of the thread that has a session, oldest first.
func prompts(t *testing.T, store *local.Store, session segno.SessionID) (all []string) {
	t.Helper()
	for thread, err := range store.Threads(t.Context(), segno.ThreadQuery{Session: session}) {
		if err != nil {
			t.Fatal(err)
		}
		head, err := store.Head(t.Context(), thread.ID)
		if err != nil {
			t.Fatal(err)
		}
		for n, err := range segno.Ancestors(t.Context(), store, head.Head, segno.Window{}) {
			if err != nil {
				t.Fatal(err)
			}
			if n.Checkpoint != nil && n.Checkpoint.Kind == segno.CheckpointTurn {
				all = append(all, n.Checkpoint.Prompt)
			}
		}
	}
	slices.Reverse(all)
	return all
}

// TestARolloutThatWasWrittenBackIsKeptAsOne keeps a session of Codex and a fork of it, whose rollouts the user then deletes. A session that segno
// writes back is one rollout with another directory, so its bytes differ from those that the store has, and a fork has the turns of its
// source, too.
func TestARolloutThatWasWrittenBackIsKeptAsOne(t *testing.T) {
	const source, fork = "01a20562-62f8-7731-83e7-000000000001", "01a20562-62f8-7731-83e7-000000000002"
	home := t.TempDir()
	p := local.Place{Store: filepath.Join(home, "store"), UserHome: home, Homes: local.Homes{"codex": home}, Now: time.Now}
	h := &codexHome{T: t, dir: filepath.Join(home, "sessions", "2026", "11", "22")}
	if err := os.MkdirAll(h.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	first := h.meta(source, "/srv/p", "") + h.turn("a") + h.turn("b")
	at := h.ordinal
	h.write(source, first+h.turn("c"))
	h.ordinal = at
	h.write(fork, h.meta(fork, "/srv/p", fmt.Sprintf(`,"forked_from_id":%q,"history_base":{"thread_id":%q,"end_ordinal_exclusive":%d,"end_byte_offset":%d}`,
		source, source, at, len(first)))+h.turn("f"))
	store, err := p.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	want := func(what string, session segno.SessionID, turns int, line ...string) {
		t.Helper()
		if n := keepOnly(t, store, "codex", segno.Source{Session: session}); n != turns {
			t.Errorf("%s: kept %d turns of %s, want %d", what, n, session, turns)
		}
		if got := prompts(t, store, session); !slices.Equal(got, line) {
			t.Errorf("%s: the line of %s is %q, want %q", what, session, got, line)
		}
	}
	want("first", source, 3, "a", "b", "c")
	want("first", fork, 1, "a", "b", "f")

	h.ordinal = 0
	again := h.meta(source, "/srv/elsewhere", "") + h.turn("a") + h.turn("b") + h.turn("c")
	h.write(source, again)
	want("written back", source, 0, "a", "b", "c")
	h.write(source, again+h.turn("d"))
	want("continued", source, 1, "a", "b", "c", "d")

	h.ordinal = 0
	again = h.meta(fork, "/srv/elsewhere", "") + h.turn("a") + h.turn("b") + h.turn("f")
	h.write(fork, again)
	want("written back", fork, 0, "a", "b", "f")
	h.write(fork, again+h.turn("g"))
	want("continued", fork, 1, "a", "b", "f", "g")
}
