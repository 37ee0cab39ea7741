package database

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"os"
)

// A logPosition is a place in a write-ahead log: the salts of the log, the number of frames before the place, and the
// checksum of the last of them, which covers all frames.
type logPosition struct {
	Salts  uint64    `json:"salts"`
	Frames int       `json:"frames"`
	Sum    [2]uint32 `json:"sum"`
}

// A pageLog is the content of a write-ahead log. https://sqlite.org/fileformat2.html#walformat specifies it.
//
// In WAL mode, a transaction changes only the log, and a checkpoint copies pages from the log into the file of the
// database. While a log has the same salts, its frames are only added to. So a database whose file did not change has
// the content that it had at an earlier place in the same log, except for the pages of the frames after that place.
type pageLog struct {
	file     *os.File
	order    binary.ByteOrder // of the numbers in checksums
	pageSize int
	pages    int           // of the database, after the last transaction
	frames   map[int]int64 // the offset of the newest content of a page, by the number of the page
	end      logPosition   // the end of the last transaction
	// hasPlace is set if the log has an earlier place. changed are the pages of the frames after it.
	hasPlace bool
	changed  map[int]bool
}

// The sizes of the headers of a log and of a frame.
const (
	logHeader   = 32
	frameHeader = 24
)

// errNoLog is the error of a log that is not read directly. SQLite reads it.
var errNoLog = errors.New("the log cannot be read directly")

// openLog reads the log of a database up to its last transaction, with the same rules as a recovery by SQLite. place is an
// earlier place in the log, or the zero value. The error is errNoLog if the log has no transaction, or if its index
// ("-shm") names another last transaction: one is in progress, or SQLite must recover the log.
func openLog(path string, place logPosition) (*pageLog, error) {
	if !isPlain(path + "-wal") { // SQLite follows no symlink, either
		return nil, errNoLog
	}
	file, err := openPlain(path + "-wal")
	if err != nil {
		return nil, errNoLog
	}
	l := &pageLog{file: file, frames: map[int]int64{}, changed: map[int]bool{}}
	if l.readHeader() {
		l.readFrames(place)
	}
	if l.pages == 0 || !l.agrees(path+"-shm") {
		return nil, errors.Join(errNoLog, file.Close())
	}
	return l, nil
}

func (l *pageLog) close() error { return l.file.Close() }

// find returns the offset of the content of a page. l may be nil.
func (l *pageLog) find(page int) (offset int64, isLogged bool) {
	if l == nil {
		return 0, false
	}
	offset, isLogged = l.frames[page]
	return offset, isLogged
}

// readHeader reads the header, and reports whether it is valid.
func (l *pageLog) readHeader() bool {
	var head [logHeader]byte
	if _, err := l.file.ReadAt(head[:], 0); err != nil {
		return false
	}
	be := binary.BigEndian
	switch be.Uint32(head[:]) {
	case 0x377f0682:
		l.order = binary.LittleEndian
	case 0x377f0683:
		l.order = binary.BigEndian
	default:
		return false
	}
	l.pageSize = int(be.Uint32(head[8:]))
	l.end = logPosition{Salts: be.Uint64(head[16:]), Sum: l.checksum([2]uint32{}, head[:24])}
	isPower := l.pageSize >= 512 && l.pageSize <= 65536 && l.pageSize&(l.pageSize-1) == 0
	return be.Uint32(head[4:]) == 3007000 && isPower && l.end.Sum == readSum(head[24:])
}

func readSum(b []byte) [2]uint32 {
	return [2]uint32{binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[4:])}
}

// checksum continues the checksum of a log.
func (l *pageLog) checksum(sum [2]uint32, data []byte) [2]uint32 {
	a, b := sum[0], sum[1]
	for ; len(data) >= 8; data = data[8:] {
		a += l.order.Uint32(data) + b
		b += l.order.Uint32(data[4:]) + a
	}
	return [2]uint32{a, b}
}

// readFrames reads the frames up to the last one that ends a transaction.
func (l *pageLog) readFrames(place logPosition) {
	be, at := binary.BigEndian, l.end
	size := frameHeader + l.pageSize
	r := bufio.NewReaderSize(io.NewSectionReader(l.file, logHeader, math.MaxInt64-logHeader), 256<<10)
	frame := make([]byte, size)
	open := map[int]int64{} // the pages of a transaction that has not ended
	for {
		if _, err := io.ReadFull(r, frame); err != nil || be.Uint64(frame[8:]) != at.Salts {
			return
		}
		page, pages := int(be.Uint32(frame)), int(be.Uint32(frame[4:]))
		at.Sum = l.checksum(l.checksum(at.Sum, frame[:8]), frame[frameHeader:])
		if at.Sum != readSum(frame[16:]) || page == 0 {
			return
		}
		open[page] = logHeader + int64(at.Frames)*int64(size) + frameHeader
		at.Frames++
		if pages == 0 {
			continue
		}
		for p, offset := range open {
			l.frames[p] = offset
			if l.hasPlace {
				l.changed[p] = true
			}
		}
		clear(open)
		l.pages, l.end = pages, at
		l.hasPlace = l.hasPlace || at == place
	}
}

// agrees reports whether the index of the log names the same last transaction. The index has two copies of its head, in
// the byte order of the machine: a number of 4 bytes is at offset 16 (the frames), 20 (the pages) and from 24 on (the
// checksum of the last frame). The salts at offset 32 are as in the log.
func (l *pageLog) agrees(path string) bool {
	const size = 48
	head, err := readPart(path, 2*size)
	if err != nil || len(head) < 2*size || !bytes.Equal(head[:size], head[size:]) {
		return false
	}
	ne := binary.NativeEndian
	return head[12] == 1 && int(ne.Uint32(head[16:])) == l.end.Frames && int(ne.Uint32(head[20:])) == l.pages &&
		[2]uint32{ne.Uint32(head[24:]), ne.Uint32(head[28:])} == l.end.Sum && binary.BigEndian.Uint64(head[32:]) == l.end.Salts
}
