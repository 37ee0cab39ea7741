package workspace

import "time"

// clock tells whether a file may be written again and keep the stat it has.
//
// Linux 6.13 and later give a write that follows a look at the file a time of its
// own on ext4, xfs, btrfs and tmpfs. Elsewhere times move in ticks: what changed
// within one before the scan is read again by the next.
type clock struct {
	dev   uint64 // the device of which fine is true
	fine  bool
	start int64
	tick  int64
}

// The longest ticks: of a local file system on an older kernel, and of one we do
// not know, which may be on another machine or count in steps of two seconds.
const (
	localTick   = int64(20 * time.Millisecond)
	unknownTick = int64(2500 * time.Millisecond)
)

func (c *clock) racy(st *stat) bool {
	tick := c.tick
	if st.dev != c.dev {
		tick = unknownTick
	} else if c.fine {
		return false
	}
	return max(st.ctime, st.mtime) >= c.start-tick
}
