package cli

import (
	"context"
	"errors"
	"os"
	"os/exec"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/chat"
)

// ResumeResult is a command that continues a conversation, and the directory to run it in.
type ResumeResult struct {
	Dir     string          `json:"dir"`
	Session segno.SessionID `json:"session"`
	Command []string        `json:"command"`

	DirBytes []byte `json:"dir_bytes,omitempty"`
}

// FinishResume prints the command. On a terminal, it calls closeStore and runs the command.
func (a *App) FinishResume(ctx context.Context, closeStore func(), res ResumeResult, printOnly bool) error {
	res.DirBytes = segno.PathBytes(res.Dir)
	a.noteWriter(ctx, res.Session)
	return a.PrintAndRun(ctx, closeStore, res, res, printOnly)
}

// PrintAndRun is like FinishResume, but prints result with --json.
func (a *App) PrintAndRun(ctx context.Context, closeStore func(), res ResumeResult, result any, printOnly bool) error {
	err := a.Print(result, func(p *Printer) { p.Linef("%s", a.RunIn(res.Dir, res.Command)) })
	if err != nil || a.JSON || printOnly || !Terminal(a.Stdin) || !Terminal(a.Stdout) {
		return err
	}
	closeStore() // the hooks of the agent need it
	return a.exec(ctx, res)
}

// noteWriter warns the user if a process has the session open, because a second process would also
// write to it.
func (a *App) noteWriter(ctx context.Context, session segno.SessionID) {
	place, err := a.OpenPlace()
	if err != nil {
		return // the caller has already used this directory
	}
	switch pid := place.OpenElsewhere(ctx, session); {
	case pid > 0:
		a.Notef("process %d has the session open; end it first, or each of the two loses the turns of the other", pid)
	case pid < 0:
		a.Notef("a process has the session open; end it first, because the agent does not open a session twice")
	}
}

// RunIn returns a command to paste into the shell that segno was started from: it first changes to
// dir if that is not the current directory.
func (a *App) RunIn(dir string, command []string) string {
	line := CommandLine(command)
	wd, _ := a.Getwd() // after an error the command always names the directory
	here, hereErr := os.Stat(wd)
	there, thereErr := os.Stat(dir)
	if dir == "" || dir == wd || hereErr == nil && thereErr == nil && os.SameFile(here, there) {
		return line
	}
	return "cd " + ShellQuote(dir) + " && " + line
}

// ChatCommand returns the command that continues a chat, in the store that has it.
func (a *App) ChatCommand(d *Workspace, thread segno.ThreadID) []string {
	store := ""
	if a.StorePath != "" {
		store = d.Store.Place().Store
	}
	return chat.Command(store, thread)
}

// ResumeCommand returns the command that continues a thread: a session of its agent, or a chat.
func (a *App) ResumeCommand(ctx context.Context, d *Workspace, thread segno.ThreadID, at segno.CommitID) (res ResumeResult, err error) {
	t, known, err := ThreadByID(ctx, d.Store, thread)
	if err != nil {
		return res, err
	}
	other, err := chat.OtherAgent(ctx, d.Store, at)
	if err != nil {
		return res, err
	}
	if !known || t.Agent != chat.Name || other != "" {
		link, run, err := d.Timeline.Resume(ctx, thread, at)
		if err != nil {
			return res, err
		}
		return ResumeResult{Dir: link.Dir, Session: link.Session, Command: run}, nil
	}
	head, err := d.Store.Head(ctx, thread)
	if err != nil {
		return res, err
	}
	if inClient, err := chat.Client(ctx, d.Store, thread); err != nil {
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
			WithHint("run 'segno restore " + Short(at) + "' first")
	}
	return ResumeResult{Dir: d.Dir, Session: segno.SessionID(thread), Command: a.ChatCommand(d, thread)}, nil
}

// ResumePoint returns the checkpoint that a name means and the thread to continue. The name of a
// thread stands for its head.
func (a *App) ResumePoint(ctx context.Context, d *Workspace, name string) (segno.ThreadID, segno.CommitID, error) {
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

// exec runs the agent on this terminal.
func (a *App) exec(ctx context.Context, res ResumeResult) error {
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
