package proxy

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/acp"
	"github.com/dalsegno/segno/timeline"
)

// command is a command of the proxy. The user types it as a prompt that begins with a slash,
// or the client sends it as the method _segno/ and its name; docs/acp.md has the params and
// results.
type command struct {
	name string
	hint string // of the arguments
	text string // "" if it is a method only
	// parse reads the arguments that the user typed.
	parse func(text string) (arguments, error)
	run   func(s *session, ctx context.Context, args arguments) (reply, error)
}

// arguments are the params of a command's method. A typed command has one text for them.
type arguments struct {
	Turns  int    `json:"turns"`
	To     string `json:"to"`
	Turn   int    `json:"turn"`
	Name   string `json:"name"`
	Thread string `json:"thread"`
	Force  bool   `json:"force"`
}

// reply is the reply to a command: the text for a user, the result for a client.
type reply struct {
	text   string
	result any
}

// commands are the commands, in the order in which they are offered.
func commands() []command {
	return []command{
		{"checkpoints", "", "list this conversation's checkpoints", parseName, (*session).listCheckpoints},
		{"undo", "number of turns, --force", "undo the newest turns: files and conversation",
			parseTurns(segno.VerbUndo), undoOrRedo(segno.VerbUndo)},
		{"redo", "number of turns, --force", "redo undone turns", parseTurns(segno.VerbRedo), undoOrRedo(segno.VerbRedo)},
		{"restore", "checkpoint, --force", "go to a checkpoint: files and conversation", parseCheckpoint, (*session).restore},
		{"fork", "name", "continue in a fork of this conversation; the original does not change", parseName, (*session).forkCommand},
		{"switch", "thread", "continue with another thread of this directory; without one, list them", parseName, (*session).switchCommand},
		{"edit", "turn, new text", "undo a turn and all later ones, and send the new text", parseEdit, (*session).editCommand},
		{name: "threads", run: (*session).listThreads},
	}
}

// findCommand returns the command with a name, nil if there is none. Some commands can only be
// sent as methods and cannot be typed.
func findCommand(name string, typed bool) *command {
	all := commands()
	if i := slices.IndexFunc(all, func(c command) bool { return c.name == name && (c.text != "" || !typed) }); i >= 0 {
		return &all[i]
	}
	return nil
}

// parseCommand reads a prompt as a command and its arguments.
func parseCommand(prompt string) (c *command, args string, ok bool) {
	word, rest := cutWord(strings.TrimSpace(prompt))
	if name, isSlash := strings.CutPrefix(word, "/"); isSlash {
		c = findCommand(name, true)
	}
	return c, rest, c != nil
}

// cutWord splits a text after its first word.
func cutWord(text string) (word, rest string) {
	if i := strings.IndexFunc(text, unicode.IsSpace); i >= 0 {
		return text[:i], strings.TrimSpace(text[i:])
	}
	return text, ""
}

// withCommands returns the agent's commands and those of the proxy, as clients list them. The
// proxy's replace those of the agent with the same name.
func withCommands(agents []json.RawMessage) []json.RawMessage {
	all := slices.DeleteFunc(agents, func(c json.RawMessage) bool {
		var named struct{ Name string }
		return json.Unmarshal(c, &named) == nil && findCommand(named.Name, true) != nil
	})
	for _, c := range commands() {
		if c.text == "" {
			continue
		}
		a := map[string]any{"name": c.name, "description": c.text + " (segno)"}
		if c.hint != "" {
			a["input"] = map[string]any{"hint": c.hint}
		}
		all = append(all, acp.Encode(a))
	}
	return all
}

// array is a JSON array of elements, which keep their bytes.
func array[E ~[]byte](elements []E) []byte {
	text := []byte{'['}
	for i, e := range elements {
		if i > 0 {
			text = append(text, ',')
		}
		text = append(text, e...)
	}
	return append(text, ']')
}

// offerCommands are the edits that add the proxy's commands to the agent's.
func offerCommands(m acp.Message) []acp.Edit {
	list := m.Find(m.Params, "update", "availableCommands")
	var agents []json.RawMessage
	if list.IsZero() || m.Line[list.From] != '[' || m.Decode(list, &agents) != nil {
		return nil
	}
	return []acp.Edit{{At: list, With: array(withCommands(agents))}}
}

// announceCommands offers the proxy's commands beside those that the agent announced.
func (s *session) announceCommands() {
	if s.id == "" {
		return // a fork that is not made yet
	}
	var agents []json.RawMessage
	_ = json.Unmarshal(s.commands, &agents) // if it is not a list, there are none
	s.notify(map[string]any{"sessionUpdate": "available_commands_update", "availableCommands": withCommands(agents)})
}

// runCommand runs a command that the user typed and answers its prompt.
func (s *session) runCommand(m acp.Message, c *command, text string) error {
	ctx, end := s.wait()
	args, err := c.parse(text)
	var r reply
	if err == nil {
		r, err = s.run(ctx, c, args)
	}
	end()
	if err == nil && c.name == "edit" {
		edited, err := withText(m, args.Name)
		if err != nil {
			return err
		}
		return s.runTurn(edited, args.Name)
	}
	if err != nil {
		r.text = "segno: " + err.Error()
		if hint := segno.HintOf(err); hint != "" {
			r.text += "\n" + hint
		}
	}
	s.say(r.text + "\n")
	s.proxy.result(m, stopReason("end_turn"))
	return nil
}

// parseName reads a text as the name of a fork or of a thread.
func parseName(text string) (arguments, error) { return arguments{Name: text, Thread: text}, nil }

// parseCheckpoint reads the name of a checkpoint and --force.
func parseCheckpoint(text string) (arguments, error) {
	words := strings.Fields(text)
	rest := slices.DeleteFunc(slices.Clone(words), func(w string) bool { return w == "--force" })
	return arguments{To: strings.Join(rest, " "), Force: len(rest) < len(words)}, nil
}

// parseTurns reads a number of turns and --force.
func parseTurns(verb segno.Verb) func(string) (arguments, error) {
	return func(text string) (arguments, error) {
		args, err := parseCheckpoint(text)
		if args.Turns = 1; args.To != "" {
			args.Turns, err = strconv.Atoi(args.To)
		}
		if err != nil || args.Turns < 1 {
			err = segno.Errorf(segno.KindInvalid, string(verb), args.To, "not a number of turns").WithHint("Give a number of turns.")
		}
		return args, err
	}
}

// parseEdit reads a turn, by its number or its name, and a text.
func parseEdit(text string) (args arguments, err error) {
	args.To, args.Name = cutWord(text)
	if args.Name == "" {
		return args, segno.Errorf(segno.KindInvalid, "edit", "", "missing argument: a turn and a text").
			WithHint("Type /edit 2 and the new text.")
	}
	if _, err := strconv.Atoi(args.To); err == nil {
		args.To = "t" + args.To
	}
	return args, nil
}

// extension runs a command that the client sent as a method.
func (s *session) extension(m acp.Message) error {
	ctx, end := s.wait()
	defer end()
	name := strings.TrimPrefix(m.MethodName(), "_segno/")
	args := arguments{Turns: 1}
	if err := args.read(m, name); err != nil {
		return err
	}
	c := findCommand(name, false)
	if c == nil {
		return &acp.Error{Code: acp.CodeMethodNotFound, Message: fmt.Sprintf("%q: Method not found", m.MethodName())}
	}
	r, err := s.run(ctx, c, args)
	if err == nil {
		s.proxy.result(m, r.result)
	}
	return err
}

// run runs a command on the loaded session.
func (s *session) run(ctx context.Context, c *command, args arguments) (reply, error) {
	if err := s.load(); err != nil {
		return reply{}, err
	}
	return c.run(s, ctx, args)
}

// read reads the params of a method. The error names the param that is wrong.
func (p *arguments) read(m acp.Message, name string) error {
	wrong := func(format string, args ...any) error {
		return segno.Errorf(segno.KindInvalid, name, "", format, args...)
	}
	err := m.Decode(m.Params, p)
	if bad := new(json.UnmarshalTypeError); errors.As(err, &bad) {
		field := cmp.Or(bad.Field, "params")
		names := map[reflect.Kind]string{reflect.Int: "a whole number", reflect.String: "a string", reflect.Bool: "true or false"}
		want := names[bad.Type.Kind()]
		return wrong("%s must be %s, not %s", field, cmp.Or(want, "an object"), excerpt(m.Find(m.Params, field).Of(m.Line)))
	}
	switch {
	case err != nil:
		return wrong("%w", err)
	case (name == "undo" || name == "redo") && p.Turns < 1:
		return wrong("turns must be at least 1, not %d", p.Turns)
	case name == "edit" && p.Turn < 1:
		return wrong("turn must be the number of a turn, not %d", p.Turn)
	case name == "restore" && p.To == "":
		return wrong("to must name a checkpoint")
	case name == "switch" && p.Thread == "":
		return wrong("thread must name a thread")
	}
	return nil
}

func (s *session) listCheckpoints(ctx context.Context, _ arguments) (reply, error) {
	list, err := s.checkpoints(ctx)
	r := reply{text: "No checkpoint yet: the first prompt makes one.",
		result: map[string]any{"thread": s.record.Thread, "checkpoints": list}}
	if len(list) > 0 {
		r.text = table(list, func(c listedCheckpoint) (bool, string) {
			return c.Head, fmt.Sprintf("%-5s %s  %s  %s", c.Name, c.ID[:8], c.time.Local().Format(time.DateTime), c.Title)
		})
	}
	return r, err
}

func (s *session) listThreads(ctx context.Context, _ arguments) (reply, error) {
	list, err := s.threads(ctx)
	r := reply{text: "No thread yet: the first prompt makes one.",
		result: map[string]any{"thread": s.record.Thread, "threads": append([]segno.Thread{}, list...)}}
	if len(list) > 0 {
		r.text = table(list, func(t segno.Thread) (bool, string) {
			return t.ID == s.record.Thread, fmt.Sprintf("%s  %s  %s", t.ID[:8], t.Created.Local().Format(time.DateTime), t.Title)
		})
	}
	return r, err
}

// table formats rows; a mark precedes the current one.
func table[T any](list []T, row func(T) (isCurrent bool, text string)) string {
	var b strings.Builder
	for _, v := range list {
		mark := "  "
		isCurrent, text := row(v)
		if isCurrent {
			mark = "@ "
		}
		b.WriteString(mark + text + "\n")
	}
	return "```\n" + b.String() + "```"
}

func undoOrRedo(verb segno.Verb) func(*session, context.Context, arguments) (reply, error) {
	return func(s *session, ctx context.Context, args arguments) (reply, error) {
		return s.move(ctx, timeline.MoveRequest{Verb: verb, Turns: args.Turns, Force: args.Force})
	}
}

func (s *session) restore(ctx context.Context, args arguments) (reply, error) {
	c, err := s.findCheckpoint(ctx, args.To)
	if err != nil {
		return reply{}, err
	}
	return s.restoreTo(ctx, c.ID, args.To, args.Force)
}

func (s *session) forkCommand(ctx context.Context, args arguments) (reply, error) {
	f := &forkRequest{session: s, at: args.To, title: args.Name}
	if err := f.findPoint(ctx); err != nil {
		return reply{}, err
	}
	made, err := f.inPlace(ctx)
	if err != nil {
		return reply{}, err
	}
	return reply{
		text: fmt.Sprintf("This conversation is now a fork at %s. The original is unchanged: "+
			"it is in the list of sessions, and /switch %s returns to it.",
			turnName(made.From), made.From.Thread[:8]),
		result: map[string]any{"thread": made.Thread, "from": made.From.Thread, "at": made.From.ID, "turn": made.From.Turn},
	}, nil
}

func (s *session) switchCommand(ctx context.Context, args arguments) (reply, error) {
	if args.Thread == "" {
		return s.listThreads(ctx, args)
	}
	before := s.record.Thread
	t, err := s.switchTo(ctx, args.Thread)
	if err != nil {
		return reply{}, err
	}
	return reply{
		text: fmt.Sprintf("This conversation is now thread %s, %q. The files are unchanged; /checkpoints lists the checkpoints "+
			"that /restore accepts. /switch %s returns to the thread before.",
			t.ID[:8], t.Title, before[:8]),
		result: map[string]any{"thread": t.ID, "title": t.Title},
	}, nil
}

// editCommand goes to the state before a turn. If the user typed the command, the new text
// is then sent as a prompt.
func (s *session) editCommand(ctx context.Context, args arguments) (reply, error) {
	name := cmp.Or(args.To, fmt.Sprintf("t%d", args.Turn))
	turn, err := s.findCheckpoint(ctx, name)
	if err != nil {
		return reply{}, err
	}
	if turn.Kind != segno.CheckpointTurn {
		return reply{}, segno.Errorf(segno.KindInvalid, "edit", name, "it is not a turn").WithHint("Type /checkpoints to see the turns.")
	}
	if turn.Workspace != nil {
		return s.restoreTo(ctx, turn.Parent, name+"-", args.Force)
	}
	// The files of a turn from before segno are not recorded. All turns down to it are undone,
	// and the other files stay.
	list, err := s.checkpoints(ctx)
	if err != nil {
		return reply{}, err
	}
	later := slices.DeleteFunc(list, func(c listedCheckpoint) bool {
		return c.Kind != string(segno.CheckpointTurn) || c.Ahead || c.Turn < turn.Turn
	})
	return s.move(ctx, timeline.MoveRequest{Verb: segno.VerbUndo, Turns: len(later), Force: args.Force})
}

// withText is a prompt with another text; its attachments stay.
func withText(m acp.Message, text string) (acp.Message, error) {
	prompt := m.Find(m.Params, "prompt")
	blocks := [][]byte{acp.Encode(map[string]any{"type": "text", "text": text})}
	m.Elements(prompt, func(block acp.Span) {
		if m.Text(m.Find(block, "type")) != "text" {
			blocks = append(blocks, block.Of(m.Line))
		}
	})
	return acp.Parse(m.Splice(acp.Edit{At: prompt, With: array(blocks)}))
}

const noCheckpoint = "this conversation has no checkpoint yet"

// move makes a move on the session's thread. The agent's session follows at the next prompt.
func (s *session) move(ctx context.Context, ask timeline.MoveRequest) (r reply, err error) {
	if s.record.Thread == "" {
		return r, segno.Errorf(segno.KindNotFound, "find checkpoint", "", noCheckpoint).WithHint("The first prompt makes one.")
	}
	if s.record.IncompleteHistory && ask.Verb != segno.VerbRedo && !ask.Force {
		return r, segno.Errorf(segno.KindRefused, string(ask.Verb), "",
			"the agent does not replay the turns from before segno: a rebuilt session would lack them").
			WithHint("Use --force to go back without them.")
	}
	tl, err := s.timeline(ctx)
	if err != nil {
		return r, err
	}
	ask.Thread = s.record.Thread
	moved, err := tl.Move(ctx, ask, nil)
	if moved != nil {
		s.story, s.preface = nil, nil
	}
	if err != nil {
		return r, err
	}
	return reply{text: describeMove(moved), result: map[string]any{"head": moved.Head.ID, "turn": moved.Head.Turn,
		"turns": append([]int{}, moved.Plan.Turns...), "files": moved.Files,
		"conflicts": append([]segno.Conflict{}, moved.Plan.Conflicts...),
		"kept":      append([]segno.Conflict{}, moved.Plan.Kept...), "git": moved.Plan.Git}}, nil
}

// restoreTo moves files and conversation to a checkpoint, which the user called name.
func (s *session) restoreTo(ctx context.Context, to segno.CommitID, name string, force bool) (reply, error) {
	return s.move(ctx, timeline.MoveRequest{Verb: segno.VerbRestore, To: to, Name: name, Scope: timeline.ScopeBoth, Force: force})
}

// describeMove describes a move for the user.
func describeMove(moved *timeline.MoveResult) string {
	p := moved.Plan
	var b strings.Builder
	paths := "paths"
	if moved.Files == 1 {
		paths = "path"
	}
	fmt.Fprintf(&b, "%s: the conversation and the files are at %s; %d %s written.", p.Verb, turnName(moved.Head), moved.Files, paths)
	if len(p.Turns) > 0 {
		var names []string
		for _, n := range slices.Sorted(slices.Values(p.Turns)) {
			names = append(names, fmt.Sprintf("t%d", n))
		}
		fmt.Fprintf(&b, " Turns: %s.", strings.Join(names, ", "))
	}
	for _, step := range p.Steps {
		if step.Merged {
			fmt.Fprintf(&b, "\n- merged with later changes: %s", segno.QuotePath(step.Path))
		}
	}
	for _, c := range append(slices.Clone(p.Conflicts), p.Kept...) {
		fmt.Fprintf(&b, "\n- left as it is: %s (%s)", segno.QuotePath(c.Path), c.Why)
	}
	if len(p.Conflicts) > 0 && (p.Verb == segno.VerbUndo || p.Verb == segno.VerbRedo) {
		fmt.Fprintf(&b, "\nTo overwrite the files in conflict, type /%s --force.", p.Verb)
	}
	if p.Git != "" {
		fmt.Fprintf(&b, "\nThe repository's HEAD moved meanwhile; to follow: %s", p.Git)
	}
	return b.String()
}

// turnName is how users call a checkpoint.
func turnName(c *segno.Checkpoint) string {
	if c == nil || c.Turn == 0 {
		return "the beginning"
	}
	return fmt.Sprintf("t%d", c.Turn)
}
