package proxy

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/proxy/acp"
	"github.com/dalsegno/segno/internal/proxy/preamble"
)

const (
	maxHistory    = 64 << 20 // approximate memory limit for the entries of a replay
	entryOverhead = 256      // approximate memory of an entry, beside its body
)

// replayReader collects the turns that an agent replays when it loads a session. The turns
// serve three purposes. They are the only record of the turns from before segno if the
// transcript cannot be read here. Their prompts show whether the agent still has a
// conversation. The newest one shows which part of the turn a killed agent has lost.
type replayReader struct {
	promptsOnly bool
	required    map[string]int // how often the agent must replay a prompt, see [replayReader.isComplete]

	prompts  []string               // in replayed form, oldest first; the agent may have joined some
	normal   []string               // the first prompts, normalized; see [replayReader.normalPrompts]
	turns    []segno.TranscriptTurn // oldest first; the newest may still grow
	log      *turnLog               // of the newest turn, nil if it ended
	inPrompt bool                   // the prompt of the newest turn continues
	id       string                 // of the prompt's message, if the agent gives one
	prompt   string                 // of the newest turn

	size      int // approximate memory of the entries
	shortened int // the number of shortened turns, from the first
}

// observe collects one update of the replay.
func (r *replayReader) observe(m acp.Message) {
	update := m.Find(m.Params, "update")
	kind := m.Text(m.Find(update, "sessionUpdate"))
	switch kind {
	case "user_message_chunk":
		id := m.Text(m.Find(update, "messageId"))
		if !r.inPrompt || id != r.id && id != "" {
			r.beginTurn()
			r.inPrompt, r.id = true, id
			r.prompts = append(r.prompts, "")
		} else {
			r.prompt += "\n"
		}
		r.prompt += blockText(m, m.Find(update, "content"))
		r.prompts[len(r.prompts)-1] += m.Text(m.Find(update, "content", "text")) + "\n"
		r.normal = r.normal[:min(len(r.normal), len(r.prompts)-1)]
	case "agent_message_chunk", "agent_thought_chunk", "tool_call", "tool_call_update", "plan":
		if r.inPrompt = false; r.log == nil {
			r.beginTurn() // the agent has dropped the prompt, or this is its summary of dropped turns
		}
		if !r.promptsOnly {
			r.log.add(kind, m, update)
		}
	}
}

// beginTurn is called at each prompt, and at output without a prompt. It ends the newest
// turn and begins the next one.
func (r *replayReader) beginTurn() {
	r.endTurn()
	r.prompt = ""
	at := len(r.turns)
	r.turns = append(r.turns, segno.TranscriptTurn{})
	log := newTurnLog(func(e segno.Entry) {
		r.turns[at].Entries = append(r.turns[at].Entries, e)
		r.size += entryOverhead + len(e.Body)
		r.shorten()
	})
	r.log = &log
}

// endTurn completes the newest turn.
func (r *replayReader) endTurn() {
	if r.log == nil {
		return
	}
	log, turn := r.log, &r.turns[len(r.turns)-1]
	r.log, r.inPrompt = nil, false
	log.recordThought()
	log.recordText()
	log.addEnd("")
	turn.Prompt = preamble.StripPreamble(r.prompt)
	if turn.Prompt != "" {
		turn.Entries = slices.Insert(turn.Entries, 0, segno.Entry{Kind: segno.EntryMessage, Name: "user", Body: clipText(turn.Prompt)})
	}
}

// shorten drops the entries of the oldest turns while the replay is too large. Their prompts
// and last answers stay.
func (r *replayReader) shorten() {
	for ; r.size > maxHistory && r.shortened < len(r.turns)-1; r.shortened++ {
		t := &r.turns[r.shortened]
		last := -1
		for i, e := range t.Entries {
			r.size -= entryOverhead + len(e.Body)
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
			kept = append(kept, note("what the agent did in this turn was left out: the conversation is too long"))
		}
		for _, e := range kept {
			r.size += entryOverhead + len(e.Body)
		}
		t.Entries = kept
	}
}

// expectTurns returns a reader that requires the first and the last complete turn of an
// agent's session. A session that has both counts as having the turns between. If several
// turns had the same prompt, the agent must replay the prompt as often. If a session that began with a
// preamble has no complete turn, the reader requires the prompt that contained the preamble. last may be nil.
func (l *sessionStore) expectTurns(ctx context.Context, up segno.SessionID, last *segno.Checkpoint) (*replayReader, error) {
	r := &replayReader{promptsOnly: true, required: map[string]int{}}
	if last == nil {
		return r, nil
	}
	query := segno.CheckpointQuery{Thread: last.Thread, Session: up}
	turns, err := collect(l.proxy.store.Checkpoints(ctx, query), func(c *segno.Checkpoint) bool {
		return c.Kind == segno.CheckpointTurn && promptKey(c.Prompt) != ""
	})
	if err != nil || len(turns) == 0 {
		return r, err
	}
	first := promptKey(turns[len(turns)-1].Prompt)
	turns = slices.DeleteFunc(turns, func(c segno.Checkpoint) bool { return c.Interrupted })
	if len(turns) == 0 {
		began, err := l.beganWithPreamble(ctx, up)
		if began {
			r.required[first] = 1
		}
		return r, err
	}
	newest, oldest := promptKey(turns[0].Prompt), promptKey(turns[len(turns)-1].Prompt)
	for _, c := range turns {
		if key := promptKey(c.Prompt); key == newest || key == oldest {
			r.required[key]++
		}
	}
	return r, nil
}

// isComplete reports whether all required prompts were replayed. It is a heuristic, because
// the proxy receives only the prompts that the agent shows. It never accepts a replay that
// lacks the first or the last turn.
func (r *replayReader) isComplete() bool {
	for prompt, n := range r.required {
		for _, p := range r.normalPrompts() {
			n -= strings.Count(p, prompt)
		}
		if n > 0 {
			return false
		}
	}
	return true
}

// normalPrompts returns the replayed prompts with normal space. It normalizes each of them once: a caller may search for every prompt of
// a long conversation.
func (r *replayReader) normalPrompts() []string {
	for _, p := range r.prompts[len(r.normal):] {
		r.normal = append(r.normal, normalSpace(p))
	}
	return r.normal
}

// hasPrompt reports whether a prompt was replayed.
func (r *replayReader) hasPrompt(prompt string) bool {
	key := searchKey(prompt)
	return slices.ContainsFunc(r.normalPrompts(), func(p string) bool { return strings.Contains(p, key) })
}

// endsWith reports whether the newest replayed prompt contains prompt.
func (r *replayReader) endsWith(prompt string) bool {
	return len(r.prompts) > 0 && isPrompt(r.prompts[len(r.prompts)-1], prompt)
}

// isPrompt reports whether a replayed prompt contains the identifying part of prompt.
func isPrompt(replayed, prompt string) bool {
	return strings.Contains(normalSpace(replayed), searchKey(prompt))
}

// searchKey is the part of a prompt that a replayed prompt contains.
func searchKey(prompt string) string { return cmp.Or(promptKey(prompt), normalSpace(prompt)) }

// promptKey is the part of a prompt that identifies it: agents cut long prompts, and show
// attachments in ways that differ. It is "" for a prompt without text.
func promptKey(prompt string) string {
	const enough = 200
	longest, words := "", ""
	for line := range strings.Lines(prompt) {
		if words += line; isAttachment(strings.TrimSpace(line)) {
			words = ""
		}
		if len(words) > len(longest) {
			longest = words
		}
	}
	r := []rune(normalSpace(longest))
	return string(r[:min(len(r), enough)])
}

// isAttachment reports whether a line of a prompt may be an attachment; see [promptText].
func isAttachment(line string) bool {
	if kind, ok := strings.CutPrefix(line, "["); ok {
		kind, ok = strings.CutSuffix(kind, "]")
		return ok && kind != "" && !strings.ContainsAny(kind, " \t[]")
	}
	scheme, _, ok := strings.Cut(line, "://")
	return ok && scheme != "" && !strings.ContainsAny(line, " \t")
}

// normalSpace replaces each run of space by one blank.
func normalSpace(text string) string { return strings.Join(strings.Fields(text), " ") }

// promptText is the text of a prompt. If attachments is set, it also has a line for each
// attachment.
func promptText(m acp.Message, attachments bool) string {
	var parts []string
	m.Elements(m.Find(m.Params, "prompt"), func(block acp.Span) {
		if attachments || m.Text(m.Find(block, "type")) == "text" {
			parts = append(parts, blockText(m, block))
		}
	})
	return strings.Join(parts, "\n")
}

// blockText is the text of a content block.
func blockText(m acp.Message, block acp.Span) string {
	switch kind := m.Text(m.Find(block, "type")); kind {
	case "text":
		return m.Text(m.Find(block, "text"))
	case "resource_link":
		return m.Text(m.Find(block, "uri"))
	case "resource":
		return m.Text(m.Find(block, "resource", "uri"))
	default:
		return "[" + kind + "]"
	}
}
