package export

import (
	"encoding/json"
	"io"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history"
	"github.com/dalsegno/segno/internal/history/turns"
)

// jsonHeader is the first line of a thread in JSON lines. docs/export.md describes the fields. A
// later release may add fields, but removes none.
type jsonHeader struct {
	Type    string         `json:"type"` // "thread"
	Format  string         `json:"format"`
	Thread  segno.ThreadID `json:"thread"`
	Title   string         `json:"title"`
	Agent   string         `json:"agent"`
	Created string         `json:"created"`
	Parent  segno.ThreadID `json:"parent_thread"`
	Fork    *jsonFork      `json:"forked_from"`
	Chain   []jsonSession  `json:"sessions"`
	Turns   int            `json:"turns"`
	Whole   bool           `json:"whole"`
}

const jsonFormat = "segno-export/1"

type jsonFork struct {
	Thread     segno.ThreadID `json:"thread"`
	Checkpoint segno.CommitID `json:"checkpoint"`
}

type jsonSession struct {
	Agent   string          `json:"agent"`
	Session segno.SessionID `json:"session"`
	Start   string          `json:"start"`
	Reason  string          `json:"reason"`
}

type jsonTurn struct {
	Type       string               `json:"type"` // "turn"
	Thread     segno.ThreadID       `json:"thread"`
	Turn       string               `json:"turn"`
	Checkpoint segno.CommitID       `json:"checkpoint"`
	Parent     segno.CommitID       `json:"parent"`
	Kind       segno.CheckpointKind `json:"kind"`
	Agent      string               `json:"agent"`
	Model      string               `json:"model"`
	Session    segno.SessionID      `json:"session"`
	Start      string               `json:"start"`
	Time       string               `json:"time"`
	jsonMarks
	Label     string         `json:"label"`
	Prompt    string         `json:"prompt"`
	Answer    string         `json:"answer"`
	Items     []jsonItem     `json:"items"`
	Files     []jsonFile     `json:"files"`
	MoreFiles int            `json:"more_files"`
	Subagents []jsonSubagent `json:"subagents"`
	Usage     *history.Usage `json:"usage"` // null if it is not known
	Missing   []string       `json:"missing"`
}

type jsonMarks struct {
	Inherited   bool `json:"inherited"`
	Undone      bool `json:"undone"`
	Interrupted bool `json:"interrupted"`
	Shared      bool `json:"shared"`
	Partial     bool `json:"partial"`
}

type jsonItem struct {
	Author turns.Author `json:"author"`
	Time   string       `json:"time,omitempty"`
	Text   string       `json:"text,omitempty"`
	Images int          `json:"images,omitempty"`
	Call   *jsonCall    `json:"call,omitempty"`
}

type jsonCall struct {
	ID         string          `json:"id"`
	Tool       string          `json:"tool"`
	Input      json.RawMessage `json:"input"`
	Result     string          `json:"result"`
	Images     int             `json:"images,omitempty"`
	Done       bool            `json:"done"`
	Failed     bool            `json:"failed"`
	Exit       *int            `json:"exit,omitempty"`
	DurationMS float64         `json:"duration_ms,omitempty"`
}

type jsonFile struct {
	Path      string           `json:"path"`
	PathBytes []byte           `json:"path_bytes,omitempty"`
	Sign      string           `json:"sign"`
	Type      segno.EntityType `json:"type"`
	Bytes     int64            `json:"bytes"`
	SHA256    segno.Hash       `json:"sha256,omitzero"`
	Added     int              `json:"added"`
	Removed   int              `json:"removed"`
	Why       string           `json:"why,omitempty"`
}

type jsonSubagent struct {
	ID    string     `json:"id"`
	Call  string     `json:"call"`
	Calls []jsonCall `json:"calls"`
}

// writeJSONL writes a line for the thread and a line for each turn. The threads of subagents follow
// in the same form.
func writeJSONL(w io.Writer, s Source) error {
	h := s.Header
	line := jsonHeader{Type: "thread", Format: jsonFormat, Thread: h.Thread, Title: h.Title, Agent: h.Agent, Created: stamp(h.Created),
		Parent: h.Parent, Chain: []jsonSession{}, Turns: h.Count, Whole: h.Whole}
	if h.Fork != nil {
		line.Fork = &jsonFork{h.Fork.Thread, h.Fork.Checkpoint}
	}
	for _, x := range h.Chain {
		line.Chain = append(line.Chain, jsonSession{x.Agent, x.Session, stamp(x.Start), x.Reason})
	}
	if err := encode(w, line); err != nil {
		return err
	}
	for t, err := range s.Turns() {
		if err == nil {
			err = encode(w, jsonOf(t))
		}
		if err != nil {
			return err
		}
	}
	for _, child := range s.Children {
		if err := writeJSONL(w, child); err != nil {
			return err
		}
	}
	return nil
}

func jsonOf(t *Turn) jsonTurn {
	c := &t.Checkpoint
	out := jsonTurn{Type: "turn", Thread: c.Thread, Turn: t.Name, Checkpoint: c.ID, Parent: c.Parent, Kind: c.Kind, Agent: c.Agent, Model: t.Model,
		Start: stamp(t.Start), Time: stamp(t.End), jsonMarks: jsonMarks{t.Inherited, t.Undone, c.Interrupted, c.Shared, c.Partial()},
		Label: c.Label, Prompt: t.Prompt, Answer: t.Answer(), Items: []jsonItem{}, Files: []jsonFile{}, MoreFiles: t.MoreFiles,
		Subagents: []jsonSubagent{}, Usage: history.NewUsage(t.Usage, nil), Missing: append([]string{}, t.Missing...)}
	if c.Session != nil {
		out.Session = c.Session.Session
	}
	for _, it := range t.Items {
		item := jsonItem{Author: it.Author, Time: stamp(it.Time), Text: it.Text, Images: len(it.Images)}
		if it.Call != nil {
			call := jsonCallOf(it.Call)
			item.Call = &call
		}
		out.Items = append(out.Items, item)
	}
	for _, f := range t.Files {
		out.Files = append(out.Files, jsonFile{Path: f.Path, PathBytes: segno.PathBytes(f.Path), Sign: f.Sign, Type: f.Type, Bytes: f.Size, SHA256: f.Hash,
			Added: f.Added, Removed: f.Gone, Why: f.Why})
	}
	for _, s := range t.Subagents {
		sub := jsonSubagent{ID: s.ID, Call: s.Parent, Calls: []jsonCall{}}
		for _, c := range s.Calls {
			sub.Calls = append(sub.Calls, jsonCallOf(c))
		}
		out.Subagents = append(out.Subagents, sub)
	}
	return out
}

func jsonCallOf(c *turns.Call) jsonCall {
	input := c.Input
	if !json.Valid(input) {
		input = object(input)
	}
	return jsonCall{ID: c.ID, Tool: c.Tool, Input: input, Result: c.Result, Images: len(c.Images), Done: c.Done, Failed: c.Failed, Exit: c.Exit,
		DurationMS: float64(c.Took()) / float64(time.Millisecond)}
}
