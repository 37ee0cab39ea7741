// Package tui is a chat at a terminal: what was said scrolls away above, and below
// stand what is being said, the todos, the question or the prompt, and a status
// line. It decides nothing and keeps nothing: a [Chat] does.
package tui

import (
	"context"
	"errors"
	"io"
	"iter"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/internal/chat"
)

// Chat is what stands behind the terminal.
type Chat interface {
	// Run is [agent.Agent.Stream] on the session.
	Stream(ctx context.Context, in agent.Input) iter.Seq2[agent.Event, error]
	Status(ctx context.Context) (chat.Status, error)
	Messages(ctx context.Context) ([]agent.Message, error)
	// Events tells again what is in the log, above a number.
	Events(ctx context.Context, since int64) iter.Seq2[agent.Event, error]
	// Command does what a line says that begins with a slash.
	Command(ctx context.Context, line string) (chat.Reply, error)
}

// Options say how to chat.
type Options struct {
	Chat    Chat
	Model   string // the model's name, for the status line
	In      io.Reader
	Out     io.Writer
	Environ []string
	Colour  bool
}

// Stream chats until the person leaves or ctx ends. A run under way is then cancelled
// and waited for: what it has done is saved.
func Run(ctx context.Context, o Options) error {
	m := newModel(ctx, o)
	options := []tea.ProgramOption{tea.WithContext(ctx), tea.WithInput(o.In), tea.WithOutput(o.Out), tea.WithEnvironment(o.Environ), tea.WithoutSignalHandler()}
	if !o.Colour {
		options = append(options, tea.WithColorProfile(colorprofile.ASCII))
	}
	_, err := tea.NewProgram(m, options...).Run()
	m.stream.end()
	switch {
	case ctx.Err() != nil:
		return segno.Errorf(segno.KindCancelled, "chat", "", "stopped; the work so far is saved")
	case err != nil && !errors.Is(err, tea.ErrInterrupted):
		return segno.NewError(segno.KindIO, "chat", "", err)
	}
	return m.failed
}
