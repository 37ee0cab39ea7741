package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/internal/chat"
)

// errWaits ends the command with [exitWaits].
var errWaits = errors.New("it waits for approvals")

// once makes one run: the answer goes to standard output, what happens meanwhile to
// standard error.
func (a *app) once(ctx context.Context, c *chat.Chat, f *chatFlags, in agent.Input) error {
	for _, w := range f.answers {
		d, err := decision(ctx, c, w, f.reason)
		if err != nil {
			return err
		}
		in.Decide = append(in.Decide, d)
	}
	if len(in.Decide) == 0 && len(in.Parts) == 0 && chat.CommandOf(in.Prompt) != "" {
		reply, err := c.Command(ctx, in.Prompt)
		if err != nil {
			return err
		}
		if reply.Continue {
			return a.once(ctx, c, f, agent.Input{Actor: in.Actor})
		}
		return a.print(map[string]string{"text": reply.Text}, func(w io.Writer) error {
			_, err := fmt.Fprintln(w, cleanLines(reply.Text))
			return err
		})
	}
	if !a.json {
		s, err := c.Standing(ctx)
		if err != nil {
			return err
		}
		a.say("%s", clean(s.Greeting()))
	}
	t := &telling{app: a, lines: json.NewEncoder(a.Stdout)}
	t.lines.SetEscapeHTML(false)
	for e, err := range c.Run(ctx, in) {
		if a.json && (e.Kind != "" || err == nil) {
			if err := t.lines.Encode(e); err != nil {
				return &segno.Error{Op: "write events", Kind: segno.KindIO, Err: err}
			}
		} else if err == nil {
			t.tell(e)
		}
		if err != nil {
			if segno.KindOf(err) == segno.KindRefused {
				_ = a.waits(ctx, c) // the error is told already; this says what it is about
			}
			return err
		}
	}
	return a.waits(ctx, c)
}

func decision(ctx context.Context, c *chat.Chat, w answer, reason string) (segno.Decision, error) {
	i, err := c.Pending(ctx, w.id)
	d := segno.Decision{Interrupt: i.ID, Kind: w.kind}
	switch w.kind {
	case segno.Edit:
		d.Args = json.RawMessage(w.text)
	case segno.Respond:
		d.Text = w.text
	case segno.Reject:
		d.Text = reason
	}
	return d, err
}

// telling tells a run's events to a person who reads along.
type telling struct {
	app   *app
	lines *json.Encoder
	said  string // not known yet to be the answer or something said on the way
}

func (t *telling) tell(e agent.Event) {
	switch e.Kind {
	case agent.EventSegment:
		t.flush()
		if e.Agent == "" {
			t.said = e.Text
		}
	case agent.EventDone:
		t.said = ""
		fmt.Fprintln(t.app.Stdout, cleanLines(e.Text))
	default:
		if line := chat.Line(e); line != "" {
			t.flush()
			t.app.say("%s", clean(line))
		}
	}
}

func (t *telling) flush() {
	if t.said != "" {
		t.app.say("%s", cleanLines(t.said))
	}
	t.said = ""
}

// waits is the error of a session that waits for approvals, after it has said which.
func (a *app) waits(ctx context.Context, c *chat.Chat) error {
	s, err := c.Standing(ctx)
	if err != nil || len(s.Interrupts) == 0 {
		return err
	}
	if !a.json {
		for _, i := range s.Interrupts {
			a.say("%s", waitingLine(i))
		}
	}
	session := shellQuote(clean(c.Session))
	return &segno.Error{Op: "chat", Name: c.Session, Kind: segno.KindRefused, Err: errWaits,
		Hint: fmt.Sprintf("run 'segno chat --session %s --approve %s', or use --reject, --edit or --respond", session, short(segno.CommitID(s.Interrupts[0].ID)))}
}

func waitingLine(i segno.Interrupt) string {
	line := fmt.Sprintf("waiting %s: %s %s", short(segno.CommitID(i.ID)), clean(i.Tool), clean(string(i.Args)))
	if i.Question != "" {
		line += "  (" + clean(i.Question) + ")"
	}
	return line
}

// listWaiting prints what waits for leave.
func (a *app) listWaiting(ctx context.Context, c *chat.Chat) error {
	open, err := c.Waiting(ctx)
	if err != nil {
		return err
	}
	return a.print(append([]segno.Interrupt{}, open...), func(w io.Writer) error {
		for _, i := range open {
			if _, err := fmt.Fprintln(w, waitingLine(i)); err != nil {
				return err
			}
		}
		return nil
	})
}
