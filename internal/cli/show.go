package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/internal/event"
)

func (a *app) show() *cobra.Command {
	return &cobra.Command{
		Use:   "show [CHECKPOINT]",
		Short: "show the prompt, tool calls and changed files of a turn",
		Long: `Shows a checkpoint: the prompt, the tools that were called, the files that changed.
Without an argument, it shows the head of the thread.`,
		Example:           "  segno show t3\n  segno show @- --json",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: a.completeCheckpoints(1),
		RunE:              a.inWorkspace(a.runShow),
	}
}

// checkpointDetails is the result of show.
type checkpointDetails struct {
	logItem
	Calls   []call   `json:"calls"`
	Message string   `json:"message"` // the agent's last words
	Notes   []string `json:"notes"`
	Changes []change `json:"changes"`
	Unread  []string `json:"unread"`
	// UnreadBytes are the same paths in base64, if one of them is not valid UTF-8.
	UnreadBytes [][]byte `json:"unread_bytes,omitempty"`
	Outside     []string `json:"outside"` // paths outside the workspace that tools wrote: not recorded
}

// call is one tool call of a turn.
type call struct {
	ID         string          `json:"id"`
	Tool       string          `json:"tool"`
	Input      json.RawMessage `json:"input"`
	Result     json.RawMessage `json:"result,omitempty"`
	Exit       *int            `json:"exit,omitempty"`
	DurationMS *float64        `json:"duration_ms,omitempty"`
	Status     string          `json:"status,omitempty"` // "completed" or "failed", if the agent reports it
	Done       bool            `json:"done"`             // a result was seen
}

// change is one changed path in a result.
type change struct {
	Path      string `json:"path"`
	PathBytes []byte `json:"path_bytes,omitempty"` // base64, if the path is not valid UTF-8
	Sign      string `json:"sign"`                 // "+", "~", "-"
	Type      string `json:"type"`
	Merged    bool   `json:"merged,omitempty"` // of a move: it keeps a change made since, merged by lines
	Pages     int    `json:"pages,omitempty"`  // of an attached database: how many differ
	Tables    int    `json:"tables,omitempty"` // of an attached PostgreSQL database: how many differ
}

// name is the path as a person reads it.
func (c change) name() string {
	switch c.Type {
	case string(segno.EntityDir):
		return quotePath(c.Path + "/")
	case string(segno.EntityDatabase):
		size := plural(c.Pages, "page")
		if c.Pages == 0 && c.Tables > 0 {
			size = plural(c.Tables, "table")
		}
		return fmt.Sprintf("database %s: %s", quotePath(c.Path), size)
	}
	return quotePath(c.Path)
}

func (a *app) runShow(ctx context.Context, d *openWorkspace, args []string) error {
	h, c, err := a.checkpointNamed(ctx, d, append(args, "@")[0])
	if err != nil {
		return err
	}
	s := checkpointDetails{logItem: h.item(c), Calls: []call{}, Notes: []string{}, Changes: []change{},
		Unread: []string{}, Outside: []string{}}
	if c.Step > 0 && c.Session == nil {
		err = s.readSteps(ctx, d, c)
	} else {
		err = s.readTurn(ctx, d, c)
	}
	if err != nil {
		return err
	}
	changes, err := changesOf(ctx, d, h, c)
	if err != nil {
		return err
	}
	s.Changes = append(s.Changes, changes...)
	if c.Workspace != nil {
		s.Unread = append(s.Unread, c.Workspace.Unread...)
		s.UnreadBytes = pathsBytes(s.Unread)
	}
	s.findOutside(d, c)
	return a.printLong(s, func(p *printer) { a.writeShown(p, c, s) })
}

// findOutside collects the paths outside the workspace that a turn's calls wrote. A turn of
// a Go agent has none: its tools are confined to the workspace.
func (s *checkpointDetails) findOutside(d *openWorkspace, c *segno.Checkpoint) {
	if c.Workspace == nil || c.Session == nil {
		return
	}
	place := d.store.Place()
	bounds := event.Bounds{Root: c.Workspace.Root, Dir: c.Session.Dir, Home: place.UserHome, Agent: place.Claude}
	for _, k := range s.Calls {
		s.Outside = append(s.Outside, bounds.Outside(k.Tool, k.Input)...)
	}
	slices.Sort(s.Outside)
	s.Outside = slices.Compact(s.Outside)
}

// readTurn reads the calls and messages of a turn from the entries of its commit.
func (s *checkpointDetails) readTurn(ctx context.Context, d *openWorkspace, c *segno.Checkpoint) error {
	line, err := d.store.Load(ctx, c.ID, segno.Window{Last: 1, Entries: true})
	if err != nil {
		return err
	}
	prompted := false
	for _, e := range line.Commits[len(line.Commits)-1].Entries {
		var text string
		isText := json.Unmarshal(e.Body, &text) == nil // a clipped message is not plain text
		switch {
		case e.Kind == segno.EntryIntent:
			s.Calls = append(s.Calls, call{ID: e.ID, Tool: e.Name, Input: toolInput(e.Body)})
		case e.Kind == segno.EntryResult:
			k := s.callByID(e.ID)
			if k == nil {
				s.Calls = append(s.Calls, call{ID: e.ID, Tool: e.Name})
				k = &s.Calls[len(s.Calls)-1]
			}
			k.Done, k.Result = true, e.Body
			_ = json.Unmarshal(e.Body, k) // exit and duration, if the body has them
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

// readSteps reads the calls and messages of a Go agent's turn from the commits of its steps.
func (s *checkpointDetails) readSteps(ctx context.Context, d *openWorkspace, c *segno.Checkpoint) error {
	line, err := d.store.Load(ctx, c.ID, segno.Window{Entries: true})
	if err != nil {
		return err
	}
	for i := range line.Commits {
		for _, e := range line.Commits[i].Entries {
			if e.Kind != segno.EntryMessage || e.Turn != c.Turn {
				continue
			}
			var m agent.Message
			if err := json.Unmarshal(e.Body, &m); err != nil {
				return segno.NewError(segno.KindCorrupt, "read message", string(line.Commits[i].ID), err)
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
func (s *checkpointDetails) addMessage(m *agent.Message) error {
	if m.Role == agent.Assistant {
		s.Message = m.Text()
	}
	for _, p := range m.Parts {
		if p.Call != nil {
			s.Calls = append(s.Calls, call{ID: p.Call.ID, Tool: p.Call.Name, Input: p.Call.Args})
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
func (s *checkpointDetails) callByID(id string) *call {
	for i := range slices.Backward(s.Calls) {
		if s.Calls[i].ID == id {
			return &s.Calls[i]
		}
	}
	return nil
}

// toolInput returns the input of a tool's call: an intent's body, or a field of it if the agent
// recorded more of the call than its input.
func toolInput(body json.RawMessage) json.RawMessage {
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

// changesOf returns the files that differ between a checkpoint and its parent. It returns none if
// the files of one of them are not recorded.
func changesOf(ctx context.Context, d *openWorkspace, h *history, c *segno.Checkpoint) ([]change, error) {
	parent := h.byID[c.Parent]
	for parent != nil && parent.Kind == segno.CheckpointStep && parent.Tree().IsZero() {
		parent = h.byID[parent.Parent] // steps of a session have no files
	}
	if c.Tree().IsZero() || parent.Tree().IsZero() {
		return nil, nil
	}
	diff, err := d.timeline.Workspace.Diff(ctx, parent.Tree(), c.Tree())
	if err != nil {
		return nil, err
	}
	databases, err := d.timeline.Databases(ctx, parent.Workspace, c.Workspace)
	if err != nil {
		return nil, err
	}
	return signedIn(ctx, d, append(databases, diff...))
}

// signedIn is signed with the numbers of pages of databases.
func signedIn(ctx context.Context, d *openWorkspace, diff []segno.Change) ([]change, error) {
	out := signed(diff)
	steps, err := d.timeline.DatabaseSteps(ctx, diff)
	for i := range out {
		if len(steps) > 0 && out[i].Type == string(segno.EntityDatabase) {
			out[i].Pages, out[i].Tables, steps = steps[0].Pages, steps[0].Tables, steps[1:]
		}
	}
	return out, err
}

// signed describes changes from the point of view of their result: "+" for a new path, "-" for a
// deleted path, "~" for any other change.
func signed(diff []segno.Change) []change {
	out := make([]change, len(diff))
	for i, x := range diff {
		out[i] = change{Path: x.Path, PathBytes: segno.PathBytes(x.Path), Sign: "~", Type: string(x.To.Type), Merged: x.Merged}
		switch {
		case x.From.Type == segno.EntityNone:
			out[i].Sign = "+"
		case x.To.Type == segno.EntityNone:
			out[i].Sign, out[i].Type = "-", string(x.From.Type)
		}
		if name, ok := segno.DatabaseName(x.Path); ok {
			out[i].Path, out[i].PathBytes, out[i].Type = name, segno.PathBytes(name), string(segno.EntityDatabase)
		}
	}
	return out
}

func (a *app) writeShown(p *printer, c *segno.Checkpoint, s checkpointDetails) {
	names := ""
	for _, pin := range s.Pins {
		names += "  [" + inline(pin) + "]"
	}
	p.linef("%s  %s  %s%s", p.bold(inline(label(c))), inline(string(c.Kind)), inline(string(c.ID)), names)
	p.linef("%s", p.dim(fmt.Sprintf("%s  %s  session %s", a.when(c.Time), inline(c.Agent), inline(string(s.Session)))))
	if s.Prompt != "" {
		p.linef("\n%s", indent(cleanLines(s.Prompt)))
	}
	for _, n := range s.Notes {
		const most = 400
		p.linef("\n%s", p.warn(indent(cleanLines(fit(n, most)))))
	}
	for i, k := range s.Calls {
		if i == 0 {
			p.linef("")
		}
		p.linef("  %s %s%s", p.bold(pad(fit(inline(k.Tool), maxToolName), 6)), oneLine(k.Input), p.dim(callOutcome(k)))
	}
	if s.Message != "" {
		p.linef("\n%s", indent(cleanLines(s.Message)))
	}
	if len(s.Changes) > 0 {
		p.linef("")
	}
	p.changes(s.Changes)
	for _, u := range s.Unread {
		p.linef("  %s %s", p.warn("not saved:"), quotePath(u))
	}
	for i, path := range s.Outside {
		if i == 0 {
			p.linef("\n%s", p.warn("outside the workspace, not recorded:"))
		}
		p.linef("  %s", inline(path))
	}
}

// callOutcome describes the end of a call: its exit status and how long it took.
func callOutcome(k call) (s string) {
	if k.Exit != nil && *k.Exit != 0 {
		s += fmt.Sprintf("  exit %d", *k.Exit)
	}
	if k.DurationMS != nil {
		s += fmt.Sprintf("  %.0f ms", *k.DurationMS)
	}
	if k.Status == "failed" {
		s += "  failed"
	}
	if !k.Done {
		s += "  no result seen"
	}
	return s
}

// oneLine writes a tool's input on one line: its command or path, else the input as JSON.
func oneLine(input json.RawMessage) string {
	var in struct {
		Command string `json:"command"`
		Path    string `json:"file_path"`
	}
	text := string(input)
	if json.Unmarshal(input, &text) != nil && json.Unmarshal(input, &in) == nil {
		text = cmp.Or(in.Command, in.Path, text)
	}
	return clean(fit(strings.ReplaceAll(text, "\n", " "), 100))
}

// maxToolName is the number of columns for the name of a tool.
const maxToolName = 60

func indent(s string) string { return "  " + strings.ReplaceAll(strings.TrimSpace(s), "\n", "\n  ") }
