package agent

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/dalsegno/segno"
)

// Summarize says when the model is shown a summary in place of old messages. The
// messages themselves stay in the log.
type Summarize struct {
	Above int // tokens of a request, as far as they can be told; 0 is 170,000, negative never
	Keep  int // the newest messages that are shown as they are; 0 or less is 6
	Model Model
}

// summary stands for the first messages of a conversation.
type summary struct {
	Covers int    `json:"covers"` // how many messages
	Text   string `json:"text"`
}

const summarizePrompt = "Summarize this conversation for yourself: the task, what was decided, what was done and with what result, facts to remember, what is still to do. Answer with the summary alone.\n\nsummarize"

// newest returns the newest summary of the line, and where it was made.
func (r *run) summarized() summary {
	var s summary
	if _, err := r.values.Get(summaryKey, &s); err != nil || s.Covers > len(r.msgs) {
		return summary{}
	}
	return s
}

// summaryKey is where the state has the summary in force, so that it follows the
// line like everything else.
const summaryKey = ".summary"

// showAll works out what the model is shown of the conversation: the summary, then
// the messages after it.
func (r *run) showAll() {
	r.shown, r.cost = nil, len(r.System)
	s := r.summarized()
	if s.Covers > 0 {
		r.show(Text("Summary of the conversation so far:\n" + s.Text))
	}
	for _, m := range r.msgs[s.Covers:] {
		r.show(m)
	}
}

// show adds a message to what the model is shown. The results of one message's calls
// stand together, in the order of the calls.
func (r *run) show(m Message) {
	r.cost += size(&m)
	last := len(r.shown) - 1
	if m.Role != ToolRole || last < 0 {
		r.shown = append(r.shown, m)
		return
	}
	if r.shown[last].Role != ToolRole {
		r.shown = append(r.shown, m)
		last++
	} else {
		// What a model was given before keeps its parts.
		r.shown[last].Parts = slices.Concat(r.shown[last].Parts, m.Parts)
	}
	if last > 0 {
		r.shown[last].Parts = inOrder(r.shown[last-1].Calls(), r.shown[last].Parts)
	}
}

// inOrder sorts results as their calls were made.
func inOrder(calls []Call, parts []Part) []Part {
	place := make(map[string]int, len(calls))
	for i, c := range calls {
		place[c.ID] = i
	}
	for _, p := range parts {
		if p.Result == nil {
			return parts
		}
		if _, ok := place[p.Result.Call]; !ok {
			return parts
		}
	}
	return slices.SortedStableFunc(slices.Values(parts), func(a, b Part) int { return place[a.Result.Call] - place[b.Result.Call] })
}

// summarize has old messages summed up if the next request would be too long. A
// call is never parted from its result.
func (r *run) summarize(ctx context.Context) error {
	above, keep := r.Summarize.Above, r.Summarize.Keep
	if above == 0 {
		above = 170_000
	}
	if keep <= 0 {
		keep = 6
	}
	if above < 0 || r.unsummed || tokens(r.cost) <= above {
		return nil
	}
	cut := r.cut(len(r.msgs) - keep)
	before := r.summarized()
	if cut <= before.Covers {
		return nil
	}
	text, err := r.sumUp(ctx, cut)
	if err != nil {
		return fmt.Errorf("summarize: %w", err)
	}
	if text == "" {
		r.unsummed = true // the conversation stays as it is, and the model is not asked at every step
		return r.commit(ctx, nil)
	}
	s := summary{Covers: cut, Text: text}
	if err := r.values.set(summaryKey, s); err != nil {
		return err
	}
	body, err := segno.Encode(s)
	if err != nil {
		return fmt.Errorf("record summary: %w", err)
	}
	if err := r.draft(segno.Entry{Kind: segno.EntryNote, Name: noteSummary, Body: body}); err != nil {
		return err
	}
	r.showAll()
	return r.commit(ctx, nil)
}

// cut moves a place in the conversation back to where no call waits for its result.
func (r *run) cut(at int) int {
	for ; at > 0; at-- {
		if r.msgs[at].Role != ToolRole {
			return at
		}
	}
	return 0
}

// usageOfSummary is the id of the usage entry of a summary.
const usageOfSummary = "summary"

// sumUp asks for a summary of the messages up to a place; "" if the model gives none.
func (r *run) sumUp(ctx context.Context, cut int) (string, error) {
	asker := *r.Agent
	if r.Summarize.Model != nil {
		asker.Model = r.Summarize.Model
	}
	old := &run{Agent: &asker, stop: nobody(), thread: r.thread, state: r.state, values: r.values, msgs: r.msgs[:cut], turn: r.turn}
	old.showAll()
	q := Request{System: r.System, Messages: append(old.shown, Text(summarizePrompt)), Tools: r.specs, NoCalls: true, Thread: string(r.thread)}
	reply, err := old.generate(ctx, q)
	if err != nil {
		return "", err
	}
	if err := r.used(asker.Model, reply.Usage); err != nil {
		return "", err
	}
	r.entries[len(r.entries)-1].ID = usageOfSummary
	text := strings.TrimSpace(reply.Message.Text())
	switch {
	case reply.Stop == StopRefusal:
		text = ""
	case reply.Stop == StopLength && text != "":
		text += " … (cut short here)"
	}
	return text, nil
}

// tokens estimates what so many bytes cost.
func tokens(bytes int) int { return bytes / 4 }

// size is how many bytes a message costs: an image counts as about what providers
// take for one.
func size(m *Message) (n int) {
	const image = 4 * 1600
	for i := range m.Parts {
		p := &m.Parts[i]
		n += len(p.Text)
		switch {
		case p.Call != nil:
			n += len(p.Call.Name) + len(p.Call.Args)
		case p.Result != nil:
			n += len(p.Result.Text) + size(&Message{Parts: p.Result.Parts})
		case p.Thinking != nil:
			n += len(p.Thinking.Text) + len(p.Thinking.Data)
		case p.Image != nil:
			n += image
		case p.File != nil:
			n += len(p.File.Data)
		}
	}
	return n
}

// cutText returns the beginning and the end of a text, cut between characters.
func cutText(s string, head, tail int) (string, string) {
	for head > 0 && !utf8.RuneStart(s[head]) {
		head--
	}
	from := len(s) - tail
	for from < len(s) && !utf8.RuneStart(s[from]) {
		from++
	}
	return s[:head], s[from:]
}

// fileName makes a name of anything, and two of two.
func fileName(s string) string {
	name := strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' {
			return c
		}
		return '_'
	}, s)
	const most = 64
	if name == s && len(s) <= most {
		return name
	}
	return name[:min(len(name), most)] + "-" + segno.DerivedID(s)[:8]
}
