package main

import (
	"cmp"
	"context"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/dalsegno/segno/internal/testing/debian"
	"github.com/dalsegno/segno/internal/testing/soak"
)

// TestMain runs the tests in the root of the repository, as 'make release' does.
func TestMain(m *testing.M) {
	if err := os.Chdir(".."); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// TestInstall builds a release, installs it in each way, from its files only and without Go, and runs the demo with each
// installation. By default it builds for the platform on which it runs, with two man pages.
func TestInstall(t *testing.T) {
	if testing.Short() || !soak.IsNamed() {
		return // it compiles the commands with other flags than the rest of the tests, which takes minutes
	}
	platforms, manuals := []platform{host()}, func(_ context.Context, dir string) error {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
		return errors.Join(os.WriteFile(filepath.Join(dir, "segno.1"), []byte("page\n"), 0o644), os.WriteFile(filepath.Join(dir, "segno-undo.1"), []byte("page\n"), 0o644))
	}
	if soak.IsWhole() {
		platforms, manuals = parse(t, "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64"), makeManuals
	}
	dist := filepath.Join(t.TempDir(), "dist")
	if err := build(t.Context(), dist, "0.0.0-gtest", platforms, manuals); err != nil {
		t.Fatal(err)
	}
	r := &produced{dist, platforms}
	t.Run("checksums", r.testChecksums)
	t.Run("archives", r.testArchives)
	t.Run("deb", r.testDeb)
	t.Run("npm", r.testNPM)
	t.Run("script", r.testScript)
	t.Run("first run", r.testFirstRun)
	t.Run("sbom", r.testSBOM)
	t.Run("again", r.testAgain)
}

func parse(t *testing.T, list string) []platform {
	t.Helper()
	platforms, err := parsePlatforms(list)
	if err != nil {
		t.Fatal(err)
	}
	return platforms
}

// produced is a built release of version 0.0.0-gtest.
type produced struct {
	dist      string
	platforms []platform
}

func (r *produced) file(name string) string { return filepath.Join(r.dist, name) }

// machine is a home of a user who has some programs, and no Go.
type machine struct {
	*testing.T
	home, bin string
}

// newMachine returns a machine with the programs of a small system. It has the others only if they are named.
func newMachine(t *testing.T, programs ...string) *machine {
	t.Helper()
	m := &machine{t, filepath.Join(t.TempDir(), "home"), filepath.Join(t.TempDir(), "bin")}
	for _, dir := range []string{m.home, m.bin} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name := range strings.FieldsSeq("sh env uname mktemp rm cp mv mkdir chmod cut awk tar gzip sed cat find " + strings.Join(programs, " ")) {
		m.install(name)
	}
	return m
}

// install adds a program. If this system does not have it, it comes from the Debian package of that name.
func (m *machine) install(name string) {
	m.Helper()
	pkg := map[string]string{"shasum": "perl"}[name]
	found, err := debian.Find(m.Context(), debian.Program{Package: cmp.Or(pkg, name), Installed: []string{name}, Inside: "usr/bin/" + name})
	if err != nil {
		m.Fatal(err)
	}
	script := "#!/bin/sh\n" + strings.Join(found.Env(), " ") + " exec '" + found.File + "' \"$@\"\n"
	if err := os.WriteFile(filepath.Join(m.bin, name), []byte(script), 0o700); err != nil {
		m.Fatal(err)
	}
}

// try runs a program of the machine, in its home, and returns all output.
func (m *machine) try(env []string, name string, args ...string) (string, error) {
	if !filepath.IsAbs(name) {
		name = filepath.Join(m.bin, name)
	}
	cmd := exec.CommandContext(m.Context(), name, args...)
	cmd.Dir = m.home
	cmd.Env = append([]string{"HOME=" + m.home, "PATH=" + m.bin, "LANG=C.UTF-8", "TMPDIR=" + m.TempDir()}, env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (m *machine) run(name string, args ...string) string {
	m.Helper()
	out, err := m.try(nil, name, args...)
	if err != nil {
		m.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return out
}

// demo runs the demo with an installed command, and compares the version. The demo prints the files after each move, so it
// shows that the undo restores the file that the scripted agent deleted.
func (m *machine) demo(segno string) {
	m.Helper()
	if out := m.run(segno, "version"); !strings.HasPrefix(out, "segno 0.0.0-gtest ") {
		m.Errorf("segno version prints %q", out)
	}
	out := m.run(segno, "demo")
	if !regexp.MustCompile(`(?s)\nundo t4.*\n\./\.env\n.*\nredo t4.*forked t2`).MatchString(out) {
		m.Errorf("the demo shows no undo that restores .env, redo and fork:\n%s", out)
	}
	if strings.Contains(out, "go install") {
		m.Errorf("the demo of a release asks for Go:\n%s", out)
	}
	if out, err := m.try(nil, segno, "undo", "nonsense"); err == nil {
		m.Errorf("a wrong argument is no error:\n%s", out)
	} else if exit := (*exec.ExitError)(nil); !asExit(err, &exit) || exit.ExitCode() < 2 {
		m.Errorf("a wrong argument: %v\n%s", err, out)
	}
}

func asExit(err error, exit **exec.ExitError) (ok bool) {
	*exit, ok = err.(*exec.ExitError)
	return ok
}

func (r *produced) testChecksums(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "shasum", "-a", "256", "--check", "checksums.txt")
	cmd.Dir = r.dist
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	listed := read(t, r.file("checksums.txt"))
	err := filepath.WalkDir(r.dist, func(path string, de os.DirEntry, err error) error {
		name, _ := filepath.Rel(r.dist, path)
		if err == nil && !de.IsDir() && name != "checksums.txt" && name != "release.md" && !strings.Contains(listed, "  "+name+"\n") {
			t.Errorf("%s has no checksum", name)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// testArchives checks that each archive has static programs of its platform, and the texts that must come with them.
func (r *produced) testArchives(t *testing.T) {
	archives, err := filepath.Glob(r.file("segno_*.tar.gz"))
	if err != nil || len(archives) == 0 {
		t.Fatal(archives, err)
	}
	for _, file := range archives {
		dir := t.TempDir()
		execute(t, "tar", "-xzf", file, "-C", dir)
		root := filepath.Join(dir, strings.TrimSuffix(filepath.Base(file), ".tar.gz"))
		for _, name := range []string{"segno", "segno-hook", "man/segno-undo.1", "completions/segno.bash", "LICENSE", "LICENSES.txt", "README.md"} {
			if fi, err := os.Stat(filepath.Join(root, name)); err != nil || fi.Size() == 0 {
				t.Errorf("%s: %v", name, err)
			}
		}
		if strings.Contains(file, "_linux_") {
			for _, name := range commands {
				checkStatic(t, filepath.Join(root, name))
			}
		}
		if licenses := read(t, filepath.Join(root, "LICENSES.txt")); !strings.Contains(licenses, "modernc.org/sqlite v") || !strings.Contains(licenses, "Go: LICENSE") {
			t.Error("LICENSES.txt lacks SQLite or Go")
		}
	}
}

func execute(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := command(t.Context(), nil, name, args...)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// testDeb unpacks the package into a separate root, as dpkg does, and checks that dpkg accepts its description.
func (r *produced) testDeb(t *testing.T) {
	if runtime.GOOS != "linux" {
		return // dpkg is a program of Debian
	}
	deb := r.file(fmt.Sprintf("segno_0.0.0~gtest_%s.deb", runtime.GOARCH))
	root := t.TempDir()
	execute(t, "dpkg", "-x", deb, root)
	if got := execute(t, "dpkg-deb", "--field", deb, "Package", "Version", "Architecture"); got != "Package: segno\nVersion: 0.0.0~gtest\nArchitecture: "+runtime.GOARCH+"\n" {
		t.Errorf("the fields are %q", got)
	}
	// A database of packages in a directory shows that dpkg can install and remove it, without scripts and as any user.
	admin := filepath.Join(t.TempDir(), "dpkg")
	for _, dir := range []string{"info", "updates", "triggers"} {
		if err := os.MkdirAll(filepath.Join(admin, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"status", "available"} {
		if err := os.WriteFile(filepath.Join(admin, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	installed := t.TempDir()
	dpkg := []string{"--admindir=" + admin, "--instdir=" + installed, "--force-not-root,script-chrootless,bad-path,architecture", "--log=/dev/null"}
	execute(t, "dpkg", append(dpkg, "--install", deb)...)
	if problems := execute(t, "dpkg", append(dpkg, "--verify", "segno")...); problems != "" {
		t.Errorf("dpkg --verify: %s", problems)
	}
	m := newMachine(t)
	m.demo(filepath.Join(installed, "usr/bin/segno"))
	m.demo(filepath.Join(root, "usr/bin/segno"))
	for _, name := range []string{"usr/bin/segno-hook", "usr/share/man/man1/segno.1.gz", "usr/share/doc/segno/copyright", "usr/share/bash-completion/completions/segno"} {
		if _, err := os.Stat(filepath.Join(installed, name)); err != nil {
			t.Error(err)
		}
	}
	execute(t, "dpkg", append(dpkg, "--remove", "segno")...)
	if _, err := os.Stat(filepath.Join(installed, "usr/bin/segno")); err == nil {
		t.Error("dpkg --remove leaves segno")
	}
}

// testScript runs the installer against a server with the produced files, and with files that it must refuse.
func (r *produced) testScript(t *testing.T) {
	archive := fmt.Sprintf("segno_0.0.0-gtest_%s_%s.tar.gz", runtime.GOOS, runtime.GOARCH)
	list := read(t, r.file("checksums.txt"))
	for name, c := range map[string]struct {
		programs  string
		checksums string // empty means that the server has no such file
		cut       bool   // the archive is cut
		want      string // a part of the error; empty means that the script installs
	}{
		"curl":                {programs: "curl sha256sum", checksums: list},
		"wget and shasum":     {programs: "wget shasum perl", checksums: list},
		"wrong checksum":      {programs: "curl sha256sum", checksums: strings.ReplaceAll(list, checksum([]byte(read(t, r.file(archive)))), strings.Repeat("0", 64)), want: "has the checksum"},
		"damaged archive":     {programs: "curl sha256sum", checksums: list, cut: true, want: "has the checksum"},
		"no checksum in list": {programs: "curl sha256sum", checksums: strings.ReplaceAll(list, archive, "other"), want: "no checksum of " + archive},
		"no list":             {programs: "curl sha256sum", want: "cannot download"},
		"no list with wget":   {programs: "wget sha256sum", want: "cannot download"},
		"no sha256sum":        {programs: "curl", checksums: list, want: "needs sha256sum or shasum"},
		"no curl":             {programs: "sha256sum", checksums: list, want: "needs curl or wget"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				switch name := strings.TrimPrefix(req.URL.Path, "/"); {
				case name == "checksums.txt" && c.checksums == "":
					http.NotFound(w, req)
				case name == "checksums.txt":
					fmt.Fprint(w, c.checksums)
				case name == archive && c.cut:
					fmt.Fprint(w, read(t, r.file(archive))[:1000])
				default:
					http.ServeFile(w, req, r.file(name))
				}
			}))
			defer server.Close()
			m := newMachine(t, strings.Fields(c.programs)...)
			out, err := m.try([]string{"SEGNO_DOWNLOADS=" + server.URL}, "sh", r.file("install.sh"))
			segno := filepath.Join(m.home, ".local/bin/segno")
			if c.want == "" {
				if err != nil || !strings.Contains(out, "segno 0.0.0-gtest") || !strings.Contains(out, "add "+m.home+"/.local/bin to PATH") {
					t.Fatalf("%v\n%s", err, out)
				}
				m.demo(segno)
				return
			}
			if err == nil || !strings.Contains(out, c.want) {
				t.Errorf("want an error with %q: %v\n%s", c.want, err, out)
			}
			if left, err := filepath.Glob(filepath.Join(m.home, ".*")); err != nil || len(left) > 0 {
				t.Errorf("the refused installation leaves %v (%v)", left, err)
			}
		})
	}
}

// testSBOM compares the components with the modules that go finds in the binary.
func (r *produced) testSBOM(t *testing.T) {
	var bom struct {
		Components []struct{ Name, Version, PURL string }
		Metadata   struct{ Component struct{ Version string } }
	}
	if err := json.Unmarshal([]byte(read(t, r.file("segno_0.0.0-gtest_sbom.cdx.json"))), &bom); err != nil {
		t.Fatal(err)
	}
	if bom.Metadata.Component.Version != "v0.0.0-gtest" {
		t.Errorf("the product has version %q", bom.Metadata.Component.Version)
	}
	listed := map[string]string{}
	for _, c := range bom.Components {
		listed[c.Name] = c.Version
	}
	dir := t.TempDir()
	archives, _ := filepath.Glob(r.file("segno_*.tar.gz"))
	inBinaries := map[string]bool{"std": true}
	for _, file := range archives {
		execute(t, "tar", "-xzf", file, "-C", dir)
	}
	for line := range strings.Lines(execute(t, "go", "version", "-m", dir)) {
		fields := strings.Fields(line)
		if len(fields) < 4 || fields[0] != "dep" || isOwn(fields[1]) {
			continue
		}
		inBinaries[fields[1]] = true
		if listed[fields[1]] != fields[2] {
			t.Errorf("%s %s: the SBOM has %q", fields[1], fields[2], listed[fields[1]])
		}
	}
	if len(inBinaries) < 20 {
		t.Errorf("go version -m lists %d modules", len(inBinaries))
	}
	for name := range listed {
		if !inBinaries[name] {
			t.Errorf("no binary contains %s", name)
		}
	}
}

// checkStatic fails if the kernel would load a program with the help of a dynamic linker.
func checkStatic(t *testing.T, file string) {
	t.Helper()
	f, err := elf.Open(file)
	if err != nil {
		t.Error(err)
		return
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			t.Errorf("%s is not static", file)
		}
	}
	if libraries, err := f.ImportedLibraries(); err != nil || len(libraries) > 0 {
		t.Errorf("%s needs %v (%v)", file, libraries, err)
	}
}
