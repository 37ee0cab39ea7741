package client

import (
	"context"
	"encoding/json"
	"net/url"
	"time"

	"github.com/dalsegno/segno"
)

// Window selects a part of a timeline. The zero Window selects the newest rows.
type Window struct {
	// From is the index of the first row, counted from the oldest. nil selects the rows around Around, or
	// the newest rows if Around is empty.
	From   *int
	Around segno.CommitID
	N      int // how many rows, at most 200; 0 is the server's default
}

// Timeline is a part of a thread's timeline, oldest first.
type Timeline struct {
	Thread   segno.ThreadID  `json:"thread"`
	Revision int64           `json:"revision"` // grows with each change of the thread
	Total    int             `json:"total"`    // rows of the whole timeline
	From     int             `json:"from"`     // the index of the first row
	Rows     []Row           `json:"items"`
	Open     json.RawMessage `json:"open"` // the turn that is open, or null
}

// Row is one checkpoint of a timeline.
type Row struct {
	ID     segno.CommitID       `json:"id"`
	Kind   segno.CheckpointKind `json:"kind"`
	Turn   int                  `json:"turn"`
	Time   time.Time            `json:"time"`
	Agent  string               `json:"agent"`
	Prompt string               `json:"prompt"` // the beginning
	Label  string               `json:"label"`
	Pins   []string             `json:"pins"`

	Index       int   `json:"index"`        // counted from the oldest
	ParentIndex int   `json:"parent_index"` // -1 if there is none
	Lane        int   `json:"lane"`         // its column in the graph
	Through     []int `json:"through"`      // the columns of lines that pass this row
	OnLine      bool  `json:"on_line"`      // false: it is undone
}

// Timeline returns a window of a thread's timeline, with the forks, undone lines and pins. If the window
// is beyond the end, the error is [segno.KindInvalid].
func (s *Store) Timeline(ctx context.Context, thread segno.ThreadID, w Window) (*Timeline, error) {
	q := url.Values{}
	if w.From != nil {
		q.Set("from", decimal(int64(*w.From)))
	}
	if w.Around != "" {
		q.Set("around", string(w.Around))
	}
	if w.N > 0 {
		q.Set("n", decimal(int64(w.N)))
	}
	t := new(Timeline)
	if err := s.read(ctx, "read timeline", string(thread), "/threads/"+url.PathEscape(string(thread))+"/timeline", q, t); err != nil {
		return nil, err
	}
	return t, nil
}
