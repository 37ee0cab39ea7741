package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// machine describes the machine of the measurements.
type machine struct {
	Date       string `json:"date"`
	Cores      int    `json:"cores"`
	Kernel     string `json:"kernel"`
	FileSystem string `json:"file_system"`
	Go         string `json:"go"`
	Load       string `json:"load"` // average of the minute before the run
}

func thisMachine(dir string) (machine, error) {
	m := machine{Date: time.Now().Format(time.DateOnly), Cores: runtime.NumCPU(), Go: runtime.Version()}
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return m, fmt.Errorf("uname: %w", err)
	}
	release := unix.ByteSliceToString(name.Release[:])
	m.Kernel = strings.Join(strings.SplitN(release, ".", 3)[:2], ".")
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return m, fmt.Errorf("statfs: %w", err)
	}
	m.FileSystem = fileSystemName(int64(fs.Type))
	if load, err := os.ReadFile("/proc/loadavg"); err == nil {
		m.Load, _, _ = strings.Cut(string(load), " ")
	}
	return m, nil
}

func fileSystemName(magic int64) string {
	switch magic {
	case unix.EXT4_SUPER_MAGIC:
		return "ext4"
	case unix.XFS_SUPER_MAGIC:
		return "xfs"
	case unix.BTRFS_SUPER_MAGIC:
		return "btrfs"
	case unix.TMPFS_MAGIC:
		return "tmpfs"
	case unix.OVERLAYFS_SUPER_MAGIC:
		return "overlayfs"
	}
	return fmt.Sprintf("file system %#x", magic)
}

func (m machine) String() string {
	return fmt.Sprintf("%s · %d cores · Linux %s · %s · %s · load %s", m.Date, m.Cores, m.Kernel, m.FileSystem, m.Go, m.Load)
}
