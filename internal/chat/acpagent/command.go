package acpagent

import (
	"context"
	"fmt"
	"strings"

	acp "github.com/coder/acp-go-sdk"

	"github.com/dalsegno/segno/internal/chat"
)

// offeredCommands are the chat's commands that stay in the session. Only the client
// switches sessions.
var offeredCommands = [...]string{"/undo", "/redo", "/restore", "/edit", "/fork", "/checkpoints", "/continue",
	"/session clear", "/session save"}

// announceCommands sends the list of commands, once per session. It reports whether it did.
func (t *updater) announceCommands() bool {
	t.server.mu.Lock()
	isAnnounced := t.server.announced[t.session]
	t.server.announced[t.session] = true
	t.server.mu.Unlock()
	if isAnnounced {
		return false
	}
	list := []acp.AvailableCommand{}
	for _, name := range offeredCommands {
		args, text := chat.Help(name)
		if name == "/fork" {
			text = "create another session at this point"
		}
		c := acp.AvailableCommand{Name: strings.TrimPrefix(name, "/"), Description: text}
		if strings.Contains(c.Name, " ") {
			continue // clients cannot complete a name with a space
		}
		if args != "" {
			c.Input = &acp.AvailableCommandInput{Unstructured: &acp.UnstructuredCommandInput{Hint: args}}
		}
		list = append(list, c)
	}
	t.send(acp.SessionUpdate{AvailableCommandsUpdate: &acp.SessionAvailableCommandsUpdate{AvailableCommands: list}})
	return true
}

// command runs a prompt that is a command, and sends its reply.
func (t *updater) command(ctx context.Context, name string, in input) error {
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
		r.Text += "\n\nThe messages above stay visible; the conversation continues from that point."
		if at, err := t.chat.Status(ctx); err == nil {
			t.send(planUpdate(at.TodoList))
		}
	}
	t.sendText(r.Text)
	if !r.Continue {
		return t.err
	}
	t.sendText("\n\n")
	at, err := t.chat.Status(ctx)
	if err != nil {
		return err
	}
	t.since, in.Prompt = at.Seq, r.Prompt
	return t.prompt(ctx, in.withNotes(), at)
}

// fork creates another session at the head of this one. The client stays in its session,
// because the protocol lets only the client switch.
func (t *updater) fork(ctx context.Context, name string) error {
	s, err := t.chat.Fork(ctx, name)
	t.chat.Session = string(t.session)
	if err != nil {
		return err
	}
	t.server.setOpen(acp.SessionId(s.Session), t.chat.Dir)
	t.sendText(fmt.Sprintf("The session %q is a fork of this one at t%d. Open it from the client's list, or with 'segno chat --session'. "+
		"This conversation is unchanged.", s.Session, s.Turn))
	return t.err
}
