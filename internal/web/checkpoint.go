package web

import (
	"context"
	"slices"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history"
	"github.com/dalsegno/segno/internal/history/moves"
	"github.com/dalsegno/segno/internal/history/turns"
)

// The largest windows of a checkpoint's details.
const (
	maxText    = 16 << 10
	maxCalls   = 200
	maxChanges = 500
	maxNotes   = 100
	maxNote    = 4 << 10
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
	Before           segno.CommitID   `json:"before"` // the checkpoint with which the files are compared, or ""
	Outside          []string         `json:"outside"`
	Unread           []string         `json:"unread"`
	UnreadBytes      [][]byte         `json:"unread_bytes,omitempty"`
	Fidelity         segno.Fidelity   `json:"fidelity"` // how its session was continued; "" if it has no session
	Damage           []string         `json:"damage"`   // why a part of this is missing
}

// text is the beginning of a text.
type text struct {
	Text      string `json:"text"`
	Bytes     int    `json:"bytes"`     // of the whole text
	Truncated bool   `json:"truncated"` // the route /checkpoints/{id}/text has the rest
}

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
	Input      text     `json:"input"` // one field on each line
	Result     text     `json:"result"`
	Status     string   `json:"status"` // "completed", "failed", or "" if the agent does not report it
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
	d := checkpointDetails{Item: h.Item(c), position: at, PromptBytesTotal: len(c.Prompt), Calls: []call{}, Notes: []string{},
		Changes: []history.Change{}, Outside: []string{}, Unread: []string{}, Damage: []string{}}
	d.Prompt, d.Label, d.Agent = history.Cut(c.Prompt, maxText), history.Cut(c.Label, maxNote), history.Cut(c.Agent, maxTitle)
	for _, read := range []func() error{
		func() error { return s.addEntries(ctx, &d, c, p.CallsFrom) },
		func() error { return s.addChanges(ctx, &d, h, c, p.ChangesFrom) },
		func() (err error) { d.Fidelity, err = s.fidelityOf(ctx, c); return err },
	} {
		if err := read(); isDamage(err) {
			d.Damage = append(d.Damage, err.Error())
		} else if err != nil {
			return d, err
		}
	}
	return d, nil
}

// source reads turns.
func (s *Server) source() *turns.Source {
	src := &turns.Source{Store: s.Store}
	if s.Local != nil {
		src.Transcripts = s.Local.Transcripts()
	}
	return src
}

// isDamage reports whether an error is about a damaged record. The rest of a result is then still
// useful.
func isDamage(err error) bool { return err != nil && segno.KindOf(err) == segno.KindCorrupt }

// addEntries adds the answer, the calls and the notes.
func (s *Server) addEntries(ctx context.Context, d *checkpointDetails, c *segno.Checkpoint, from int) error {
	read, err := new(history.History).ReadDetails(ctx, s.source(), c)
	if err != nil {
		return err
	}
	d.Answer, d.CallsTotal, d.Unread = beginning(read.Message), len(read.Calls), read.Unread
	_, databases := history.Unread(c.Workspace)
	for _, name := range databases {
		d.Unread = append(d.Unread, segno.QuotePath(segno.DatabasePath(name)))
	}
	d.UnreadBytes = history.PathsBytes(d.Unread)
	for _, note := range part(read.Notes, 0, maxNotes) {
		d.Notes = append(d.Notes, history.Cut(note, maxNote))
	}
	for _, k := range part(read.Calls, from, maxCalls) {
		d.Calls = append(d.Calls, s.call(c, &k))
	}
	s.findOutside(&read, c)
	d.Outside = part(read.Outside, 0, maxCalls)
	return nil
}

// addChanges adds the changes of files and databases since the parent. It adds none if the files of one
// of the checkpoints are not recorded.
func (s *Server) addChanges(ctx context.Context, d *checkpointDetails, h *history.History, c *segno.Checkpoint, from int) error {
	parent := h.ParentWithFiles(c)
	if c.Tree().IsZero() || parent.Tree().IsZero() {
		return nil
	}
	d.Before = parent.ID
	files, err := s.compare(ctx, parent.Tree(), c.Tree())
	if err != nil {
		return err
	}
	if s.Local == nil || parent.Workspace.World == nil && c.Workspace.World == nil {
		d.ChangesTotal, d.Changes = len(files), history.Signed(part(files, from, maxChanges))
		return nil
	}
	rec, err := s.Local.Workspace(ctx, c.Workspace.Workspace)
	if err != nil {
		return err
	}
	tl, err := s.Local.Timeline(rec, nil)
	if err != nil {
		return err
	}
	databases, err := tl.Databases(ctx, parent.Workspace, c.Workspace)
	if err != nil {
		return err
	}
	all := slices.Concat(databases, files)
	d.ChangesTotal = len(all)
	d.Changes, err = moves.Changes(ctx, tl, part(all, from, maxChanges), true)
	return err
}

// part returns at most n elements of a list, beginning at index from. It returns an empty list for an
// index beyond the end.
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

// historyOf returns the history of a checkpoint's thread, and the checkpoint's position in it. If the
// thread is deleted and a fork keeps the checkpoint, the history has only this checkpoint.
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
	if !ok { // an inner step, or a checkpoint that was amended since
		return h.History, position{Index: -1, ParentIndex: -1, Through: []int{}, Joins: []int{}, Forks: []fork{}, Operations: []rowMove{}}, nil
	}
	at, err := s.position(ctx, h, i)
	return h.History, at, err
}

// call describes a tool call of a checkpoint.
func (s *Server) call(c *segno.Checkpoint, k *turns.Call) call {
	alone := history.Details{Calls: []turns.Call{*k}, Outside: []string{}}
	s.findOutside(&alone, c)
	return call{ID: k.ID, Tool: history.Cut(k.Tool, maxTitle), Title: history.Cut(k.Subject(maxTitle), maxTitle), Input: beginning(k.InputText()),
		Result: beginning(k.Result), Status: k.Status, Done: k.Done, DurationMS: k.DurationMS, Exit: k.Exit, Outside: alone.Outside}
}

// maxTitle is the number of bytes of a call's title in a response.
const maxTitle = 200

// findOutside finds the paths outside the workspace that calls wrote.
func (s *Server) findOutside(d *history.Details, c *segno.Checkpoint) {
	if s.Local != nil {
		place := s.Local.Place()
		d.FindOutside(c, place.UserHome, place.Homes["claude"])
	}
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
