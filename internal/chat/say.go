package chat

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/dalsegno/segno"
)

func (c *Chat) sayContinue(ctx context.Context, _ string) (Reply, error) {
	s, err := c.Status(ctx)
	if err == nil && s.Running {
		err = c.busy()
	}
	if err == nil && !s.Broken {
		err = segno.Errorf(segno.KindInvalid, "continue", c.Session, "no turn was broken off")
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
	for i := range all {
		s := &all[i]
		s.Name = flat(s.Name)
		wide = max(wide, min(40, utf8.RuneCountInString(s.Name)))
	}
	for _, s := range all {
		sign := " "
		if s.Current {
			sign = "@"
		}
		fmt.Fprintf(&b, "%s %-*s  %4s ago  turn %d  step %d  %s\n", sign, wide, s.Name, Age(c.Now().Sub(s.Updated)), s.Turn, s.Step, s.Title)
	}
	return Reply{Text: strings.TrimRight(b.String(), "\n")}, nil
}

func (c *Chat) saySave(ctx context.Context, name string) (Reply, error) {
	id, name, err := c.Save(ctx, name)
	return Reply{Text: fmt.Sprintf("saved %s as %s; /session load %s goes there", Short(id), flat(name), flat(name))}, err
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
		return s.reply("restored " + flat(name)), err
	}
	return Reply{}, segno.Errorf(segno.KindNotFound, "load session", name, "neither a session nor anything saved is called so").WithHint("/sessions lists them; /session new begins one")
}

func (c *Chat) sayNew(ctx context.Context, name string) (Reply, error) {
	return c.greeting(ctx, c.Begin(ctx, name))
}

func (c *Chat) greeting(ctx context.Context, err error) (Reply, error) {
	if err != nil {
		return Reply{}, err
	}
	s, err := c.Status(ctx)
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
	return s.reply("undone"), err
}

func (c *Chat) sayRedo(ctx context.Context, arg string) (Reply, error) {
	n, err := number(arg)
	if err != nil {
		return Reply{}, err
	}
	s, err := c.Redo(ctx, n)
	return s.reply("redone"), err
}

func number(arg string) (int, error) {
	if arg == "" {
		return 1, nil
	}
	n, err := strconv.Atoi(arg)
	if err != nil || n < 1 {
		return 0, segno.Errorf(segno.KindInvalid, "command", arg, "it is no number of turns")
	}
	return n, nil
}

func (c *Chat) sayRestore(ctx context.Context, name string) (Reply, error) {
	s, err := c.Restore(ctx, name)
	return s.reply("restored"), err
}

func (c *Chat) sayEdit(ctx context.Context, arg string) (Reply, error) {
	end := strings.IndexFunc(arg, unicode.IsSpace)
	if end < 0 {
		return Reply{}, segno.Errorf(segno.KindInvalid, "edit", arg, "it needs a turn and a text").WithHint("use /edit 2 and the new text")
	}
	s, err := c.Rewind(ctx, arg[:end])
	if err != nil {
		return Reply{}, err
	}
	r := s.reply("taken back")
	r.Continue, r.Prompt = true, strings.TrimSpace(arg[end:])
	return r, nil
}

func (c *Chat) sayFork(ctx context.Context, name string) (Reply, error) {
	s, err := c.Fork(ctx, name)
	return Reply{Text: "forked. " + s.Greeting(), Switched: true}, err
}

// reply says where a move has come to, and what it left as it is.
func (s *Status) reply(verb string) Reply {
	text := fmt.Sprintf("%s: now at turn %d (%s), %s, %s", verb, s.Turn, Short(s.Head), many(s.Messages, "message"), many(s.Loaded.Todos, "todo"))
	for _, x := range s.Conflicts {
		text += fmt.Sprintf("\n! %s stays: %s", flat(x.Path), x.Why)
	}
	const most = 20
	for i, x := range s.Kept {
		if i == most {
			text += fmt.Sprintf("\n= … and %s", many(len(s.Kept)-most, "more path"))
			break
		}
		text += fmt.Sprintf("\n= %s stays: %s", flat(x.Path), x.Why)
	}
	return Reply{Text: text, Switched: true, Conflicts: s.Conflicts, Kept: s.Kept, Lost: s.Lost}
}

func (c *Chat) sayCheckpoints(ctx context.Context, _ string) (Reply, error) {
	all, err := c.Checkpoints(ctx)
	if err != nil {
		return Reply{}, err
	}
	var b strings.Builder
	for i, cp := range all {
		sign, name := " ", ""
		if turn := fmt.Sprintf("t%d", cp.Turn); placed(all, turn) == i {
			name = turn
		}
		switch {
		case cp.Head:
			sign = "@"
		case cp.Line:
			sign = "│"
		}
		fmt.Fprintf(&b, "%s %s  %-4s %4s ago  step %d  %s", sign, Short(cp.ID), name, Age(c.Now().Sub(cp.Time)), cp.Step, cp.what())
		for _, pin := range cp.Pins {
			fmt.Fprintf(&b, "  [%s]", flat(pin))
		}
		b.WriteByte('\n')
	}
	return Reply{Text: strings.TrimRight(b.String(), "\n")}, nil
}

func (cp *Checkpoint) what() string {
	switch cp.Kind {
	case segno.CheckpointTurn:
		return quote(cp.Prompt)
	case segno.CheckpointStep:
		return "in " + quote(cp.Prompt)
	case segno.CheckpointBase:
		return "(the beginning)"
	case segno.CheckpointExternal:
		return "(not by a turn)"
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

// Age writes a duration the way people say it.
func Age(d time.Duration) string {
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
