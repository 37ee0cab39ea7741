package acptest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
)

// TapArgs returns the arguments of a process that starts command and relays its stdin and
// stdout byte for byte; see [Main]. It logs them in dir as "in" and "out". A process that
// is started again appends to the logs.
func TapArgs(dir string, command ...string) []string {
	return append([]string{tapArg, dir}, command...)
}

// Tapped returns the bytes that a tap has logged.
func Tapped(dir string) (in, out []byte, err error) {
	if in, err = os.ReadFile(filepath.Join(dir, "in")); err != nil {
		return nil, nil, err
	}
	out, err = os.ReadFile(filepath.Join(dir, "out"))
	return in, out, err
}

func tapMain(ctx context.Context, args []string, std Streams) (code int, ran bool) {
	err := tap(ctx, args, std)
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0, true
	case errors.As(err, &exit):
		return max(exit.ExitCode(), 1), true
	default:
		fmt.Fprintf(std.Err, "%s: %v\n", tapArg, err)
		return 1, true
	}
}

func tap(ctx context.Context, args []string, std Streams) error {
	if len(args) < 2 {
		return errors.New("acptest: a tap takes a directory and a command")
	}
	if err := os.MkdirAll(args[0], 0o700); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, args[1], args[2:]...)
	cmd.Stderr = std.Err
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	inLog, err := logFile(args[0], "in")
	if err != nil {
		return err
	}
	defer inLog.Close()
	outLog, err := logFile(args[0], "out")
	if err != nil {
		return err
	}
	defer outLog.Close()
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(io.MultiWriter(inLog, stdin), std.In) // it ends when either side ends
		stdin.Close()
	}()
	var relayed sync.WaitGroup
	relayed.Go(func() { _, _ = io.Copy(io.MultiWriter(outLog, std.Out), stdout) })
	relayed.Wait()
	return cmd.Wait()
}

func logFile(dir, name string) (*os.File, error) {
	return os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
}
