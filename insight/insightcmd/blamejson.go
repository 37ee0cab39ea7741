package insightcmd

import (
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/insight/blame"
)

// blameResult is the result of blame --json. A later release may add fields, but removes none.
type blameResult struct {
	SchemaVersion int            `json:"schema_version"`
	Path          string         `json:"path"`
	PathBytes     []byte         `json:"path_bytes,omitempty"`
	Thread        segno.ThreadID `json:"thread"`
	Checkpoint    segno.CommitID `json:"checkpoint"` // "" for the present file
	Origins       []originItem   `json:"origins"`
	Lines         []blamedLine   `json:"lines"`
}

// originItem is where lines come from.
type originItem struct {
	Author       blame.Author         `json:"author"`
	Checkpoint   segno.CommitID       `json:"checkpoint"` // "" if no checkpoint has the lines yet
	Thread       segno.ThreadID       `json:"thread"`
	Kind         segno.CheckpointKind `json:"kind"`
	Turn         int                  `json:"turn"`
	Agent        string               `json:"agent"`
	Session      segno.SessionID      `json:"session"`
	Prompt       string               `json:"prompt"`
	Time         *time.Time           `json:"time"`
	Label        string               `json:"label"`
	Path         string               `json:"path"` // of the file there
	PathBytes    []byte               `json:"path_bytes,omitempty"`
	WhileCommand bool                 `json:"while_command"`
}

type blamedLine struct {
	Line      int    `json:"line"`
	Text      string `json:"text"` // without the newline
	TextBytes []byte `json:"text_bytes,omitempty"`
	Origin    int    `json:"origin"`      // the index in origins
	Number    int    `json:"origin_line"` // the number of the line in the file there
}

func resultOf(f *blamed) *blameResult {
	r := &blameResult{SchemaVersion: 1, Path: f.path, PathBytes: segno.PathBytes(f.path), Thread: f.thread, Checkpoint: f.at, Origins: []originItem{}, Lines: []blamedLine{}}
	index := map[*blame.Origin]int{}
	for i, text := range f.texts {
		l := f.lines[i]
		at, known := index[l.Origin]
		if !known {
			at = len(r.Origins)
			index[l.Origin] = at
			r.Origins = append(r.Origins, originOf(l.Origin, f.running))
		}
		r.Lines = append(r.Lines, blamedLine{f.first + i + 1, text, segno.PathBytes(text), at, l.Number})
	}
	return r
}

func originOf(o *blame.Origin, running string) originItem {
	it := originItem{Author: o.Author, Path: o.Path, PathBytes: segno.PathBytes(o.Path), WhileCommand: o.WhileCommand}
	if o.Author == blame.Running {
		it.Prompt = running
	}
	if c := o.Checkpoint; c != nil {
		at := c.Time.UTC()
		it.Checkpoint, it.Thread, it.Kind, it.Turn, it.Agent, it.Prompt, it.Time, it.Label = c.ID, c.Thread, c.Kind, c.Turn, c.Agent, c.Prompt, &at, c.Label
		if c.Session != nil {
			it.Session = c.Session.Session
		}
	}
	return it
}
