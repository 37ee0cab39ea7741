package cli_test

import (
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/rogpeppe/go-internal/testscript"
	_ "modernc.org/sqlite"
)

// scriptCommands returns the commands of the scripts that testscript does not have.
func scriptCommands() map[string]func(ts *testscript.TestScript, neg bool, args []string) {
	return map[string]func(ts *testscript.TestScript, neg bool, args []string){
		"exit":         cmdExit,
		"together":     cmdTogether,
		"json":         cmdJSON,
		"norm":         cmdNorm,
		"snap":         cmdSnap,
		"same":         cmdSame,
		"fifo":         cmdFifo,
		"socket":       cmdSocket,
		"append":       cmdAppend,
		"nest":         cmdNest,
		"damage":       cmdDamage,
		"user-version": cmdUserVersion,
		"occupy":       cmdOccupy,
		"vacate":       cmdVacate,
		"foreign":      cmdForeign,
		"keys":         cmdKeys,
		"serve":        cmdServe,
	}
}

// cmdExit runs a program that must end with one of some codes.
//
//	exit CODE[,CODE…] PROGRAM [ARG…]
func cmdExit(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exit CODE[,CODE…] PROGRAM [ARG…]")
	}
	err := ts.Exec(args[1], args[2:]...)
	got := 0
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		got = exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if !slices.Contains(strings.Split(args[0], ","), strconv.Itoa(got)) {
		ts.Fatalf("exit code %d, want %s", got, args[0])
	}
}

// cmdTogether runs n copies of a program at once. Each must end with one of the codes. $DONE is the
// number of copies that ended with 0. '%' in an argument is the copy's number.
//
//	together N CODE[,CODE…] PROGRAM [ARG…]
func cmdTogether(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: together N CODE[,CODE…] PROGRAM [ARG…]")
	}
	n, err := strconv.Atoi(args[0])
	ts.Check(err)
	program, err := exec.LookPath(args[2])
	ts.Check(err)
	var running []*exec.Cmd
	var errs []*strings.Builder
	for i := range n {
		var rest []string
		for _, arg := range args[3:] {
			rest = append(rest, strings.ReplaceAll(arg, "%", strconv.Itoa(i)))
		}
		cmd := exec.Command(program, rest...)
		cmd.Dir, cmd.Stderr = ts.MkAbs("."), new(strings.Builder)
		for _, name := range []string{"PATH", "HOME", "XDG_DATA_HOME", "CLAUDE_CONFIG_DIR", "NO_COLOR", "TMPDIR", "GORACE"} {
			cmd.Env = append(cmd.Env, name+"="+ts.Getenv(name))
		}
		ts.Check(cmd.Start())
		running, errs = append(running, cmd), append(errs, cmd.Stderr.(*strings.Builder))
	}
	done := 0
	for i, cmd := range running {
		_ = cmd.Wait()
		code := cmd.ProcessState.ExitCode()
		if code == 0 {
			done++
		}
		if !slices.Contains(strings.Split(args[1], ","), strconv.Itoa(code)) {
			ts.Fatalf("exit code %d, want %s: %s", code, args[1], errs[i])
		}
	}
	ts.Setenv("DONE", strconv.Itoa(done))
}

// volatile has patterns of text that differs from run to run, and their replacements in golden text.
var volatile = []struct {
	what *regexp.Regexp
	is   string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?Z)?`), "TIME"},
	{regexp.MustCompile(`\b\d+(\.\d+)?(ms|µs|s) ago\b`), "AGE ago"},
	{regexp.MustCompile(`\b[0-9a-f]{64}\b`), "HASH"},
	{regexp.MustCompile(`\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`), "SESSION"},
	{regexp.MustCompile(`\b[0-9a-z]{26}\b`), "ID"},
	{regexp.MustCompile(`[ \t]+(\n|$)`), "$1"},
}

// cmdNorm writes the output of the last program to a file and replaces text that differs from run
// to run. Further arguments are PATTERN REPLACEMENT pairs.
//
//	norm stdout|stderr|FILE TO [PATTERN REPLACEMENT]…
func cmdNorm(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 || len(args)%2 != 0 {
		ts.Fatalf("usage: norm FILE TO [PATTERN REPLACEMENT]…")
	}
	text := strings.ReplaceAll(ts.ReadFile(args[0]), ts.Getenv("WORK"), "$WORK")
	for i := 2; i < len(args); i += 2 {
		text = regexp.MustCompile("(?m)"+args[i]).ReplaceAllString(text, args[i+1])
	}
	for _, v := range volatile {
		text = v.what.ReplaceAllString(text, v.is)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(text), 0o644))
}

type snapKey string

// cmdSnap records trees: names, types, modes, contents and link targets. With -t, it also records
// modification times.
//
//	snap [-t] NAME PATH…
func cmdSnap(ts *testscript.TestScript, neg bool, args []string) {
	times := len(args) > 0 && args[0] == "-t"
	if times {
		args = args[1:]
	}
	if neg || len(args) < 2 {
		ts.Fatalf("usage: snap [-t] NAME PATH…")
	}
	snaps(ts)[args[0]] = snapped{args[1:], ts.MkAbs("."), times, fingerprint(ts, ts.MkAbs("."), args[1:], times)}
}

// cmdSame compares trees with the states that snap stored.
//
//	[!] same NAME
func cmdSame(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: same NAME")
	}
	was, ok := snaps(ts)[args[0]]
	if !ok {
		ts.Fatalf("same: no snap %s", args[0])
	}
	is := fingerprint(ts, was.dir, was.paths, was.times)
	if same := slices.Equal(was.lines, is); same == neg {
		for _, line := range was.lines {
			if !slices.Contains(is, line) {
				ts.Logf("- %s", line)
			}
		}
		for _, line := range is {
			if !slices.Contains(was.lines, line) {
				ts.Logf("+ %s", line)
			}
		}
		ts.Fatalf("same %s is %v", args[0], same)
	}
}

type snapped struct {
	paths []string
	dir   string
	times bool
	lines []string
}

func snaps(ts *testscript.TestScript) map[string]snapped {
	return ts.Value(snapKey("")).(map[string]snapped)
}

func fingerprint(ts *testscript.TestScript, dir string, paths []string, times bool) (lines []string) {
	for _, path := range paths {
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		ts.Check(filepath.WalkDir(path, func(p string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			line := fmt.Sprintf("%q %v", p, info.Mode())
			if times {
				line += " " + info.ModTime().String()
			}
			switch {
			case info.Mode().IsRegular():
				data, err := os.ReadFile(p)
				if err != nil {
					return err
				}
				line += fmt.Sprintf(" %q", data)
			case info.Mode()&fs.ModeSymlink != 0:
				target, err := os.Readlink(p)
				if err != nil {
					return err
				}
				line += " -> " + target
			}
			lines = append(lines, line)
			return nil
		}))
	}
	return lines
}

// cmdFifo makes named pipes.
func cmdFifo(ts *testscript.TestScript, neg bool, args []string) {
	for _, path := range args {
		ts.Check(syscall.Mkfifo(ts.MkAbs(path), 0o600))
	}
}

// cmdSocket makes a socket without a listener.
func cmdSocket(ts *testscript.TestScript, neg bool, args []string) {
	for _, path := range args {
		// the address of a socket must be short, so bind it elsewhere and move it
		dir, err := os.MkdirTemp("", "s")
		ts.Check(err)
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "s"), Net: "unix"})
		ts.Check(err)
		l.SetUnlinkOnClose(false)
		ts.Check(l.Close())
		ts.Check(os.Rename(filepath.Join(dir, "s"), ts.MkAbs(path)))
		ts.Check(os.Remove(dir))
	}
}

// cmdAppend adds n copies of a text to a file, without line endings.
//
//	append FILE N TEXT…
func cmdAppend(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: append FILE N TEXT…")
	}
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	f, err := os.OpenFile(ts.MkAbs(args[0]), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	ts.Check(err)
	_, err = f.WriteString(strings.Repeat(strings.Join(args[2:], " "), n))
	ts.Check(errors.Join(err, f.Close()))
}

// cmdNest makes n directories with one name inside each other, and a file in the last. Their path may be longer than the system accepts.
//
//	nest NAME N FILE
func cmdNest(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: nest NAME N FILE")
	}
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	in, err := os.OpenRoot(ts.MkAbs("."))
	ts.Check(err)
	for range n {
		ts.Check(in.Mkdir(args[0], 0o700))
		next, err := in.OpenRoot(args[0])
		ts.Check(errors.Join(err, in.Close()))
		in = next
	}
	ts.Check(errors.Join(in.WriteFile(args[2], []byte("bottom\n"), 0o600), in.Close()))
}

// cmdDamage overwrites bytes of each file that matches a glob.
//
//	damage GLOB OFFSET TEXT
func cmdDamage(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: damage GLOB OFFSET TEXT")
	}
	files, err := filepath.Glob(ts.MkAbs(args[0]))
	ts.Check(err)
	if len(files) == 0 {
		ts.Fatalf("damage: %s: no such file", args[0])
	}
	offset, err := strconv.ParseInt(args[1], 10, 64)
	ts.Check(err)
	for _, file := range files {
		f, err := os.OpenFile(file, os.O_WRONLY, 0)
		ts.Check(err)
		_, err = f.WriteAt([]byte(args[2]), offset)
		ts.Check(errors.Join(err, f.Close()))
	}
}

// cmdUserVersion makes a store look as if another segno had written it.
//
//	user-version FILE N
func cmdUserVersion(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: user-version FILE N")
	}
	if _, err := os.Stat(ts.MkAbs(args[0])); err != nil {
		ts.Fatalf("%v", err)
	}
	db, err := sql.Open("sqlite", ts.MkAbs(args[0]))
	ts.Check(err)
	_, err = db.Exec("PRAGMA user_version = " + args[1])
	ts.Check(errors.Join(err, db.Close()))
}

type writerKey string

// cmdOccupy holds the lock of a store's only writer until 'vacate'.
//
//	occupy FILE
func cmdOccupy(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: occupy FILE")
	}
	db, err := sql.Open("sqlite", ts.MkAbs(args[0])+"?_txlock=immediate")
	ts.Check(err)
	tx, err := db.Begin()
	ts.Check(err)
	*ts.Value(writerKey("")).(*func() error) = func() error { return errors.Join(tx.Rollback(), db.Close()) }
}

// cmdVacate releases the lock of the writer.
func cmdVacate(ts *testscript.TestScript, neg bool, args []string) {
	ts.Check((*ts.Value(writerKey("")).(*func() error))())
}
