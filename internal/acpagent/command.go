package acpagent

import (
	"context"
	"strings"

	acp "github.com/coder/acp-go-sdk"

	"github.com/dalsegno/segno/internal/chat"
)

// offered are the chat's commands that have a meaning here: a client chooses its
// sessions itself.
var offered = [...]string{"/undo", "/redo", "/restore", "/checkpoints", "/continue", "/session clear", "/session save"}

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
func (t *teller) command(ctx context.Context, line string) error {
	r, err := t.chat.Command(ctx, line)
	if err != nil {
		return err
	}
	if r.Switched {
		r.Text += "\n\nWhat is shown above stays; the conversation goes on from there."
		if at, err := t.chat.Standing(ctx); err == nil {
			t.send(plan(at.Todos))
		}
	}
	t.say(r.Text)
	return t.err
}
