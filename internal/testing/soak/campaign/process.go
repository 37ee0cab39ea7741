package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// command is the process of a part.
type command struct {
	binary    string
	args, env []string
	dir, temp string // the working directory, and the one for temporary files
}

// start runs a command to its end, in a process group, with its output in a file. If the context ends, start kills the
// group. If this process is killed, the system also kills the test's process, where it supports that.
func start(ctx context.Context, c command, file string) error {
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	defer out.Close()
	cmd := exec.CommandContext(ctx, c.binary, c.args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = c.dir, out, out
	cmd.Env = append(environ(), append(c.env, "TMPDIR="+c.temp, "PWD="+c.dir)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	killWithParent(cmd.SysProcAttr)
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 10 * time.Second
	runtime.LockOSThread() // the system kills the process when the thread that started it ends
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		return err
	}
	err = cmd.Wait()
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // processes that the test left
	return err
}

// environ returns the environment without the variables of package soak, because the campaigns set these.
func environ() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.Contains([]string{"SEGNO_SOAK", "SEGNO_SEED", "SEGNO_COUNT", "SEGNO_PART", "TMPDIR"}, name)
	})
}

var (
	passed  = regexp.MustCompile(`^\s*--- PASS: `)
	skipped = regexp.MustCompile(`^\s*--- SKIP: `)
	failed  = regexp.MustCompile(`^\s*--- FAIL: |^panic: |^fatal error: `)
	checked = regexp.MustCompile(`\[rapid\] OK, passed (\d+) tests`)
	cases   = regexp.MustCompile(`^\s+\S+\.go:\d+: (?:SEGNO_SEED=\d+: )?(\d+) cases$`)
	execs   = regexp.MustCompile(`^fuzz: elapsed: .* execs: (\d+) `)
	fuzzer  = regexp.MustCompile(`^--- FAIL: Fuzz`)
)

// timeOver is the only line that a fuzzer prints below its failure if Go mistakes the end of the fuzzer's time for one:
// https://go.dev/issue/75804, mended in Go 1.27. An input that fails, and a message of a test, have other lines.
const timeOver = "    context deadline exceeded"

// judge reads the output of a part. Why names the reason of a failure in one line: a test that failed or was skipped, or the end
// of the process.
func judge(file string, runErr error) (r result, why string, err error) {
	f, err := os.Open(file)
	if err != nil {
		return r, "", err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 64<<20)
	fuzzed, before, isOver := 0, "", false
	for ; lines.Scan(); before = lines.Text() {
		line := lines.Text()
		switch {
		case passed.MatchString(line):
			r.Tests++
		case line == timeOver && why == before && fuzzer.MatchString(before):
			r.Tests++
			why, isOver = "", true
		case why == "" && (skipped.MatchString(line) || failed.MatchString(line)):
			why = strings.TrimSpace(line)
		}
		for _, pattern := range []*regexp.Regexp{cases, checked} {
			if m := pattern.FindStringSubmatch(line); m != nil {
				n, _ := strconv.Atoi(m[1])
				r.Cases += n
			}
		}
		if m := execs.FindStringSubmatch(line); m != nil {
			fuzzed, _ = strconv.Atoi(m[1])
		}
	}
	r.Cases += fuzzed
	var exit *exec.ExitError
	switch {
	case why != "", isOver:
	case runErr == nil && r.Tests == 0:
		why = "no test ran"
	case errors.As(runErr, &exit):
		why = fmt.Sprint("the process ended with ", exit)
	case runErr != nil:
		why = runErr.Error()
	}
	r.OK = why == ""
	return r, why, lines.Err()
}
