package history

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/internal/hook/event"
	"github.com/dalsegno/segno/internal/printable"
)

// Details is the result of show.
type Details struct {
	Item
	Calls   []Call   `json:"calls"`
	Message string   `json:"message"` // the agent's last words
	Notes   []string `json:"notes"`
	Changes []Change `json:"changes"`
	Unread  []string `json:"unread"`
	// UnreadBytes are the paths of Unread in base64. It is set if one of them is not valid UTF-8.
	UnreadBytes [][]byte `json:"unread_bytes,omitempty"`
	// UnreadDatabases are the databases that could not be read. ReadDetails does not set it.
	UnreadDatabases []UnreadDatabase `json:"unread_databases,omitempty"`
	Outside         []string         `json:"outside"` // unrecorded paths outside the workspace that tools wrote
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

// Call is one tool call of a turn.
type Call struct {
	ID     string          `json:"id"`
	Tool   string          `json:"tool"`
	Input  json.RawMessage `json:"input"`
	Result json.RawMessage `json:"result,omitempty"`
	Outcome
	Done bool `json:"done"` // the turn has a result of the call
}

// Outcome has the fields of a result that agents have in common.
type Outcome struct {
	Exit       *int     `json:"exit,omitempty"`
	DurationMS *float64 `json:"duration_ms,omitempty"`
	Status     string   `json:"status,omitempty"` // "completed" or "failed", if the agent reports it
}

// ReadDetails reads the calls, messages and notes of a checkpoint. It does not compare files: Changes
// is empty.
func (h *History) ReadDetails(ctx context.Context, store segno.Store, c *segno.Checkpoint) (Details, error) {
	s := Details{Item: h.Item(c), Calls: []Call{}, Notes: []string{}, Changes: []Change{}, Unread: []string{}, Outside: []string{}}
	read := s.readTurn
	if c.Step > 0 && c.Session == nil {
		read = s.readSteps
	}
	if err := read(ctx, store, c); err != nil {
		return s, err
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
	bounds := event.Bounds{Root: c.Workspace.Root, Dir: c.Session.Dir, Home: home, Agent: agent}
	for _, k := range s.Calls {
		s.Outside = append(s.Outside, bounds.Outside(k.Tool, k.Input)...)
	}
	slices.Sort(s.Outside)
	s.Outside = slices.Compact(s.Outside)
}

// readTurn reads the calls and messages of a turn from the entries of its commit.
func (s *Details) readTurn(ctx context.Context, store segno.Store, c *segno.Checkpoint) error {
	line, err := store.Load(ctx, c.ID, segno.Window{Last: 1, Entries: true})
	if err != nil {
		return err
	}
	prompted := false
	for _, e := range line.Commits[len(line.Commits)-1].Entries {
		var text string
		isText := json.Unmarshal(e.Body, &text) == nil // a clipped message is not plain text
		switch {
		case e.Kind == segno.EntryIntent:
			s.Calls = append(s.Calls, Call{ID: e.ID, Tool: e.Name, Input: ToolInput(e.Body)})
		case e.Kind == segno.EntryResult:
			k := s.callByID(e.ID)
			if k == nil {
				s.Calls = append(s.Calls, Call{ID: e.ID, Tool: e.Name})
				k = &s.Calls[len(s.Calls)-1]
			}
			k.Done, k.Result = true, e.Body
			_ = json.Unmarshal(e.Body, &k.Outcome) // the fields are optional
		case e.Kind == segno.EntryMessage && e.Name == "agent" && isText:
			s.Message = text
		case e.Kind == segno.EntryMessage && e.Name == "user":
			if prompted && isText { // the user typed it while the turn ran
				s.Notes = append(s.Notes, "the user added: "+text)
			}
			prompted = true
		case e.Kind == segno.EntryNote && isText:
			s.Notes = append(s.Notes, text)
		}
	}
	return nil
}

// readSteps reads the calls and messages of a Go agent's turn from the commits of its steps. It loads the commits of
// the turn and only a few before it.
func (s *Details) readSteps(ctx context.Context, store segno.Store, c *segno.Checkpoint) error {
	var nodes []*segno.Node // newest first
	for n, err := range segno.Ancestors(ctx, store, c.ID, segno.Window{Last: 8, Entries: true}) {
		if err != nil {
			return err
		}
		if slices.ContainsFunc(n.Entries, func(e segno.Entry) bool { return e.Turn < c.Turn }) ||
			n.Checkpoint != nil && n.Checkpoint.Turn < c.Turn {
			break
		}
		nodes = append(nodes, n)
	}
	for _, n := range slices.Backward(nodes) {
		for _, e := range n.Entries {
			if e.Kind != segno.EntryMessage || e.Turn != c.Turn {
				continue
			}
			var m agent.Message
			if err := json.Unmarshal(e.Body, &m); err != nil {
				return segno.NewError(segno.KindCorrupt, "read message", string(n.ID), err)
			}
			if err := s.addMessage(&m); err != nil {
				return err
			}
		}
	}
	return nil
}

// addMessage adds the calls of a message, and its results to the calls of earlier messages. The last
// text of the agent is the answer.
func (s *Details) addMessage(m *agent.Message) error {
	if m.Role == agent.Assistant {
		s.Message = m.Text()
	}
	for _, p := range m.Parts {
		if p.Call != nil {
			s.Calls = append(s.Calls, Call{ID: p.Call.ID, Tool: p.Call.Name, Input: p.Call.Args})
		}
		if p.Result == nil {
			continue
		}
		k := s.callByID(p.Result.Call)
		if k == nil {
			continue
		}
		body, err := segno.Encode(p.Result)
		if err != nil {
			return err
		}
		if k.Done, k.Result = true, body; p.Result.Error {
			k.Status = "failed"
		}
	}
	return nil
}

// callByID returns the newest call with an id, or nil.
func (s *Details) callByID(id string) *Call {
	for i := range slices.Backward(s.Calls) {
		if s.Calls[i].ID == id {
			return &s.Calls[i]
		}
	}
	return nil
}

// ToolInput returns the input of a tool's call. This is the body of the intent, or a field of the
// body if the agent recorded more than the input.
func ToolInput(body json.RawMessage) json.RawMessage {
	var fields struct {
		Title string          `json:"title"`
		Input json.RawMessage `json:"input"`
	}
	if json.Unmarshal(body, &fields) != nil || fields.Title == "" {
		return body
	}
	if len(fields.Input) > len("{}") {
		return fields.Input
	}
	if title, err := json.Marshal(fields.Title); err == nil {
		return title
	}
	return body
}
