package cli

import (
	"context"
	"errors"
	"os"
	"os/exec"

	"github.com/spf13/cobra"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/chat"
	"github.com/dalsegno/segno/internal/local"
)

func (a *app) resume() *cobra.Command {
	var flags resumeFlags
	c := &cobra.Command{
		Use:   "resume [CHECKPOINT | THREAD | SESSION]",
		Short: "continue a conversation at the head of its thread",
		Long: `Prints the command that continues the agent's session at a checkpoint (default:
where the thread is), and on a terminal runs it. A session made in another
directory is brought here first; one the agent no longer has comes from the store.

The id of an agent's session, or its first letters, as 'segno sessions' lists them, continues
that session in the directory that it ran in, if that exists, else here. -C DIR chooses.

--with AGENT (claude, codex or segno) continues the conversation of a checkpoint in another
agent: its messages, tool calls and results are written as a session of that agent. First it
shows what does not travel. If the agent worked on the thread before, the new session begins
with its own. A thread that is at another checkpoint is first restored to this one, files and
all, as 'segno restore' does it; --chat leaves the files as they are.`,
		Example:           "  segno resume\n  segno resume t2 --print\n  segno resume t12 --with codex --dry-run",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: a.completeCheckpointsAndThreads(),
		RunE: func(c *cobra.Command, args []string) error {
			if (a.dryRun || flags.chatOnly) && flags.with == "" {
				return usage(errors.New("--dry-run and --chat need --with AGENT"))
			}
			if len(args) == 1 && isSessionName(args[0]) {
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
			return a.inWorkspace(func(ctx context.Context, d *openWorkspace, args []string) error {
				if flags.with != "" {
					return a.runResumeWith(ctx, d, append(args, "@")[0], flags)
				}
				return a.runResume(ctx, d, append(args, "@")[0], flags.print)
			})(c, args)
		},
	}
	a.writeFlags(c)
	c.Flags().BoolVar(&flags.print, "print", false, "only print the command")
	c.Flags().StringVar(&flags.with, "with", "", "the agent to continue in: claude, codex or segno")
	c.Flags().BoolVar(&flags.chatOnly, "chat", false, "with --with: the conversation only, the files stay")
	return c
}

type resumeResult struct {
	Dir     string          `json:"dir"`
	Session segno.SessionID `json:"session"`
	Command []string        `json:"command"`

	DirBytes []byte `json:"dir_bytes,omitempty"`
}

func (a *app) runResume(ctx context.Context, d *openWorkspace, name string, printOnly bool) error {
	thread, at, err := a.resumePoint(ctx, d, name)
	if err != nil {
		return err
	}
	res, err := a.resumeCommand(ctx, d, thread, at)
	if err != nil {
		return err
	}
	return a.finishResume(ctx, d.Close, res, printOnly)
}

// trySession calls resume for the agent's session that has the name. done is false if there is no
// such session.
func (a *app) trySession(ctx context.Context, name string, resume func(context.Context, *local.Store, local.FoundSession) error) (done bool, err error) {
	place, err := a.place()
	if err != nil {
		return false, err
	}
	existing, err := a.storeIfAny(ctx, place)
	if err != nil {
		return false, err
	}
	if existing != nil {
		defer existing.Close()
	}
	s, err := a.sessionNamed(ctx, place, existing, name)
	switch {
	case segno.KindOf(err) == segno.KindNotFound && existing != nil && len(name) < len("xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx"):
		return false, nil // it may be a checkpoint or a thread
	case err != nil:
		return false, err
	case existing != nil:
		return true, resume(ctx, existing, s)
	}
	store, err := place.Open(ctx)
	if err != nil {
		return false, err
	}
	defer store.Close()
	return true, resume(ctx, store, s)
}

// finishResume prints the command. On a terminal, it calls closeStore and runs the command.
func (a *app) finishResume(ctx context.Context, closeStore func(), res resumeResult, printOnly bool) error {
	res.DirBytes = segno.PathBytes(res.Dir)
	a.noteWriter(ctx, res.Session)
	return a.printAndRun(ctx, closeStore, res, res, printOnly)
}

// printAndRun is like finishResume, but prints result with --json.
func (a *app) printAndRun(ctx context.Context, closeStore func(), res resumeResult, result any, printOnly bool) error {
	err := a.print(result, func(p *printer) { p.linef("%s", a.runIn(res.Dir, res.Command)) })
	if err != nil || a.json || printOnly || !terminal(a.Stdin) || !terminal(a.Stdout) {
		return err
	}
	closeStore() // the hooks of the agent need it
	return a.exec(ctx, res)
}

// noteWriter warns the user if a process has the session open, because a second process would also
// write to it.
func (a *app) noteWriter(ctx context.Context, session segno.SessionID) {
	place, err := a.place()
	if err != nil {
		return // the caller has already used this directory
	}
	switch pid := place.OpenElsewhere(ctx, session); {
	case pid > 0:
		a.notef("process %d has the session open; end it first, or each of the two loses the turns of the other", pid)
	case pid < 0:
		a.notef("a process has the session open; end it first, because the agent does not open a session twice")
	}
}

// runIn returns a command to paste into the shell that segno was started from: it first changes to
// dir if that is not the current directory.
func (a *app) runIn(dir string, command []string) string {
	line := commandLine(command)
	wd, _ := a.Getwd() // after an error the command always names the directory
	here, hereErr := os.Stat(wd)
	there, thereErr := os.Stat(dir)
	if dir == "" || dir == wd || hereErr == nil && thereErr == nil && os.SameFile(here, there) {
		return line
	}
	return "cd " + shellQuote(dir) + " && " + line
}

// chatCommand returns the command that continues a chat, in the store that has it.
func (a *app) chatCommand(d *openWorkspace, thread segno.ThreadID) []string {
	store := ""
	if a.store != "" {
		store = d.store.Place().Store
	}
	return chat.Command(store, thread)
}

// resumeCommand returns the command that continues a thread: a session of its agent, or a chat.
func (a *app) resumeCommand(ctx context.Context, d *openWorkspace, thread segno.ThreadID, at segno.CommitID) (res resumeResult, err error) {
	t, known, err := threadByID(ctx, d.store, thread)
	if err != nil {
		return res, err
	}
	other, err := chat.OtherAgent(ctx, d.store, at)
	if err != nil {
		return res, err
	}
	if !known || t.Agent != chat.Name || other != "" {
		link, run, err := d.timeline.Resume(ctx, thread, at)
		if err != nil {
			return res, err
		}
		return resumeResult{Dir: link.Dir, Session: link.Session, Command: run}, nil
	}
	head, err := d.store.Head(ctx, thread)
	if err != nil {
		return res, err
	}
	if inClient, err := chat.Client(ctx, d.store, thread); err != nil {
		return res, err
	} else if inClient {
		hint := "continue in the client"
		if id := string(head.Link.Session); id != "" {
			hint += ", where it is session " + id
		}
		return res, segno.Errorf(segno.KindRefused, "resume", string(thread), "the conversation belongs to an ACP client").WithHint(hint)
	}
	if head.Head != at {
		return res, segno.Errorf(segno.KindRefused, "resume", string(at), "a chat can continue only at the head of its thread").
			WithHint("run 'segno restore " + short(at) + "' first")
	}
	return resumeResult{Dir: d.dir, Session: segno.SessionID(thread), Command: a.chatCommand(d, thread)}, nil
}

// resumePoint returns the checkpoint that a name means and the thread to continue. The name of a
// thread stands for its head.
func (a *app) resumePoint(ctx context.Context, d *openWorkspace, name string) (segno.ThreadID, segno.CommitID, error) {
	h, c, err := a.checkpointNamed(ctx, d, name)
	if err == nil {
		return h.Head.Thread, c.ID, nil
	}
	t, threadErr := a.threadNamed(ctx, d.store, name)
	if threadErr != nil {
		return "", "", err
	}
	head, err := d.store.Head(ctx, t.ID)
	return t.ID, head.Head, err
}

// exec runs the agent on this terminal.
func (a *app) exec(ctx context.Context, res resumeResult) error {
	cmd := exec.CommandContext(ctx, res.Command[0], res.Command[1:]...)
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.Env = res.Dir, os.Stdin, os.Stdout, os.Stderr, a.Environ()
	err := cmd.Run()
	if errors.Is(err, exec.ErrNotFound) {
		return segno.Errorf(segno.KindNotFound, "resume", res.Command[0], "not found on PATH").WithHint("run the printed command where the agent is installed")
	}
	if errors.As(err, new(*exec.ExitError)) {
		return nil // the agent has reported its error to the user
	}
	return err
}
