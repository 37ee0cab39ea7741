package chatcmd

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/agent/model/offline"
	"github.com/dalsegno/segno/agent/tool"
	"github.com/dalsegno/segno/internal/chat"
	"github.com/dalsegno/segno/internal/chat/tui"
	"github.com/dalsegno/segno/internal/cli"
	"github.com/dalsegno/segno/timeline"
)

type chatFlags struct {
	session, model        string
	sandbox               string
	prompt                string
	prompted              bool // -p was given
	reason                string
	skipApproval          bool
	continueTurn, waiting bool
	answers               []answer
}

func (a *app) chat() *cobra.Command {
	f := &chatFlags{}
	c := &cobra.Command{
		Use:   "chat [flags]",
		Short: "chat with segno's own agent in this directory",
		Long: `Chats with an agent that has todos, the directory's files and, with your permission,
commands. Every step is saved: you can quit at any time and continue later, also after
the process was killed. The session is a thread of the store under the name you give it.
By default each directory has one session. In the chat, /help lists the commands.

Without a key the offline model is used, which follows simple commands: 'write F: text',
'run CMD', 'todo X', 'help'. With a key, use --model anthropic/NAME and ANTHROPIC_API_KEY
in the environment, or --model openai/NAME and OPENAI_API_KEY. ANTHROPIC_BASE_URL and
OPENAI_BASE_URL name another server; a local server with OpenAI's protocol needs no key.
A session continues with its last model.

With -p, or with a prompt on standard input ('-p -' or a pipe), it prints one answer and
exits. A command such as /undo is executed. If a tool call waits for approval, the command
prints its id and exits with code 10; answer by the id, at any time, from any process.

With --sandbox bubblewrap a command can change the directory only. It can read the system's
programs and nothing in your home directory, and has no network; bubblewrap+network has one.
runsc is gVisor, with a separate kernel. The sandbox is not part of the session: set
SEGNO_SANDBOX, so that the command that approves a call uses it, too.`,
		Example: `  segno chat --session my-project
  segno chat -p "write notes.txt: hello"
  git diff | segno chat --model anthropic/claude-sonnet-4-5
  segno chat --session my-project --approve k3xq2a
  segno chat --session my-project --edit k3xq2a '{"command":"ls"}'`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if f.session == "" && c.Flags().Changed("session") {
				return cli.Usage(errors.New("the session's name is empty"))
			}
			f.prompted = c.Flags().Changed("prompt")
			return a.runChat(c.Context(), f, args)
		},
	}
	a.agentFlags(c, f, "", "the `MODEL`: offline, anthropic/NAME or openai/NAME (default: the session's last, else offline)")
	c.Flags().StringVar(&f.session, "session", "", "the session's `NAME` (default: the directory's own)")
	c.Flags().StringVarP(&f.prompt, "prompt", "p", "", "answer `PROMPT` and end; - reads it from standard input")
	c.Flags().BoolVar(&f.continueTurn, "continue", false, "continue a turn that was interrupted")
	c.Flags().BoolVar(&f.waiting, "waiting", false, "list the calls that wait for approval, and end")
	for kind, text := range map[segno.DecisionKind]string{
		segno.Approve: "approve the waiting call `ID`",
		segno.Reject:  "reject the waiting call `ID`; see --reason",
		segno.Edit:    "approve a waiting call with other arguments: --edit `ID` JSON",
		segno.Respond: "reply in place of a waiting call: --respond `ID` TEXT",
	} {
		c.Flags().Func(string(kind), text, func(id string) error {
			if id == "" {
				return errors.New("the id is missing")
			}
			f.answers = append(f.answers, answer{kind: kind, id: id})
			return nil
		})
	}
	c.Flags().StringVar(&f.reason, "reason", "", "the reason that the agent receives with --reject")
	return c
}

// agentFlags adds the flags that chat and agent share.
func (a *app) agentFlags(c *cobra.Command, f *chatFlags, model, usageText string) {
	c.Flags().StringVar(&f.model, "model", model, usageText)
	c.Flags().StringVar(&f.sandbox, "sandbox", "", "the `SANDBOX` of commands: none, bubblewrap or runsc, or with a network bubblewrap+network or runsc+network (default: $SEGNO_SANDBOX, else none)")
	c.Flags().BoolVarP(&f.skipApproval, "yes", "y", false, "run commands without asking")
	c.PreRunE = func(c *cobra.Command, _ []string) error {
		if a.ThreadName != "" {
			return cli.Usage(fmt.Errorf("%s takes --session, not --thread", c.Name()))
		}
		return nil
	}
}

// openSandbox returns the sandbox that the flags or the environment name, after it ran a command in it.
func (a *app) openSandbox(ctx context.Context, f *chatFlags) (tool.Sandbox, error) {
	s, err := tool.ParseSandbox(cmp.Or(f.sandbox, a.Getenv("SEGNO_SANDBOX"), "none"))
	if err == nil {
		err = s.Check(ctx)
	}
	return s, err
}

// modelOf returns the model that last answered in the session, or the offline model. If isUnused is
// set, the run asks no model, so modelOf does not need its key.
func (a *app) modelOf(ctx context.Context, store segno.Store, session string, isUnused bool) (agent.Model, error) {
	last, err := chat.LastModel(ctx, store, session)
	if err != nil {
		return nil, err
	}
	model, err := a.models.Open(cmp.Or(last, "offline"), a.Getenv)
	switch {
	case err != nil && isUnused:
		return offline.New(), nil
	case err != nil && segno.HintOf(err) != "":
		err = segno.NewError(segno.KindInternal, "", "", err).WithHint(segno.HintOf(err) + "; the session was started with " + last)
	}
	return model, err
}

// openChatWorkspace opens the workspace of a chat. The timeline is nil if the directory is too wide
// to be a workspace. The chat then saves no files.
func (a *app) openChatWorkspace(ctx context.Context) (*cli.Workspace, *timeline.Timeline, error) {
	d, err := a.OpenOrRegister(ctx)
	if err == nil {
		return d, d.Timeline.WithActor(segno.ActorChat), nil
	}
	if segno.KindOf(err) != segno.KindRefused {
		return nil, nil, err
	}
	place, dir, wrong := a.PlaceAndDir()
	if wrong != nil {
		return nil, nil, wrong
	}
	if rel, outside := filepath.Rel(place.Store, dir); outside == nil && filepath.IsLocal(rel) {
		return nil, nil, err
	}
	a.Notef("files are not saved with the session: %s", cli.Clean(err.Error()))
	store, err := place.Open(ctx)
	if err != nil {
		return nil, nil, err
	}
	return &cli.Workspace{Store: store, Dir: dir, Compress: func() error { return store.CompressSome(ctx) }}, nil, nil
}

func (a *app) runChat(ctx context.Context, f *chatFlags, args []string) error {
	in, err := a.chatInput(f, args)
	if err != nil {
		return err
	}
	defer cli.IgnoreBrokenPipe()()
	var model agent.Model
	if f.model != "" { // an unknown model is an error before a store or a workspace is made
		if model, err = a.models.Open(f.model, a.Getenv); err != nil {
			return err
		}
	}
	sandbox, err := a.openSandbox(ctx, f)
	if err != nil {
		return err
	}
	d, t, err := a.openChatWorkspace(ctx)
	if err != nil {
		return err
	}
	defer d.Close()
	session := cmp.Or(f.session, chat.Default(t, d.Dir))
	if model == nil {
		if model, err = a.modelOf(ctx, d.Store, session, f.waiting || in != nil && needsNoModel(in.Prompt)); err != nil {
			return err
		}
	}
	checkStore, err := storeCheck(d.Store.Place().Store)
	if err != nil {
		return err
	}
	runner := newRunnerRecord(d.Store, "chat", d.Dir)
	defer runner.remove()
	c, err := chat.Open(ctx, chat.Config{Model: model, Store: d.Store, Timeline: t, Dir: d.Dir, SkipApproval: f.skipApproval, Sandbox: sandbox,
		CheckStore: checkStore, OnRun: runner.announce, Session: session, Actor: a.user()})
	if err != nil {
		return err
	}
	defer c.Close()
	o := &oneShot{app: a, workspace: d, chat: c, flags: f}
	if f.waiting {
		return o.listWaiting(ctx)
	}
	runner.announce(session)
	switch {
	case in == nil:
		a.Bar.Stop()
		return tui.Run(ctx, tui.Options{Chat: c, Model: model.Name(), In: a.Stdin, Out: a.Stdout, Environ: a.Environ(),
			Colour: a.Paint(a.Stdout).On})
	}
	return o.run(ctx, *in)
}

// storeCheck returns a function that checks whether the directory of a store was moved or deleted
// after this call.
func storeCheck(dir string) (func() error, error) {
	opened, err := os.Stat(dir)
	if err != nil {
		return nil, segno.NewError(segno.KindIO, "open store", dir, err)
	}
	return func() error {
		if now, err := os.Stat(dir); err == nil && os.SameFile(opened, now) {
			return nil
		}
		return segno.Errorf(segno.KindRefused, "chat", dir, "the store was moved or deleted").
			WithHint("move the directory back, or exit and start the chat again")
	}, nil
}

// chatInput returns the input of a run, or nil for a conversation at the terminal.
func (a *app) chatInput(f *chatFlags, args []string) (*agent.Input, error) {
	if err := f.check(args); err != nil {
		return nil, cli.Usage(err)
	}
	text, source := f.prompt, "the prompt"
	switch {
	case f.continueTurn, f.waiting, len(f.answers) > 0:
		return &agent.Input{}, nil
	case !f.prompted && cli.Terminal(a.Stdin):
		if !cli.Terminal(a.Stdout) || a.JSON || a.Getenv("TERM") == "dumb" {
			return nil, segno.Errorf(segno.KindRefused, "chat", "", "the chat needs a terminal").WithHint("use -p PROMPT")
		}
		return nil, nil
	case !f.prompted, f.prompt == "-":
		data, err := io.ReadAll(a.Stdin)
		if err != nil {
			return nil, segno.NewError(segno.KindIO, "read prompt", "", err)
		}
		text, source = strings.ToValidUTF8(string(data), "\uFFFD"), "the prompt on standard input"
	}
	if strings.TrimSpace(text) == "" {
		return nil, cli.Usage(errors.New(source + " is empty"))
	}
	return &agent.Input{Prompt: text}, nil
}

// check rejects flags that exclude each other, and assigns the arguments to the answers.
func (f *chatFlags) check(args []string) error {
	if err := assignTexts(f.answers, args); err != nil {
		return err
	}
	isReject := func(w answer) bool { return w.kind == segno.Reject }
	if f.reason != "" && !slices.ContainsFunc(f.answers, isReject) {
		return errors.New("--reason requires --reject")
	}
	given := slices.DeleteFunc([]bool{f.prompted, len(f.answers) > 0, f.continueTurn, f.waiting}, func(is bool) bool { return !is })
	if len(given) > 1 {
		return errors.New("use only one of -p, --continue, --waiting and the answers")
	}
	return nil
}

// answer is the user's answer, from the command line, to one call that waits for approval.
type answer struct {
	kind     segno.DecisionKind
	id, text string
}

// assignTexts assigns to each --edit and --respond its argument, in order.
func assignTexts(answers []answer, args []string) error {
	for i := range answers {
		w := &answers[i]
		if w.kind != segno.Edit && w.kind != segno.Respond {
			continue
		}
		if len(args) == 0 {
			return fmt.Errorf("--%s %s needs one more argument", w.kind, w.id)
		}
		w.text, args = args[0], args[1:]
		switch {
		case w.kind == segno.Respond && strings.TrimSpace(w.text) == "":
			return fmt.Errorf("--respond %s: the reply is empty", w.id)
		case w.kind == segno.Edit && !json.Valid([]byte(w.text)):
			return fmt.Errorf("--edit %s: the arguments are not JSON", w.id)
		}
	}
	if len(args) > 0 {
		return fmt.Errorf("unexpected argument %q; give a prompt with -p", args[0])
	}
	return nil
}
