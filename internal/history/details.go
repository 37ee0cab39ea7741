package history

import (
	"context"
	"slices"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history/printable"
	"github.com/dalsegno/segno/internal/history/turns"
	"github.com/dalsegno/segno/timeline"
)

// Details is the result of show.
type Details struct {
	Item
	Calls   []turns.Call `json:"calls"`
	Points  []Point      `json:"points,omitempty"` // one for each of Calls, if hooks saved files after them. ReadDetails does not set it.
	Message string       `json:"message"`          // the agent's last words
	Usage   *Usage       `json:"usage"`            // null if it is not known; ReadDetails does not set it
	Notes   []string     `json:"notes"`
	Changes []Change     `json:"changes"`
	Unread  []string     `json:"unread"`
	// UnreadBytes are the paths of Unread in base64. It is set if one of them is not valid UTF-8.
	UnreadBytes [][]byte `json:"unread_bytes,omitempty"`
	// UnreadDatabases are the databases that could not be read. ReadDetails does not set it.
	UnreadDatabases []UnreadDatabase `json:"unread_databases,omitempty"`
	Outside         []string         `json:"outside"` // unrecorded paths outside the workspace that tools wrote
}

// Point is the end of a call, as a name for restore, diff and cat.
type Point struct {
	Name    string   `json:"name"`
	Exact   bool     `json:"exact"`             // whether all files of that moment are known
	Unknown []string `json:"unknown,omitempty"` // files that may have been different
}

// Points converts the points of a turn.
func Points(all []timeline.Point) (out []Point) {
	for _, p := range all {
		out = append(out, Point{p.Name(), p.IsExact(), p.Unknown})
	}
	return out
}

// UnreadDatabase is an attached database that a checkpoint lacks because it could not be read.
type UnreadDatabase struct {
	Name string `json:"name"`
	Why  string `json:"why"`

	NameBytes []byte `json:"name_bytes,omitempty"` // base64, if the name is not valid UTF-8
}

// UnreadDatabases converts the conflicts of databases that could not be read.
func UnreadDatabases(unread []segno.Conflict) (all []UnreadDatabase) {
	for _, u := range unread {
		name, _ := segno.DatabaseName(u.Path)
		all = append(all, UnreadDatabase{Name: name, Why: u.Why, NameBytes: segno.PathBytes(name)})
	}
	return all
}

// String describes the database and the reason for text output.
func (u UnreadDatabase) String() string {
	return segno.QuotePath(segno.DatabasePath(u.Name)) + ": " + printable.Inline(u.Why)
}

// Unread returns the paths and the names of the databases that a snapshot lacks. The snapshot may be nil.
func Unread(s *segno.Snapshot) (paths, databases []string) {
	if s == nil {
		return nil, nil
	}
	for _, p := range s.Unread {
		if name, isDatabase := segno.DatabaseName(p); isDatabase {
			databases = append(databases, name)
		} else {
			paths = append(paths, p)
		}
	}
	return paths, databases
}

// ReadDetails reads the calls, messages and notes of a checkpoint. It does not compare files: Changes
// is empty.
func (h *History) ReadDetails(ctx context.Context, src *turns.Source, c *segno.Checkpoint) (Details, error) {
	s := Details{Item: h.Item(c), Calls: []turns.Call{}, Notes: []string{}, Changes: []Change{}, Unread: []string{}, Outside: []string{}}
	t, err := src.Load(ctx, c)
	if err != nil {
		return s, err
	}
	s.Calls, s.Message = t.Calls(), t.Answer()
	for _, it := range t.Items {
		switch {
		case it.Author == turns.Segno:
			s.Notes = append(s.Notes, it.Text)
		case it.Author == turns.User: // the user typed it while the turn ran
			s.Notes = append(s.Notes, "the user added: "+it.Text)
		}
	}
	paths, _ := Unread(c.Workspace)
	s.Unread = append(s.Unread, paths...)
	s.UnreadBytes = PathsBytes(s.Unread)
	return s, nil
}

// FindOutside collects the paths outside the workspace that a turn's calls wrote. A turn of a Go
// agent has none, because its tools are confined to the workspace. home is the user's home
// directory, and agent the directory in which the agent keeps its own files.
func (s *Details) FindOutside(c *segno.Checkpoint, home, agent string) {
	if c.Workspace == nil || c.Session == nil {
		return
	}
	bounds := turns.Bounds{Root: c.Workspace.Root, Dir: c.Session.Dir, Home: home, Agent: agent}
	for _, k := range s.Calls {
		s.Outside = append(s.Outside, bounds.Outside(k.Tool, k.Input)...)
	}
	slices.Sort(s.Outside)
	s.Outside = slices.Compact(s.Outside)
}
