package cli_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/archive"
	"github.com/dalsegno/segno/internal/cli"
	"github.com/dalsegno/segno/internal/pack/archivefile"
	"github.com/dalsegno/segno/internal/testing/wings"
	"github.com/dalsegno/segno/secret"
)

// runIn runs the command in a directory, with a separate home.
func runIn(t *testing.T, ctx context.Context, dir string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	home := filepath.Join(dir, "home")
	env := map[string]string{"HOME": home, "NO_COLOR": "1"}
	code = cli.Main(ctx, cli.Env{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs, Getenv: func(name string) string { return env[name] },
		Environ: func() []string { return nil }, Getwd: func() (string, error) { return dir, nil }}, wings.All(), args)
	return code, out.String(), errs.String()
}

// hostileArchives returns the archives of which nothing may be extracted.
func hostileArchives(t *testing.T) []string {
	t.Helper()
	names, err := filepath.Glob("../../archive/testdata/hostile/*.ckpt")
	if err != nil || len(names) < 50 {
		t.Fatalf("%d hostile archives (%v)", len(names), err)
	}
	for i, name := range names {
		if names[i], err = filepath.Abs(name); err != nil {
			t.Fatal(err)
		}
	}
	return names
}

// TestHostileArchives reads each archive of the corpus. The exit code distinguishes unsafe, damaged
// and newer archives. The message is one line and a hint, without characters that could control the
// terminal. Nothing is written.
func TestHostileArchives(t *testing.T) {
	codes := map[int]int{}
	for _, name := range hostileArchives(t) {
		for _, args := range [][]string{{"archive", "verify", name}, {"unpack", name, "--to", "in", "--trust-session"}, {"archive", "inspect", name}, {"diff", name, name}} {
			dir := t.TempDir()
			code, stdout, stderr := runIn(t, t.Context(), dir, args...)
			about := strings.Join([]string{filepath.Base(name), args[0], stdout, stderr}, ": ")
			reads := args[1] == "verify" || args[0] == "unpack"
			if reads && code != 6 && code != 8 && code != cli.ExitUnsafe {
				t.Errorf("code %d: %s", code, about)
			}
			if code != 0 && (strings.Count(stderr, "\n") != 2 || !strings.Contains(stderr, "\nhint: ")) {
				t.Errorf("not one line and a hint: %s", about)
			}
			if i := strings.IndexFunc(stdout+stderr, func(r rune) bool { return r != '\n' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r)) }); i >= 0 {
				t.Errorf("it prints %q: %s", (stdout + stderr)[i], about)
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
				t.Errorf("it left %v %v: %s", left, err, about)
			}
			if args[1] == "verify" {
				codes[code]++
			}
		}
	}
	if codes[cli.ExitUnsafe] < 40 || codes[6] < 10 || codes[8] != 1 {
		t.Errorf("the codes are %v", codes)
	}
}

// TestArchivesAfterASignal interrupts each verb. The exit code is that of an interruption, and no
// file is left.
func TestArchivesAfterASignal(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a.ckpt")
	file := archive.File{Path: "f", Size: 1, Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("x")), nil }}
	state := archive.State{Agents: []archive.AgentState{{Info: archive.AgentInfo{Name: "a"}, Workspace: []archive.File{file}}}}
	if _, err := archive.Write(t.Context(), name, state, archive.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, args := range [][]string{{"archive", "verify", name}, {"unpack", name, "--to", "in"}, {"unpack", name, "--to", "in", "--dry-run"}} {
		dir := t.TempDir()
		if code, stdout, stderr := runIn(t, ctx, dir, args...); code != cli.ExitCancelled || stdout != "" {
			t.Errorf("%v: code %d: %s%s", args, code, stdout, stderr)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("%v: it left %v %v", args, left, err)
		}
	}
}

// TestExitCodesOfArchives checks that unsafe archives and found secrets have distinct exit codes,
// even if other errors wrap the error.
func TestExitCodesOfArchives(t *testing.T) {
	unsafe := segno.NewError(segno.KindCorrupt, "open archive", "x", &archive.UnsafeError{Err: errors.New("two headers")})
	if got := cli.ExitCode(archivefile.ExplainBadArchive(unsafe), wings.All()); got != 12 {
		t.Errorf("an unsafe archive ends with %d", got)
	}
	found := segno.NewError(segno.KindRefused, "write archive", "x", &archive.CheckpointSecretError{Findings: []secret.Finding{{Fingerprint: "f"}}})
	if got := cli.ExitCode(found, wings.All()); got != 13 {
		t.Errorf("a secret ends with %d", got)
	}
}
