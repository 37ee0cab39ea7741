package transcript_test

import (
	"context"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/testing/recording"
	"github.com/dalsegno/segno/store/memory"
	"github.com/dalsegno/segno/transcript"
	"github.com/dalsegno/segno/transcript/claude"
	"github.com/dalsegno/segno/transcript/codex"
)

// agent is a transcript that reads and writes conversations.
type agent interface {
	segno.Transcript
	transcript.ConversationReader
	transcript.ConversationWriter
}

// homes has an empty home of each agent, and a store.
type homes struct {
	*testing.T
	ctx    context.Context
	agents map[string]agent
	paths  map[string]string
	store  *memory.Store
}

func newHomes(t *testing.T) *homes {
	h := &homes{T: t, ctx: t.Context(), paths: map[string]string{}, store: memory.New(nil)}
	t.Cleanup(func() { h.store.Close() })
	for _, name := range []string{claude.Agent, codex.Agent} {
		h.paths[name] = filepath.Join(t.TempDir(), "home")
	}
	h.agents = map[string]agent{claude.Agent: claude.New(h.paths[claude.Agent], claude.Options{}), codex.Agent: codex.New(h.paths[codex.Agent], codex.Options{})}
	return h
}

func (h *homes) capture(name string, src segno.Source) segno.Captured {
	h.Helper()
	batch := h.store.Objects().Batch()
	defer batch.Close()
	got, err := h.agents[name].Capture(h.ctx, src, nil, batch, nil)
	if err != nil {
		h.Fatal(err)
	}
	staged, err := batch.Stage(h.ctx)
	if err == nil {
		err = h.store.Objects().Keep(h.ctx, staged)
	}
	if err != nil {
		h.Fatal(err)
	}
	return got
}

func (h *homes) read(name string, p segno.Position, after string) transcript.Conversation {
	h.Helper()
	c, err := h.agents[name].ReadConversation(h.ctx, p, after, h.store.Objects())
	if err != nil {
		h.Fatal(err)
	}
	return c
}

func (h *homes) write(name string, c transcript.Conversation, p *segno.Position, id segno.SessionID) segno.Position {
	h.Helper()
	src, err := h.agents[name].WriteConversation(h.ctx, c, p, segno.Target{Session: id, Dir: "/srv/proj"}, h.store.Objects())
	if err != nil {
		h.Fatal(err)
	}
	got := h.capture(name, src)
	if len(got.Damage) > 0 || got.Position.Leaf == "" {
		h.Errorf("the written session is captured as %+v", got)
	}
	if ok, err := h.agents[name].EndsAt(h.ctx, src, got.Position); err != nil || !ok {
		h.Errorf("the agent would not continue from the end: %v", err)
	}
	return got.Position
}

// items has the form of [recording.Items].
func items(c transcript.Conversation) (out []string) {
	encode := func(item ...any) {
		var b strings.Builder
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		if err := e.Encode(item); err != nil {
			panic(err) // texts and decoded JSON
		}
		out = append(out, b.String())
	}
	for _, m := range c.Messages {
		for _, p := range m.Parts {
			switch {
			case p.Call != nil:
				var input any
				_ = json.Unmarshal(p.Call.Input, &input)
				encode("tool_use", p.Call.ID, p.Call.Name, input)
			case p.Result != nil:
				var texts []string
				for _, part := range p.Result.Parts {
					texts = append(texts, part.Text)
				}
				encode("tool_result", p.Result.Call, strings.Join(texts, "\n"), p.Result.IsError)
			case p.Interruption:
				encode("interruption")
			case strings.HasPrefix(p.Text, "<local-command-caveat>"): // recorded contexts leave it out
			default:
				encode(string(m.Role), strings.TrimRight(p.Text, "\n"))
			}
		}
	}
	return out
}

const (
	firstID  = "7f3ad0a5-4a4c-4d55-a6ab-0b1f0b7f7b11"
	secondID = "7f3ad0a5-4a4c-4d55-a6ab-0b1f0b7f7b12"
	thirdID  = "7f3ad0a5-4a4c-4d55-a6ab-0b1f0b7f7b13"
)

// TestRecordedConversations reads each recorded session, writes it as a session of the other agent, and
// reads that one. The conversation must be what the real agent sent when it resumed the recorded session.
// Then the test continues the recorded session with messages behind it.
func TestRecordedConversations(t *testing.T) {
	all, err := recording.All()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		if s.Context == nil {
			continue
		}
		t.Run(s.Agent+"/"+s.Name, func(t *testing.T) {
			h := newHomes(t)
			if err := s.Install(h.paths[s.Agent]); err != nil {
				t.Fatal(err)
			}
			got := h.capture(s.Agent, segno.Source{Session: segno.SessionID(s.ID)})
			c := h.read(s.Agent, got.Position, "")
			if diff := cmp.Diff(travelling(s.Context), items(c)); diff != "" {
				t.Errorf("the conversation (-agent +read):\n%s", diff)
			}
			other := codex.Agent
			if s.Agent == codex.Agent {
				other = claude.Agent
			}
			p := h.write(other, c, nil, firstID)
			again := h.read(other, p, "")
			if diff := cmp.Diff(items(c), items(again)); diff != "" {
				t.Errorf("the conversation in %s (-before +after):\n%s", other, diff)
			}
			more := transcript.Conversation{Messages: []transcript.Message{{Role: transcript.User, Prompt: true, Parts: []transcript.Part{text("more")}},
				{Role: transcript.Assistant, Parts: []transcript.Part{text("said")}}}}
			q := h.write(s.Agent, more, &got.Position, thirdID)
			if diff := cmp.Diff(append(items(c), items(more)...), items(h.read(s.Agent, q, ""))); diff != "" {
				t.Errorf("behind its own session (-want +got):\n%s", diff)
			}
			// Messages of a turn that did not begin properly are behind the leaf, too.
			behind := items(h.read(s.Agent, q, got.Position.Leaf))
			if n := len(behind); n < 2 || n > 3 || !slices.Equal(behind[n-2:], items(more)) {
				t.Errorf("the part behind it is %q", behind)
			}
			p = h.write(s.Agent, again, nil, secondID)
			if diff := cmp.Diff(items(c), items(h.read(s.Agent, p, ""))); diff != "" {
				t.Errorf("the conversation after the return (-before +after):\n%s", diff)
			}
		})
	}
}

// travelling returns the items that reach the other agent: all except thoughts, and the two that Claude
// Code adds when it resumes an interrupted turn.
func travelling(context []string) (out []string) {
	added := []string{"[\"user\",\"Continue from where you left off.\"]\n", "[\"assistant\",\"No response requested.\"]\n"}
	if n := len(context); n >= 2 && slices.Equal(context[n-2:], added) {
		context = context[:n-2]
	} else if n >= 1 && context[n-1] == added[1] {
		context = context[:n-1]
	}
	for _, item := range context {
		switch {
		case strings.HasPrefix(item, `["user","[Request interrupted by user`), strings.HasPrefix(item, `["user","<turn_aborted>`):
			out = append(out, "[\"interruption\"]\n")
		case !strings.HasPrefix(item, `["think"`):
			out = append(out, item)
		}
	}
	return out
}
