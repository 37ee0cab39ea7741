package acpagent

import (
	"context"
	"fmt"
	"strings"

	acp "github.com/coder/acp-go-sdk"

	"github.com/dalsegno/segno/internal/chat"
)

// offered are the chat's commands that have a meaning here: a client chooses its
// sessions itself.
var offered = [...]string{"/undo", "/redo", "/restore", "/edit", "/fork", "/checkpoints", "/continue", "/session clear", "/session save"}

// offer tells a client the commands, once a session. It reports whether it did.
func (t *teller) offer() bool {
	t.server.mu.Lock()
	told := t.server.told[t.session]
	t.server.told[t.session] = true
	t.server.mu.Unlock()
	if told {
		return false
	}
	list := []acp.AvailableCommand{}
	for _, name := range offered {
		args, text := chat.Help(name)
		if name == "/fork" {
			text = "begin another session where this one stands"
		}
		c := acp.AvailableCommand{Name: strings.TrimPrefix(name, "/"), Description: text}
		if strings.Contains(c.Name, " ") {
			continue // a client could not complete it
		}
		if args != "" {
			c.Input = &acp.AvailableCommandInput{Unstructured: &acp.UnstructuredCommandInput{Hint: args}}
		}
		list = append(list, c)
	}
	t.send(acp.SessionUpdate{AvailableCommandsUpdate: &acp.SessionAvailableCommandsUpdate{AvailableCommands: list}})
	return true
}

// command does what a prompt says that is a command, and answers what came of it.
func (t *teller) command(ctx context.Context, name string, in input) error {
	if name == "/fork" {
		return t.fork(ctx, strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(in.Prompt), name)))
	}
	r, err := t.chat.Command(ctx, in.Prompt)
	if err != nil {
		return err
	}
	if name == "/checkpoints" {
		r.Text = "```\n" + r.Text + "\n```" // clients show Markdown
	}
	if r.Switched {
		r.Text += "\n\nWhat is shown above stays; the conversation goes on from there."
		if at, err := t.chat.Status(ctx); err == nil {
			t.send(plan(at.Todos))
		}
	}
	t.say(r.Text)
	if !r.Continue {
		return t.err
	}
	t.say("\n\n")
	at, err := t.chat.Status(ctx)
	if err != nil {
		return err
	}
	t.since, in.Prompt = at.Seq, r.Prompt
	return t.prompt(ctx, in.whole(), at)
}

// fork begins another session where this one stands. The client's session stays where it
// is: the protocol lets the client choose its sessions.
func (t *teller) fork(ctx context.Context, name string) error {
	s, err := t.chat.Fork(ctx, name)
	t.chat.Session = string(t.session)
	if err != nil {
		return err
	}
	t.server.opened(acp.SessionId(s.Session), t.chat.Dir)
	t.say(fmt.Sprintf("The session %q is a fork of this one at t%d. The client can open it from its list, or 'segno chat --session' by its name. This conversation stays where it is.", s.Session, s.Turn))
	return t.err
}
