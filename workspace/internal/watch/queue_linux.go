package watch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

var errMalformed = errors.New("a malformed event of the kernel")

// fanotify is a queue of fanotify. An unprivileged process may mark inodes since Linux 5.13. The queue does not report
// names, so the kernel merges all unread events of a directory into one.
type fanotify struct{ fd int }

const fanotifyMask = unix.FAN_CREATE | unix.FAN_DELETE | unix.FAN_MOVED_FROM | unix.FAN_MOVED_TO | unix.FAN_MODIFY | unix.FAN_ATTRIB |
	unix.FAN_CLOSE_WRITE | unix.FAN_DELETE_SELF | unix.FAN_MOVE_SELF | unix.FAN_ONDIR | unix.FAN_EVENT_ON_CHILD

func openFanotify() (int, queue, error) {
	fd, err := unix.FanotifyInit(unix.FAN_CLASS_NOTIF|unix.FAN_CLOEXEC|unix.FAN_NONBLOCK|unix.FAN_REPORT_DIR_FID, unix.O_RDONLY|unix.O_CLOEXEC)
	if err != nil {
		return -1, nil, fmt.Errorf("fanotify_init: %w", err)
	}
	return fd, fanotify{fd}, nil
}

func (q fanotify) kind() string    { return "fanotify" }
func (q fanotify) descriptor() int { return q.fd }
func (q fanotify) most() int       { return math.MaxInt }

// add returns the id of the file system and the handle of the directory, in the form in which events contain them.
func (q fanotify) add(fd int) (string, error) {
	if err := unix.FanotifyMark(q.fd, unix.FAN_MARK_ADD|unix.FAN_MARK_ONLYDIR, fanotifyMask, fd, "."); err != nil {
		return "", fmt.Errorf("fanotify_mark: %w", err)
	}
	handle, _, err := unix.NameToHandleAt(fd, "", unix.AT_EMPTY_PATH)
	if err != nil {
		return "", fmt.Errorf("name_to_handle_at: %w", err)
	}
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil {
		return "", err
	}
	key := binary.NativeEndian.AppendUint32(nil, uint32(fs.Fsid.Val[0]))
	key = binary.NativeEndian.AppendUint32(key, uint32(fs.Fsid.Val[1]))
	key = binary.NativeEndian.AppendUint32(key, uint32(handle.Size()))
	key = binary.NativeEndian.AppendUint32(key, uint32(handle.Type()))
	return string(append(key, handle.Bytes()...)), nil
}

// The layout of an event: a header, then records of information. Each begins with its type, a byte of padding and its
// length. The one for the directory, whose type depends on what changed in it, goes on with the id of the file system
// (8 bytes), the length and the type of the handle (4 bytes each), and the handle.
const (
	eventHeader  = 24
	recordHeader = 4
	handleHeader = 16
)

func (q fanotify) parse(buf []byte, visit func(event)) error {
	for len(buf) > 0 {
		if len(buf) < eventHeader {
			return errMalformed
		}
		size, start := int(binary.NativeEndian.Uint32(buf)), int(binary.NativeEndian.Uint16(buf[6:]))
		if buf[4] != unix.FANOTIFY_METADATA_VERSION || size > len(buf) || start < eventHeader || size < start {
			return errMalformed
		}
		mask := binary.NativeEndian.Uint64(buf[8:])
		e := event{lost: mask&unix.FAN_Q_OVERFLOW != 0, gone: mask&unix.FAN_DELETE_SELF != 0}
		if !e.lost {
			var err error
			if e.key, err = dirKey(buf[start:size]); err != nil {
				return err
			}
		}
		visit(e)
		buf = buf[size:]
	}
	return nil
}

// dirKey returns the key of the directory in the records of an event.
func dirKey(info []byte) (string, error) {
	for len(info) >= recordHeader {
		n := int(binary.NativeEndian.Uint16(info[2:]))
		if n < recordHeader || n > len(info) {
			return "", errMalformed
		}
		if info[0] == unix.FAN_EVENT_INFO_TYPE_DFID || info[0] == unix.FAN_EVENT_INFO_TYPE_FID {
			record := info[recordHeader:n]
			if len(record) < handleHeader || handleHeader+int(binary.NativeEndian.Uint32(record[8:])) > len(record) {
				return "", errMalformed
			}
			return string(record[:handleHeader+int(binary.NativeEndian.Uint32(record[8:]))]), nil
		}
		info = info[n:]
	}
	return "", errMalformed
}

// inotify is a queue of inotify.
type inotify struct{ fd int }

const inotifyMask = unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO | unix.IN_MODIFY | unix.IN_ATTRIB |
	unix.IN_CLOSE_WRITE | unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_ONLYDIR

func openInotify() (int, queue, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return -1, nil, fmt.Errorf("inotify_init1: %w", err)
	}
	return fd, inotify{fd}, nil
}

func (q inotify) kind() string    { return "inotify" }
func (q inotify) descriptor() int { return q.fd }

// most returns half of the directories that all programs of a user may watch by inotify: the editor that runs the agent needs
// some, too.
func (q inotify) most() int {
	var limit int
	if data, err := os.ReadFile("/proc/sys/fs/inotify/max_user_watches"); err == nil {
		limit, _ = strconv.Atoi(strings.TrimSpace(string(data)))
	}
	return limit / 2
}

func (q inotify) add(fd int) (string, error) {
	wd, err := unix.InotifyAddWatch(q.fd, fmt.Sprintf("/proc/self/fd/%d", fd), inotifyMask)
	if err != nil {
		return "", fmt.Errorf("inotify_add_watch: %w", err)
	}
	return inotifyKey(uint32(wd)), nil
}

func inotifyKey(wd uint32) string { return string(binary.NativeEndian.AppendUint32(nil, wd)) }

// parse reads events: the directory, the mask, a number, and the length of the name that follows.
func (q inotify) parse(buf []byte, visit func(event)) error {
	for len(buf) > 0 {
		if len(buf) < unix.SizeofInotifyEvent {
			return errMalformed
		}
		size := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(buf[12:]))
		if size > len(buf) {
			return errMalformed
		}
		mask := binary.NativeEndian.Uint32(buf[4:])
		visit(event{key: inotifyKey(binary.NativeEndian.Uint32(buf)), lost: mask&unix.IN_Q_OVERFLOW != 0,
			gone: mask&(unix.IN_DELETE_SELF|unix.IN_IGNORED|unix.IN_UNMOUNT) != 0})
		buf = buf[size:]
	}
	return nil
}
