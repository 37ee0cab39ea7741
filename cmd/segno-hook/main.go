// Command segno-hook is 'segno hook' for the events an agent waits for most often:
// those before and after each tool call. Anything else it hands on to segno.
package main

import (
	"context"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/dalsegno/segno/internal/event"
)

func main() {
	// An agent that is interrupted ends its hooks with a signal. What one records
	// is worth the millisecond it still takes.
	signal.Ignore(os.Interrupt, syscall.SIGTERM)
	event.Boundary{Stdin: os.Stdin, Stdout: os.Stdout, Getenv: os.Getenv, Now: time.Now, Rest: segno}.Run(context.Background(), os.Args[1:])
}

// segno runs the segno beside this command.
func segno(ctx context.Context, stdin io.Reader) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, filepath.Join(filepath.Dir(self), "segno"), os.Args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, os.Stdout, os.Stderr
	return cmd.Run()
}
