package history

import (
	"time"

	"github.com/dalsegno/segno"
)

// Item is one element of log --json. A later release may add fields, but removes none.
type Item struct {
	ID      segno.CommitID       `json:"id"`
	Thread  segno.ThreadID       `json:"thread"`
	Turn    int                  `json:"turn"`
	Kind    segno.CheckpointKind `json:"kind"`
	Parent  *segno.CommitID      `json:"parent"`
	Agent   string               `json:"agent"`
	Session segno.SessionID      `json:"session"`
	Prompt  string               `json:"prompt"`
	Time    string               `json:"time"`
	Marks
	Snapshot string       `json:"snapshot"`
	Files    segno.Counts `json:"files"`
	Shell    int          `json:"shell"`
	Label    string       `json:"label"`
	Pin      string       `json:"pin"` // the first of Pins, or ""
	Pins     []string     `json:"pins"`
	Held     []string     `json:"held,omitempty"` // paths that are recorded although a rule protects them now
	Running  bool         `json:"running"`        // tasks that the turn started still run in the background
}

// Marks has the facts about a checkpoint that the log marks.
type Marks struct {
	Head        bool `json:"head"`
	Tip         bool `json:"tip"`
	Partial     bool `json:"partial"`
	Interrupted bool `json:"interrupted"`
	Shared      bool `json:"shared"`
}

// Item makes the JSON of a checkpoint.
func (h *History) Item(c *segno.Checkpoint) Item {
	it := Item{ID: c.ID, Thread: c.Thread, Turn: c.Turn, Kind: c.Kind, Agent: c.Agent, Prompt: c.Prompt,
		Time: c.Time.UTC().Format(time.RFC3339Nano), Snapshot: c.Tree().String(),
		Marks: Marks{c.ID == h.Head.Head, c.ID == h.Head.Tip, c.Partial(), c.Interrupted, c.Shared},
		Files: c.Files, Shell: c.Shell, Label: c.Label, Pins: append([]string{}, h.Pins[c.ID]...), Running: h.Running[c.ID]}
	if len(it.Pins) > 0 {
		it.Pin = it.Pins[0]
	}
	if c.Kind == segno.CheckpointBase {
		it.Turn = 0
	}
	if c.Parent != "" {
		it.Parent = &c.Parent
	}
	if c.Session != nil {
		it.Session = c.Session.Session
	}
	if c.Workspace != nil {
		it.Held = c.Workspace.Held
	}
	return it
}
