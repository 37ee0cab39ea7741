package chat

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dalsegno/segno"
)

// Reply is what came of a command. Its text may be a model's or a file's: whoever
// prints it cleans it.
type Reply struct {
	Text     string
	Quit     bool
	Continue bool // run the session on, without a prompt
	Switched bool // another session, or another place in this one: what was shown is not its
}

// command is one thing to say to a chat beside prompts.
type command struct {
	name, args, help string
	run              func(c *Chat, ctx context.Context, arg string) (Reply, error)
}

// commands in the order that help tells them.
var commands = [...]command{
	{"/sessions", "", "the sessions of this directory", (*Chat).saySessions},
	{"/session save", "[NAME]", "keep where it stands under a name", (*Chat).saySave},
	{"/session load", "NAME", "go on with another session, or where one was saved", (*Chat).sayLoad},
	{"/session new", "NAME", "begin another session", (*Chat).sayNew},
	{"/session clear", "", "begin with an empty conversation; undo takes it back", (*Chat).sayClear},
	{"/undo", "[N]", "take back a turn and its files, or N of them", (*Chat).sayUndo},
	{"/redo", "[N]", "do them again", (*Chat).sayRedo},
	{"/checkpoints", "", "every checkpoint of the session, newest first", (*Chat).sayCheckpoints},
	{"/restore", "CHECKPOINT", "go to one of them", (*Chat).sayRestore},
	{"/fork", "[NAME]", "go on in a copy of the conversation", (*Chat).sayFork},
	{"/continue", "", "go on with a turn that was broken off", (*Chat).sayContinue},
	{"/help", "", "this list", nil},
	{"/quit", "", "leave; everything is saved", func(*Chat, context.Context, string) (Reply, error) { return Reply{Quit: true}, nil }},
}

// IsCommand reports whether what was typed is for the chat and not for the agent.
func IsCommand(line string) bool { return strings.HasPrefix(line, "/") }

// CommandOf returns the command that a line begins with, "" if none.
func CommandOf(line string) string {
	name := ""
	for i := range commands {
		k := &commands[i]
		rest, ok := strings.CutPrefix(strings.TrimSpace(line), k.name)
		if ok && (rest == "" || strings.HasPrefix(rest, " ")) && len(k.name) > len(name) {
			name = k.name
		}
	}
	return name
}

// Help is what a command does, in a few words, and what it takes.
func Help(name string) (args, text string) {
	for i := range commands {
		if commands[i].name == name {
			return commands[i].args, commands[i].help
		}
	}
	return "", ""
}

// Command does what a line that begins with a slash says. One it does not know is
// [segno.KindInvalid].
func (c *Chat) Command(ctx context.Context, line string) (Reply, error) {
	line = strings.TrimSpace(line)
	name := CommandOf(line)
	for i := range commands {
		k := &commands[i]
		if k.name != name {
			continue
		}
		arg := strings.TrimSpace(strings.TrimPrefix(line, name))
		switch {
		case k.run == nil:
			return Reply{Text: help()}, nil
		case k.args == "" && arg != "":
			return Reply{}, misused(k, "it takes nothing more")
		case k.args != "" && !strings.HasPrefix(k.args, "[") && arg == "":
			return Reply{}, misused(k, "it needs a name")
		}
		return k.run(c, ctx, arg)
	}
	word, _, _ := strings.Cut(line, " ")
	return Reply{}, &segno.Error{Op: "command", Name: word, Kind: segno.KindInvalid, Err: errors.New("there is no such command"),
		Hint: "/help lists them; to send it to the agent begin it with a space"}
}

func misused(k *command, why string) error {
	return &segno.Error{Op: "command", Name: k.name, Kind: segno.KindInvalid, Err: errors.New(why), Hint: "use " + strings.TrimSpace(k.name+" "+k.args)}
}

func help() string {
	var b strings.Builder
	for i := range commands {
		fmt.Fprintf(&b, "%-25s %s\n", commands[i].name+" "+commands[i].args, commands[i].help)
	}
	b.WriteString("A line that begins otherwise is a prompt. ctrl+c stops a run, twice leaves; alt+enter or ctrl+j is a new line.")
	return b.String()
}

func (c *Chat) sayContinue(ctx context.Context, _ string) (Reply, error) {
	s, err := c.Standing(ctx)
	if err == nil && !s.Broken {
		err = &segno.Error{Op: "continue", Name: c.Session, Kind: segno.KindInvalid, Err: errors.New("no turn was broken off")}
	}
	return Reply{Continue: err == nil}, err
}

func (c *Chat) saySessions(ctx context.Context, _ string) (Reply, error) {
	all, err := c.Sessions(ctx)
	if err != nil {
		return Reply{}, err
	}
	if len(all) == 0 {
		return Reply{Text: "no sessions yet"}, nil
	}
	var b strings.Builder
	wide := 0
	for _, s := range all {
		wide = max(wide, min(40, utf8.RuneCountInString(s.Name)))
	}
	for _, s := range all {
		sign := " "
		if s.Current {
			sign = "@"
		}
		fmt.Fprintf(&b, "%s %-*s  %4s ago  turn %d  step %d  %s\n", sign, wide, s.Name, age(c.Now().Sub(s.Updated)), s.Turn, s.Step, s.Title)
	}
	return Reply{Text: strings.TrimRight(b.String(), "\n")}, nil
}

func (c *Chat) saySave(ctx context.Context, name string) (Reply, error) {
	id, name, err := c.Save(ctx, name)
	return Reply{Text: fmt.Sprintf("saved %s as %s; /session load %s goes there", Short(id), name, name)}, err
}

func (c *Chat) sayLoad(ctx context.Context, name string) (Reply, error) {
	err := c.Load(ctx, name)
	if segno.KindOf(err) != segno.KindNotFound {
		return c.greeting(ctx, err)
	}
	for cp, err := range c.Store.Checkpoints(ctx, segno.CheckpointQuery{Pinned: true}) {
		if err != nil {
			return Reply{}, err
		}
		if cp.Label != name || c.Load(ctx, string(cp.Thread)) != nil {
			continue
		}
		s, err := c.Restore(ctx, string(cp.ID))
		return Reply{Text: at(s, "restored "+name), Switched: true}, err
	}
	return Reply{}, &segno.Error{Op: "load session", Name: name, Kind: segno.KindNotFound, Err: errors.New("neither a session nor anything saved is called so"),
		Hint: "/sessions lists them; /session new begins one"}
}

func (c *Chat) sayNew(ctx context.Context, name string) (Reply, error) {
	return c.greeting(ctx, c.Begin(ctx, name))
}

func (c *Chat) greeting(ctx context.Context, err error) (Reply, error) {
	if err != nil {
		return Reply{}, err
	}
	s, err := c.Standing(ctx)
	return Reply{Text: s.Greeting(), Switched: true}, err
}

func (c *Chat) sayClear(ctx context.Context, _ string) (Reply, error) {
	_, err := c.Clear(ctx)
	return Reply{Text: "the conversation is empty; the files stay; /undo brings it back", Switched: true}, err
}

func (c *Chat) sayUndo(ctx context.Context, arg string) (Reply, error) {
	n, err := number(arg)
	if err != nil {
		return Reply{}, err
	}
	s, err := c.Undo(ctx, n)
	return Reply{Text: at(s, "undone"), Switched: true}, err
}

func (c *Chat) sayRedo(ctx context.Context, arg string) (Reply, error) {
	n, err := number(arg)
	if err != nil {
		return Reply{}, err
	}
	s, err := c.Redo(ctx, n)
	return Reply{Text: at(s, "redone"), Switched: true}, err
}

func number(arg string) (int, error) {
	if arg == "" {
		return 1, nil
	}
	n, err := strconv.Atoi(arg)
	if err != nil || n < 1 {
		return 0, &segno.Error{Op: "command", Name: arg, Kind: segno.KindInvalid, Err: errors.New("it is no number of turns")}
	}
	return n, nil
}

func (c *Chat) sayRestore(ctx context.Context, name string) (Reply, error) {
	s, err := c.Restore(ctx, name)
	return Reply{Text: at(s, "restored"), Switched: true}, err
}

func (c *Chat) sayFork(ctx context.Context, name string) (Reply, error) {
	s, err := c.Fork(ctx, name)
	return Reply{Text: "forked. " + s.Greeting(), Switched: true}, err
}

// at says where a move has come to, and what it left as it is.
func at(s Standing, verb string) string {
	text := fmt.Sprintf("%s: now at turn %d (%s), %s, %s", verb, s.Turn, Short(s.Head), many(s.Messages, "message"), many(s.Loaded.Todos, "todo"))
	for _, x := range s.Conflicts {
		text += fmt.Sprintf("\n! %s stays: %s", x.Path, x.Why)
	}
	return text
}

func (c *Chat) sayCheckpoints(ctx context.Context, _ string) (Reply, error) {
	all, err := c.Checkpoints(ctx)
	if err != nil {
		return Reply{}, err
	}
	var b strings.Builder
	for _, cp := range all {
		sign := " "
		switch {
		case cp.Head:
			sign = "@"
		case cp.Line:
			sign = "│"
		}
		fmt.Fprintf(&b, "%s %s  %4s ago  turn %d  step %d  %s", sign, Short(cp.ID), age(c.Now().Sub(cp.Time)), cp.Turn, cp.Step, cp.what())
		if cp.Pin != "" {
			fmt.Fprintf(&b, "  [%s]", cp.Pin)
		}
		b.WriteByte('\n')
	}
	return Reply{Text: strings.TrimRight(b.String(), "\n")}, nil
}

func (cp *Checkpoint) what() string {
	switch cp.Kind {
	case segno.KindTurn:
		return strconv.Quote(cp.Prompt)
	case segno.KindStep:
		return "in " + strconv.Quote(cp.Prompt)
	case segno.KindBase:
		return "(the beginning)"
	case segno.KindExternal:
		return "(files changed outside)"
	}
	return "(" + string(cp.Kind) + ")"
}

// Short is as much of an id as a person needs.
func Short(id segno.CommitID) string {
	if len(id) > 6 {
		return string(id[:6])
	}
	return string(id)
}

// age writes a duration the way people say it.
func age(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", max(0, int(d.Seconds())))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}
