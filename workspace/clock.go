package workspace

import "time"

// clock decides whether an unchanged stat proves that a file's content is unchanged.
//
// Three things can change a file without changing its times. First, times move in ticks. Linux 6.13
// and later give a write that follows a stat of the file a new time on ext4, xfs, btrfs and tmpfs;
// on other systems, a change within one tick is invisible. It is also invisible in a directory on
// tmpfs if a name in it was removed before: the directory then gets the time of the removed file,
// and the kernel forgets that the directory's time was read. Second, write(2) updates the times
// before it copies the data. Third, a store into a page of a shared mapping that is already dirty
// changes no time until the kernel has written the page back. On tmpfs, which is never written
// back, it never changes a time.
//
// The last two need a process that holds the file open for writing or has it mapped, and local file
// systems can report whether there is one. On other file systems a file is suspect until its ctime
// is older than the write-back window.
type clock struct {
	dev    uint64 // the device to which fine, leases and noWriteBack apply
	fine   bool   // a write after a stat always changes the times, except those of a directory
	leases bool   // the file system reports whether a file is open for writing
	// noWriteBack is set if a mapped file is never trusted, regardless of its age.
	noWriteBack bool
	start       int64
	tick        int64
}

// The longest ticks: for a local file system on an older kernel, and for an unknown file system,
// which may be on another machine or have a resolution of two seconds.
const (
	localTick   = int64(20 * time.Millisecond)
	unknownTick = int64(2500 * time.Millisecond)
)

// writeBack is how long a page may stay dirty: Linux expires it after 30 seconds and checks every
// 5; the rest is margin. A tuned or overloaded machine takes longer, so slowWriteBack is the window
// if the kernel can report writers.
const (
	writeBack     = int64(40 * time.Second)
	slowWriteBack = int64(15 * time.Minute)
)

// racy reports whether a write in the current tick may leave st's times unchanged. Symlinks and
// directories need no other test.
func (c *clock) racy(st *stat) bool {
	tick := c.tick
	if st.dev != c.dev {
		tick = unknownTick
	} else if c.fine && !st.is(typeDir) {
		return false
	}
	return max(st.ctime, st.mtime) >= c.start-tick
}

// statTrust is how reliably a file's stat proves that its content is unchanged.
type statTrust int

const (
	trusted  statTrust = iota // any later change changes the times
	suspect                   // a later store may not change the times: an index must not rely on them
	changing                  // it may be changing now: a single reading proves nothing
)

// trust returns how far to trust st, the stat of the file that is open as fd. The caller must call
// it after the stat and before reading the content. A process that opens the file for writing after
// the call cannot hide its first change.
func (c *clock) trust(fd int, st *stat) statTrust {
	if c.racy(st) {
		return changing
	}
	age := c.start - st.ctime
	if st.dev == c.dev && c.leases && (age < slowWriteBack || c.noWriteBack) {
		switch writersOf(fd) {
		case noWriter:
			return trusted
		case someWriter:
			if age <= writeBack { // a write(2) may take seconds
				return changing
			}
			return suspect
		}
	}
	switch {
	case age <= unknownTick:
		return changing
	case age <= writeBack || st.dev == c.dev && c.noWriteBack:
		return suspect
	}
	return trusted
}

// writers reports whether a process can write to a file without opening it first.
type writers int

const (
	unknownWriters writers = iota
	noWriter
	someWriter
)
