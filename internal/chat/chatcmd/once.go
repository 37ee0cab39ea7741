package chatcmd

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/internal/chat"
	"github.com/dalsegno/segno/internal/cli"
)

// oneShot is a chat with a single input: a prompt, a command or a set of answers.
type oneShot struct {
	*app
	workspace *cli.Workspace
	chat      *chat.Chat
	flags     *chatFlags
}

// command returns the command line that continues the session.
func (o *oneShot) command(args ...string) string {
	run := chat.Command(o.StoreToName(o.workspace.Store), segno.ThreadID(o.chat.Session))
	if o.Directory != "" {
		run = slices.Insert(run, 1, "-C", o.Directory)
	}
	if o.flags.model != "" {
		run = append(run, "--model", o.flags.model)
	}
	line := cli.CommandLine(append(run, args...))
	if !strings.Contains(line, "'") {
		line = "'" + line + "'"
	}
	return line
}

// run runs the agent once. The answer goes to standard output, other events to standard error.
func (o *oneShot) run(ctx context.Context, in agent.Input) (err error) {
	if in.Decide, err = o.decisions(ctx); err != nil {
		return err
	}
	isCommand := chat.IsCommand(in.Prompt) && (chat.CommandOf(in.Prompt) != "" || chat.Mistyped(in.Prompt))
	if len(in.Decide) == 0 && isCommand {
		reply, err := o.runCommand(ctx, in.Prompt)
		if err != nil || !reply.Continue {
			return err
		}
		in = agent.Input{Prompt: reply.Prompt}
	}
	if err := o.printStatus(ctx, in); err != nil {
		return err
	}
	t := &eventPrinter{app: o.app}
	for e, err := range o.chat.Stream(ctx, in) {
		if err == nil || o.JSON && e.Kind != "" {
			err = cmp.Or(err, t.print(e))
		}
		if err != nil {
			return o.explainError(ctx, in, err)
		}
	}
	return o.waitingError(ctx)
}

// printStatus prints the state of the session.
func (o *oneShot) printStatus(ctx context.Context, in agent.Input) error {
	if o.JSON {
		return nil
	}
	s, err := o.chat.Status(ctx)
	if err != nil {
		return err
	}
	o.Notef("%s", cli.Clean(s.Greeting()))
	if s.Phase == agent.PhaseBrokenOff && in.Prompt != "" {
		o.Notef("the previous turn was interrupted; %s continues it, instead of a prompt", o.command("--continue"))
	}
	return nil
}

// explainError adds hints for the user to an error that ended a run.
func (o *oneShot) explainError(ctx context.Context, in agent.Input, err error) error {
	switch kind := segno.KindOf(err); {
	case kind == segno.KindCancelled:
		return segno.Errorf(kind, "chat", o.chat.Session, "stopped; the work so far is saved").
			WithHint("run " + o.command("--continue") + " to continue")
	case kind == segno.KindRefused && len(in.Decide) == 0:
		if waits := o.waitingError(ctx); waits != nil {
			return waits // the session refused the prompt because calls wait for approval
		}
		if s, lookErr := o.chat.Status(ctx); lookErr == nil && s.Phase == agent.PhaseBrokenOff {
			return segno.NewError(segno.KindInternal, "", "", err).WithHint("run " + o.command("--continue") + " first, or undo the turn")
		}
	}
	return err
}

// needsNoModel reports whether a prompt is a command of the chat that asks no model.
func needsNoModel(prompt string) bool {
	name := chat.CommandOf(prompt)
	return chat.IsCommand(prompt) && name != "" && name != "/continue" && name != "/edit"
}

// runCommand executes a command of the chat, as /undo.
func (o *oneShot) runCommand(ctx context.Context, line string) (reply chat.Reply, err error) {
	session := o.chat.Session
	reply, err = o.chat.Command(ctx, line)
	if err != nil || reply.Continue {
		if reply.Text != "" && !o.JSON {
			o.Notef("%s", cli.CleanLines(reply.Text))
		}
		return reply, err
	}
	if reply.Text != "" || o.JSON {
		result := struct {
			Text      string           `json:"text"`
			Session   string           `json:"session"`
			Conflicts []segno.Conflict `json:"conflicts"`
			Kept      []segno.Conflict `json:"kept"`
		}{reply.Text, o.chat.Session, append([]segno.Conflict{}, reply.Conflicts...), append([]segno.Conflict{}, reply.Kept...)}
		err = o.Print(result, func(p *cli.Printer) { p.Linef("%s", p.Drawn(cli.CleanLines(reply.Text))) })
	}
	if err == nil && o.chat.Session != session && !o.JSON {
		o.Notef("to continue there: %s", o.command())
	}
	if err == nil && (len(reply.Conflicts) > 0 || reply.Lost) {
		err = cli.ErrSilent
	}
	return reply, err
}

// decisions converts the answers of the command line. The agent receives all of them together, so
// it is an error to answer a call twice.
func (o *oneShot) decisions(ctx context.Context) (all []segno.Decision, err error) {
	seen := map[string]bool{}
	for _, w := range o.flags.answers {
		i, err := o.chat.Pending(ctx, w.id)
		if err != nil {
			return nil, err
		}
		if seen[i.ID] {
			return nil, cli.Usage(fmt.Errorf("%s has more than one answer", w.id))
		}
		seen[i.ID] = true
		d := segno.Decision{Interrupt: i.ID, Kind: w.kind}
		switch w.kind {
		case segno.Edit:
			d.Args = json.RawMessage(w.text)
		case segno.Respond:
			d.Text = w.text
		case segno.Reject:
			d.Text = o.flags.reason
		}
		all = append(all, d)
	}
	return all, nil
}

// eventPrinter prints the events of a run as lines of text, or of JSON.
type eventPrinter struct {
	app     *app
	pending string // the newest text of the agent: its answer, or a remark if another event follows
}

func (t *eventPrinter) print(e agent.Event) error {
	if t.app.JSON {
		if err := cli.Encoder(t.app.Stdout).Encode(e); err != nil {
			return segno.NewError(segno.KindIO, "write events", "", err)
		}
		return nil
	}
	switch e.Kind {
	case agent.EventSegment:
		t.flush()
		if e.Agent == "" {
			t.pending = e.Text
		}
	case agent.EventDone:
		t.pending = ""
		text := e.Text
		if cli.Terminal(t.app.Stdout) {
			text = cli.CleanLines(text)
		}
		if _, err := fmt.Fprintln(t.app.Stdout, strings.TrimSuffix(text, "\n")); err != nil {
			return segno.NewError(segno.KindIO, "write answer", "", err).WithHint("the answer is saved; 'segno show' prints it")
		}
		fallthrough
	default:
		if line := chat.Line(e); line != "" {
			t.flush()
			t.app.Notef("%s", t.app.Paint(t.app.Stderr).Drawn(cli.CleanLines(line)))
		}
	}
	return nil
}

func (t *eventPrinter) flush() {
	if t.pending != "" {
		t.app.Notef("%s", cli.CleanLines(t.pending))
	}
	t.pending = ""
}

// approvalError has the calls that wait for approval. It ends the command with [cli.ExitWaits].
type approvalError struct{ ids []string }

func (*approvalError) Error() string { return "the session waits for approval" }

// reportApproval is the report of this wing; see [cli.Wing].
func reportApproval(err error) (code int, fields map[string]any) {
	if waits := (*approvalError)(nil); errors.As(err, &waits) {
		return cli.ExitWaits, map[string]any{"waiting": waits.ids}
	}
	return 0, nil
}

// waitingError prints the calls that wait for approval and returns the error for them.
func (o *oneShot) waitingError(ctx context.Context) error {
	s, err := o.chat.Status(ctx)
	if err != nil || len(s.Interrupts) == 0 {
		return err
	}
	waits := &approvalError{}
	for _, i := range s.Interrupts {
		if waits.ids = append(waits.ids, i.ID); !o.JSON {
			o.Notef("%s", waitingLine(i))
		}
	}
	approve := o.command("--approve", cli.Short(s.Interrupts[0].ID))
	return segno.NewError(segno.KindRefused, "chat", o.chat.Session, waits).
		WithHint("run " + approve + ", or use --reject, --edit or --respond")
}

// waitingLine describes a call that waits for approval, beginning with the id to answer it by.
func waitingLine(i segno.Interrupt) string {
	line := fmt.Sprintf("waiting %s: %s %s", cli.Short(i.ID), cli.Clean(i.Tool), cli.Clean(string(i.Args)))
	if i.Question != "" {
		line += "  (" + cli.Clean(i.Question) + ")"
	}
	return line
}

// listWaiting prints the calls that wait for approval.
func (o *oneShot) listWaiting(ctx context.Context) error {
	open, err := o.chat.Waiting(ctx)
	if err != nil {
		return err
	}
	if len(open) == 0 {
		if s, err := o.chat.Status(ctx); err == nil && s.Phase == agent.PhaseBrokenOff {
			o.Notef("no call is waiting, but the last turn was interrupted; %s continues it", o.command("--continue"))
		}
	}
	return o.Print(append([]segno.Interrupt{}, open...), func(p *cli.Printer) {
		for _, i := range open {
			p.Linef("%s", waitingLine(i))
		}
	})
}
