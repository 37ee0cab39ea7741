// Package tui shows a chat or an experiment in a terminal.
//
// [Run] shows a chat. The conversation scrolls above; below it are the incoming text, the todos, a
// question or the prompt, and a status line. A [Chat] makes all decisions and keeps all state.
//
// [ShowExperiment] shows generations of agents on the whole terminal.
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

// Chat is the session that the terminal shows.
type Chat interface {
	// Stream is [agent.Agent.Stream] on the session.
	Stream(ctx context.Context, in agent.Input) iter.Seq2[agent.Event, error]
	Status(ctx context.Context) (chat.Status, error)
	Messages(ctx context.Context) ([]agent.Message, error)
	// Events yields the durable events with numbers above since.
	Events(ctx context.Context, since int64) iter.Seq2[agent.Event, error]
	// Command runs a line that begins with a slash.
	Command(ctx context.Context, line string) (chat.Reply, error)
}

// Options configures the view of a chat.
type Options struct {
	Chat    Chat
	Model   string // the model's name, for the status line
	In      io.Reader
	Out     io.Writer
	Environ []string
	Colour  bool
}

// Run shows a chat until the user quits or ctx ends. It then cancels a run in progress and waits for
// its end, so that its results are saved.
func Run(ctx context.Context, o Options) error {
	m := newModel(ctx, o)
	options := []tea.ProgramOption{tea.WithContext(ctx), tea.WithInput(o.In), tea.WithOutput(o.Out), tea.WithEnvironment(o.Environ), tea.WithoutSignalHandler()}
	if !o.Colour {
		options = append(options, tea.WithColorProfile(colorprofile.ASCII))
	}
	_, err := tea.NewProgram(m, options...).Run()
	m.stream.stop()
	switch {
	case ctx.Err() != nil:
		return segno.Errorf(segno.KindCancelled, "chat", "", "stopped; the work so far is saved")
	case err != nil && !errors.Is(err, tea.ErrInterrupted):
		return segno.NewError(segno.KindIO, "chat", "", err)
	}
	return m.failed
}
