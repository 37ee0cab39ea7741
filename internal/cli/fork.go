package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/chat"
	"github.com/dalsegno/segno/timeline"
)

func (a *app) fork() *cobra.Command {
	var to string
	var noNote bool
	c := &cobra.Command{
		Use:   "fork [CHECKPOINT] --to DIR",
		Short: "a new directory with the files of a checkpoint, and a session cut there",
		Long: `Makes a new directory with the files of a checkpoint (default: the head of the thread),
with untracked and ignored files and a separate .git, and a native session of the agent
that ends there. The source directory is only read.`,
		Example:           "  segno fork t2 --to ../try-middleware\n  cd ../try-middleware && claude --resume …",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: a.completeCheckpoints,
		RunE: func(c *cobra.Command, args []string) error {
			if to == "" {
				return usage(errors.New("fork needs --to DIR"))
			}
			return a.runFork(c.Context(), append(args, "@")[0], to, noNote)
		},
	}
	c.Flags().StringVar(&to, "to", "", "the new directory; it must not exist")
	c.Flags().BoolVar(&noNote, "no-note", false, "do not add a note about the fork to the first prompt")
	a.writeFlags(c)
	return c
}

// forkResult is the result of fork.
type forkResult struct {
	Thread     segno.ThreadID  `json:"thread"`
	Checkpoint segno.CommitID  `json:"checkpoint"`
	Dir        string          `json:"dir"`         // the root of the new files
	SessionDir string          `json:"session_dir"` // where to run the command
	Session    segno.SessionID `json:"session"`
	Command    []string        `json:"command"`
	From       segno.CommitID  `json:"from"`
	How        string          `json:"how"`
	LeftOut    []string        `json:"left_out"`
}

func (a *app) runFork(ctx context.Context, name, to string, noNote bool) error {
	d, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer d.Close()
	_, c, err := a.checkpointNamed(ctx, d, name)
	if err != nil {
		return err
	}
	dir := absolute(d.dir, to)
	if a.dryRun {
		return a.dryFork(d, c, dir)
	}
	f, err := d.timeline.Fork(ctx, timeline.MoveRequest{Verb: segno.VerbFork, To: c.ID, Name: label(c), Dir: dir, NoNote: noNote})
	if err != nil {
		return err
	}
	if c.Agent == chat.Name && c.Session == nil && len(f.Run) == 0 {
		f.Run = a.chatCommand(d, f.Thread)
	}
	res := forkResult{Thread: f.Thread, Checkpoint: f.At.ID, Dir: f.Report.Root, SessionDir: f.Dir, Command: append([]string{}, f.Run...),
		From: c.ID, How: f.Report.How, LeftOut: append([]string{}, f.Report.LeftOut...)}
	if f.Link != nil {
		res.Session = f.Link.Session
	}
	return a.print(res, func(w io.Writer) error {
		fmt.Fprintf(w, "forked %s into %s (%s, by %s)\n", label(c), quotePath(res.Dir), files(f.Report.Files), res.How)
		for _, p := range res.LeftOut {
			fmt.Fprintf(w, "  left out: %s\n", quotePath(p))
		}
		if f.Chat != "" {
			fmt.Fprintf(w, "conversation: %s\n", inline(f.Chat))
			return nil
		}
		if len(f.Run) > 0 {
			fmt.Fprintf(w, "to continue there:\n  cd %s && %s\n", shellQuote(a.relativePath(res.SessionDir)), commandLine(f.Run))
		}
		return nil
	})
}

func (a *app) dryFork(d *openWorkspace, c *segno.Checkpoint, dir string) error {
	if _, err := os.Lstat(dir); err == nil {
		return segno.Errorf(segno.KindConflict, "fork", dir, "already exists").WithHint("give --to a new directory")
	}
	return a.print(forkResult{Dir: dir, SessionDir: dir, From: c.ID, Command: []string{}, LeftOut: []string{}}, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "fork %s of %s into %s (%s)\n", label(c), quotePath(d.rec.Path), quotePath(dir), files(c.Workspace.Files))
		return err
	})
}

// relativePath is a path as a person would type it from here.
func (a *app) relativePath(path string) string {
	wd, err := a.Getwd()
	if err != nil {
		return path
	}
	rel, err := filepath.Rel(wd, path)
	if err != nil || len(rel) >= len(path) {
		return path
	}
	return rel
}

// shellQuote is one word for a shell, and safe to print.
func shellQuote(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return r == utf8.RuneError || unsafe(r) }) {
		return "$'" + octal(s) + "'"
	}
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return !strings.ContainsRune("/._-+@%:=,", r) && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	}) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// octal writes what a terminal must not see the way a shell reads it.
func octal(s string) string {
	var b strings.Builder
	for i, r := range s {
		n := utf8.RuneLen(r)
		if r == utf8.RuneError && !strings.HasPrefix(s[i:], "\uFFFD") {
			n = 1
		}
		switch {
		case r == '\'' || r == '\\':
			fmt.Fprintf(&b, "\\%c", r)
		case unsafe(r) || r == utf8.RuneError:
			for _, c := range []byte(s[i : i+n]) {
				fmt.Fprintf(&b, "\\%03o", c)
			}
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}
