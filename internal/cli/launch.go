package cli

import (
	"context"
	"errors"
	"os"
	"os/exec"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/local"
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

// StoreToName returns the directory of the store if a printed command must name it with --store, or "".
func (a *App) StoreToName(store *local.Store) string {
	if a.StorePath == "" {
		return ""
	}
	return store.Place().Store
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
