package cli_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/dalsegno/segno/internal/cli"
	"github.com/dalsegno/segno/internal/testing/wings"
)

// TestAFullDisk fills the disk of the store. Commands that only read work, even without the files that SQLite makes
// beside the database. Other commands, and a move that is under way, report that the disk is full. Once there is space,
// everything works.
func TestAFullDisk(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	disk, project := filepath.Join(dir, "disk"), filepath.Join(dir, "project")
	for _, d := range []string{disk, project} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mount("tmpfs", disk, "tmpfs", 0, "size=8m"); err != nil {
		t.Skipf("a small file system cannot be mounted: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(disk, unix.MNT_DETACH) })
	run := func(args ...string) (out string, code int) {
		var b bytes.Buffer
		env := map[string]string{"HOME": dir, "PATH": "/nonexistent"}
		code = cli.Main(t.Context(), cli.Env{Stdin: strings.NewReader(""), Stdout: &b, Stderr: &b, Getenv: func(k string) string { return env[k] },
			Environ: func() []string { return nil }, Getwd: func() (string, error) { return project, nil }, Executable: os.Executable}, wings.All(),
			append([]string{"--store", filepath.Join(disk, "store")}, args...))
		return b.String(), code
	}
	for _, content := range []string{"one", "two"} {
		if err := os.WriteFile(filepath.Join(project, "a"), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		if out, code := run("save", "-m", content); code != 0 {
			t.Fatal(out)
		}
	}
	fill := filepath.Join(disk, "fill")
	f, err := os.Create(fill)
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	if !errors.Is(errors.Join(err, f.Close()), unix.ENOSPC) {
		t.Fatal(err)
	}
	for _, c := range []struct{ args, want string }{
		{"log", "two"}, {"show @", "~ a"}, {"status", "its disk is full"}, {"diff @- @", "a"}, {"threads", "one"}, {"op log", ""},
	} {
		if out, code := run(strings.Fields(c.args)...); code != 0 || !strings.Contains(out, c.want) {
			t.Errorf("%s on a full disk: %d\n%s", c.args, code, out)
		}
	}
	for _, args := range []string{"save", "restore @- -y", "pin @ name", "fork --to ../fork", "gc", "doctor"} {
		out, code := run(strings.Fields(args)...)
		if code == 0 || !strings.Contains(out, "no space left on device") || args != "doctor" && !strings.Contains(out, "hint: free some space") {
			t.Errorf("%s on a full disk: %d\n%s", args, code, out)
		}
	}
	if err := os.Remove(fill); err != nil {
		t.Fatal(err)
	}
	if out, code := run("restore", "@-", "-y"); code != 0 {
		t.Errorf("with space again: %s", out)
	}
	if data, err := os.ReadFile(filepath.Join(project, "a")); err != nil || string(data) != "one" {
		t.Errorf("the file has %q, %v", data, err)
	}
}
