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
	"github.com/dalsegno/segno/internal/history/printable"
	"github.com/dalsegno/segno/internal/proxy/acp"
	"github.com/dalsegno/segno/timeline"
)

// command is a command of the proxy. The user types it as a prompt that begins with a slash,
// or the client sends it as the method _segno/ and its name; docs/acp.md has the params and
// results.
type command struct {
	name string
	hint string // describes the arguments
	text string // what the command does; "" if it is a method only
	// parse reads the arguments that the user typed.
	parse func(text string) (arguments, error)
	run   func(s *session, ctx context.Context, args arguments) (reply, error)
}

// arguments are the params of a command's method. The parse function of a typed command reads
// them from the text.
type arguments struct {
	Turns  int    `json:"turns"`
	To     string `json:"to"`
	Turn   int    `json:"turn"`
	Name   string `json:"name"`
	Thread string `json:"thread"`
	Force  bool   `json:"force"` // overwrite the conflicts
	// WhileRunning moves although a turn of another agent in the directory is open.
	WhileRunning bool `json:"while_running"`
	// Incomplete moves although the agent then loses the turns from before segno.
	Incomplete bool `json:"incomplete"`
	// Preview makes restore list the paths that it would replace, without a move.
	Preview bool `json:"preview"`
}

// reply is the reply to a command: the text for a user, the result for a client.
type reply struct {
	text   string
	result any
}

// commands returns the commands in the order in which clients list them.
func commands() []command {
	return []command{
		{"checkpoints", "", "list this conversation's checkpoints", parseName, (*session).listCheckpoints},
		{"undo", "number of turns, --force, --while-running", "undo the newest turns: files and conversation",
			parseTurns(segno.VerbUndo), undoOrRedo(segno.VerbUndo)},
		{"redo", "number of turns, --force, --while-running", "redo undone turns", parseTurns(segno.VerbRedo), undoOrRedo(segno.VerbRedo)},
		{"restore", "checkpoint, --while-running", "go to a checkpoint: files and conversation", parseCheckpoint, (*session).restore},
		{"fork", "name", "continue in a fork of this conversation; the original does not change", parseName, (*session).forkCommand},
		{"switch", "thread", "continue with another thread of this directory; without one, list them", parseName, (*session).switchCommand},
		{"edit", "turn, new text", "undo a turn and all later ones, and send the new text", parseEdit, (*session).editCommand},
		{name: "threads", run: (*session).listThreads},
	}
}

// findCommand returns the command with a name, nil if there is none. If typed is set, it skips
// the commands that clients can only send as methods.
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

// array returns a JSON array of elements. Unlike json.Marshal, it keeps their bytes.
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

// announceCommands sends the client the list of the agent's commands and the proxy's.
func (s *session) announceCommands() {
	if s.id == "" {
		return // a fork that is not made yet
	}
	var agents []json.RawMessage
	_ = json.Unmarshal(s.commands, &agents) // if it is not a list, there are none
	s.notify(map[string]any{"sessionUpdate": "available_commands_update", "availableCommands": withCommands(agents)})
}

// runCommand runs a command that the user typed, and answers the prompt that contained it.
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
		s.say(r.text + "\n\n")
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

// parseName parses the name of a fork or of a thread: each command reads its own field.
func parseName(text string) (arguments, error) { return arguments{Name: text, Thread: text}, nil }

// parseCheckpoint parses the name of a checkpoint and flags.
func parseCheckpoint(text string) (arguments, error) {
	words := strings.Fields(text)
	var args arguments
	flags := map[string]*bool{"--force": &args.Force, "--while-running": &args.WhileRunning, "--incomplete": &args.Incomplete}
	args.To = strings.Join(slices.DeleteFunc(words, func(w string) bool {
		flag := flags[w]
		if flag != nil {
			*flag = true
		}
		return flag != nil
	}), " ")
	return args, nil
}

// parseTurns parses a number of turns and flags.
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

// parseEdit parses the number or the name of a turn, and a text.
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

// read decodes the params of a method. The error names the invalid param.
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
			return c.Head, fmt.Sprintf("%-5s %s  %s  %s", c.Name, shortID(c.ID), c.time.Local().Format(time.DateTime), c.Title)
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
			return t.ID == s.record.Thread, fmt.Sprintf("%s  %s  %s", shortID(t.ID), t.Created.Local().Format(time.DateTime), t.Title)
		})
	}
	return r, err
}

// shortID returns the first letters of an id that segno made, or the whole name of a thread that the user named.
func shortID[ID ~string](id ID) string { return printable.Prefix(id, 8) }

// table formats one row per element, with a mark before the current one.
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
		r, moved, err := s.move(ctx, timeline.MoveRequest{Verb: verb, Turns: args.Turns}, args, nil)
		if err == nil && len(moved.Plan.Conflicts) > 0 {
			r.text += fmt.Sprintf("\nTo overwrite the files in conflict, type /%s --force.", verb)
		}
		return r, err
	}
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
			turnName(made.From), shortID(made.From.Thread)),
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
			shortID(t.ID), t.Title, shortID(before)),
		result: map[string]any{"thread": t.ID, "title": t.Title},
	}, nil
}

// withText returns a prompt with its text replaced and its attachments kept.
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
