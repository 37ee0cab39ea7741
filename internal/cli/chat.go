package cli

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
	"github.com/dalsegno/segno/internal/chat"
	"github.com/dalsegno/segno/internal/tui"
	"github.com/dalsegno/segno/timeline"
)

// chatFlags are the flags of chat and agent.
type chatFlags struct {
	session, model        string
	prompt                string
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
prints its id and exits with code 10; answer by the id, at any time, from any process.`,
		Example: `  segno chat --session my-project
  segno chat -p "write notes.txt: hello"
  git diff | segno chat --model anthropic/claude-sonnet-4-5
  segno chat --session my-project --approve k3xq2a
  segno chat --session my-project --edit k3xq2a '{"command":"ls"}'`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			switch {
			case a.thread != "":
				return usage(errors.New("chat takes --session, not --thread"))
			case f.session == "" && c.Flags().Changed("session"):
				return usage(errors.New("the session's name is empty"))
			}
			return a.runChat(c.Context(), f, c.Flags().Changed("prompt"), args)
		},
	}
	a.agentFlags(c, f)
	c.Flags().StringVarP(&f.prompt, "prompt", "p", "", "answer `PROMPT` and end; - reads it from standard input")
	c.Flags().BoolVar(&f.continueTurn, "continue", false, "continue a turn that was interrupted")
	c.Flags().BoolVar(&f.waiting, "waiting", false, "list the calls that wait for approval, and end")
	c.Flags().Var(&answerFlag{segno.Approve, &f.answers}, "approve", "make the call that waits under `ID`")
	c.Flags().Var(&answerFlag{segno.Reject, &f.answers}, "reject", "do not make it; see --reason")
	c.Flags().Var(&answerFlag{segno.Edit, &f.answers}, "edit", "make it with other arguments: --edit `ID` JSON")
	c.Flags().Var(&answerFlag{segno.Respond, &f.answers}, "respond", "do not make it; reply in its place: --respond `ID` TEXT")
	c.Flags().StringVar(&f.reason, "reason", "", "why: the agent is told with --reject")
	return c
}

// agentFlags are those that chat and agent share.
func (a *app) agentFlags(c *cobra.Command, f *chatFlags) {
	preset, last := "offline", ""
	if c.Name() == "chat" {
		preset, last = "", " (default: the session's last, else offline)"
	}
	c.Flags().StringVar(&f.model, "model", preset, "the `MODEL`: offline, anthropic/NAME or openai/NAME"+last)
	c.Flags().BoolVarP(&f.skipApproval, "yes", "y", false, "run commands without asking")
	if c.Name() == "chat" {
		c.Flags().StringVar(&f.session, "session", "", "the session's `NAME` (default: the directory's own)")
	}
}

// model makes the model that a flag names.
func (a *app) model(spec string) (agent.Model, error) {
	provider, name, _ := strings.Cut(spec, "/")
	if provider == "offline" && (name == "" || name == "plain") {
		return offline.New(), nil
	}
	make, ok := a.Models[provider]
	if !ok || name == "" {
		known := []string{"offline"}
		for p := range a.Models {
			known = append(known, p+"/NAME")
		}
		slices.Sort(known)
		return nil, segno.Errorf(segno.KindInvalid, "find model", spec, "unknown model").WithHint("use --model " + strings.Join(known, ", "))
	}
	return make(name, a.Getenv)
}

// modelOf is the model that answered last in a session, or the offline one.
func (a *app) modelOf(ctx context.Context, store segno.Store, session string) (agent.Model, error) {
	last, err := chat.LastModel(ctx, store, session)
	if err != nil {
		return nil, err
	}
	model, err := a.model(cmp.Or(last, "offline"))
	if err != nil && segno.HintOf(err) != "" {
		err = segno.NewError(segno.KindInternal, "", "", err).WithHint(segno.HintOf(err) + "; the session began with " + last)
	}
	return model, err
}

// openChatWorkspace is the directory a chat works in: a workspace, unless the directory is
// too wide for one.
func (a *app) openChatWorkspace(ctx context.Context) (*openWorkspace, *timeline.Timeline, error) {
	d, err := a.openOrRegister(ctx)
	if err == nil {
		site, err := d.store.Timeline(d.rec, nil)
		return d, site, err
	}
	if segno.KindOf(err) != segno.KindRefused {
		return nil, nil, err
	}
	place, wrong := a.place()
	if wrong != nil {
		return nil, nil, wrong
	}
	dir, wrong := a.workDir()
	if wrong != nil {
		return nil, nil, wrong
	}
	if rel, outside := filepath.Rel(place.Store, dir); outside == nil && filepath.IsLocal(rel) {
		return nil, nil, err
	}
	a.notef("files are not saved with the session: %s", clean(err.Error()))
	store, err := place.Open(ctx)
	if err != nil {
		return nil, nil, err
	}
	return &openWorkspace{store: store, dir: dir, compress: func() error { return store.CompressSome(ctx) }}, nil, nil
}

func (a *app) runChat(ctx context.Context, f *chatFlags, prompted bool, args []string) error {
	in, err := a.chatInput(f, prompted, args)
	if err != nil {
		return err
	}
	defer ignoreBrokenPipe()()
	var model agent.Model
	if f.model != "" {
		if model, err = a.model(f.model); err != nil {
			return err
		}
	}
	d, site, err := a.openChatWorkspace(ctx)
	if err != nil {
		return err
	}
	defer d.Close()
	if model == nil {
		model, err = a.modelOf(ctx, d.store, cmp.Or(f.session, chat.Default(site, d.dir)))
		switch {
		case err != nil && (f.waiting || in != nil && needsNoModel(in.Prompt)):
			model = offline.New() // it is asked nothing
		case err != nil:
			return err
		}
	}
	kept, err := storeCheck(d.store.Place().Store)
	if err != nil {
		return err
	}
	c, err := chat.Open(ctx, chat.Config{Model: model, Store: d.store, Timeline: site, Dir: d.dir, SkipApproval: f.skipApproval, CheckStore: kept,
		Session: cmp.Or(f.session, chat.Default(site, d.dir)), Actor: cmp.Or(a.Getenv("USER"), "user")})
	if err != nil {
		return err
	}
	defer c.Close()
	o := &oneShot{app: a, workspace: d, chat: c, flags: f}
	switch {
	case f.waiting:
		return o.listWaiting(ctx)
	case in == nil:
		return tui.Run(ctx, tui.Options{Chat: c, Model: model.Name(), In: a.Stdin, Out: a.Stdout, Environ: a.Environ(), Colour: a.paint(a.Stdout).on})
	}
	return o.run(ctx, *in)
}

// storeCheck returns what finds out whether a store's directory is still there.
func storeCheck(dir string) (func() error, error) {
	opened, err := os.Stat(dir)
	if err != nil {
		return nil, segno.NewError(segno.KindIO, "open store", dir, err)
	}
	return func() error {
		if now, err := os.Stat(dir); err == nil && os.SameFile(opened, now) {
			return nil
		}
		return segno.Errorf(segno.KindRefused, "chat", dir, "the store was moved or deleted").WithHint("put it back, or exit and start the chat again")
	}, nil
}

// chatInput is what a run is given; nil is a conversation at the terminal.
func (a *app) chatInput(f *chatFlags, prompted bool, args []string) (*agent.Input, error) {
	if err := assignTexts(f.answers, args); err != nil {
		return nil, usage(err)
	}
	wishes := 0
	for _, w := range []bool{prompted, len(f.answers) > 0, f.continueTurn, f.waiting} {
		if w {
			wishes++
		}
	}
	switch {
	case f.reason != "" && !slices.ContainsFunc(f.answers, func(w answer) bool { return w.kind == segno.Reject }):
		return nil, usage(errors.New("--reason is for --reject"))
	case wishes > 1:
		return nil, usage(errors.New("one at a time: -p, --continue, --waiting, or answers"))
	case f.continueTurn, f.waiting, len(f.answers) > 0:
		return &agent.Input{}, nil
	case prompted && f.prompt != "-":
		if strings.TrimSpace(f.prompt) == "" {
			return nil, usage(errors.New("the prompt is empty"))
		}
		return &agent.Input{Prompt: f.prompt}, nil
	case !prompted && terminal(a.Stdin):
		if !terminal(a.Stdout) || a.json || a.Getenv("TERM") == "dumb" {
			return nil, segno.Errorf(segno.KindRefused, "chat", "", "the chat needs a terminal").WithHint("use -p PROMPT")
		}
		return nil, nil
	}
	text, err := io.ReadAll(a.Stdin)
	if err != nil {
		return nil, segno.NewError(segno.KindIO, "read prompt", "", err)
	}
	if strings.TrimSpace(string(text)) == "" {
		return nil, usage(errors.New("the prompt on standard input is empty"))
	}
	return &agent.Input{Prompt: strings.ToValidUTF8(string(text), "\uFFFD")}, nil
}

// answer is an answer of the command line.
type answer struct {
	kind segno.DecisionKind
	id   string
	text string
}

// answerFlag adds answers in the order they are given.
type answerFlag struct {
	kind segno.DecisionKind
	to   *[]answer
}

func (f *answerFlag) String() string { return "" }
func (f *answerFlag) Type() string   { return "id" }
func (f *answerFlag) Set(id string) error {
	if id == "" {
		return errors.New("it needs an id")
	}
	*f.to = append(*f.to, answer{kind: f.kind, id: id})
	return nil
}

// assignTexts gives each edit and response its argument, in order.
func assignTexts(answers []answer, args []string) error {
	for i := range answers {
		if k := answers[i].kind; k != segno.Edit && k != segno.Respond {
			continue
		}
		if len(args) == 0 {
			return fmt.Errorf("--%s %s needs one more argument", answers[i].kind, answers[i].id)
		}
		answers[i].text, args = args[0], args[1:]
		if answers[i].kind == segno.Respond && strings.TrimSpace(answers[i].text) == "" {
			return fmt.Errorf("--respond %s: the reply is empty", answers[i].id)
		}
		if answers[i].kind == segno.Edit && !json.Valid([]byte(answers[i].text)) {
			return fmt.Errorf("--edit %s: the arguments are not JSON", answers[i].id)
		}
	}
	if len(args) > 0 {
		return fmt.Errorf("unexpected argument %q; give a prompt with -p", args[0])
	}
	return nil
}
