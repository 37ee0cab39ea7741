// Command segno-hook is 'segno hook' for the events that an agent waits for most often:
// those before and after each tool call. It passes all other events on to segno.
package main

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/dalsegno/segno/internal/hook/event"
)

func main() {
	ctx, stop := event.SignalContext(context.Background())
	defer stop()
	event.ToolHook{Stdin: os.Stdin, Stdout: os.Stdout, Getenv: os.Getenv, Now: time.Now, Exit: func() { os.Exit(0) },
		Delegate: segno}.Run(ctx, os.Args[1:])
}

// segno runs the segno command in the directory of this one.
func segno(ctx context.Context, stdin io.Reader) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, filepath.Join(filepath.Dir(self), "segno"), os.Args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, os.Stdout, os.Stderr
	return cmd.Run()
}
