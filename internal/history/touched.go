package history

import (
	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/timeline"
)

// Touched is one path that a checkpoint changed: created, changed, deleted or renamed it.
type Touched struct {
	Path      string          `json:"path"`
	PathBytes []byte          `json:"path_bytes,omitempty"` // base64, if the path is not valid UTF-8
	Action    timeline.Action `json:"action"`
	From      string          `json:"from,omitempty"` // of a renamed path: its path before
	FromBytes []byte          `json:"from_bytes,omitempty"`
	Call      *touchingCall   `json:"call"` // null if the entries do not show which call changed it
}

// touchingCall is the call that changed a path.
type touchingCall struct {
	ID    string `json:"id"`
	Tool  string `json:"tool"`
	Title string `json:"title"` // the command or the path, on one line

	repeatsPath bool // the title only repeats the path, as that of a tool for files does
}

// maxCallTitle is the number of characters of a call's title.
const maxCallTitle = 100

// TouchedPaths converts changes of paths.
func TouchedPaths(changes []timeline.PathChange) []Touched {
	all := make([]Touched, len(changes))
	for i, x := range changes {
		all[i] = Touched{Path: x.Path, PathBytes: segno.PathBytes(x.Path), Action: x.Action, From: x.From, FromBytes: segno.PathBytes(x.From)}
		if x.Call != nil {
			all[i].Call = &touchingCall{ID: x.Call.ID, Tool: Cut(x.Call.Tool, maxCallTitle), Title: x.Call.Subject(maxCallTitle),
				repeatsPath: x.Call.IsAbout(x.Path)}
		}
	}
	return all
}

// String describes the change in words, as "deleted docs/a.md".
func (t Touched) String() string {
	if t.Action == timeline.Renamed {
		return string(t.Action) + " " + segno.QuotePath(t.From) + " to " + segno.QuotePath(t.Path)
	}
	return string(t.Action) + " " + segno.QuotePath(t.Path)
}

// By names the call that made the change, as "Bash: rm docs/a.md", or returns "". It omits a title that only repeats the path.
func (t Touched) By() string {
	switch {
	case t.Call == nil:
		return ""
	case t.Call.repeatsPath:
		return t.Call.Tool
	}
	return t.Call.Tool + ": " + t.Call.Title
}
