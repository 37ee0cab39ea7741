package serverrig

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

// program is what to look for: installed under one of the names (a name for PATH or
// a pattern of absolute paths, of which the newest wins), else inside the files of a
// Debian package and of what it needs.
type program struct {
	pkg       string
	installed []string
	inside    string // a pattern below the unpacked packages
}

// found is a program and, if it is not the system's, where its libraries are.
type found struct {
	file string
	root string // of the unpacked packages; empty for the system's
}

func (f found) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, f.file, args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C", "TZ=UTC")
	if f.root != "" {
		cmd.Env = append(cmd.Env, "LD_LIBRARY_PATH="+strings.Join(libraries(f.root), ":"))
	}
	return cmd
}

// works says whether the program runs at all: a cache may be another machine's.
func (f found) works(ctx context.Context) error {
	out, err := f.command(ctx, "--version").CombinedOutput()
	if err != nil {
		return fmt.Errorf("running %s: %w: %s", f.file, err, telling(out))
	}
	return nil
}

func find(ctx context.Context, p program) (found, error) {
	for _, name := range p.installed {
		if !filepath.IsAbs(name) {
			// Servers find their other files by where the real one lies.
			if file, err := exec.LookPath(name); err == nil {
				file, err = filepath.EvalSymlinks(file)
				return found{file: file}, err
			}
		} else if file := newest(name); file != "" {
			return found{file: file}, nil
		}
	}
	f, err := p.cached(ctx)
	if err != nil {
		return found{}, fmt.Errorf("serverrig: installing Debian's package %s: %w", p.pkg, err)
	}
	return f, nil
}

// newest is the last match of pattern with longer names after shorter ones, so that
// version 15 wins over 9.
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

func (p program) in(ctx context.Context, root string) (found, error) {
	f := found{file: newest(filepath.Join(root, p.inside)), root: root}
	if f.file == "" {
		return f, fmt.Errorf("no %s in it", p.inside)
	}
	return f, f.works(ctx)
}

// cached returns the program from the cache, putting it there the first time.
// Processes that ask at once do it once.
func (p program) cached(ctx context.Context) (found, error) {
	cache, err := cacheDir()
	if err != nil {
		return found{}, err
	}
	root := filepath.Join(cache, p.pkg)
	if f, err := p.in(ctx, root); err == nil {
		return f, nil
	}
	unlock, err := lock(root + ".lock")
	if err != nil {
		return found{}, err
	}
	defer unlock()
	if f, err := p.in(ctx, root); err == nil {
		return f, nil // another process was first
	}
	temp, err := os.MkdirTemp(cache, "installing-*")
	if err != nil {
		return found{}, err
	}
	defer os.RemoveAll(temp)
	unpacked := filepath.Join(temp, "root")
	if err := unpack(ctx, p.pkg, temp, unpacked); err != nil {
		return found{}, err
	}
	if _, err := p.in(ctx, unpacked); err != nil {
		return found{}, err
	}
	if err := os.RemoveAll(root); err != nil {
		return found{}, err
	}
	if err := os.Rename(unpacked, root); err != nil {
		return found{}, err
	}
	return p.in(ctx, root)
}

// unpack downloads pkg and what it needs beyond the installed packages, and unpacks
// all into root. It goes by the system's package lists, and by lists of its own if
// those are missing or too old.
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

// apt runs Debian's package client, always without a change to the system.
type apt struct {
	dir     string
	options []string
}

// download fetches pkg and what it needs into the directory.
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
		return fmt.Errorf("apt names nothing to download for %s", pkg)
	}
	_, err = a.get(ctx, append([]string{"download", "-qq"}, names...)...)
	return err
}

// update makes package lists below temp and uses them from now on.
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
	// As root apt would hand downloads to a user of its own, who has no right here.
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
		return nil, fmt.Errorf("running %s: %w: %s", name, err, telling(exit.Stderr))
	}
	return out, err
}

// libraries are the directories of root where shared libraries lie.
func libraries(root string) []string {
	var dirs []string
	for _, pattern := range []string{"usr/lib/*-linux-*", "lib/*-linux-*", "usr/lib", "lib"} {
		matches, _ := filepath.Glob(filepath.Join(root, pattern))
		dirs = append(dirs, matches...)
	}
	return dirs
}

// cacheDir is where packages are unpacked: the user's cache, and for root a place
// that servers which may not be root can reach too.
func cacheDir() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "segno-test", "debian")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	if os.Getuid() != 0 || reachable(filepath.Join(dir, "file")) == nil {
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
	// Anybody may make names there; root runs only what root put there.
	if stat, ok := info.Sys().(*syscall.Stat_t); !ok || stat.Uid != 0 || !info.IsDir() || info.Mode().Perm()&0o022 != 0 {
		return "", fmt.Errorf("%s is not a directory that only root writes", dir)
	}
	return dir, nil
}

// lock waits for an exclusive lock on file, which the system drops with the process.
func lock(file string) (unlock func(), err error) {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
		if err != syscall.EINTR {
			break
		}
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("locking %s: %w", file, err)
	}
	return func() { f.Close() }, nil
}
