package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/event"
)

func (a *app) show() *cobra.Command {
	return &cobra.Command{
		Use:               "show [CHECKPOINT]",
		Short:             "show the prompt, tool calls and changed files of a turn",
		Long:              "Shows a checkpoint: the prompt, the tools that were called, the files that changed.\nWithout an argument, it shows the head of the thread.",
		Example:           "  segno show t3\n  segno show @- --json",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: a.completeCheckpoints,
		RunE: func(c *cobra.Command, args []string) error {
			return a.runShow(c.Context(), append(args, "@")[0])
		},
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
	Status     string          `json:"status,omitempty"` // "completed" or "failed", if the agent says that
	Done       bool            `json:"done"`             // a result was seen
}

// change is one changed path in a result.
type change struct {
	Path      string `json:"path"`
	PathBytes []byte `json:"path_bytes,omitempty"` // base64, if the path is not valid UTF-8
	Sign      string `json:"sign"`                 // "+", "~", "-"
	Type      string `json:"type"`
	Merged    bool   `json:"merged,omitempty"` // of a move: it keeps a change made since, merged by lines
}

// name is the path as a person reads it.
func (c change) name() string {
	if c.Type == string(segno.EntityDir) {
		return quotePath(c.Path + "/")
	}
	return quotePath(c.Path)
}

func (a *app) runShow(ctx context.Context, name string) error {
	d, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer d.Close()
	h, c, err := a.checkpointNamed(ctx, d, name)
	if err != nil {
		return err
	}
	s := checkpointDetails{logItem: h.item(c), Calls: []call{}, Notes: []string{}, Changes: []change{}, Unread: []string{}, Outside: []string{}}
	if err := s.read(ctx, d, c); err != nil {
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
	return a.printLong(s, func(w io.Writer) error { return a.writeShown(w, c, s) })
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

// read takes a checkpoint's calls and words from its entries.
func (s *checkpointDetails) read(ctx context.Context, d *openWorkspace, c *segno.Checkpoint) error {
	if c.Step > 0 && c.Session == nil {
		return s.readSteps(ctx, d, c)
	}
	line, err := d.store.Load(ctx, c.ID, segno.Window{Last: 1, Entries: true})
	if err != nil {
		return err
	}
	at, prompted := map[string]int{}, false
	for _, e := range line.Commits[len(line.Commits)-1].Entries {
		switch e.Kind {
		case segno.EntryIntent:
			at[e.ID] = len(s.Calls)
			s.Calls = append(s.Calls, call{ID: e.ID, Tool: e.Name, Input: toolInput(e.Body)})
		case segno.EntryResult:
			i, ok := at[e.ID]
			if !ok {
				i = len(s.Calls)
				s.Calls = append(s.Calls, call{ID: e.ID, Tool: e.Name})
			}
			s.Calls[i].Done, s.Calls[i].Result = true, e.Body
			_ = json.Unmarshal(e.Body, &s.Calls[i]) // takes exit and duration where the body has them
		case segno.EntryMessage:
			switch {
			case e.Name == "agent":
				_ = json.Unmarshal(e.Body, &s.Message) // a clipped message has no plain text
			case e.Name == "user" && prompted: // a message typed while the turn ran
				if text := ""; json.Unmarshal(e.Body, &text) == nil {
					s.Notes = append(s.Notes, "the user added: "+text)
				}
			case e.Name == "user":
				prompted = true
			}
		case segno.EntryNote:
			var text string
			if json.Unmarshal(e.Body, &text) == nil {
				s.Notes = append(s.Notes, text)
			}
		}
	}
	return nil
}

// toolInput is the input of a tool's call: an intent's body, or a field of it if the agent
// recorded more of the call than its input.
func toolInput(body json.RawMessage) json.RawMessage {
	var told struct {
		Title string          `json:"title"`
		Kind  string          `json:"kind"`
		Input json.RawMessage `json:"input"`
	}
	if json.Unmarshal(body, &told) != nil || told.Title == "" {
		return body
	}
	if len(told.Input) > len("{}") {
		return told.Input
	}
	title, err := json.Marshal(told.Title)
	if err != nil {
		return body
	}
	return title
}

// changesOf returns the files that differ between a checkpoint and its parent.
func changesOf(ctx context.Context, d *openWorkspace, h *history, c *segno.Checkpoint) ([]change, error) {
	parent := h.byID[c.Parent]
	for parent != nil && parent.Kind == segno.CheckpointStep && parent.Tree().IsZero() {
		parent = h.byID[parent.Parent] // steps of a session have no files
	}
	if c.Tree().IsZero() || parent.Tree().IsZero() {
		return nil, nil
	}
	diff, err := d.timeline.Workspace.Diff(ctx, parent.Tree(), c.Tree())
	return signed(diff), err
}

func signed(diff []segno.Change) []change {
	out := make([]change, 0, len(diff))
	for _, x := range diff {
		ch := change{Path: x.Path, PathBytes: segno.PathBytes(x.Path), Sign: "~", Type: string(x.To.Type), Merged: x.Merged}
		switch {
		case x.From.Type == segno.EntityNone:
			ch.Sign = "+"
		case x.To.Type == segno.EntityNone:
			ch.Sign, ch.Type = "-", string(x.From.Type)
		}
		out = append(out, ch)
	}
	return out
}

func (a *app) writeShown(w io.Writer, c *segno.Checkpoint, s checkpointDetails) error {
	p := a.paint(w)
	names := ""
	for _, pin := range s.Pins {
		names += "  [" + inline(pin) + "]"
	}
	fmt.Fprintf(w, "%s  %s  %s%s\n", p.bold(inline(label(c))), inline(string(c.Kind)), inline(string(c.ID)), names)
	fmt.Fprintf(w, "%s\n", p.dim(fmt.Sprintf("%s  %s  session %s", a.when(c.Time), inline(c.Agent), inline(string(s.Session)))))
	if s.Prompt != "" {
		fmt.Fprintf(w, "\n%s\n", indent(cleanLines(s.Prompt)))
	}
	for _, n := range s.Notes {
		const most = 400
		fmt.Fprintf(w, "\n%s\n", p.warn(indent(cleanLines(fit(n, most)))))
	}
	if len(s.Calls) > 0 {
		fmt.Fprintln(w)
	}
	for _, k := range s.Calls {
		fmt.Fprintf(w, "  %s %s%s\n", p.bold(pad(fit(inline(k.Tool), maxToolName), 6)), oneLine(k.Input), p.dim(callOutcome(k)))
	}
	if s.Message != "" {
		fmt.Fprintf(w, "\n%s\n", indent(cleanLines(s.Message)))
	}
	if len(s.Changes) > 0 {
		fmt.Fprintln(w)
	}
	if err := writeChanges(w, p, s.Changes, s.Unread); err != nil {
		return err
	}
	for i, path := range s.Outside {
		if i == 0 {
			fmt.Fprintf(w, "\n%s\n", p.warn("outside the workspace, not recorded:"))
		}
		fmt.Fprintf(w, "  %s\n", inline(path))
	}
	return nil
}

func writeChanges(w io.Writer, p paint, changes []change, unread []string) error {
	for _, x := range changes {
		line := fmt.Sprintf("  %s %s", x.Sign, x.name())
		if x.Merged {
			line += "  merged"
		}
		switch x.Sign {
		case "+":
			line = p.added(line)
		case "-":
			line = p.gone(line)
		}
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	for _, u := range unread {
		if _, err := fmt.Fprintf(w, "  %s %s\n", p.warn("not saved:"), quotePath(u)); err != nil {
			return err
		}
	}
	return nil
}

// callOutcome says how a call ended: its exit status and how long it took.
func callOutcome(k call) string {
	var s string
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

// oneLine is a tool's input on one line: its command or path, else the input as JSON.
func oneLine(input json.RawMessage) string {
	var in struct {
		Command string `json:"command"`
		Path    string `json:"file_path"`
	}
	text := string(input)
	if json.Unmarshal(input, &text) == nil {
		return clean(fit(strings.ReplaceAll(text, "\n", " "), 100))
	}
	if json.Unmarshal(input, &in) == nil {
		if in.Command != "" {
			text = in.Command
		} else if in.Path != "" {
			text = in.Path
		}
	}
	return clean(fit(strings.ReplaceAll(text, "\n", " "), 100))
}

// maxToolName is how much of a tool's name is shown.
const maxToolName = 60

func indent(s string) string { return "  " + strings.ReplaceAll(strings.TrimSpace(s), "\n", "\n  ") }

// cleanLines is clean for text of several lines, which may be in any script.
func cleanLines(s string) string {
	lines := strings.Split(strings.ReplaceAll(s, "\r\n", "\n"), "\n")
	for i := range lines {
		lines[i] = escape(strings.ReplaceAll(lines[i], "\t", "    "), func(r rune) bool { return unsafe(r) && !joins(r) })
	}
	return strings.Join(lines, "\n")
}
