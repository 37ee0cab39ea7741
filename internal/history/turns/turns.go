// Package turns reads the entries of a turn: the prompt, the agent's answers, and the calls of tools with their
// subjects and results. Hooks, the proxy and Go agents record entries of different forms, and this package is the only
// one that decodes them. All parts of segno that show a turn to a user, or that judge its calls, use it.
package turns

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/transcript"
)

// Turn has the content of a turn, or of a part of it.
type Turn struct {
	Start  time.Time // the time of the first entry, or zero
	Model  string    // "" if it is not known
	Prompt string
	Images []Image // images of the prompt
	Items  []Item  // the texts and calls after the prompt, in order
	// Usage has what calls of models used, as far as the entries show it.
	Usage []transcript.Usage
	// Damage has an error of kind [segno.KindCorrupt] for each message that could not be decoded. Its name is the commit.
	Damage []*segno.Error

	isPrompted bool // an entry had the prompt
	entries    int  // that were added
}

// Author is the author of an [Item].
type Author string

const (
	User  Author = "user"
	Agent Author = "agent"
	Segno Author = "segno" // a note
)

// Item is a text with images, or a call of a tool.
type Item struct {
	Author  Author
	Time    time.Time // zero if it is not known
	Name    string    // of a note
	Text    string
	Images  []Image
	Call    *Call
	Message int // items of one message of the model have the same number; 0 if that is not known
}

// Image is an image. Data is nil if the store does not have the content.
type Image struct {
	Type string `json:"type"` // media type
	Data []byte `json:"data"`
	URL  string `json:"url"`
}

// Call is a call of a tool. Its JSON is an element of show --json.
type Call struct {
	ID    string          `json:"id"`
	Tool  string          `json:"tool"`
	Input json.RawMessage `json:"input"` // of the tool; if it is not known, the title that the agent announced
	Body  json.RawMessage `json:"result,omitempty"`
	Outcome
	Done bool `json:"done"` // the turn has a result of the call

	Title  string    `json:"-"` // that the agent announced, or ""
	Result string    `json:"-"` // the text of Body
	Images []Image   `json:"-"`
	Failed bool      `json:"-"`
	Start  time.Time `json:"-"`
	End    time.Time `json:"-"`
	Agent  string    `json:"-"` // the subagent that made the call, or ""

	// Began and Ended are the numbers of the entries of the call's beginning and end, in the order of recording. Ended is 0 if
	// the turn has no result. They are 0 for a Go agent.
	Began, Ended int `json:"-"`
	// Changed is [Intent.Changed].
	Changed []*time.Time `json:"-"`

	inputSize int // of the longest input that the agent announced
}

// Took returns how long the call took, or 0 if that is not known.
func (c *Call) Took() time.Duration {
	if took := c.Outcome.Took(); took > 0 {
		return took
	}
	if c.Start.IsZero() || c.End.Before(c.Start) {
		return 0
	}
	return c.End.Sub(c.Start)
}

// IsOfGoAgent reports whether a Go agent recorded the commit of a checkpoint. Its entries are messages of the model.
func IsOfGoAgent(c *segno.Checkpoint) bool { return c.Step > 0 && c.Session == nil }

// Load reads the turn of a checkpoint. For a step, it reads the turn up to that step. The error has
// [segno.KindCorrupt] if a message is damaged.
func (s *Source) Load(ctx context.Context, c *segno.Checkpoint) (*Turn, error) {
	var nodes []segno.Node // newest first
	if !IsOfGoAgent(c) {
		line, err := s.Store.Load(ctx, c.ID, segno.Window{Last: 1, Entries: true})
		if err != nil {
			return nil, err
		}
		nodes = line.Commits[len(line.Commits)-1:]
	} else {
		for n, err := range segno.Ancestors(ctx, s.Store, c.ID, segno.Window{Last: 8, Entries: true}) {
			if err != nil {
				return nil, err
			}
			if slices.ContainsFunc(n.Entries, func(e segno.Entry) bool { return e.Turn < c.Turn }) ||
				n.Checkpoint != nil && n.Checkpoint.Turn < c.Turn {
				break
			}
			nodes = append(nodes, *n)
		}
		slices.Reverse(nodes)
	}
	t, err := s.Read(ctx, nodes, c)
	if err == nil && len(t.Damage) > 0 {
		err = t.Damage[0]
	}
	if err != nil {
		return nil, err
	}
	return t, nil
}

// Read reads the turn of a checkpoint, given its commits.
func (s *Source) Read(ctx context.Context, nodes []segno.Node, c *segno.Checkpoint) (*Turn, error) {
	t := Read(nodes, c)
	if len(nodes) == 1 && len(nodes[0].Entries) == 0 {
		return t, s.complete(ctx, t, c)
	}
	return t, nil
}

// Read reads the turn of a checkpoint from its commits, oldest first.
func Read(commits []segno.Node, c *segno.Checkpoint) *Turn {
	t := &Turn{Prompt: c.Prompt}
	for i := range commits {
		if !IsOfGoAgent(c) {
			t.Add(commits[i].Entries...)
			continue
		}
		for _, e := range commits[i].Entries {
			if c.Turn != 0 && e.Turn != c.Turn {
				continue
			}
			t.addUsage(&e)
			if e.Kind != segno.EntryMessage {
				continue
			}
			var m message
			if err := json.Unmarshal(e.Body, &m); err != nil {
				t.Damage = append(t.Damage, segno.NewError(segno.KindCorrupt, "read message", string(commits[i].ID), err))
				continue
			}
			t.begin(e.Time)
			t.addMessage(&m, e.Time, i+1)
		}
	}
	return t
}

func (t *Turn) begin(at time.Time) {
	if t.Start.IsZero() {
		t.Start = at
	}
}

// Add adds entries that hooks or the proxy recorded. The first message of the user is the prompt.
func (t *Turn) Add(entries ...segno.Entry) {
	for _, e := range entries {
		t.entries++
		t.begin(e.Time)
		t.addUsage(&e)
		switch e.Kind {
		case segno.EntryIntent:
			t.addIntent(&e)
		case segno.EntryResult:
			t.addResult(&e)
		case segno.EntryMessage:
			switch text := TextOf(e.Body); {
			case e.Name == "agent":
				t.addText(Item{Author: Agent, Time: e.Time, Text: text})
			case t.isPrompted:
				t.addText(Item{Author: User, Time: e.Time, Text: text})
			default:
				if t.isPrompted = true; t.Prompt == "" {
					t.Prompt = text
				}
			}
		case segno.EntryNote:
			var text string
			if json.Unmarshal(e.Body, &text) == nil { // another note is not for a reader
				t.addText(Item{Author: Segno, Time: e.Time, Name: e.Name, Text: text})
			}
		}
	}
}

// addText adds a text. A later record of the same message replaces it.
func (t *Turn) addText(it Item) {
	if strings.TrimSpace(it.Text) == "" {
		return
	}
	if n := len(t.Items) - 1; n >= 0 && it.Author != Segno {
		last := &t.Items[n]
		if last.Author == it.Author && last.Call == nil && last.Text != "" && strings.HasPrefix(it.Text, last.Text) {
			last.Text = it.Text // the message was recorded in parts
			return
		}
	}
	t.Items = append(t.Items, it)
}

// addIntent adds a call. An agent may announce a call several times, for example first without its input. The longest
// input counts. A hook records a call again if the tool received another input, and then the newest input counts.
func (t *Turn) addIntent(e *segno.Entry) {
	in := ReadIntent(e.Body)
	c := t.Call(e.ID)
	if c == nil || c.Done || e.ID == "" {
		c = &Call{ID: e.ID, Tool: e.Name, Start: e.Time, Began: t.entries, Changed: in.Changed, inputSize: -1}
		t.addCall(c)
	}
	if in.Title != "" {
		c.Title = in.Title
	}
	if in.IsClipped {
		in.Input, _ = withoutChanged(e.Body)
	}
	if size := max(0, len(in.Input)-len("{}")); size > c.inputSize || in.Changed != nil && c.Title == "" {
		c.Input, c.inputSize, c.Changed = in.Input, size, in.Changed
	}
	if title, err := json.Marshal(c.Title); c.inputSize == 0 && c.Title != "" && err == nil {
		c.Input = title
	}
}

func (t *Turn) addCall(c *Call) {
	t.Items = append(t.Items, Item{Author: Agent, Time: c.Start, Call: c})
}

// addResult adds the result of a call. The turn may lack the call, if it began before the turn.
func (t *Turn) addResult(e *segno.Entry) {
	c := t.Call(e.ID)
	if c == nil {
		c = &Call{ID: e.ID, Tool: e.Name, Began: t.entries}
		t.addCall(c)
	}
	r := ReadResult(e.Body)
	c.Done, c.End, c.Ended, c.Body, c.Result = true, e.Time, t.entries, e.Body, r.Text
	c.Outcome, c.Agent, c.Failed = r.Outcome, r.Agent, r.Failed() || r.Interrupted
}

// Call returns the newest call with an id, or nil.
func (t *Turn) Call(id string) *Call {
	for _, it := range slices.Backward(t.Items) {
		if it.Call != nil && it.Call.ID == id {
			return it.Call
		}
	}
	return nil
}

// addMessage adds a message of a Go agent, which has a number in the turn.
func (t *Turn) addMessage(m *message, at time.Time, number int) {
	author := Agent
	switch {
	case m.Role == "user" && (t.Prompt == "" || m.text() == t.Prompt && len(t.Items) == 0):
		t.Prompt = m.text()
		for _, p := range m.Parts {
			if p.Image != nil {
				t.Images = append(t.Images, *p.Image)
			}
		}
		return
	case m.Role == "user":
		author = User
	case m.Model != "":
		t.Model = m.Model
	}
	for _, p := range m.Parts {
		switch {
		case p.Text != "":
			t.Items = append(t.Items, Item{Author: author, Time: at, Text: p.Text, Message: number})
		case p.Image != nil:
			t.Items = append(t.Items, Item{Author: author, Time: at, Images: []Image{*p.Image}, Message: number})
		case p.Call != nil:
			c := &Call{ID: p.Call.ID, Tool: p.Call.Name, Input: p.Call.Args, Start: at}
			t.Items = append(t.Items, Item{Author: Agent, Time: at, Call: c, Message: number})
		case p.Result != nil:
			t.addMessageResult(p.Result, at)
		}
	}
}

func (t *Turn) addMessageResult(body json.RawMessage, at time.Time) {
	var r messageResult
	if json.Unmarshal(body, &r) != nil {
		return
	}
	c := t.Call(r.Call)
	if c == nil {
		return
	}
	c.Done, c.End, c.Body, c.Result, c.Failed = true, at, body, r.Text, r.Error
	if r.Error {
		c.Status = "failed"
	}
	for _, p := range r.Parts {
		if p.Image != nil {
			c.Images = append(c.Images, *p.Image)
		}
	}
}

// Calls returns the calls of the turn, in order.
func (t *Turn) Calls() []Call {
	calls := []Call{}
	for _, it := range t.Items {
		if it.Call != nil {
			calls = append(calls, *it.Call)
		}
	}
	return calls
}

// Answer returns the last words of the agent: the texts of its last message that has any.
func (t *Turn) Answer() (answer string) {
	message := 0
	for _, it := range slices.Backward(t.Items) {
		switch isText := it.Author == Agent && it.Call == nil && it.Text != ""; {
		case answer == "" && isText:
			answer, message = it.Text, it.Message
		case answer != "" && (it.Message != message || message == 0):
			return answer
		case isText:
			answer = it.Text + "\n" + answer
		}
	}
	return answer
}
