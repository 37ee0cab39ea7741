package chatcmd

import (
	"cmp"
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/agent/tool"
	"github.com/dalsegno/segno/internal/chat"
	"github.com/dalsegno/segno/internal/chat/acpagent"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/timeline"
)

func (a *app) agent() *cobra.Command {
	f := &chatFlags{}
	c := &cobra.Command{
		Use:   "agent [flags]",
		Short: "serve segno's own agent to an editor, over the Agent Client Protocol",
		Long: `Speaks the Agent Client Protocol on its standard streams. It is the agent of 'segno
chat': it has the same tools and the same store, saves every step, and 'segno log' and
'segno undo' work on its turns. A session's id is its name, so that a restarted agent can
load any session. Prompts of a session run one after the other. Commands ask the editor
for permission; a cancel rejects them. A call whose result was lost in a crash is not
repeated; the model gets the information that its outcome is unknown.

Behind 'segno acp --', that command records the turns and the files. The agent then keeps
its conversation in a separate thread, which 'segno threads' does not list.`,
		Example: "  segno agent\n  segno agent --model anthropic/claude-sonnet-4-5\n  segno acp -- segno agent",
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return a.runAgent(c.Context(), f) },
	}
	a.agentFlags(c, f, "offline", "the `MODEL`: offline, anthropic/NAME or openai/NAME")
	c.Flags().StringVar(&f.session, "session", "", "the first new session continues the one of this `NAME`")
	return c
}

func (a *app) runAgent(ctx context.Context, f *chatFlags) error {
	model, err := a.models.Open(f.model, a.Getenv)
	if err != nil {
		return err
	}
	sandbox, err := a.openSandbox(ctx, f)
	if err != nil {
		return err
	}
	store, err := a.OpenOrMakeStore(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	dir, err := a.WorkDir()
	if err != nil {
		return err
	}
	s := &acpServer{app: a, store: store, model: model, skipApproval: f.skipApproval, sandbox: sandbox, runner: newRunnerRecord(store, "agent", dir)}
	defer s.runner.remove()
	return acpagent.Serve(ctx, acpagent.Config{Open: s.open, List: s.list, Session: f.session, Version: a.BuildVersion()}, a.Stdin, a.Stdout)
}

// acpServer contains the values that all sessions of an agent share.
type acpServer struct {
	app          *app
	store        *local.Store
	model        agent.Model
	skipApproval bool
	sandbox      tool.Sandbox
	runner       *runnerRecord
}

// open opens a session. If a proxy in front of the agent records the session and its files, segno's
// own session saves no files. If neither saves the files, note is the message for the client.
func (s *acpServer) open(ctx context.Context, session, dir string, answer acpagent.Answer) (c *chat.Chat, note string, err error) {
	t, reason, err := s.timeline(ctx, session, dir)
	if err != nil {
		return nil, "", err
	}
	if reason != nil {
		note = "files are not saved with the session: " + reason.Error()
	}
	c, err = chat.Open(ctx, chat.Config{Model: s.model, Store: s.store, Timeline: t, Dir: dir, Session: session,
		SkipApproval: s.skipApproval, Sandbox: s.sandbox, Answer: answer, Actor: s.app.user(), OnRun: s.runner.announce})
	return c, note, err
}

// timeline returns the timeline of a session's workspace. It returns nil for a session without
// files, and the reason if no proxy in front of the agent saves them.
func (s *acpServer) timeline(ctx context.Context, session, dir string) (t *timeline.Timeline, reason, err error) {
	thread, known, err := segno.FindThread(ctx, s.store, segno.ThreadID(session))
	if err != nil {
		return nil, nil, err
	}
	if thread.Workspace == "" {
		for _, err := range s.store.Threads(ctx, segno.ThreadQuery{Session: segno.SessionID(session), Limit: 1}) {
			return nil, nil, err // the proxy's thread of this session
		}
		if known {
			return nil, errors.New("the session was started without files"), nil
		}
	}
	rec, err := s.store.RegisterRoot(ctx, dir)
	if segno.KindOf(err) == segno.KindRefused {
		return nil, err, nil // the directory is too wide to be saved with the session
	}
	if err == nil {
		t, err = s.store.Timeline(rec, nil)
	}
	if err != nil {
		return nil, nil, err
	}
	return t.WithActor(segno.ActorACP), nil, nil
}

// list returns the sessions of segno's agent, in one directory or in all. It leaves out conversations without files,
// and sessions behind a proxy, because the proxy lists those.
func (s *acpServer) list(ctx context.Context, dir string) (all []acpagent.Info, err error) {
	q := segno.ThreadQuery{TopLevel: true}
	if dir != "" {
		rec, err := s.store.Find(ctx, dir)
		if segno.KindOf(err) == segno.KindNotFound {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		q.Workspace = rec.ID
	}
	for t, err := range s.store.Threads(ctx, q) {
		if err != nil {
			return nil, err
		}
		if t.Agent != chat.Name || t.Workspace == "" {
			continue
		}
		if client, err := chat.Client(ctx, s.store, t.ID); err != nil {
			return nil, err
		} else if client {
			continue
		}
		rec, err := s.store.Workspace(ctx, t.Workspace)
		if err != nil {
			return nil, err
		}
		info, err := chat.Describe(ctx, s.store, &t)
		if err != nil {
			return nil, err
		}
		all = append(all, acpagent.Info{Session: info, Dir: rec.Path})
	}
	return all, nil
}

// user returns the name of the user for decisions.
func (a *app) user() string { return cmp.Or(a.Getenv("USER"), "user") }
