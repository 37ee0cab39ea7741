package workspace

import (
	"time"

	"golang.org/x/sys/unix"
)

// bornAt returns the time at which a directory was made. ok is false if the file system does not record it.
func bornAt(dir string) (at time.Time, ok bool) {
	var st unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, dir, 0, unix.STATX_BTIME, &st); err != nil || st.Mask&unix.STATX_BTIME == 0 {
		return at, false
	}
	return time.Unix(st.Btime.Sec, int64(st.Btime.Nsec)), true
}
