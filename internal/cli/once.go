package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/internal/chat"
)

// waitsError ends the command with [exitWaits].
type waitsError struct{ ids []string }

func (*waitsError) Error() string { return "it waits for approvals" }

// single is a chat of one prompt, command or set of answers.
type single struct {
	*app
	desk  *desk
	chat  *chat.Chat
	flags *chatFlags
}

// command is how a person goes on with the session.
func (o *single) command(args ...string) string {
	run := o.chatCommand(o.desk, segno.ThreadID(o.chat.Session))
	if o.dir != "" {
		run = slices.Insert(run, 1, "-C", o.dir)
	}
	if o.flags.model != "" {
		run = append(run, "--model", o.flags.model)
	}
	line := commandLine(append(run, args...))
	if strings.Contains(line, "'") {
		return line
	}
	return "'" + line + "'"
}

// run makes one run: the answer goes to standard output, what happens meanwhile to
// standard error.
func (o *single) run(ctx context.Context, in agent.Input) error {
	var err error
	if in.Decide, err = o.decisions(ctx); err != nil {
		return err
	}
	if len(in.Decide) == 0 && chat.IsCommand(in.Prompt) && (chat.CommandOf(in.Prompt) != "" || chat.Mistyped(in.Prompt)) {
		reply, err := o.obey(ctx, in.Prompt)
		if err != nil || !reply.Continue {
			return err
		}
		in = agent.Input{Prompt: reply.Prompt}
	}
	if err := o.greet(ctx, in); err != nil {
		return err
	}
	t := &telling{app: o.app, lines: encoder(o.Stdout)}
	for e, err := range o.chat.Stream(ctx, in) {
		if o.json && (e.Kind != "" || err == nil) {
			if err := t.lines.Encode(e); err != nil {
				return segno.NewError(segno.KindIO, "write events", "", err)
			}
		} else if err == nil {
			err = t.tell(e)
		}
		if err != nil {
			return o.ended(ctx, in, err)
		}
	}
	return o.waits(ctx)
}

// greet says where the session stands.
func (o *single) greet(ctx context.Context, in agent.Input) error {
	if o.json {
		return nil
	}
	s, err := o.chat.Status(ctx)
	if err != nil {
		return err
	}
	o.say("%s", clean(s.Greeting()))
	if s.Phase == agent.PhaseBrokenOff && in.Prompt != "" {
		o.say("the previous turn was interrupted; %s continues it, instead of a prompt", o.command("--continue"))
	}
	return nil
}

// ended is what a person hears of an error that ended a run.
func (o *single) ended(ctx context.Context, in agent.Input, err error) error {
	switch kind := segno.KindOf(err); {
	case kind == segno.KindCancelled:
		return segno.Errorf(kind, "chat", o.chat.Session, "stopped; the work so far is saved").WithHint("run " + o.command("--continue") + " to go on")
	case kind == segno.KindRefused && len(in.Decide) == 0:
		if waits := o.waits(ctx); waits != nil {
			return waits // the prompt was refused for that
		}
		if s, lookErr := o.chat.Status(ctx); lookErr == nil && s.Phase == agent.PhaseBrokenOff {
			return segno.NewError(segno.KindInternal, "", "", err).WithHint("run " + o.command("--continue") + " first, or undo the turn")
		}
	}
	return err
}

// obeyed reports whether a prompt is a command that asks no model.
func obeyed(prompt string) bool {
	name := chat.CommandOf(prompt)
	return chat.IsCommand(prompt) && name != "" && name != "/continue" && name != "/edit"
}

// obey does a command.
func (o *single) obey(ctx context.Context, line string) (reply chat.Reply, err error) {
	session := o.chat.Session
	reply, err = o.chat.Command(ctx, line)
	if err != nil || reply.Continue {
		if reply.Text != "" && !o.json {
			o.say("%s", cleanLines(reply.Text))
		}
		return reply, err
	}
	if reply.Text != "" || o.json {
		result := struct {
			Text      string           `json:"text"`
			Session   string           `json:"session"`
			Conflicts []segno.Conflict `json:"conflicts"`
			Kept      []segno.Conflict `json:"kept"`
		}{reply.Text, o.chat.Session, append([]segno.Conflict{}, reply.Conflicts...), append([]segno.Conflict{}, reply.Kept...)}
		err = o.print(result, func(w io.Writer) error {
			_, err := fmt.Fprintln(w, o.paint(w).drawn(cleanLines(reply.Text)))
			return err
		})
	}
	if err == nil && o.chat.Session != session && !o.json {
		o.say("to go on there: %s", o.command())
	}
	if err == nil && (len(reply.Conflicts) > 0 || reply.Lost) {
		err = errSilent
	}
	return reply, err
}

// decisions are the answers of the command line.
func (o *single) decisions(ctx context.Context) (all []segno.Decision, err error) {
	seen := map[string]bool{}
	for _, w := range o.flags.answers {
		i, err := o.chat.Pending(ctx, w.id)
		if err != nil {
			return nil, err
		}
		if seen[i.ID] {
			return nil, usage(fmt.Errorf("%s is answered twice", w.id))
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

// telling tells a run's events to a person who reads along.
type telling struct {
	app   *app
	lines *json.Encoder
	said  string // not known yet to be the answer or something said on the way
}

func (t *telling) tell(e agent.Event) error {
	switch e.Kind {
	case agent.EventSegment:
		t.flush()
		if e.Agent == "" {
			t.said = e.Text
		}
	case agent.EventDone:
		t.said = ""
		if err := t.answer(e.Text); err != nil {
			return segno.NewError(segno.KindIO, "write answer", "", err).WithHint("it is saved: 'segno show' has it")
		}
		fallthrough
	default:
		if line := chat.Line(e); line != "" {
			t.flush()
			t.app.say("%s", t.app.paint(t.app.Stderr).drawn(cleanLines(line)))
		}
	}
	return nil
}

// answer prints the answer: to a terminal what is safe there, to anything else as it
// is. Its last line is ended.
func (t *telling) answer(text string) error {
	if terminal(t.app.Stdout) {
		text = cleanLines(text)
	}
	_, err := fmt.Fprint(t.app.Stdout, strings.TrimSuffix(text, "\n")+"\n")
	return err
}

func (t *telling) flush() {
	if t.said != "" {
		t.app.say("%s", cleanLines(t.said))
	}
	t.said = ""
}

// waits is the error of a session that waits for approvals, after it has said which.
func (o *single) waits(ctx context.Context) error {
	s, err := o.chat.Status(ctx)
	if err != nil || len(s.Interrupts) == 0 {
		return err
	}
	waits := &waitsError{}
	for _, i := range s.Interrupts {
		if waits.ids = append(waits.ids, i.ID); !o.json {
			o.say("%s", waitingLine(i))
		}
	}
	return segno.NewError(segno.KindRefused, "chat", o.chat.Session, waits).WithHint(fmt.Sprintf("run %s, or use --reject, --edit or --respond", o.command("--approve", short(segno.CommitID(s.Interrupts[0].ID)))))
}

func waitingLine(i segno.Interrupt) string {
	line := fmt.Sprintf("waiting %s: %s %s", short(segno.CommitID(i.ID)), clean(i.Tool), clean(string(i.Args)))
	if i.Question != "" {
		line += "  (" + clean(i.Question) + ")"
	}
	return line
}

// list prints what waits for leave.
func (o *single) list(ctx context.Context) error {
	open, err := o.chat.Waiting(ctx)
	if err != nil {
		return err
	}
	if len(open) == 0 {
		if s, err := o.chat.Status(ctx); err == nil && s.Phase == agent.PhaseBrokenOff {
			o.say("nothing, but the last turn was broken off; %s goes on with it, and asks what it must", o.command("--continue"))
		}
	}
	return o.print(append([]segno.Interrupt{}, open...), func(w io.Writer) error {
		for _, i := range open {
			if _, err := fmt.Fprintln(w, waitingLine(i)); err != nil {
				return err
			}
		}
		return nil
	})
}
