package watch

import (
	"bufio"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// mounts tells whether a mount at, above or below a directory changed. That causes no event in the directory.
type mounts struct {
	root string
	file *os.File // /proc/self/mountinfo, which the kernel marks at each change
	last string   // the lines about the directory
}

func openMounts(root string) (*mounts, error) {
	real, err := filepath.EvalSymlinks(root)
	if err != nil {
		return nil, err
	}
	// os.Open would add the file to the poller of Go's runtime, and the kernel marks a change for one poll only.
	fd, err := unix.Open("/proc/self/mountinfo", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "mountinfo")
	m := &mounts{root: strings.NewReplacer(" ", `\040`, "\t", `\011`, "\n", `\012`, `\`, `\134`).Replace(real), file: f}
	m.last = m.read()
	return m, nil
}

// changed reports whether the mounts changed since the last call. It reads the list only if the kernel marked it.
func (m *mounts) changed() bool {
	poll := []unix.PollFd{{Fd: int32(m.file.Fd()), Events: unix.POLLPRI}}
	if n, err := unix.Poll(poll, 0); err == nil && (n == 0 || poll[0].Revents == 0) {
		return false
	}
	before := m.last
	m.last = m.read()
	return m.last != before
}

// read returns the lines whose mount point is the directory, or above or below it. It returns another text at each call if
// the list cannot be read.
func (m *mounts) read() string {
	var lines strings.Builder
	if _, err := m.file.Seek(0, 0); err != nil {
		return m.last + "?"
	}
	in := bufio.NewScanner(m.file)
	for in.Scan() {
		fields := strings.Fields(in.Text())
		if len(fields) < 5 {
			continue
		}
		at := strings.TrimSuffix(fields[4], "/") + "/"
		if strings.HasPrefix(at, m.root+"/") || strings.HasPrefix(m.root+"/", at) {
			lines.WriteString(in.Text() + "\n")
		}
	}
	if in.Err() != nil {
		return m.last + "?"
	}
	return lines.String()
}
