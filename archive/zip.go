package archive

import (
	"encoding/binary"
	"fmt"
)

// The zip profile. An archive contains only bytes that these functions write, and a reader
// compares the bytes of each header with those that they would write. So an archive can be read in
// only one way.

const (
	methodStore   = 0
	methodDeflate = 8
	methodZstd    = 93

	localSize   = 30 // length of a local header without the name and the zip64 field
	localExtra  = 20 // the size of a local zip64 field
	centralSize = 46 // length of a central header without the name and the zip64 field
	endSize     = 22
	end64Size   = 56
	locatorSize = 20

	max16 = 1<<16 - 1
	max32 = 1<<32 - 1

	// dosDate is 1 January 1980, the zero of zip's clock.
	dosDate = 1<<5 | 1
	// madeBy is version 6.3 on Unix, which gives the external attributes their meaning.
	madeBy = 3<<8 | 63
	// utf8Flag marks names as UTF-8. It is the only flag.
	utf8Flag = 1 << 11
)

// A header is one file of the zip.
type header struct {
	name       string
	method     uint16
	crc        uint32
	compressed int64
	size       int64
	executable bool
	offset     int64 // of the local header
}

// large reports whether a size needs the zip64 field.
func (h *header) large() bool { return h.compressed >= max32 || h.size >= max32 }

func (h *header) version() uint16 {
	switch {
	case h.method == methodZstd:
		return 63
	case h.large() || h.offset >= max32:
		return 45
	}
	return 20
}

func (h *header) localSize() int64 {
	n := localSize + int64(len(h.name))
	if h.large() {
		n += localExtra
	}
	return n
}

func (h *header) appendLocal(b []byte) []byte {
	le := binary.LittleEndian
	b = h.appendCommon(le.AppendUint32(b, 0x04034b50))
	if !h.large() {
		b = le.AppendUint16(b, 0)
		return append(b, h.name...)
	}
	b = le.AppendUint16(b, localExtra)
	b = append(b, h.name...)
	b = le.AppendUint16(b, 1)
	b = le.AppendUint16(b, 16)
	b = le.AppendUint64(b, uint64(h.size))
	return le.AppendUint64(b, uint64(h.compressed))
}

// appendCommon appends the fields that are the same in the local header and in the central directory.
func (h *header) appendCommon(b []byte) []byte {
	le := binary.LittleEndian
	b = le.AppendUint16(b, h.version())
	b = le.AppendUint16(b, utf8Flag)
	b = le.AppendUint16(b, h.method)
	b = le.AppendUint16(b, 0)
	b = le.AppendUint16(b, dosDate)
	b = le.AppendUint32(b, h.crc)
	if h.large() {
		b = le.AppendUint64(b, 1<<64-1)
	} else {
		b = le.AppendUint32(b, uint32(h.compressed))
		b = le.AppendUint32(b, uint32(h.size))
	}
	return le.AppendUint16(b, uint16(len(h.name)))
}

func (h *header) appendCentral(b []byte) []byte {
	le := binary.LittleEndian
	far := h.offset >= max32
	var extra []byte
	if h.large() {
		extra = le.AppendUint64(extra, uint64(h.size))
		extra = le.AppendUint64(extra, uint64(h.compressed))
	}
	offset := uint32(h.offset)
	if far {
		extra = le.AppendUint64(extra, uint64(h.offset))
		offset = max32
	}
	if len(extra) > 0 {
		extra = append(le.AppendUint16(le.AppendUint16(nil, 1), uint16(len(extra))), extra...)
	}
	mode := uint32(0o100644)
	if h.executable {
		mode = 0o100755
	}
	b = le.AppendUint32(b, 0x02014b50)
	b = h.appendCommon(le.AppendUint16(b, madeBy))
	b = le.AppendUint16(b, uint16(len(extra)))
	b = le.AppendUint16(b, 0) // comment
	b = le.AppendUint16(b, 0) // disk
	b = le.AppendUint16(b, 0) // internal attributes
	b = le.AppendUint32(b, mode<<16)
	b = le.AppendUint32(b, offset)
	b = append(b, h.name...)
	return append(b, extra...)
}

// endRecords returns the end of an archive whose central directory has n files and begins at an
// offset. It has the zip64 records only if a number does not fit without them.
func endRecords(n int, offset, size int64) []byte {
	le := binary.LittleEndian
	var b []byte
	count, off32, size32 := uint16(min(n, max16)), uint32(min(offset, max32)), uint32(min(size, max32))
	if n >= max16 || offset >= max32 || size >= max32 {
		count, off32, size32 = max16, max32, max32
		b = le.AppendUint32(b, 0x06064b50)
		b = le.AppendUint64(b, end64Size-12)
		b = le.AppendUint16(b, madeBy)
		b = le.AppendUint16(b, 45)
		b = le.AppendUint32(b, 0)
		b = le.AppendUint32(b, 0)
		b = le.AppendUint64(b, uint64(n))
		b = le.AppendUint64(b, uint64(n))
		b = le.AppendUint64(b, uint64(size))
		b = le.AppendUint64(b, uint64(offset))
		b = le.AppendUint32(b, 0x07064b50)
		b = le.AppendUint32(b, 0)
		b = le.AppendUint64(b, uint64(offset+size))
		b = le.AppendUint32(b, 1)
	}
	b = le.AppendUint32(b, 0x06054b50)
	b = le.AppendUint16(b, 0)
	b = le.AppendUint16(b, 0)
	b = le.AppendUint16(b, count)
	b = le.AppendUint16(b, count)
	b = le.AppendUint32(b, size32)
	b = le.AppendUint32(b, off32)
	return le.AppendUint16(b, 0)
}

// parseCentral reads those fields of the first header of a central directory that a reader cannot
// derive: the method, the checksum, the sizes, the name and the mode. Once the offset is known, the
// caller checks that the bytes are those that appendCentral writes.
func parseCentral(b []byte) (header, error) {
	le := binary.LittleEndian
	var h header
	if len(b) < centralSize || le.Uint32(b) != 0x02014b50 {
		return h, fmt.Errorf("a header of the directory is cut off or is not one")
	}
	names, extras := int(le.Uint16(b[28:])), int(le.Uint16(b[30:]))
	if len(b) < centralSize+names+extras {
		return h, fmt.Errorf("a header of the directory is cut off")
	}
	h = header{
		name: string(b[centralSize : centralSize+names]), method: le.Uint16(b[10:]), crc: le.Uint32(b[16:]),
		compressed: int64(le.Uint32(b[20:])), size: int64(le.Uint32(b[24:])), executable: le.Uint32(b[38:])>>16&0o111 != 0,
	}
	if extra := b[centralSize+names : centralSize+names+extras]; h.compressed == max32 && h.size == max32 && len(extra) >= 20 {
		h.size, h.compressed = int64(le.Uint64(extra[4:])), int64(le.Uint64(extra[12:]))
		if h.size < 0 || h.compressed < 0 {
			return h, fmt.Errorf("a size is beyond 2^63")
		}
	}
	switch h.method {
	case methodStore, methodDeflate, methodZstd:
		return h, nil
	}
	return h, fmt.Errorf("compression method %d is not one of 0, 8 and 93", h.method)
}
