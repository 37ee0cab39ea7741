package proxy

import (
	"context"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/acp"
	"github.com/dalsegno/segno/internal/preamble"
	"github.com/dalsegno/segno/timeline"
)

// history is what an agent replays of the turns that a session had before segno saw it.
// For an agent without a transcript that can be read here it is the only record of them.
type history struct {
	turns  []segno.TranscriptTurn // oldest first; the newest may still grow
	now    *turn                  // collects what the agent said and did in the newest
	prompt string                 // of the newest
	within bool                   // the prompt goes on
	id     string                 // of the prompt's message, if the agent gives one

	size  int // about how much memory the entries take
	short int // how many turns, from the first, were shortened
}

// maxHistory is about how much memory the entries of a history take.
const maxHistory = 64 << 20

// entrySize is about how much memory an entry takes beside its body.
const entrySize = 256

// hear takes an update of the replay.
func (h *history) hear(m acp.Message) {
	update := m.Find(m.Params, "update")
	kind := m.Text(m.Find(update, "sessionUpdate"))
	switch kind {
	case "user_message_chunk":
		id := m.Text(m.Find(update, "messageId"))
		if !h.within || id != h.id && id != "" {
			h.begin()
			h.within, h.id = true, id
		} else {
			h.prompt += "\n"
		}
		h.prompt += blockText(m, m.Find(update, "content"))
		return
	case "agent_message_chunk", "tool_call", "tool_call_update", "plan":
		if h.within = false; h.now == nil {
			h.begin() // the agent has dropped the prompt, or summarises what it has dropped
		}
		h.now.observe(kind, m, update)
	}
}

// begin ends the newest turn and begins the next one.
func (h *history) begin() {
	h.end()
	h.prompt = ""
	at := len(h.turns)
	h.turns = append(h.turns, segno.TranscriptTurn{})
	h.now = &turn{used: map[string]bool{}, heard: heard{calls: map[string]*call{}}, record: func(e segno.Entry) {
		h.turns[at].Entries = append(h.turns[at].Entries, e)
		h.size += entrySize + len(e.Body)
		h.shorten()
	}}
}

// shorten leaves out what the agent did in the oldest turns while the history is too large.
// Their prompts and last answers stay.
func (h *history) shorten() {
	for ; h.size > maxHistory && h.short < len(h.turns)-1; h.short++ {
		t := &h.turns[h.short]
		last := -1
		for i, e := range t.Entries {
			h.size -= entrySize + len(e.Body)
			if e.Kind == segno.EntryMessage {
				last = i
			}
		}
		var kept []segno.Entry
		for i, e := range t.Entries {
			if e.Kind == segno.EntryMessage && (e.Name == "user" || i == last) || e.Kind == segno.EntryNote && e.Name == "end" {
				kept = append(kept, e)
			}
		}
		if len(kept) < len(t.Entries) {
			kept = append(kept, segno.Entry{Kind: segno.EntryNote, Name: "segno", Body: acp.Encode("what the agent did in this turn was left out: the conversation is too long")})
		}
		for _, e := range kept {
			h.size += entrySize + len(e.Body)
		}
		t.Entries = kept
	}
}

// end completes the newest turn.
func (h *history) end() {
	if h.now == nil {
		return
	}
	t, earlier := h.now, &h.turns[len(h.turns)-1]
	h.now, h.within = nil, false
	t.noteText()
	t.noteEnd()
	earlier.Prompt = preamble.StripPreamble(h.prompt)
	if earlier.Prompt != "" {
		asked := segno.Entry{Kind: segno.EntryMessage, Name: "user", Body: clipText(earlier.Prompt)}
		earlier.Entries = append([]segno.Entry{asked}, earlier.Entries...)
	}
}

// needsHistory reports whether the session may have turns that only the agent knows: it
// is not one of segno's, and its transcript cannot be read here.
func (s *session) needsHistory() bool {
	return s.thread == "" && s.page.Foreign && s.history == nil && s.proxy.store.Transcripts()[s.page.Agent] == nil
}

// openThread makes the session's thread, with the turns that the agent replayed.
func (s *session) openThread(ctx context.Context, title string) error {
	site, err := s.site(ctx)
	if err != nil {
		return err
	}
	unheard := s.needsHistory()
	o := timeline.Adoption{Agent: s.page.Agent, Source: segno.Source{Session: s.page.Upstream, Dir: s.page.Dir}, Title: title, Name: s.page.Name}
	if s.history != nil {
		o.Earlier = s.history.turns
	}
	if s.thread, err = site.AdoptSession(ctx, o); err != nil {
		return err
	}
	s.page.Thread, s.page.Unheard, s.history = s.thread, unheard, nil
	if s.page.Title == "" {
		s.page.Title = timeline.Title(title)
	}
	return s.proxy.book.write(s.page)
}

// heardAll ends a replay of the turns from before segno.
func (s *session) heardAll() {
	if s.listens = false; s.history != nil {
		s.history.end()
	}
}
