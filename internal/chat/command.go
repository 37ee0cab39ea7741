package chat

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/internal/history/moves"
	"github.com/dalsegno/segno/internal/history/printable"
	"github.com/dalsegno/segno/timeline"
)

// Reply is the result of a command. Its text may contain text of a model or a file, so the
// caller escapes it for a terminal.
type Reply struct {
	Text     string
	Quit     bool
	Continue bool // run the session, with Prompt if it is set
	Prompt   string
	Switched bool // to another session or another checkpoint, so the conversation on the screen is outdated
	// Conflicts, Kept and Lost have the same meaning as in [agent.Status].
	Conflicts []segno.Conflict
	Kept      []segno.Conflict
	Lost      bool
}

// command is a command of a chat.
type command struct {
	name, args, help string // args is in brackets if it is optional
	run              func(c *Chat, ctx context.Context, arg string) (Reply, error)
}

// commands are in the order of the help text.
var commands = [...]command{
	{"/sessions", "", "list the sessions of this directory", (*Chat).runSessions},
	{"/session save", "[NAME]", "save the current checkpoint under a name", (*Chat).runSave},
	{"/session load", "NAME", "open another session or a saved checkpoint", (*Chat).runLoad},
	{"/session new", "NAME", "start another session", (*Chat).runNew},
	{"/session clear", "", "empty the conversation; undo restores it", (*Chat).runClear},
	{"/undo", "[N]", "undo the last turn and its files, or N turns", (*Chat).runUndo},
	{"/redo", "[N]", "redo undone turns", (*Chat).runRedo},
	{"/checkpoints", "", "list the checkpoints of the session, newest first", (*Chat).runCheckpoints},
	{"/restore", "CHECKPOINT", "restore a checkpoint: t3, @-, an id or a saved name", (*Chat).runRestore},
	{"/edit", "TURN TEXT", "undo a turn and all later ones, and send TEXT", (*Chat).runEdit},
	{"/fork", "[NAME]", "continue in a fork of the conversation", (*Chat).runFork},
	{"/continue", "", "continue a turn that was interrupted", (*Chat).runContinue},
	{"/help", "", "show this list", nil},
	{"/quit", "", "exit; everything is saved", func(*Chat, context.Context, string) (Reply, error) { return Reply{Quit: true}, nil }},
}

// IsCommand reports whether a line is for the chat and not for the agent.
func IsCommand(line string) bool { return strings.HasPrefix(line, "/") }

// commandOf returns the command at the beginning of a line, or nil.
func commandOf(line string) (found *command) {
	for i, c := range commands {
		rest, ok := strings.CutPrefix(strings.TrimSpace(line), c.name)
		if ok && (rest == "" || strings.HasPrefix(rest, " ")) && (found == nil || len(c.name) > len(found.name)) {
			found = &commands[i]
		}
	}
	return found
}

// CommandOf returns the name of the command at the beginning of a line, or "".
func CommandOf(line string) string {
	if c := commandOf(line); c != nil {
		return c.name
	}
	return ""
}

// Mistyped reports whether a line looks like a command but is not one. Such a line is a
// single line that begins with a slash and one word of letters; a path does not look like
// that.
func Mistyped(line string) bool {
	line = strings.TrimRight(line, "\n")
	word, _, _ := strings.Cut(line, " ")
	name, ok := strings.CutPrefix(word, "/")
	return ok && name != "" && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz") == "" && !strings.Contains(line, "\n") && CommandOf(line) == ""
}

// Help returns the arguments and the help text of a command.
func Help(name string) (args, text string) {
	c := commandOf(name)
	return c.args, c.help
}

// Command runs a line that begins with a slash. For an unknown command, the error has
// [segno.KindInvalid].
func (c *Chat) Command(ctx context.Context, line string) (Reply, error) {
	line = strings.TrimSpace(line)
	k := commandOf(line)
	if k == nil {
		word, _, _ := strings.Cut(line, " ")
		return Reply{}, segno.Errorf(segno.KindInvalid, "command", word, "unknown command").
			WithHint("/help lists the commands; begin the line with a space to send it to the agent")
	}
	arg, problem := strings.TrimSpace(strings.TrimPrefix(line, k.name)), ""
	switch {
	case k.run == nil:
		return Reply{Text: helpText()}, nil
	case k.args == "" && arg != "":
		problem = fmt.Sprintf("unexpected argument %q", arg)
	case k.args != "" && !strings.HasPrefix(k.args, "[") && arg == "":
		problem = "missing argument " + k.args
	}
	if problem != "" {
		return Reply{}, segno.Errorf(segno.KindInvalid, "command", k.name, "%s", problem).WithHint("use " + strings.TrimSpace(k.name+" "+k.args))
	}
	r, err := k.run(c, ctx, arg)
	return r, hintCommands(c.explainConflict(ctx, err))
}

// hintCommands replaces shell commands in an error's hint by the chat's own commands.
func hintCommands(err error) error {
	hint := segno.HintOf(err)
	own := strings.NewReplacer("'segno undo", "'/undo", "'segno redo", "'/redo", "'segno restore", "'/restore", "'segno log", "'/checkpoints",
		"use --while-running", "move in a shell with --while-running").Replace(hint)
	if own == hint {
		return err
	}
	return segno.NewError(segno.KindInternal, "", "", err).WithHint(own)
}

func helpText() string {
	var b strings.Builder
	for i := range commands {
		fmt.Fprintf(&b, "%-25s %s\n", commands[i].name+" "+commands[i].args, commands[i].help)
	}
	b.WriteString("Any other line is a prompt. ctrl+c stops a run; a second ctrl+c exits; alt+enter or ctrl+j begins a new line.")
	return b.String()
}

func (c *Chat) runContinue(ctx context.Context, _ string) (Reply, error) {
	s, err := c.Status(ctx)
	switch {
	case err != nil:
		return Reply{}, err
	case s.Phase == agent.PhaseRunning:
		return Reply{}, c.errRunning()
	case s.Phase != agent.PhaseBrokenOff:
		return Reply{}, segno.Errorf(segno.KindInvalid, "continue", c.Session, "no interrupted turn")
	}
	return Reply{Continue: true}, nil
}

func (c *Chat) runSessions(ctx context.Context, _ string) (Reply, error) {
	all, err := c.Sessions(ctx)
	if err != nil {
		return Reply{}, err
	}
	if len(all) == 0 {
		return Reply{Text: "no sessions yet"}, nil
	}
	width := 0
	for i := range all {
		all[i].Name = oneLine(all[i].Name)
		width = max(width, min(40, utf8.RuneCountInString(all[i].Name)))
	}
	var b strings.Builder
	for _, s := range all {
		sign := " "
		if s.Current {
			sign = "@"
		}
		fmt.Fprintf(&b, "%s %-*s  %4s ago  turn %d  step %d  %s\n", sign, width, s.Name, printable.Age(c.Now().Sub(s.Updated)), s.Turn, s.Step, s.Title)
	}
	return Reply{Text: strings.TrimRight(b.String(), "\n")}, nil
}

func (c *Chat) runSave(ctx context.Context, name string) (Reply, error) {
	id, name, err := c.save(ctx, name)
	return Reply{Text: fmt.Sprintf("saved %s as %s; '/session load %s' restores it", Short(id), oneLine(name), oneLine(name))}, err
}

func (c *Chat) runLoad(ctx context.Context, name string) (Reply, error) {
	err := c.load(ctx, name)
	if segno.KindOf(err) != segno.KindNotFound {
		return c.greetingReply(ctx, "", err)
	}
	for cp, err := range c.Store.Checkpoints(ctx, segno.CheckpointQuery{Pinned: true}) {
		if err != nil {
			return Reply{}, err
		}
		if !slices.Contains(segno.PinNames(cp.Label), name) || c.load(ctx, string(cp.Thread)) != nil {
			continue
		}
		found, err := c.find(ctx, string(cp.ID))
		if err != nil {
			return Reply{}, err
		}
		s, err := c.restore(ctx, found.ID)
		if err != nil {
			return Reply{}, err
		}
		return s.reply(ctx, "restored "+oneLine(name))
	}
	return Reply{}, segno.Errorf(segno.KindNotFound, "load session", name, "no session or saved checkpoint has this name").
		WithHint("/sessions lists the sessions; /session new begins one")
}

func (c *Chat) runNew(ctx context.Context, name string) (Reply, error) {
	return c.greetingReply(ctx, "", c.begin(ctx, name))
}

func (c *Chat) runFork(ctx context.Context, name string) (Reply, error) {
	_, err := c.Fork(ctx, name)
	return c.greetingReply(ctx, "forked. ", err)
}

// greetingReply returns the greeting of the session that a command switched to.
func (c *Chat) greetingReply(ctx context.Context, prefix string, err error) (Reply, error) {
	if err != nil {
		return Reply{}, err
	}
	s, err := c.Status(ctx)
	return Reply{Text: prefix + s.Greeting(), Switched: true}, err
}

func (c *Chat) runClear(ctx context.Context, _ string) (Reply, error) {
	err := c.clear(ctx)
	return Reply{Text: "the conversation is empty; the files stay; /undo restores it", Switched: true}, err
}

func (c *Chat) runUndo(ctx context.Context, arg string) (Reply, error) {
	return c.moveTurns(ctx, arg, "undone", c.agent.Undo)
}

func (c *Chat) runRedo(ctx context.Context, arg string) (Reply, error) {
	return c.moveTurns(ctx, arg, "redone", c.agent.Redo)
}

func (c *Chat) moveTurns(ctx context.Context, arg, verb string, move func(context.Context, string, int) (agent.Status, error)) (Reply, error) {
	n := 1
	if arg != "" {
		var err error
		if n, err = strconv.Atoi(arg); err != nil || n < 1 {
			return Reply{}, segno.Errorf(segno.KindInvalid, "command", arg, "not a number of turns")
		}
	}
	s, err := c.move(ctx, func() (agent.Status, error) { return move(ctx, c.Session, n) })
	if err != nil {
		return Reply{}, err
	}
	return s.reply(ctx, verb)
}

func (c *Chat) runRestore(ctx context.Context, name string) (Reply, error) {
	cp, err := c.find(ctx, name)
	if err != nil {
		return Reply{}, err
	}
	s, err := c.restore(ctx, cp.ID)
	if err != nil {
		return Reply{}, err
	}
	return s.reply(ctx, "restored")
}

func (c *Chat) runEdit(ctx context.Context, arg string) (Reply, error) {
	end := strings.IndexFunc(arg, unicode.IsSpace)
	if end < 0 {
		return Reply{}, segno.Errorf(segno.KindInvalid, "edit", arg, "missing text").WithHint("use /edit 2 and the new text")
	}
	s, err := c.rewind(ctx, arg[:end])
	if err != nil {
		return Reply{}, err
	}
	r, err := s.reply(ctx, "undone")
	r.Continue, r.Prompt = true, strings.TrimSpace(arg[end:])
	return r, err
}

// reply describes the session after a move, and the files that the move left unchanged, with the lines that every other user
// interface has for them.
func (s *Status) reply(ctx context.Context, verb string) (Reply, error) {
	r := Reply{Switched: true, Conflicts: s.Conflicts, Kept: s.Kept, Lost: s.Lost}
	var res moves.Result
	var err error
	if res.Conflicts, err = moves.UnwrittenPaths(ctx, nil, s.Conflicts, nil); err != nil {
		return r, err
	}
	if res.Kept, err = moves.UnwrittenPaths(ctx, nil, s.Kept, nil); err != nil {
		return r, err
	}
	text := moves.Text{Verbose: true}
	text.Unwritten(res, 0)
	now := fmt.Sprintf("%s: now at turn %d (%s), %s, %s", verb, s.Turn, Short(s.Head), count(s.Messages, "message"), count(s.Todos, "todo"))
	r.Text = strings.Join(append([]string{now}, text.Lines()...), "\n")
	return r, nil
}

func (c *Chat) runCheckpoints(ctx context.Context, _ string) (Reply, error) {
	h, err := c.history(ctx)
	if err != nil {
		return Reply{}, err
	}
	line := h.Line(h.Head.Head)
	var b strings.Builder
	for i := range h.All {
		cp, sign, name := &h.All[i], " ", ""
		turn := fmt.Sprintf("t%d", cp.Turn)
		if found, err := h.Find(turn); err == nil && found.ID == cp.ID {
			name = turn
		}
		switch {
		case cp.ID == h.Head.Head:
			sign = "@"
		case slices.Contains(line, cp):
			sign = "│"
		}
		fmt.Fprintf(&b, "%s %s  %-4s %4s ago  step %d  %s", sign, Short(cp.ID), name, printable.Age(c.Now().Sub(cp.Time)), cp.Step, describe(cp))
		for _, pin := range h.Pins[cp.ID] {
			fmt.Fprintf(&b, "  [%s]", oneLine(pin))
		}
		b.WriteByte('\n')
	}
	return Reply{Text: strings.TrimRight(b.String(), "\n")}, nil
}

// describe describes a checkpoint in a list.
func describe(cp *segno.Checkpoint) string {
	prompt := printable.Quote(timeline.Title(cp.Prompt))
	switch cp.Kind {
	case segno.CheckpointTurn:
		return prompt
	case segno.CheckpointStep:
		return "in " + prompt
	case segno.CheckpointBase:
		return "(the beginning)"
	case segno.CheckpointExternal:
		return "(not by a turn)"
	}
	return "(" + string(cp.Kind) + ")"
}

// Short returns the prefix of an id for display.
func Short(id segno.CommitID) string { return printable.Short(id) }
