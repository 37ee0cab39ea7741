package main

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// installation is a machine with an earlier installation, and a server that has a release.
type installation struct {
	*machine
	bin    string // with the programs
	script string // the installer
	server string
}

// newInstallation installs programs that print "old", and serves a release in which both programs are the script.
func newInstallation(t *testing.T, script string) *installation {
	t.Helper()
	m := newMachine(t, "curl", "sha256sum")
	r := &release{source: source{version: "0.0.0-gtest", time: time.Unix(1, 0)}, platforms: []platform{host()}, binaries: map[platform][]entry{
		host(): {{"segno", 0o755, []byte(script)}, {"segno-hook", 0o755, []byte(script)}}}}
	files, err := r.archives()
	if err != nil {
		t.Fatal(err)
	}
	installer, err := r.installer()
	if err != nil {
		t.Fatal(err)
	}
	dist := t.TempDir()
	for _, f := range append(files, entry{name: "checksums.txt", data: checksums(files)}, installer[0]) {
		if err := os.WriteFile(filepath.Join(dist, f.name), f.data, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	server := httptest.NewServer(http.FileServer(http.Dir(dist)))
	t.Cleanup(server.Close)
	i := &installation{m, filepath.Join(m.home, ".local/bin"), filepath.Join(dist, "install.sh"), server.URL}
	if err := os.MkdirAll(i.bin, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range programs() {
		if err := os.WriteFile(filepath.Join(i.bin, name), []byte("#!/bin/sh\necho old\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return i
}

func programs() []string { return []string{"segno", "segno-hook"} }

func (i *installation) install() (string, error) {
	return i.try([]string{"SEGNO_DOWNLOADS=" + i.server}, filepath.Join(i.machine.bin, "sh"), i.script)
}

// fails runs the installer, which must fail and report that it installed nothing.
func (i *installation) fails(when string) {
	i.Helper()
	if out, err := i.install(); err == nil || !strings.Contains(out, "nothing was installed") {
		i.Errorf("%s: %v\n%s", when, err, out)
	}
}

// want checks what both programs print, and that there is nothing else beside them.
func (i *installation) want(text string) {
	i.Helper()
	for _, name := range programs() {
		if got := i.run(filepath.Join(i.bin, name)); got != text {
			i.Errorf("%s prints %q, want %q", name, got, text)
		}
	}
	there, err := os.ReadDir(i.bin)
	if err != nil || len(there) != len(programs()) {
		i.Errorf("the directory has %v, %v", there, err)
	}
}

// TestTheInstallerReplacesBothProgramsOrNone lets the installer fail while it copies the second program, as on a full disk. The programs
// of an earlier installation stay, both of them, and nothing else remains.
func TestTheInstallerReplacesBothProgramsOrNone(t *testing.T) {
	i := newInstallation(t, "#!/bin/sh\necho new\n")
	cp := filepath.Join(i.machine.bin, "cp")
	full := read(t, cp)
	if err := os.WriteFile(cp, []byte("#!/bin/sh\ncase $1 in */segno) echo part >\"$2\"; exit 1 ;; esac\n"+strings.TrimPrefix(full, "#!/bin/sh\n")), 0o700); err != nil {
		t.Fatal(err)
	}
	i.fails("on a full disk")
	i.want("old\n")
	if err := os.WriteFile(cp, []byte(full), 0o700); err != nil {
		t.Fatal(err)
	}
	if out, err := i.install(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	i.want("new\n")
}

// TestTheInstallerKeepsProgramsThatWork installs a release that does not run on the machine, such as one for a newer system.
func TestTheInstallerKeepsProgramsThatWork(t *testing.T) {
	i := newInstallation(t, "#!/bin/sh\necho symbol not found >&2\nexit 134\n")
	i.fails("a release that does not run")
	i.want("old\n")
}

// TestTheInstallerMovesNothingIntoADirectory installs beside a directory with the name of the program, such as a checkout.
func TestTheInstallerMovesNothingIntoADirectory(t *testing.T) {
	i := newInstallation(t, "#!/bin/sh\necho new\n")
	checkout := filepath.Join(i.bin, "segno")
	if err := errors.Join(os.Remove(checkout), os.Mkdir(checkout, 0o755)); err != nil {
		t.Fatal(err)
	}
	i.fails("a directory in the place of the program")
	if there, err := os.ReadDir(checkout); len(there) > 0 || err != nil {
		t.Errorf("the directory has %v, %v", there, err)
	}
	if got := i.run(filepath.Join(i.bin, "segno-hook")); got != "old\n" {
		t.Errorf("segno-hook prints %q", got)
	}
}
