package fleetcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/cli"
	"github.com/dalsegno/segno/internal/web/wire"
)

type sendFlags struct {
	connectFlags
	prompt, promptFile string
	isPrompted         bool // -p was given
	key, agent         string
	priority           int
	follow             bool
}

func (a *app) send() *cobra.Command {
	f := &sendFlags{}
	c := &cobra.Command{
		Use: "send", Short: "send a prompt to a thread of a fleet", Args: cobra.NoArgs,
		Long: `Sends a prompt to a thread whose turns workers run. The prompt is on the server's disk when
the command ends. The prompts of a thread run in the order in which they were sent, one at a
time; a thread begins with its first prompt.

--key makes the command repeatable: the same key in the same thread is the same prompt,
permanently. Without it the key is random, and the command prints it.

--follow waits until the turn ends or waits for a decision, and prints the answer. The exit
code is 0 if the turn ended, 10 if it waits for a decision, and 14 if the prompt failed too
often, which parks it with its error, or was cancelled. ctrl+c ends the waiting only.`,
		Example: `  segno send --remote https://segno.example.com --thread order-17 --agent support -p "Where is it?" --key q1 --follow
  segno send --store postgres://localhost/fleet --thread order-17 --prompt-file question.txt
  echo "Summarize the log" | segno send --remote http://127.0.0.1:7777 --thread nightly --agent ops --json`,
		RunE: func(c *cobra.Command, _ []string) error {
			f.isPrompted = c.Flags().Changed("prompt")
			return a.runSend(c.Context(), f)
		},
	}
	a.connectFlags(c, &f.connectFlags)
	c.Flags().StringVarP(&f.prompt, "prompt", "p", "", "the `PROMPT`; - reads it from standard input, which is the default for a pipe")
	c.Flags().StringVar(&f.promptFile, "prompt-file", "", "the `FILE` with the prompt")
	c.Flags().StringVar(&f.key, "key", "", "the `KEY` of the prompt, unique in its thread")
	c.Flags().StringVar(&f.agent, "agent", "", "the `AGENT` of agents.toml (default: that of the thread's previous prompt)")
	c.Flags().IntVar(&f.priority, "priority", 0, "the `PRIORITY` among the threads that wait for a worker: 1 is first, 4 is last (default 2)")
	c.Flags().BoolVar(&f.follow, "follow", false, "wait for the end of the turn, and print the answer")
	return c
}

func (a *app) runSend(ctx context.Context, f *sendFlags) error {
	if a.ThreadName == "" {
		return cli.Usage(errors.New("--thread is missing"))
	}
	if f.priority < 0 || f.priority > 4 {
		return cli.Usage(errors.New("--priority is 1 to 4"))
	}
	text, err := a.promptText(f)
	if err != nil {
		return err
	}
	c, err := a.connect(ctx, &f.connectFlags, false)
	if err != nil {
		return err
	}
	defer c.close()
	key := cmp.Or(f.key, segno.NewID())
	p, err := c.Send(ctx, segno.ThreadID(a.ThreadName), key, wire.SendPrompt{Text: text, Agent: f.agent, Priority: f.priority, Actor: segno.ActorCommand})
	if err != nil && f.key == "" {
		return withKey(err, key)
	}
	if err != nil {
		return err
	}
	a.noteWorkers(ctx, c, &p)
	if !f.follow {
		return a.Print(promptItem{schemaVersion, p}, func(out *cli.Printer) {
			out.Linef("sent %s to thread %s%s", cli.Inline(p.Key), cli.Inline(string(p.Thread)), wasSent(&p))
		})
	}
	if f.key == "" && !a.JSON {
		a.Notef("sent %s", p.Key)
	}
	if p, err = a.follow(ctx, c, &p); err != nil {
		return err
	}
	return a.printOutcome(&p)
}

// withKey adds the random key of a prompt to an error after which the server may have the prompt.
func withKey(err error, key string) error {
	kind := segno.KindOf(err)
	switch kind {
	case segno.KindIO, segno.KindBusy, segno.KindCancelled, segno.KindInternal:
		hint := "the prompt may have been sent: repeat the command with --key " + key
		if first := segno.HintOf(err); first != "" {
			hint = first + "; " + hint
		}
		return segno.NewError(kind, "", "", err).WithHint(hint)
	}
	return err
}

// wasSent describes a prompt whose key was sent before.
func wasSent(p *wire.Prompt) string {
	if p.New {
		return ""
	}
	return fmt.Sprintf(" (it was sent before, and is %s)", p.State)
}

// schemaVersion is the version of the JSON of these verbs.
const schemaVersion = 1

// promptItem is the result of a verb about one prompt.
type promptItem struct {
	SchemaVersion int `json:"schema_version"`
	wire.Prompt
}

// promptText returns the prompt that the flags name.
func (a *app) promptText(f *sendFlags) (string, error) {
	if f.isPrompted && f.promptFile != "" {
		return "", cli.Usage(errors.New("use only one of -p and --prompt-file"))
	}
	text, source := f.prompt, "the prompt"
	switch {
	case f.promptFile != "":
		data, err := os.ReadFile(f.promptFile)
		if err != nil {
			kind := segno.KindIO
			if os.IsNotExist(err) {
				kind = segno.KindNotFound
			}
			return "", segno.NewError(kind, "read prompt", f.promptFile, plainPathError(err))
		}
		text, source = string(data), "the file of the prompt"
	case !f.isPrompted && cli.Terminal(a.Stdin):
		return "", cli.Usage(errors.New("give a prompt with -p or --prompt-file, or on standard input"))
	case !f.isPrompted, f.prompt == "-":
		data, err := io.ReadAll(a.Stdin)
		if err != nil {
			return "", segno.NewError(segno.KindIO, "read prompt", "", err)
		}
		text, source = string(data), "the prompt on standard input"
	}
	switch {
	case strings.TrimSpace(text) == "":
		return "", cli.Usage(errors.New(source + " is empty"))
	case !utf8.ValidString(text):
		return "", cli.Usage(errors.New(source + " is not UTF-8"))
	}
	return text, nil
}

// The pauses between two reads of a prompt whose thread does not change: an attempt that fails may leave no commit.
const (
	minFollowPause = 50 * time.Millisecond
	maxFollowPause = 2 * time.Second
)

// follow waits until a prompt has ended or waits for a person.
func (a *app) follow(ctx context.Context, c *connection, p *wire.Prompt) (wire.Prompt, error) {
	now, pause := *p, minFollowPause
	for !isSettled(&now) {
		changed, err := waitForChange(ctx, c.store, now.Thread, pause)
		if err != nil {
			return now, err
		}
		if pause = min(2*pause, maxFollowPause); changed {
			pause = minFollowPause
		}
		list, err := c.Prompts(ctx, wire.PromptQuery{Thread: p.Thread, Key: p.Key, Limit: 1})
		if err == nil && len(list.Prompts) == 0 {
			err = segno.Errorf(segno.KindNotFound, "follow prompt", p.Key, "it was deleted")
		}
		if err != nil {
			return now, err
		}
		if next := list.Prompts[0]; next.Error != "" && next.Error != now.Error && next.State != wire.PromptParked && !a.JSON {
			a.Notef("attempt %d failed, and another one follows: %s", next.Attempts, cli.Clean(next.Error))
		}
		now = list.Prompts[0]
	}
	return now, nil
}

// isSettled reports whether a prompt stays as it is until a person or a program acts.
func isSettled(p *wire.Prompt) bool {
	switch p.State {
	case wire.PromptDone, wire.PromptParked, wire.PromptCancelled:
		return true
	case wire.PromptWaiting:
		return len(questions(p.Waits)) > 0 // it continues after a sleep, a signal or the answer of another thread without a person
	}
	return false
}

// waitForChange returns after the next commit of a thread, and after a pause in any case.
func waitForChange(ctx context.Context, store segno.Store, thread segno.ThreadID, pause time.Duration) (changed bool, err error) {
	wait, cancel := context.WithTimeout(ctx, pause)
	defer cancel()
	head, err := store.Head(wait, thread)
	if err == nil {
		_, err = segno.Wait(wait, store, thread, head.Seq)
	}
	switch {
	case ctx.Err() != nil:
		return false, segno.NewError(segno.KindCancelled, "follow prompt", string(thread), ctx.Err())
	case err != nil && segno.KindOf(err) == segno.KindNotFound: // the thread begins with its first turn
		<-wait.Done()
		return false, nil
	case wait.Err() != nil:
		return false, nil
	}
	return err == nil, err
}

// noteWorkers tells the user if no worker could run a prompt. The prompt is sent, so an error is not reported: a token may allow to
// send and not to read.
func (a *app) noteWorkers(ctx context.Context, c *connection, p *wire.Prompt) {
	if a.JSON || p.State == wire.PromptDone || p.State == wire.PromptWaiting || p.State == wire.PromptCancelled {
		return
	}
	status, err := c.FleetStatus(ctx)
	if err != nil || !hasWorker(&status) && p.State != wire.PromptSent {
		return // or the worker that ran it has ended
	}
	if !hasWorker(&status) {
		a.Notef("no worker listens; the prompt is kept, and runs once 'segno worker' is started")
		return
	}
	var names []string
	for _, w := range status.Workers {
		if w.Alive {
			names = append(names, w.Agents...)
		}
	}
	if !slices.Contains(names, p.Agent) {
		slices.Sort(names)
		a.Notef("no worker has the agent %s; they have %s", cli.Inline(p.Agent), cli.Inline(strings.Join(slices.Compact(names), ", ")))
	}
}

// outcomeError ends the command with the exit code of a prompt that has no answer.
type outcomeError struct {
	prompt wire.Prompt
	code   int
	text   string
}

func (e *outcomeError) Error() string { return e.text }

// printOutcome prints the answer of a prompt, or returns the error for one that has none.
func (a *app) printOutcome(p *wire.Prompt) error {
	name := string(p.Thread)
	switch p.State {
	case wire.PromptDone:
		return a.Print(promptItem{schemaVersion, *p}, func(out *cli.Printer) {
			text := p.Answer
			if cli.Terminal(a.Stdout) {
				text = cli.CleanLines(text)
			}
			out.Linef("%s", strings.TrimSuffix(text, "\n"))
		})
	case wire.PromptWaiting:
		open := questions(p.Waits)
		for i := range open {
			if !a.JSON {
				a.Notef("%s", questionLine(&open[i]))
			}
		}
		return segno.NewError(segno.KindRefused, "send", name, &outcomeError{*p, cli.ExitWaits, "the turn waits for a decision"}).
			WithHint("answer with 'segno fleet decide --thread " + cli.ShellQuote(name) + " --approve " + cli.Short(open[0].ID) + "', or --reject, --edit or --respond")
	case wire.PromptParked:
		return segno.NewError(segno.KindRefused, "send", name,
			&outcomeError{*p, cli.ExitParked, fmt.Sprintf("parked after %s: %s", cli.Plural(p.Attempts, "attempt"), p.Error)}).
			WithHint("remove the cause, and run 'segno fleet retry' or 'segno fleet cancel' with --thread and " + cli.ShellQuote(p.Key))
	}
	return segno.NewError(segno.KindRefused, "send", name, &outcomeError{*p, cli.ExitParked, "the prompt was cancelled"}).WithHint("send another one")
}

// questions returns the interrupts that a person answers.
func questions(all []segno.Interrupt) (open []segno.Interrupt) {
	for _, i := range all {
		if i.Reason.IsQuestion() {
			open = append(open, i)
		}
	}
	return open
}

// questionLine describes a question, beginning with the id to answer it by.
func questionLine(q *segno.Interrupt) string {
	line := fmt.Sprintf("waiting %s: %s %s", cli.Short(q.ID), cli.Clean(q.Tool), cli.Clean(string(q.Args)))
	if q.Question != "" {
		line += "  (" + cli.Clean(q.Question) + ")"
	}
	return line
}
