package saver_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/saver"
	"github.com/dalsegno/segno/store/memory"
)

// TestTwoGoOnFromOneSaved continues twice from one loaded snapshot, and twice from one saved
// snapshot. Neither continuation writes into the messages of the other.
func TestTwoGoOnFromOneSaved(t *testing.T) {
	store := memory.New(nil)
	sv := saver.New(store)
	at := saver.ThreadKey{Thread: "t"}
	text := func(s string) json.RawMessage { return json.RawMessage(`"` + s + `"`) }
	saved, err := sv.Save(t.Context(), saver.Snapshot{ThreadKey: at, Messages: append(make([]json.RawMessage, 0, 10), text("one"))})
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := sv.Load(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]saver.Snapshot{"saved": saved, "loaded": loaded} {
		a, b := append(s.Messages, text("a")), append(s.Messages, text("b"))
		if string(a[1]) != `"a"` || string(b[1]) != `"b"` {
			t.Errorf("%s: the one goes on with %s, the other with %s", name, a[1], b[1])
		}
	}
}

// TestASavedThatWasJSONStoresWhatIsNew saves onto a snapshot that was encoded as JSON and decoded
// again, so that it has no base.
func TestASavedThatWasJSONStoresWhatIsNew(t *testing.T) {
	store := memory.New(nil)
	sv := saver.New(store)
	at := saver.ThreadKey{Thread: "t"}
	s := saver.Snapshot{ThreadKey: at}
	var err error
	for range 5 {
		s.Messages = append(s.Messages, json.RawMessage(`"hello"`))
		if s, err = sv.Save(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		data, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		s = saver.Snapshot{}
		if err := json.Unmarshal(data, &s); err != nil {
			t.Fatal(err)
		}
	}
	line, err := store.Load(t.Context(), s.ID, segno.Window{Entries: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range line.Commits {
		if len(n.Entries) != 1 {
			t.Errorf("%d entries for one message", len(n.Entries))
		}
	}
	if got, err := sv.Load(t.Context(), at); err != nil || len(got.Messages) != 5 {
		t.Errorf("%d messages, %v", len(got.Messages), err)
	}
}

// TestAChangedInterruptIsRefused changes a question that was saved. Otherwise Save would
// report success and keep the old question.
func TestAChangedInterruptIsRefused(t *testing.T) {
	sv := saver.New(memory.New(nil))
	asked := segno.Interrupt{ID: "q", Tool: "send", Args: json.RawMessage(`{"to": "bob"}`), Question: "Send it?"}
	s, err := sv.Save(t.Context(), saver.Snapshot{ThreadKey: saver.ThreadKey{Thread: "t"}, Interrupts: []segno.Interrupt{asked}})
	if err != nil {
		t.Fatal(err)
	}
	s.Interrupts = []segno.Interrupt{asked}
	if s, err = sv.Save(t.Context(), s); err != nil {
		t.Fatalf("the same question once more: %v", err)
	}
	for name, change := range map[string]func(*segno.Interrupt){
		"arguments": func(i *segno.Interrupt) { i.Args = json.RawMessage(`{"to":"eve"}`) },
		"question":  func(i *segno.Interrupt) { i.Question = "Send it twice?" },
		"answers":   func(i *segno.Interrupt) { i.Allowed = []segno.DecisionKind{segno.Respond} },
	} {
		changed := s
		changed.Interrupts = []segno.Interrupt{asked}
		change(&changed.Interrupts[0])
		if _, err := sv.Save(t.Context(), changed); segno.KindOf(err) != segno.KindRefused || segno.HintOf(err) == "" {
			t.Errorf("other %s: %v", name, err)
		}
	}
}

// commitRecorder is a store that records the durability of each commit.
type commitRecorder struct {
	segno.Store
	seen []segno.Durability
}

func (r *commitRecorder) Commit(ctx context.Context, c segno.Commit) (segno.Head, error) {
	r.seen = append(r.seen, c.Durability)
	return r.Store.Commit(ctx, c)
}

// TestOnlySavesAreBatched saves with and without [segno.Batched]. Moves and forks are synced in any case.
func TestOnlySavesAreBatched(t *testing.T) {
	for _, d := range []segno.Durability{segno.Synced, segno.Batched} {
		store := &commitRecorder{Store: memory.New(nil)}
		sv := saver.New(store)
		sv.Durability = d
		at := saver.ThreadKey{Thread: "t"}
		first, err := sv.Save(t.Context(), saver.Snapshot{ThreadKey: at})
		second, err2 := sv.Save(t.Context(), first)
		err3 := sv.SaveWrites(t.Context(), second, "branch", saver.Write{Name: "a"})
		if err := errors.Join(err, err2, err3); err != nil {
			t.Fatal(err)
		}
		if want := []segno.Durability{d, d, d}; !slices.Equal(store.seen, want) {
			t.Errorf("saves have the durability %v, want %v", store.seen, want)
		}
		store.seen = nil
		_, err = sv.Undo(t.Context(), at, 1)
		_, err2 = sv.Redo(t.Context(), at, 1)
		_, err3 = sv.Restore(t.Context(), at, first.ID)
		_, err4 := sv.Fork(t.Context(), first.ID, saver.ThreadKey{Thread: "fork"})
		if err := errors.Join(err, err2, err3, err4); err != nil {
			t.Fatal(err)
		}
		if want := make([]segno.Durability, 4); !slices.Equal(store.seen, want) {
			t.Errorf("moves and a fork have the durability %v, want %v", store.seen, want)
		}
	}
}

// BenchmarkSaveOfALongConversation saves one more message of 2 KB onto 1,000 messages.
func BenchmarkSaveOfALongConversation(b *testing.B) {
	for _, n := range []int{1, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			sv := saver.New(memory.New(nil))
			message := json.RawMessage(`"` + strings.Repeat("x", 2048) + `"`)
			s := saver.Snapshot{ThreadKey: saver.ThreadKey{Thread: "t"}}
			for range n {
				s.Messages = append(s.Messages, slices.Clone(message))
			}
			s, err := sv.Save(b.Context(), s)
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				next := s
				next.Messages = append(s.Messages[:n:n], message)
				if s, err = sv.Save(b.Context(), next); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestAppendStoresOnlyTheNewMessages appends to a snapshot, to the same snapshot again, and to one with a changed message, which
// only the next Save stores.
func TestAppendStoresOnlyTheNewMessages(t *testing.T) {
	store := memory.New(nil)
	sv := saver.New(store)
	at := saver.ThreadKey{Thread: "t"}
	message := func(text string) json.RawMessage { return json.RawMessage(`"` + text + `"`) }
	save := func(s saver.Snapshot, err error) saver.Snapshot {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	is := func(s saver.Snapshot, want ...json.RawMessage) {
		t.Helper()
		loaded := save(sv.At(t.Context(), at, s.ID))
		for _, got := range [][]json.RawMessage{s.Messages, loaded.Messages} {
			if fmt.Sprintf("%s", got) != fmt.Sprintf("%s", want) {
				t.Errorf("the messages are %s, want %s", got, want)
			}
		}
	}
	first := save(sv.Append(t.Context(), saver.Snapshot{ThreadKey: at}, message("one"), message("two")))
	is(first, message("one"), message("two"))
	if same, err := sv.Append(t.Context(), first, message("half")[:3]); segno.KindOf(err) != segno.KindInvalid || len(same.Messages) != 2 || same.ID != first.ID {
		t.Errorf("after an error there are %d messages, %v", len(same.Messages), err)
	}
	aside := first
	aside.Aside = true
	second := save(sv.Append(t.Context(), first, message("three")))
	beside := save(sv.Append(t.Context(), aside, message("other")))
	is(second, message("one"), message("two"), message("three"))
	is(beside, message("one"), message("two"), message("other"))
	shorter := second
	shorter.Messages = second.Messages[:1]
	if _, err := sv.Append(t.Context(), shorter, message("four")); segno.KindOf(err) != segno.KindInvalid {
		t.Errorf("a snapshot without one of its messages: %v", err)
	}
	copy(second.Messages[0], `"ON"E`)
	bad := second
	bad.State = map[string]json.RawMessage{"plan": json.RawMessage(`{`)}
	if _, err := sv.Append(t.Context(), bad, message("four")); segno.KindOf(err) != segno.KindInvalid || strings.Contains(err.Error(), "message 1") {
		t.Errorf("a value that is not JSON, after a message that Append does not read: %v", err)
	}
	copy(second.Messages[0], `"ONE"`)
	third := save(sv.Append(t.Context(), second, message("four")))
	if loaded := save(sv.Load(t.Context(), at)); string(loaded.Messages[0]) != `"one"` || len(loaded.Messages) != 4 {
		t.Errorf("the messages are %s", loaded.Messages)
	}
	third = save(sv.Save(t.Context(), third))
	is(third, message("ONE"), message("two"), message("three"), message("four"))
}

// TestAppendDoesNotCopyTheConversation counts how often the array of the messages changes. Each change copies all of them.
func TestAppendDoesNotCopyTheConversation(t *testing.T) {
	sv := saver.New(memory.New(nil))
	s, moved := saver.Snapshot{ThreadKey: saver.ThreadKey{Thread: "t"}}, 0
	for i := range 1000 {
		longer, err := sv.Append(t.Context(), s, json.RawMessage(fmt.Sprint(i)))
		if err != nil {
			t.Fatal(err)
		}
		if i > 0 && &longer.Messages[0] != &s.Messages[0] {
			moved++
		}
		s = longer
	}
	if moved > 30 {
		t.Errorf("1,000 appends copied the conversation %d times", moved)
	}
}

// TestAQuestionThatIsNotUTF8 saves a question again with a text that is not UTF-8, as the program has it. The store has replacement
// characters in it.
func TestAQuestionThatIsNotUTF8(t *testing.T) {
	sv := saver.New(memory.New(nil))
	asked := segno.Interrupt{ID: "q\xff", Tool: "send", Question: "caf\xe9?", Choices: []string{"\xe9"}, Args: json.RawMessage(`{"to": "bob"}`)}
	s := saver.Snapshot{ThreadKey: saver.ThreadKey{Thread: "t"}}
	for range 2 {
		var err error
		s.Interrupts = []segno.Interrupt{asked}
		if s, err = sv.Save(t.Context(), s); err != nil || len(s.Interrupts) != 1 {
			t.Fatalf("%d questions, %v", len(s.Interrupts), err)
		}
	}
	s.Decisions = []segno.Decision{{Interrupt: asked.ID, Kind: segno.Respond, Text: "\xe9"}}
	if s, err := sv.Save(t.Context(), s); err != nil || len(s.Interrupts) != 0 {
		t.Errorf("%d questions, %v", len(s.Interrupts), err)
	}
}
