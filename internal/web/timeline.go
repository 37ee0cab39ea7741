package web

import (
	"context"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history"
)

// row is one checkpoint of a timeline.
type row struct {
	history.Item
	PromptBytesTotal int `json:"prompt_bytes_total"` // length of the whole prompt; prompt has its beginning
	position
	Calls  int    `json:"calls"`
	Notes  int    `json:"notes"`
	Damage string `json:"damage"` // why the counts are missing, else ""
}

// position is the position of a checkpoint in its thread, and what begins or ends there.
type position struct {
	Index       int       `json:"index"`        // counted from the oldest
	ParentIndex int       `json:"parent_index"` // -1 without one
	Lane        int       `json:"lane"`         // its column in the graph
	Through     []int     `json:"through"`      // the columns of lines that pass this row
	Joins       []int     `json:"joins"`        // the columns of the lines that come from its children, above
	OnLine      bool      `json:"on_line"`      // false if it is undone
	Forks       []fork    `json:"forks"`
	Operations  []rowMove `json:"operations"`
}

// fork is a thread that begins at a checkpoint.
type fork struct {
	Thread     segno.ThreadID `json:"thread"`
	Title      string         `json:"title"`
	Checkpoint segno.CommitID `json:"checkpoint"`
}

// rowMove is an operation that moved the thread to a checkpoint, or pinned it.
type rowMove struct {
	ID     segno.OperationID `json:"id"`
	Verb   segno.Verb        `json:"verb"`
	Args   string            `json:"args"`
	Time   time.Time         `json:"time"`
	Undone bool              `json:"undone"`
}

// window is a part of a thread's timeline, oldest first.
type window struct {
	Thread   segno.ThreadID `json:"thread"`
	Revision int64          `json:"revision"`
	Total    int            `json:"total"`
	From     int            `json:"from"` // the index of the first item
	Items    []row          `json:"items"`
	Open     *openTurn      `json:"open"`
}

type timelineParams struct {
	ID     segno.ThreadID `path:"id"`
	From   *int           `query:"from"`
	Around segno.CommitID `query:"around" max:"1024"`
	N      int            `query:"n" default:"20" min:"1" max:"200"`
}

func (s *Server) getTimeline(ctx context.Context, p *timelineParams) (window, error) {
	h, err := s.history(ctx, p.ID)
	if err != nil {
		return window{}, err
	}
	w := window{Thread: p.ID, Revision: h.revision, Total: len(h.shown), Items: []row{}}
	if w.From, err = p.first(h); err != nil {
		return w, err
	}
	now, err := s.activity(ctx)
	if err != nil {
		return w, err
	}
	w.Open = now.turns[p.ID]
	for i := w.From; i < min(w.From+p.N, w.Total); i++ {
		r, err := s.row(ctx, h, i)
		if err != nil {
			return w, err
		}
		r.Running = w.Open != nil && w.Open.background && w.Open.Ended == r.ID
		w.Items = append(w.Items, r)
	}
	return w, nil
}

// first returns the index of the first row of the window that the parameters choose.
func (p *timelineParams) first(h *threadHistory) (int, error) {
	newest := max(0, len(h.shown)-p.N)
	switch {
	case p.From != nil && p.Around != "":
		return 0, invalidParameter("around", "give it without from")
	case p.From != nil && *p.From >= max(1, len(h.shown)):
		return 0, segno.Errorf(segno.KindInvalid, "read timeline", string(p.ID), "the window begins at %d and the timeline has %d rows", *p.From, len(h.shown))
	case p.From != nil:
		return *p.From, nil
	case p.Around == "":
		return newest, nil
	}
	at, ok := h.index[p.Around]
	if !ok {
		return 0, segno.NewError(segno.KindNotFound, "find checkpoint", string(p.Around), nil)
	}
	return max(0, min(at-p.N/2, newest)), nil
}

// row makes one row of a timeline.
func (s *Server) row(ctx context.Context, h *threadHistory, i int) (row, error) {
	c := &h.shown[i]
	r := row{Item: h.Item(c), PromptBytesTotal: h.PromptBytes(c)}
	n, err := s.count(ctx, c)
	if isDamage(err) {
		r.Damage = err.Error()
	} else if err != nil {
		return r, err
	}
	r.Calls, r.Notes = n.calls, n.notes
	r.position, err = s.position(ctx, h, i)
	return r, err
}

// position returns the position of the checkpoint with an index.
func (s *Server) position(ctx context.Context, h *threadHistory, i int) (position, error) {
	at, c := &h.places[i], &h.shown[i]
	forks, err := s.forksAt(ctx)
	return position{Index: i, ParentIndex: at.parent, Lane: at.lane, Through: append([]int{}, at.through...), Joins: append([]int{}, at.joins...),
		OnLine: at.onLine, Forks: append([]fork{}, forks[c.ID]...), Operations: append([]rowMove{}, h.moves[c.ID]...)}, err
}
