package history

import (
	"context"
	"time"

	"github.com/dalsegno/segno"
)

// Thread is one element of threads --json.
type Thread struct {
	segno.Thread
	Head    segno.CommitID  `json:"head"`
	Turn    int             `json:"turn"`
	Session segno.SessionID `json:"session"`
	Current bool            `json:"current"` // it is the current thread of the directory
	Dir     string          `json:"dir"`     // where the thread began

	DirBytes []byte `json:"dir_bytes,omitempty"`
	Chain    []Link `json:"chain"` // the thread's sessions, oldest first
}

// Link is one session of a thread's chain.
type Link struct {
	Agent    string          `json:"agent"`
	Session  segno.SessionID `json:"session"`
	Dir      string          `json:"dir,omitempty"`
	Start    time.Time       `json:"start"`
	End      time.Time       `json:"end,omitzero"`
	Reason   string          `json:"reason,omitempty"`
	Fidelity segno.Fidelity  `json:"fidelity,omitempty"`

	DirBytes []byte `json:"dir_bytes,omitempty"`
}

// Chain returns the sessions of a thread, oldest first.
func Chain(ctx context.Context, store segno.Chains, thread segno.ThreadID) ([]Link, error) {
	items := []Link{}
	for l, err := range store.Chain(ctx, thread) {
		if err != nil {
			return nil, err
		}
		items = append(items, Link{l.Agent, l.Session, l.Dir, l.Start, l.End, l.Reason, l.Fidelity, segno.PathBytes(l.Dir)})
	}
	return items, nil
}
