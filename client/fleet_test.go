package client_test

import (
	"context"
	"encoding/json"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/client"
	"github.com/dalsegno/segno/internal/web"
	"github.com/dalsegno/segno/internal/web/wire"
	"github.com/dalsegno/segno/store/sqlite"
)

// mailboxes is a fleet without workers, which keeps its prompts in memory: the API is tested apart from the database.
type mailboxes struct {
	prompts   []wire.Prompt
	texts     map[string]string
	decisions map[segno.ThreadID][]segno.Decision
	signals   map[string]wire.Signal
}

func (m *mailboxes) find(thread segno.ThreadID, key string) *wire.Prompt {
	i := slices.IndexFunc(m.prompts, func(p wire.Prompt) bool { return p.Thread == thread && p.Key == key })
	if i < 0 {
		return nil
	}
	return &m.prompts[i]
}

func (m *mailboxes) Send(_ context.Context, thread segno.ThreadID, key string, p wire.SendPrompt) (wire.Prompt, error) {
	id := string(thread) + "\x00" + key
	if was := m.find(thread, key); was != nil {
		if m.texts[id] != p.Text {
			return wire.Prompt{}, segno.Errorf(segno.KindConflict, "send prompt", key, "the key was used for another prompt")
		}
		return *was, nil
	}
	m.texts[id] = p.Text
	m.prompts = append(m.prompts, wire.Prompt{Thread: thread, Key: key, Agent: p.Agent, Actor: p.Actor, N: int64(len(m.prompts) + 1), State: wire.PromptSent, New: true})
	return m.prompts[len(m.prompts)-1], nil
}

func (m *mailboxes) Prompts(_ context.Context, q wire.PromptQuery) (list wire.PromptList, _ error) {
	for _, p := range slices.Backward(m.prompts) {
		if q.Thread != "" && p.Thread != q.Thread || q.Key != "" && p.Key != q.Key || len(q.States) > 0 && !slices.Contains(q.States, p.State) ||
			q.Before > 0 && p.N >= q.Before {
			continue
		}
		if len(list.Prompts) == q.Limit {
			list.Next = strconv.FormatInt(list.Prompts[q.Limit-1].N, 10)
			break
		}
		list.Prompts = append(list.Prompts, p)
	}
	return list, nil
}

func (m *mailboxes) change(thread segno.ThreadID, key, state string) (wire.Prompt, error) {
	p := m.find(thread, key)
	if p == nil {
		return wire.Prompt{}, segno.NewError(segno.KindNotFound, "find prompt", key, nil)
	}
	p.State = state
	return *p, nil
}

func (m *mailboxes) Retry(_ context.Context, thread segno.ThreadID, key string) (wire.Prompt, error) {
	return m.change(thread, key, wire.PromptSent)
}

func (m *mailboxes) Cancel(_ context.Context, thread segno.ThreadID, key string) (wire.Prompt, error) {
	return m.change(thread, key, wire.PromptCancelled)
}

func (m *mailboxes) Decide(_ context.Context, thread segno.ThreadID, d wire.Decisions) error {
	m.decisions[thread] = append(m.decisions[thread], d.Decisions...)
	return nil
}

func (m *mailboxes) Signal(_ context.Context, _ segno.ThreadID, key string, s wire.Signal) error {
	m.signals[key] = s
	return nil
}

func (m *mailboxes) Inbox(context.Context, string, int) (wire.QuestionList, error) {
	return wire.QuestionList{Questions: []wire.Question{{Thread: "t", Interrupt: segno.Interrupt{ID: "i"}}}}, nil
}

func (m *mailboxes) FleetStatus(context.Context) (wire.FleetStatus, error) {
	return wire.FleetStatus{Open: []wire.FleetCount{{State: wire.PromptSent, Count: int64(len(m.prompts))}}}, nil
}

// The client reaches every mailbox through the API, also one of a thread whose id has characters with a meaning in an address.
func TestPrompts(t *testing.T) {
	ctx := t.Context()
	db, err := sqlite.Open(ctx, filepath.Join(t.TempDir(), "segno.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	fleet := &mailboxes{texts: map[string]string{}, decisions: map[segno.ThreadID][]segno.Decision{}, signals: map[string]wire.Signal{}}
	address, token, stop := serve(t, web.Config{Store: db, Kind: "postgres", Fleet: fleet})
	defer stop()
	s, err := client.New(address, token)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	const thread, key = "ann's order/17 ?ä%2F", "key/1 %"
	for i := range 2 { // the same request twice is one prompt
		p, err := s.Send(ctx, thread, key, client.SendPrompt{Text: "hello", Agent: "support"})
		if err != nil || p.Thread != thread || p.Key != key || p.Agent != "support" || p.Actor != segno.ActorHTTP || len(fleet.prompts) != 1 {
			t.Errorf("request %d returns %+v, %v", i, p, err)
		}
	}
	if _, err := s.Send(ctx, thread, key, client.SendPrompt{Text: "other"}); segno.KindOf(err) != segno.KindConflict {
		t.Errorf("another prompt with the same key returns %v", err)
	}
	for _, x := range []struct{ key, text string }{{"", "text"}, {"k", ""}, {"k", " \n"}} {
		if _, err := s.Send(ctx, thread, x.key, client.SendPrompt{Text: x.text}); segno.KindOf(err) != segno.KindInvalid {
			t.Errorf("the key %q with the prompt %q returns %v", x.key, x.text, err)
		}
	}
	for _, key := range []string{"k2", "k3"} {
		if _, err := s.Send(ctx, "t", key, client.SendPrompt{Text: "hello"}); err != nil {
			t.Fatal(err)
		}
	}
	one, err := s.Prompts(ctx, client.PromptQuery{Thread: thread, Key: key})
	if err != nil || len(one.Prompts) != 1 || one.Prompts[0].Key != key {
		t.Errorf("the prompt is %+v, %v", one, err)
	}
	if none, err := s.Prompts(ctx, client.PromptQuery{Thread: thread, Key: "none"}); err != nil || len(none.Prompts) != 0 {
		t.Errorf("an unknown prompt is %+v, %v", none, err)
	}
	first, err := s.Prompts(ctx, client.PromptQuery{Limit: 2})
	if err != nil || len(first.Prompts) != 2 || first.Next == "" {
		t.Fatalf("the first window is %+v, %v", first, err)
	}
	before, err := strconv.ParseInt(first.Next, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	rest, err := s.Prompts(ctx, client.PromptQuery{Limit: 2, Before: before})
	if err != nil || len(rest.Prompts) != 1 || rest.Prompts[0].Key != key || rest.Next != "" {
		t.Errorf("the second window is %+v, %v", rest, err)
	}
	if p, err := s.Cancel(ctx, thread, key); err != nil || p.State != wire.PromptCancelled {
		t.Errorf("cancel returns %+v, %v", p, err)
	}
	if list, err := s.Prompts(ctx, client.PromptQuery{Thread: thread, States: []string{wire.PromptCancelled}}); err != nil || len(list.Prompts) != 1 {
		t.Errorf("the cancelled prompts are %+v, %v", list, err)
	}
	if _, err := s.Prompts(ctx, client.PromptQuery{States: []string{"odd"}}); segno.KindOf(err) != segno.KindInvalid {
		t.Errorf("an unknown state returns %v", err)
	}
	if p, err := s.Retry(ctx, thread, key); err != nil || p.State != wire.PromptSent {
		t.Errorf("retry returns %+v, %v", p, err)
	}
	if _, err := s.Retry(ctx, thread, "none"); segno.KindOf(err) != segno.KindNotFound {
		t.Errorf("retry of an unknown prompt returns %v", err)
	}
	if err := s.Decide(ctx, thread, client.Decisions{}); segno.KindOf(err) != segno.KindInvalid {
		t.Errorf("no decision returns %v", err)
	}
	d := client.Decisions{Decisions: []segno.Decision{{Interrupt: "i", Kind: segno.Approve}}}
	if err := s.Decide(ctx, thread, d); err != nil || len(fleet.decisions[thread]) != 1 || fleet.decisions[thread][0].Actor != segno.ActorHTTP {
		t.Errorf("the decisions are %+v, %v", fleet.decisions, err)
	}
	if err := s.Signal(ctx, thread, "s1", client.Signal{Name: "paid", Value: json.RawMessage(`{"eur":5}`)}); err != nil || string(fleet.signals["s1"].Value) != `{"eur":5}` {
		t.Errorf("the signals are %+v, %v", fleet.signals, err)
	}
	if list, err := s.Inbox(ctx, "", 10); err != nil || len(list.Questions) != 1 || list.Questions[0].Interrupt.ID != "i" {
		t.Errorf("the inbox is %+v, %v", list, err)
	}
	if status, err := s.FleetStatus(ctx); err != nil || len(status.Open) != 1 || status.Open[0].Count != 3 {
		t.Errorf("the status is %+v, %v", status, err)
	}
}

// A store whose threads no workers run has no mailboxes, and the error says so.
func TestPromptsNeedAFleet(t *testing.T) {
	db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "segno.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	address, token, stop := serve(t, web.Config{Store: db, Kind: "sqlite"})
	defer stop()
	s, err := client.New(address, token)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Send(t.Context(), "t", "k", client.SendPrompt{Text: "hello"}); segno.KindOf(err) != segno.KindInvalid || segno.HintOf(err) == "" {
		t.Errorf("a store without a fleet returns %v", err)
	}
	if _, err := s.FleetStatus(t.Context()); segno.KindOf(err) != segno.KindInvalid {
		t.Errorf("its status is %v", err)
	}
}
