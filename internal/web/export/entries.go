package export

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/internal/proxy/preamble"
	"github.com/dalsegno/segno/timeline"
)

// readEntries reads the entries that hooks or the proxy recorded.
func (t *Turn) readEntries(commits []segno.Node) {
	prompted := false
	for i := range commits {
		for _, e := range commits[i].Entries {
			if t.Start.IsZero() {
				t.Start = e.Time
			}
			switch e.Kind {
			case segno.EntryIntent:
				t.addIntent(e)
			case segno.EntryResult:
				t.addResult(e)
			case segno.EntryMessage:
				if e.Name == "user" && !prompted {
					prompted = true
					if t.Prompt == "" {
						t.Prompt = preamble.TextOf(e.Body)
					}
					continue
				}
				t.addMessage(e)
			case segno.EntryNote:
				t.addNote(e)
			}
		}
	}
}

func (t *Turn) addIntent(e segno.Entry) {
	c := &Call{ID: e.ID, Tool: e.Name, Input: inputOf(e.Body), Start: e.Time}
	t.Items = append(t.Items, Item{Author: Agent, Time: e.Time, Call: c})
}

// inputOf returns the input of a call: the body of the intent, or a part of the body if the proxy recorded more.
func inputOf(body json.RawMessage) json.RawMessage {
	var fields struct {
		Title string          `json:"title"`
		Kind  string          `json:"kind"`
		Input json.RawMessage `json:"input"`
	}
	if json.Unmarshal(body, &fields) != nil || fields.Title == "" {
		return body
	}
	if len(fields.Input) > len("{}") {
		return fields.Input
	}
	title, err := json.Marshal(map[string]string{"title": fields.Title})
	if err != nil {
		return body
	}
	return title
}

// hookResult has the fields that hooks and the proxy record in addition to the text of a result.
type hookResult struct {
	Response   json.RawMessage `json:"response"`
	Error      json.RawMessage `json:"error"`
	Content    json.RawMessage `json:"content"`
	Output     json.RawMessage `json:"output"`
	Status     string          `json:"status"`
	Exit       *int            `json:"exit"`
	Interrupt  bool            `json:"interrupt"`
	DurationMS float64         `json:"duration_ms"`
	Agent      string          `json:"agent"`
}

func (t *Turn) addResult(e segno.Entry) {
	c := t.call(e.ID)
	if c == nil {
		c = &Call{ID: e.ID, Tool: e.Name}
		t.Items = append(t.Items, Item{Author: Agent, Time: e.Time, Call: c})
	}
	c.Done, c.End = true, e.Time
	var r hookResult
	if json.Unmarshal(e.Body, &r) != nil {
		c.Result = preamble.TextOf(e.Body)
		return
	}
	c.Exit, c.Agent = r.Exit, r.Agent
	if r.DurationMS > 0 && r.DurationMS < float64(1<<40) {
		c.Took = time.Duration(r.DurationMS * float64(time.Millisecond))
	}
	c.Failed = len(r.Error) > 0 || r.Interrupt || r.Status == "failed" || r.Exit != nil && *r.Exit != 0
	var parts []string
	for _, raw := range []json.RawMessage{r.Error, r.Response, r.Content, r.Output} {
		if text := preamble.TextOf(raw); len(parts) == 0 && strings.TrimSpace(text) != "" {
			parts = append(parts, text)
		}
	}
	if c.Result = strings.Join(parts, "\n"); c.Result == "" && len(r.Response)+len(r.Content)+len(r.Output) == 0 && r.Exit == nil && r.Status == "" && r.DurationMS == 0 {
		c.Result = preamble.TextOf(e.Body)
	}
}

// call returns the newest call with an id, or nil.
func (t *Turn) call(id string) *Call {
	for _, it := range slices.Backward(t.Items) {
		if it.Call != nil && it.Call.ID == id {
			return it.Call
		}
	}
	return nil
}

// addMessage adds a text. A later record of the same message replaces it.
func (t *Turn) addMessage(e segno.Entry) {
	author := User
	if e.Name == "agent" {
		author = Agent
	}
	t.addText(author, preamble.TextOf(e.Body), e.Time)
}

func (t *Turn) addText(author Author, text string, at time.Time) {
	if strings.TrimSpace(text) == "" {
		return
	}
	if n := len(t.Items) - 1; n >= 0 && t.Items[n].Author == author && t.Items[n].Call == nil && t.Items[n].Text != "" && strings.HasPrefix(text, t.Items[n].Text) {
		t.Items[n].Text = text // the message was recorded in parts
		return
	}
	t.Items = append(t.Items, Item{Author: author, Time: at, Text: text})
}

// addNote adds a note for the user. It leaves out notes for segno's own use.
func (t *Turn) addNote(e segno.Entry) {
	var text string
	switch {
	case e.Name == "plan" || e.Name == "end" || e.Name == timeline.NoteTaskBegin:
	case json.Unmarshal(e.Body, &text) == nil:
		t.addText(Segno, text, e.Time)
	}
}

// readSteps reads the messages of a Go agent. It lists a message that cannot be decoded in
// t.Missing.
func (t *Turn) readSteps(commits []segno.Node) {
	for i := range commits {
		for _, e := range commits[i].Entries {
			if e.Kind != segno.EntryMessage || t.Checkpoint.Turn != 0 && e.Turn != t.Checkpoint.Turn {
				continue
			}
			if t.Start.IsZero() {
				t.Start = e.Time
			}
			var m agent.Message
			if err := json.Unmarshal(e.Body, &m); err != nil {
				t.miss("a message of commit "+string(commits[i].ID), err)
				continue
			}
			t.addStep(&m, e.Time, i+1)
		}
	}
}

func (t *Turn) addStep(m *agent.Message, at time.Time, number int) {
	author := Agent
	switch {
	case m.Role == agent.User && t.Prompt == "" || m.Role == agent.User && m.Text() == t.Prompt && len(t.Items) == 0:
		t.Prompt, t.Images = m.Text(), imagesOf(m.Parts)
		return
	case m.Role == agent.User:
		author = User
	case m.Model != "":
		t.Model = m.Model
	}
	for _, p := range m.Parts {
		switch {
		case p.Text != "":
			t.Items = append(t.Items, Item{Author: author, Time: at, Text: p.Text, Message: number})
		case p.Image != nil:
			t.Items = append(t.Items, Item{Author: author, Time: at, Images: imagesOf([]agent.Part{p}), Message: number})
		case p.Call != nil:
			c := &Call{ID: p.Call.ID, Tool: p.Call.Name, Input: p.Call.Args, Start: at}
			t.Items = append(t.Items, Item{Author: Agent, Time: at, Call: c, Message: number})
		case p.Result != nil:
			if c := t.call(p.Result.Call); c != nil {
				c.Done, c.End, c.Failed, c.Result, c.Images = true, at, p.Result.Error, p.Result.Text, imagesOf(p.Result.Parts)
			}
		}
	}
}

func imagesOf(parts []agent.Part) (out []Image) {
	for _, p := range parts {
		if p.Image != nil {
			out = append(out, Image{Type: p.Image.Type, Data: p.Image.Data, URL: p.Image.URL})
		}
	}
	return out
}

// separateSubagents moves the calls of subagents from the turn's items to its subagents.
func (t *Turn) separateSubagents() {
	var own []Item
	byID := map[string]int{}
	for _, it := range t.Items {
		if it.Call == nil || it.Call.Agent == "" {
			own = append(own, it)
			continue
		}
		i, ok := byID[it.Call.Agent]
		if !ok {
			i = len(t.Subagents)
			byID[it.Call.Agent] = i
			t.Subagents = append(t.Subagents, Subagent{ID: it.Call.Agent})
		}
		t.Subagents[i].Calls = append(t.Subagents[i].Calls, it.Call)
	}
	t.Items = own
	for i := range t.Subagents {
		t.Subagents[i].Parent = t.callOf(&t.Subagents[i])
	}
}

// callOf returns the call that started a subagent. It returns "" if no result of a call names the subagent.
func (t *Turn) callOf(s *Subagent) string {
	for _, it := range t.Items {
		if it.Call == nil {
			continue
		}
		if tool := strings.ToLower(it.Call.Tool); tool != "task" && tool != "agent" && tool != "spawn_agent" {
			continue
		}
		if strings.Contains(it.Call.Result, s.ID) {
			return it.Call.ID
		}
	}
	return ""
}
