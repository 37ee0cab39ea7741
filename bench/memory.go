package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

// launcherSource is a program that runs another one and writes the peak of its memory to a file. In this peak the kernel
// includes the memory of the parent before exec. The launcher has as little as an empty Go program, and this program has a lot.
const launcherSource = `package main

import (
	"os"
	"strconv"
	"syscall"
)

func main() {
	p, err := os.StartProcess(os.Args[2], os.Args[2:], &os.ProcAttr{Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}})
	if err != nil {
		panic(err)
	}
	state, err := p.Wait()
	if err != nil {
		panic(err)
	}
	peak := strconv.FormatInt(state.SysUsage().(*syscall.Rusage).Maxrss, 10)
	if err := os.WriteFile(os.Args[1], []byte(peak), 0o600); err != nil {
		panic(err)
	}
	os.Exit(state.ExitCode())
}
`

// processes runs the processes of a contest. After the timed rounds, the contest runs each entrant once more through the launcher,
// and processes keeps the peaks in MB by the names of the entrants.
type processes struct {
	launcher, file string
	entrant        string // the one that runs through the launcher, "" in the timed rounds
	peaks          map[string]float64
}

func (b *bench) newProcesses(ctx context.Context) (*processes, error) {
	dir, err := b.scratch("launcher")
	if err != nil {
		return nil, err
	}
	m := &processes{launcher: filepath.Join(dir, "launcher"), file: filepath.Join(dir, "peak"), peaks: map[string]float64{}}
	return m, b.buildSource(ctx, m.launcher, launcherSource)
}

// run runs a command and waits for it.
func (m *processes) run(cmd *exec.Cmd) error {
	if m.entrant == "" {
		return cmd.Run()
	}
	cmd.Args = append([]string{m.launcher, m.file, cmd.Path}, cmd.Args[1:]...)
	cmd.Path = m.launcher
	if err := cmd.Run(); err != nil {
		return err
	}
	text, err := os.ReadFile(m.file)
	if err != nil {
		return err
	}
	kb, err := strconv.ParseFloat(string(text), 64)
	if err != nil {
		return fmt.Errorf("peak of memory: %w", err)
	}
	m.peaks[m.entrant] = max(m.peaks[m.entrant], kb*1024/1e6)
	return nil
}

// addProcess adds a row of a process, with the peak of its memory in MB.
func (b *bench) addProcess(tree, what string, s sample, peak float64, claims ...claim) {
	b.add(tree, what, s, claims...)
	b.report.Rows[len(b.report.Rows)-1].Memory = peak
}
