package web

import (
	"context"
	"slices"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history"
)

// row is one checkpoint of a timeline.
type row struct {
	history.Item
	PromptBytesTotal int `json:"prompt_bytes_total"` // length of the whole prompt; prompt has its beginning
	position
	View   *rowView `json:"view"` // null unless the request asked for a view of the line
	Calls  int      `json:"calls"`
	Notes  int      `json:"notes"`
	Damage string   `json:"damage"` // why the counts are missing, else ""
}

// position is the position of a checkpoint in its thread, and what begins or ends there.
type position struct {
	Index       int       `json:"index"`        // counted from the oldest
	ParentIndex int       `json:"parent_index"` // -1 without one
	Lane        int       `json:"lane"`         // its column in the graph
	Through     []int     `json:"through"`      // the columns of lines that pass this row
	Joins       []int     `json:"joins"`        // the columns of the lines that come from its children, above
	OnLine      bool      `json:"on_line"`      // it is the head or an ancestor of the head
	Undone      bool      `json:"undone"`       // what it recorded is undone
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
	View     *viewInfo      `json:"view"` // null unless the request asked for a view of the line
}

type timelineParams struct {
	ID     segno.ThreadID `path:"id"`
	From   *int           `query:"from"`
	Around segno.CommitID `query:"around" max:"1024"`
	N      int            `query:"n" default:"20" min:"1" max:"200"`
	viewParams
}

func (s *Server) getTimeline(ctx context.Context, p *timelineParams) (window, error) {
	h, err := s.history(ctx, p.ID)
	if err != nil {
		return window{}, err
	}
	w := window{Thread: p.ID, Revision: h.revision, Items: []row{}}
	rows, err := p.rows(h, &w)
	if err != nil {
		return w, err
	}
	w.Total = len(rows)
	if w.From, err = p.first(h, rows); err != nil {
		return w, err
	}
	now, err := s.activity(ctx)
	if err != nil {
		return w, err
	}
	w.Open = now.turns[p.ID]
	for i := w.From; i < min(w.From+p.N, w.Total); i++ {
		r, err := s.row(ctx, h, rows[i].index)
		if err != nil {
			return w, err
		}
		if w.View != nil {
			r.Index, r.View = i, &rows[i].view
		}
		r.Running = w.Open != nil && w.Open.background && w.Open.Ended == r.ID
		w.Items = append(w.Items, r)
	}
	return w, nil
}

// rows returns the rows of the timeline that the parameters choose: one for each checkpoint, or those of a view of the
// line.
func (p *timelineParams) rows(h *threadHistory, w *window) ([]viewRow, error) {
	switch p.View {
	case "":
		rows := make([]viewRow, len(h.shown))
		for i := range rows {
			rows[i].index = i
		}
		return rows, nil
	case "line":
		around := -1
		if i, ok := h.index[p.Around]; ok && p.Around != "" {
			around = i
		}
		v := viewOf(h, p.ids(), p.Own > 0, around)
		w.View = v.info(h)
		return v.rows, nil
	}
	return nil, invalidParameter("view", "unknown view")
}

// first returns the index of the first row of the window that the parameters choose.
func (p *timelineParams) first(h *threadHistory, rows []viewRow) (int, error) {
	newest := max(0, len(rows)-p.N)
	switch {
	case p.From != nil && p.Around != "":
		return 0, invalidParameter("around", "give it without from")
	case p.From != nil && *p.From >= max(1, len(rows)):
		return 0, segno.Errorf(segno.KindInvalid, "read timeline", string(p.ID), "the window begins at %d and the timeline has %d rows", *p.From, len(rows))
	case p.From != nil:
		return *p.From, nil
	case p.Around == "":
		return newest, nil
	}
	index, ok := h.index[p.Around]
	at := slices.IndexFunc(rows, func(r viewRow) bool { return r.index == index })
	if !ok || at < 0 {
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
		OnLine: at.onLine, Undone: s.isUndone(ctx, h, i), Forks: append([]fork{}, forks[c.ID]...), Operations: append([]rowMove{}, h.moves[c.ID]...)}, err
}
