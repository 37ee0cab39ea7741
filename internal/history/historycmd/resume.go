package historycmd

import (
	"context"
	"errors"
	"os"

	"github.com/spf13/cobra"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/chat"
	"github.com/dalsegno/segno/internal/cli"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/timeline"
)

func (a *app) resume() *cobra.Command {
	var flags resumeFlags
	c := &cobra.Command{
		Use:   "resume [CHECKPOINT | THREAD | SESSION]",
		Short: "continue a conversation at the head of its thread",
		Long: `Prints the command that continues the agent's session at a checkpoint (default:
where the thread is), and on a terminal runs it. A session made in another
directory is brought here first; one the agent no longer has comes from the store.

The id of an agent's session, or at least the first eight of its letters, as 'segno sessions'
lists them, continues that session in the directory that it ran in, if that exists, else here.
-C DIR chooses.

--with AGENT (claude, codex or segno) continues the conversation of a checkpoint in another
agent: its messages, tool calls and results are written as a session of that agent. First it
shows what does not travel. If the agent worked on the thread before, the new session begins
with its own. A thread that is at another checkpoint is first restored to this one, files and
all, as 'segno restore' does it; --chat leaves the files as they are.`,
		Example:           "  segno resume\n  segno resume t2 --print\n  segno resume t12 --with codex --dry-run",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: a.CompleteCheckpointsAndThreads(),
		RunE: func(c *cobra.Command, args []string) error {
			if (a.DryRun || flags.chatOnly) && flags.with == "" {
				return cli.Usage(errors.New("--dry-run and --chat need --with AGENT"))
			}
			if len(args) == 1 && cli.IsSessionName(args[0]) {
				resume := func(ctx context.Context, store *local.Store, s local.FoundSession) error {
					if flags.with != "" {
						return a.resumeSessionWith(ctx, store, s, flags.with, flags.print)
					}
					return a.resumeSession(ctx, store, s, flags.print)
				}
				if done, err := a.trySession(c.Context(), args[0], resume); done || err != nil {
					return err
				}
			}
			return a.InWorkspace(func(ctx context.Context, d *cli.Workspace, args []string) error {
				if flags.with != "" {
					return a.runResumeWith(ctx, d, append(args, "@")[0], flags)
				}
				return a.runResume(ctx, d, append(args, "@")[0], flags.print)
			})(c, args)
		},
	}
	a.WriteFlags(c)
	c.Flags().BoolVar(&flags.print, "print", false, "only print the command")
	c.Flags().StringVar(&flags.with, "with", "", "the agent to continue in: claude, codex or segno")
	c.Flags().BoolVar(&flags.chatOnly, "chat", false, "with --with: the conversation only, the files stay")
	return c
}

func (a *app) runResume(ctx context.Context, d *cli.Workspace, name string, printOnly bool) error {
	thread, at, err := a.resumePoint(ctx, d, name)
	if err != nil {
		return err
	}
	r, err := chat.Resume(ctx, d.Timeline, d.Dir, a.StoreToName(d.Store), thread, at)
	if err != nil {
		return err
	}
	return a.FinishResume(ctx, d.Close, cli.ResumeResult{Dir: r.Dir, Session: r.Session, Command: r.Command}, printOnly)
}

// resumePoint returns the checkpoint that a name means and the thread to continue. The name of a
// thread stands for its head.
func (a *app) resumePoint(ctx context.Context, d *cli.Workspace, name string) (segno.ThreadID, segno.CommitID, error) {
	h, c, err := a.CheckpointNamed(ctx, d, name)
	if err == nil {
		return h.Head.Thread, c.ID, nil
	}
	t, threadErr := a.ThreadNamed(ctx, d.Store, name)
	if threadErr != nil {
		return "", "", err
	}
	head, err := d.Store.Head(ctx, t.ID)
	return t.ID, head.Head, err
}

// trySession calls resume for the agent's session that has the name. done is false if there is no
// such session.
func (a *app) trySession(ctx context.Context, name string, resume func(context.Context, *local.Store, local.FoundSession) error) (done bool, err error) {
	place, err := a.OpenPlace()
	if err != nil {
		return false, err
	}
	existing, err := a.StoreIfAny(ctx, place)
	if err != nil {
		return false, err
	}
	if existing != nil {
		defer existing.Close()
	}
	s, err := a.SessionNamed(ctx, place, existing, name)
	switch {
	case segno.KindOf(err) == segno.KindNotFound && existing != nil && len(name) < len("xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx"):
		return false, nil // it may be a checkpoint or a thread
	case err != nil:
		return false, err
	case existing != nil:
		return true, resume(ctx, existing, s)
	case a.DryRun:
		return false, errNotKept(s.Session)
	}
	store, err := place.Open(ctx)
	if err != nil {
		return false, err
	}
	defer store.Close()
	return true, resume(ctx, store, s)
}

// resumeSession prints the command that continues a session of an agent, and runs it on a terminal.
// The directory is the one of -C, else the session's own, else the current one.
func (a *app) resumeSession(ctx context.Context, store *local.Store, s local.FoundSession, printOnly bool) error {
	s, err := a.withoutDamage(ctx, store, s)
	if err != nil {
		return err
	}
	d, err := a.Detail(ctx, store, s)
	if err != nil {
		return err
	}
	dir, err := a.dirToResume(d)
	if err != nil {
		return err
	}
	m, err := store.SessionTimeline().ResumeSession(ctx, cli.KeepRequest(ctx, store, d), dir)
	if err != nil {
		return err
	}
	res := cli.ResumeResult{Dir: m.To.Dir, Session: m.To.Session, Command: m.Run}
	return a.FinishResume(ctx, func() { store.Close() }, res, printOnly)
}

// withoutDamage returns the newest copy of a session that 'segno sessions heal' repaired. It returns the
// session itself if there is no copy, or if the user continued the damaged session after the
// repair.
func (a *app) withoutDamage(ctx context.Context, store *local.Store, s local.FoundSession) (local.FoundSession, error) {
	for t, err := range store.Threads(ctx, segno.ThreadQuery{Session: s.Session, Limit: 1}) {
		if err != nil {
			return s, err
		}
		var own segno.Link
		var repaired segno.SessionID
		for l, err := range store.Chain(ctx, t.ID) {
			switch {
			case err != nil:
				return s, err
			case l.Session == s.Session:
				own, repaired = l, ""
			case l.Reason != cli.HealReason:
				own = segno.Link{} // later copies are of that session
			case own.Session == "":
			case own.Reason != cli.HealReason || !l.Detached: // a copy beside the head repairs the session before both
				repaired = l.Session
			}
		}
		if repaired != "" {
			a.Notef("%s is damaged; this continues its repaired copy %s", cli.Inline(string(s.Session)), cli.Inline(string(repaired)))
			return a.SessionNamed(ctx, store.Place(), store, string(repaired))
		}
	}
	return s, nil
}

// dirToResume returns the directory in which a session continues.
func (a *app) dirToResume(d local.SessionDetail) (string, error) {
	if fi, err := os.Stat(d.Dir); a.Directory == "" && err == nil && fi.IsDir() {
		return d.Dir, nil
	}
	return a.WorkDir()
}

type resumeFlags struct {
	with            string // the agent to continue in, "" for the same agent
	print, chatOnly bool
}

// runResumeWith continues a checkpoint's conversation in another agent. If the thread is elsewhere,
// it first restores the checkpoint, so that the agent finds the files of the conversation.
func (a *app) runResumeWith(ctx context.Context, d *cli.Workspace, name string, flags resumeFlags) error {
	thread, at, err := a.resumePoint(ctx, d, name)
	if err != nil {
		return err
	}
	agent := flags.with
	ask := timeline.ContinueRequest{Thread: thread, At: at, Agent: agent, Own: chat.Name, Messages: chat.ConversationBetween(d.Store)}
	c := cli.Continuation{Tl: d.Timeline, Ask: ask, Print: flags.print, Close: d.Close}
	if !flags.chatOnly {
		c.RestoreIn = d
	}
	c.Write = func(plan *timeline.Continuation) (cli.ResumeResult, error) {
		if agent != chat.Name {
			return cli.WriteSession(ctx, d.Timeline, ask, plan)
		}
		t, _, err := segno.FindThread(ctx, d.Store, thread)
		if err != nil {
			return cli.ResumeResult{}, err
		}
		fork, err := chat.Import(ctx, d.Timeline, plan, t.Title)
		return cli.ResumeResult{Dir: d.Dir, Session: segno.SessionID(fork), Command: chat.Command(a.StoreToName(d.Store), fork)}, err
	}
	return a.ContinueWith(ctx, c)
}

// resumeSessionWith keeps a session and then continues it in another agent.
func (a *app) resumeSessionWith(ctx context.Context, store *local.Store, s local.FoundSession, agent string, printOnly bool) error {
	if agent == chat.Name {
		return segno.Errorf(segno.KindRefused, "resume", string(s.Session), "segno's own agent continues threads").
			WithHint("run 'segno sessions keep " + string(s.Session) + "' and resume its thread")
	}
	d, err := a.continuedDetail(ctx, store, s)
	if err != nil {
		return err
	}
	dir, err := a.dirToResume(d)
	if err != nil {
		return err
	}
	tl := store.SessionTimeline()
	thread, err := a.keepToContinue(ctx, store, tl, d)
	if err != nil {
		return err
	}
	for c, err := range store.Checkpoints(ctx, segno.CheckpointQuery{Thread: thread, Session: d.Session}) {
		if err != nil {
			return err
		}
		ask := timeline.ContinueRequest{Thread: c.Thread, At: c.ID, Agent: agent, Own: chat.Name, Messages: chat.ConversationBetween(store), Dir: dir}
		return a.ContinueWith(ctx, cli.Continuation{Tl: tl, Ask: ask, Print: printOnly, Close: func() { store.Close() },
			Write: func(plan *timeline.Continuation) (cli.ResumeResult, error) {
				return cli.WriteSession(ctx, tl, ask, plan)
			}})
	}
	return segno.Errorf(segno.KindNotFound, "resume", string(d.Session), "the session has no recorded turn")
}

// continuedDetail returns the details of a session, or of its repaired copy if the session is damaged and the user continued the copy. A copy
// without a turn since the repair has no checkpoint; the session then has the same conversation.
func (a *app) continuedDetail(ctx context.Context, store *local.Store, s local.FoundSession) (d local.SessionDetail, err error) {
	repaired, err := a.withoutDamage(ctx, store, s)
	if err != nil {
		return d, err
	}
	if d, err = a.Detail(ctx, store, repaired); err != nil || repaired.Session == s.Session {
		return d, err
	}
	for l, err := range store.Chain(ctx, d.Thread) {
		if err != nil {
			return d, err
		}
		if l.Session == d.Session && l.Position != nil && d.End <= l.Position.Offset {
			return a.Detail(ctx, store, s)
		}
	}
	return d, nil
}

// keepToContinue keeps a session, and returns its thread. A dry run writes nothing, so it needs a session that the store has.
func (a *app) keepToContinue(ctx context.Context, store *local.Store, tl *timeline.Timeline, d local.SessionDetail) (segno.ThreadID, error) {
	if !a.DryRun {
		kept, err := tl.KeepSession(ctx, cli.KeepRequest(ctx, store, d))
		return kept.Thread, err
	}
	if d.Path != "" && !d.Kept {
		return "", errNotKept(d.Session)
	}
	return d.Thread, nil
}

// errNotKept is the error of a dry run for a session that the command would keep first.
func errNotKept(session segno.SessionID) error {
	return segno.Errorf(segno.KindRefused, "resume", string(session), "the store does not have the whole session, and a dry run does not keep it").
		WithHint("run 'segno sessions keep " + string(session) + "' first")
}
