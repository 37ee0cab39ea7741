// Package debian finds programs that tests run. It uses installed programs, or else Debian's packages, which it
// unpacks into a cache without a change to the system.
package debian

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// Program describes a program. It is installed under one of the names, or it is in a Debian package. A name is a
// name in PATH, or a pattern of absolute paths, whose newest match is used.
type Program struct {
	Package   string
	Installed []string
	Inside    string // a pattern below the unpacked packages
}

// Executable is an installed or unpacked program.
type Executable struct {
	File string
	root string // the directory of the unpacked packages; empty for an installed program
}

// Command returns a command that runs the program, in a fixed locale and time zone.
func (f Executable) Command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, f.File, args...)
	cmd.Env = append(append(os.Environ(), "LC_ALL=C", "TZ=UTC"), f.Env()...)
	return cmd
}

// Env returns the variables that an unpacked program needs to find its libraries.
func (f Executable) Env() []string {
	if f.root == "" {
		return nil
	}
	return []string{"LD_LIBRARY_PATH=" + strings.Join(libraries(f.root), ":")}
}

// check runs the program with --version, because a cache may have been copied from another machine.
func (f Executable) check(ctx context.Context) error {
	out, err := f.Command(ctx, "--version").CombinedOutput()
	if err != nil {
		return fmt.Errorf("running %s: %w: %s", f.File, err, ErrorLine(out))
	}
	return nil
}

// Find returns a program. If it is not installed, the first call downloads and unpacks the package. The error is
// one line that names the package.
func Find(ctx context.Context, p Program) (Executable, error) {
	for _, name := range p.Installed {
		if !filepath.IsAbs(name) {
			if file, err := exec.LookPath(name); err == nil {
				return resolve(file)
			}
		} else if file := newest(name); file != "" {
			return Executable{File: file}, nil
		}
	}
	f, err := p.cached(ctx)
	if err != nil {
		return Executable{}, fmt.Errorf("installing Debian's package %s: %w", p.Package, err)
	}
	return f, nil
}

// resolve returns an installed program by its real path, relative to which a server finds its other files. A program that has
// several names, such as redis-server and redis-check-rdb, keeps the one by which it was found, because it decides what it does.
func resolve(file string) (Executable, error) {
	target, err := filepath.EvalSymlinks(file)
	if filepath.Base(target) != filepath.Base(file) {
		target = file
	}
	return Executable{File: target}, err
}

// newest returns the last match of pattern, longer names after shorter ones: version 15 follows 9.
func newest(pattern string) string {
	files, _ := filepath.Glob(pattern)
	slices.SortFunc(files, func(a, b string) int {
		if len(a) != len(b) {
			return len(a) - len(b)
		}
		return strings.Compare(a, b)
	})
	if len(files) == 0 {
		return ""
	}
	return files[len(files)-1]
}

func (p Program) in(ctx context.Context, root string) (Executable, error) {
	f := Executable{File: newest(filepath.Join(root, p.Inside)), root: root}
	if f.File == "" {
		return f, fmt.Errorf("no file %s", p.Inside)
	}
	return f, f.check(ctx)
}

// cached returns the program from the cache, after unpacking it there the first time. Concurrent
// processes unpack it once.
func (p Program) cached(ctx context.Context) (Executable, error) {
	cache, err := cacheDir()
	if err != nil {
		return Executable{}, err
	}
	root := filepath.Join(cache, p.Package)
	if f, err := p.in(ctx, root); err == nil {
		return f, nil
	}
	unlock, err := Lock(root + ".lock")
	if err != nil {
		return Executable{}, err
	}
	defer unlock()
	if f, err := p.in(ctx, root); err == nil {
		return f, nil // another process was first
	}
	temp, err := os.MkdirTemp(cache, "installing-*")
	if err != nil {
		return Executable{}, err
	}
	defer os.RemoveAll(temp)
	unpacked := filepath.Join(temp, "root")
	if err := unpack(ctx, p.Package, temp, unpacked); err != nil {
		return Executable{}, err
	}
	if _, err := p.in(ctx, unpacked); err != nil {
		return Executable{}, err
	}
	if err := os.RemoveAll(root); err != nil {
		return Executable{}, err
	}
	if err := os.Rename(unpacked, root); err != nil {
		return Executable{}, err
	}
	return p.in(ctx, root)
}

// unpack downloads pkg and its dependencies that are not installed, and unpacks them into root. If the
// system's package lists are missing or too old, it downloads separate lists.
func unpack(ctx context.Context, pkg, temp, root string) error {
	debs := filepath.Join(temp, "debs")
	if err := errors.Join(os.Mkdir(debs, 0o755), os.Mkdir(root, 0o755), os.Chmod(temp, 0o755)); err != nil {
		return err
	}
	apt := apt{dir: debs}
	if err := apt.download(ctx, pkg); err != nil {
		if err := apt.update(ctx, temp); err != nil {
			return err
		}
		if err := apt.download(ctx, pkg); err != nil {
			return err
		}
	}
	files, err := filepath.Glob(filepath.Join(debs, "*.deb"))
	if err != nil {
		return err
	}
	for _, file := range files {
		if _, err := output(ctx, debs, "dpkg-deb", "-x", file, root); err != nil {
			return err
		}
	}
	return nil
}

// apt runs Debian's package client without a change to the system.
type apt struct {
	dir     string
	options []string
}

// download downloads pkg and its dependencies into the directory.
func (a apt) download(ctx context.Context, pkg string) error {
	out, err := a.get(ctx, "install", "--print-uris", "-qq", "--no-install-recommends", pkg)
	if err != nil {
		return err
	}
	var names []string
	for line := range strings.Lines(string(out)) {
		// A line is 'address' name_version_arch.deb size hash.
		fields := strings.Fields(line)
		if len(fields) < 3 || !strings.HasPrefix(line, "'") {
			continue
		}
		if parts := strings.Split(fields[1], "_"); len(parts) == 3 {
			names = append(names, parts[0])
		}
	}
	if len(names) == 0 {
		return fmt.Errorf("apt lists no package to download for %s", pkg)
	}
	_, err = a.get(ctx, append([]string{"download", "-qq"}, names...)...)
	return err
}

// update downloads package lists into temp, which later calls use.
func (a *apt) update(ctx context.Context, temp string) error {
	lists, cache := filepath.Join(temp, "lists"), filepath.Join(temp, "cache")
	for _, dir := range []string{lists, cache} {
		if err := os.MkdirAll(filepath.Join(dir, "partial"), 0o755); err != nil {
			return err
		}
	}
	a.options = []string{"-o", "Dir::State::lists=" + lists, "-o", "Dir::Cache=" + cache}
	_, err := a.get(ctx, "update", "-qq")
	return err
}

func (a apt) get(ctx context.Context, args ...string) ([]byte, error) {
	// As root, apt would run downloads as the user _apt, which cannot write to this directory.
	args = slices.Concat([]string{"-o", "APT::Sandbox::User=root"}, a.options, args)
	return output(ctx, a.dir, "apt-get", args...)
}

func output(ctx context.Context, dir, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil, fmt.Errorf("running %s: %w: %s", name, err, ErrorLine(exit.Stderr))
	}
	return out, err
}

// libraries returns the directories of shared libraries in root. Libraries of PulseAudio, which Chromium needs, are
// in a directory that only their absolute run path names.
func libraries(root string) []string {
	var dirs []string
	for _, pattern := range []string{"usr/lib/*-linux-*", "usr/lib/*-linux-*/pulseaudio", "lib/*-linux-*", "usr/lib", "lib"} {
		matches, _ := filepath.Glob(filepath.Join(root, pattern))
		dirs = append(dirs, matches...)
	}
	return dirs
}

// cacheDir returns the directory for unpacked packages: the user's cache directory, or for root a
// directory that a server with another user can read too.
func cacheDir() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "segno-test", "debian")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	if os.Getuid() != 0 || Reachable(filepath.Join(dir, "file")) == nil {
		return dir, nil
	}
	dir = "/var/tmp/segno-test-debian"
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return "", err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return "", err
	}
	// Every user may create files in /var/tmp; root must run only files that root wrote.
	if stat, ok := info.Sys().(*syscall.Stat_t); !ok || stat.Uid != 0 || !info.IsDir() || info.Mode().Perm()&0o022 != 0 {
		return "", fmt.Errorf("%s is not a directory that only root writes", dir)
	}
	return dir, nil
}

// Lock waits for an exclusive lock on file. The system releases it when the process ends.
func Lock(file string) (unlock func(), err error) {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("locking %s: %w", file, err)
	}
	return func() { f.Close() }, nil
}

// ErrorLine returns the line of a program's output that describes an error, or the last line.
func ErrorLine(out []byte) string {
	last := ""
	for line := range strings.Lines(string(out)) {
		line = strings.TrimSpace(line)
		for _, mark := range []string{"FATAL:", "E: ", "error:"} {
			if strings.Contains(line, mark) {
				return line
			}
		}
		if line != "" {
			last = line
		}
	}
	return last
}

// Reachable returns an error if other users cannot enter one of the directories above file.
func Reachable(file string) error {
	for dir := filepath.Dir(file); ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err != nil {
			return err
		}
		if info.Mode()&0o001 == 0 {
			return fmt.Errorf("%s cannot be entered", dir)
		}
		if dir == filepath.Dir(dir) {
			return nil
		}
	}
}
