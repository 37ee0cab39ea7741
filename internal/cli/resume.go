package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"

	"github.com/spf13/cobra"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/chat"
)

func (a *app) resume() *cobra.Command {
	var printOnly bool
	c := &cobra.Command{
		Use:   "resume [CHECKPOINT | THREAD]",
		Short: "continue a conversation at the head of its thread",
		Long: `Prints the command that continues the agent's session at a checkpoint (default:
where the thread is), and on a terminal runs it. A session made in another
directory is brought here first; one the agent no longer has comes from the store.`,
		Example:           "  segno resume\n  segno resume t2 --print",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: a.completeCheckpoints,
		RunE: func(c *cobra.Command, args []string) error {
			return a.runResume(c.Context(), append(args, "@")[0], printOnly)
		},
	}
	c.Flags().BoolVar(&printOnly, "print", false, "only print the command")
	return c
}

// resumeResult is the result of resume.
type resumeResult struct {
	Dir     string          `json:"dir"`
	Session segno.SessionID `json:"session"`
	Command []string        `json:"command"`
}

func (a *app) runResume(ctx context.Context, name string, printOnly bool) error {
	d, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer d.Close()
	thread, at, err := a.resumePoint(ctx, d, name)
	if err != nil {
		return err
	}
	res, err := a.resumeCommand(ctx, d, thread, at)
	if err != nil {
		return err
	}
	err = a.print(res, func(w io.Writer) error {
		_, err := fmt.Fprintln(w, a.runIn(res.Dir, res.Command))
		return err
	})
	if err != nil || a.json || printOnly || !terminal(a.Stdin) || !terminal(a.Stdout) {
		return err
	}
	d.Close() // the agent's own hooks will want the store
	return a.exec(ctx, res)
}

// runIn is a command to paste into the shell that segno was started from: it changes
// to dir first if that is another directory.
func (a *app) runIn(dir string, command []string) string {
	wd, err := a.Getwd()
	if dir == "" || err == nil && dir == wd {
		return commandLine(command)
	}
	if here, err := os.Stat(wd); err == nil {
		if there, err := os.Stat(dir); err == nil && os.SameFile(here, there) {
			return commandLine(command)
		}
	}
	return "cd " + shellQuote(dir) + " && " + commandLine(command)
}

// chatCommand goes on with a chat, in the store it is kept in.
func (a *app) chatCommand(d *openWorkspace, thread segno.ThreadID) []string {
	command := []string{"segno"}
	if a.store != "" {
		command = append(command, "--store", d.store.Place().Store)
	}
	return append(command, "chat", "--session", string(thread))
}

// resumeCommand is how a thread goes on: in its agent's session, or in a chat.
func (a *app) resumeCommand(ctx context.Context, d *openWorkspace, thread segno.ThreadID, at segno.CommitID) (resumeResult, error) {
	for t, err := range d.store.Threads(ctx, segno.ThreadQuery{IDPrefix: string(thread)}) {
		if err != nil {
			return resumeResult{}, err
		}
		if t.ID != thread || t.Agent != chat.Name {
			continue
		}
		head, err := d.store.Head(ctx, thread)
		if client, lookErr := chat.Client(ctx, d.store, thread); err == nil && (lookErr != nil || client) {
			return resumeResult{}, cmp.Or(lookErr, errInClient(head))
		}
		if err == nil && head.Head != at {
			err = segno.Errorf(segno.KindRefused, "resume", string(at), "a chat continues at the head of its thread").WithHint("run 'segno restore " + short(at) + "' first")
		}
		return resumeResult{Dir: d.dir, Session: segno.SessionID(thread), Command: a.chatCommand(d, thread)}, err
	}
	link, run, err := d.timeline.Resume(ctx, thread, at)
	if err != nil {
		return resumeResult{}, err
	}
	return resumeResult{Dir: link.Dir, Session: link.Session, Command: run}, nil
}

// errInClient is the error of a thread that no command goes on with.
func errInClient(head segno.Head) error {
	e := segno.Errorf(segno.KindRefused, "resume", string(head.Thread), "an ACP client has the conversation").WithHint("continue in the client")
	if id := string(head.Link.Session); id != "" {
		e.Hint += ", where it is session " + id
	}
	return e
}

// resumePoint is the checkpoint a name means, and the thread to go on with; a
// thread's name means its head.
func (a *app) resumePoint(ctx context.Context, d *openWorkspace, name string) (segno.ThreadID, segno.CommitID, error) {
	h, c, err := a.checkpointNamed(ctx, d, name)
	if err == nil {
		return h.head.Thread, c.ID, nil
	}
	thread, threadErr := a.threadNamed(ctx, d.store, name)
	if threadErr != nil {
		return "", "", err
	}
	head, err := d.store.Head(ctx, thread)
	return thread, head.Head, err
}

// exec runs the agent on this terminal.
func (a *app) exec(ctx context.Context, res resumeResult) error {
	cmd := exec.CommandContext(ctx, res.Command[0], res.Command[1:]...)
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.Env = res.Dir, os.Stdin, os.Stdout, os.Stderr, a.Environ()
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.Is(err, exec.ErrNotFound) {
		return segno.Errorf(segno.KindNotFound, "resume", res.Command[0], "not found on PATH").WithHint("run the printed command where it is")
	}
	if errors.As(err, &exit) {
		return nil // the agent has told its user why
	}
	return err
}
