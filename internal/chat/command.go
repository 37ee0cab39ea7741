package chat

import (
	"context"
	"fmt"
	"strings"

	"github.com/dalsegno/segno"
)

// Reply is what came of a command. Its text may be a model's or a file's: whoever
// prints it cleans it.
type Reply struct {
	Text     string
	Quit     bool
	Continue bool // run the session on, with Prompt if there is one
	Prompt   string
	Switched bool // another session, or another place in this one: what was shown is not its
	// Conflicts are the files that a move left as they are.
	Conflicts []segno.Conflict
	Kept      []segno.Conflict // because they are not saved
	Lost      bool             // one of Kept is gone, and cannot be brought back
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
	{"/restore", "CHECKPOINT", "go to one of them: t3, @-, an id or a saved name", (*Chat).sayRestore},
	{"/edit", "TURN TEXT", "send TEXT in place of a turn and those after it", (*Chat).sayEdit},
	{"/fork", "[NAME]", "go on in a fork of the conversation", (*Chat).sayFork},
	{"/continue", "", "continue a turn that was interrupted", (*Chat).sayContinue},
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

// Mistyped reports whether a line is like a command and none: a slash and one word of
// letters, as no path has, and nothing of several lines.
func Mistyped(line string) bool {
	line = strings.TrimRight(line, "\n")
	word, _, _ := strings.Cut(line, " ")
	name, ok := strings.CutPrefix(word, "/")
	return ok && name != "" && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz") == "" && !strings.Contains(line, "\n") && CommandOf(line) == ""
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
			return Reply{}, misused(k, "it needs "+k.args)
		}
		r, err := k.run(c, ctx, arg)
		return r, here(c.taken(ctx, err))
	}
	word, _, _ := strings.Cut(line, " ")
	return Reply{}, segno.Errorf(segno.KindInvalid, "command", word, "there is no such command").WithHint("/help lists them; to send it to the agent begin it with a space")
}

// here gives an error the commands of a chat to hint at, in place of a shell's.
func here(err error) error {
	hint := segno.HintOf(err)
	said := strings.NewReplacer("'segno undo", "'/undo", "'segno redo", "'/redo", "'segno restore", "'/restore", "'segno log", "'/checkpoints").Replace(hint)
	if said == hint {
		return err
	}
	return segno.NewError(segno.KindInternal, "", "", err).WithHint(said)
}

func misused(k *command, why string) error {
	return segno.Errorf(segno.KindInvalid, "command", k.name, "%s", why).WithHint("use " + strings.TrimSpace(k.name+" "+k.args))
}

func help() string {
	var b strings.Builder
	for i := range commands {
		fmt.Fprintf(&b, "%-25s %s\n", commands[i].name+" "+commands[i].args, commands[i].help)
	}
	b.WriteString("A line that begins otherwise is a prompt. ctrl+c stops a run, twice leaves; alt+enter or ctrl+j is a new line.")
	return b.String()
}
