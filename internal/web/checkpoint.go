package web

import (
	"context"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history"
)

// The largest windows of a checkpoint's details.
const (
	maxText    = 16 << 10
	maxCalls   = 200
	maxChanges = 500
)

// checkpointDetails is one checkpoint with the beginnings of its texts and lists.
type checkpointDetails struct {
	history.Item
	position
	PromptBytesTotal int              `json:"prompt_bytes_total"`
	Answer           text             `json:"answer"`
	Calls            []call           `json:"calls"`
	CallsTotal       int              `json:"calls_total"`
	Notes            []string         `json:"notes"`
	Changes          []history.Change `json:"changes"`
	ChangesTotal     int              `json:"changes_total"`
	Outside          []string         `json:"outside"`
	Unread           []string         `json:"unread"`
	UnreadBytes      [][]byte         `json:"unread_bytes,omitempty"`
	Fidelity         segno.Fidelity   `json:"fidelity"` // of the checkpoint's session; "" if it has none
}

// text is the beginning of a text.
type text struct {
	Text      string `json:"text"`
	Bytes     int    `json:"bytes"`     // of the whole text
	Truncated bool   `json:"truncated"` // see the route /checkpoints/{id}/text
}

// beginning returns the beginning of a text.
func beginning(s string) text {
	t := text{Text: history.Cut(s, maxText), Bytes: len(s)}
	t.Truncated = len(t.Text) < len(s)
	return t
}

// call is one tool call of a turn.
type call struct {
	ID         string   `json:"id"`
	Tool       string   `json:"tool"`
	Title      string   `json:"title"` // the command or the path, else the input
	Input      text     `json:"input"` // JSON, or a text
	Result     text     `json:"result"`
	Status     string   `json:"status"` // "completed", "failed" or "", if the agent does not report it
	Done       bool     `json:"done"`   // a result was seen
	DurationMS *float64 `json:"duration_ms"`
	Exit       *int     `json:"exit"`
	Outside    []string `json:"outside"` // paths outside the workspace that it wrote
}

type checkpointParams struct {
	ID          segno.CommitID `path:"id" max:"1024"`
	CallsFrom   int            `query:"calls_from"`
	ChangesFrom int            `query:"changes_from"`
}

func (s *Server) getCheckpoint(ctx context.Context, p *checkpointParams) (checkpointDetails, error) {
	c, err := s.loadCheckpoint(ctx, p.ID)
	if err != nil {
		return checkpointDetails{}, err
	}
	h, at, err := s.historyOf(ctx, c)
	if err != nil {
		return checkpointDetails{}, err
	}
	read, err := h.ReadDetails(ctx, s.Store, c)
	if err != nil {
		return checkpointDetails{}, err
	}
	d := checkpointDetails{Item: read.Item, position: at, PromptBytesTotal: len(c.Prompt), Answer: beginning(read.Message),
		Calls: []call{}, CallsTotal: len(read.Calls), Notes: read.Notes, Unread: read.Unread, UnreadBytes: read.UnreadBytes}
	d.Prompt = history.Cut(c.Prompt, maxText)
	for i := range d.Notes {
		d.Notes[i] = history.Cut(d.Notes[i], maxText)
	}
	for _, k := range part(read.Calls, p.CallsFrom, maxCalls) {
		d.Calls = append(d.Calls, s.call(c, &k))
	}
	s.findOutside(&read, c)
	d.Outside = read.Outside
	changes, err := s.changesOf(ctx, h, c)
	if err != nil {
		return d, err
	}
	d.ChangesTotal = len(changes)
	d.Changes = append([]history.Change{}, history.Signed(part(changes, p.ChangesFrom, maxChanges))...)
	d.Fidelity, err = s.fidelityOf(ctx, c)
	return d, err
}

// part returns at most n elements of a list, beginning with the one at from.
func part[T any](list []T, from, n int) []T {
	list = list[min(from, len(list)):]
	return list[:min(n, len(list))]
}

// loadCheckpoint returns a checkpoint in full.
func (s *Server) loadCheckpoint(ctx context.Context, id segno.CommitID) (*segno.Checkpoint, error) {
	line, err := s.Store.Load(ctx, id, segno.Window{Last: 1})
	if err != nil {
		return nil, err
	}
	c := line.Commits[len(line.Commits)-1].Checkpoint
	if c == nil {
		return nil, segno.Errorf(segno.KindNotFound, "find checkpoint", string(id), "the commit has no checkpoint")
	}
	return c, nil
}

// historyOf returns the history of a checkpoint's thread, and the checkpoint's position in it. Of a
// deleted thread, parts of which a fork keeps, the history has this checkpoint only.
func (s *Server) historyOf(ctx context.Context, c *segno.Checkpoint) (*history.History, position, error) {
	h, err := s.history(ctx, c.Thread)
	if segno.KindOf(err) == segno.KindNotFound && err != nil {
		return &history.History{ByID: map[segno.CommitID]*segno.Checkpoint{c.ID: c}}, position{Index: -1, ParentIndex: -1,
			Through: []int{}, Joins: []int{}, Forks: []fork{}, Operations: []rowMove{}}, nil
	}
	if err != nil {
		return nil, position{}, err
	}
	i, ok := h.index[c.ID]
	if !ok { // an inner step, or amended since
		return h.History, position{Index: -1, ParentIndex: -1, Through: []int{}, Joins: []int{}, Forks: []fork{}, Operations: []rowMove{}}, nil
	}
	at, err := s.position(ctx, h, i)
	return h.History, at, err
}

// call describes a tool call of a checkpoint.
func (s *Server) call(c *segno.Checkpoint, k *history.Call) call {
	alone := history.Details{Calls: []history.Call{*k}, Outside: []string{}}
	s.findOutside(&alone, c)
	return call{ID: k.ID, Tool: k.Tool, Title: history.Cut(history.CallTitle(k.Input), maxTitle), Input: beginning(history.BodyText(k.Input)),
		Result: beginning(history.BodyText(k.Result)), Status: k.Status, Done: k.Done, DurationMS: k.DurationMS, Exit: k.Exit, Outside: alone.Outside}
}

// maxTitle is how many bytes of a call's title are shown.
const maxTitle = 200

// findOutside finds the paths outside the workspace that calls wrote.
func (s *Server) findOutside(d *history.Details, c *segno.Checkpoint) {
	if s.Local != nil {
		place := s.Local.Place()
		d.FindOutside(c, place.UserHome, place.Claude)
	}
}

// changesOf returns the changes between a checkpoint and its parent. There are none if the files of
// one of them are not recorded.
func (s *Server) changesOf(ctx context.Context, h *history.History, c *segno.Checkpoint) ([]segno.Change, error) {
	parent := h.ByID[c.Parent]
	if parent == nil && h.ByID[c.ID] != nil {
		parent = h.ByID[h.ByID[c.ID].Parent]
	}
	for parent != nil && parent.Kind == segno.CheckpointStep && parent.Tree().IsZero() {
		parent = h.ByID[parent.Parent] // steps of a session have no files
	}
	if c.Tree().IsZero() || parent.Tree().IsZero() {
		return nil, nil
	}
	return s.compare(ctx, parent.Tree(), c.Tree())
}

// fidelityOf returns how the session of a checkpoint was continued.
func (s *Server) fidelityOf(ctx context.Context, c *segno.Checkpoint) (segno.Fidelity, error) {
	chains, ok := s.Store.(segno.Chains)
	if !ok || c.Session == nil {
		return "", nil
	}
	var found segno.Fidelity
	for l, err := range chains.Chain(ctx, c.Thread) {
		if segno.KindOf(err) == segno.KindNotFound && err != nil {
			return "", nil
		}
		if err != nil {
			return "", err
		}
		if l.Session == c.Session.Session {
			found = l.Fidelity
		}
	}
	return found, nil
}
