// Package checksumvfs makes SQLite keep a checksum of each page of a database file. SQLite itself has none,
// so a flipped bit changes a value without an error: a row is missing, or a list is shorter. With checksums,
// the statement that reads the page fails with SQLITE_CORRUPT.
//
// The package registers a VFS, which is SQLite's interface to files, on top of the default one. It
// changes how pages of database files are read and written, how files are synced, and how many calls write a
// frame of the log. The file remains a regular database: SQLite leaves the last four bytes of each page to
// extensions, and the VFS stores the checksum there.
//
//	checksum = CRC-32C of the page's number (4 bytes, little-endian) and of the page up to the checksum; 1 for 0
//
// The checksum of page 1 skips fields of the database header: those that SQLite rewrites when it copies a
// database, which are the change counters, the schema's counter and the version of SQLite; and the
// user_version, which records whether this program understands the rest.
//
// In memory, SQLite has zeros in these four bytes of its pages, and it writes the zeros to the write-ahead
// log, which has separate checksums. If another program copies pages from the log into the file, they still
// have zeros. The VFS accepts such a page unless one of its rows is missing, so that other programs may read
// a database. If another program changes a page, the page has the checksum of its earlier content, and the
// VFS reports damage.
package checksumvfs

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"sync"
	"unsafe"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
)

const (
	// Name is the name of the VFS: the value of the parameter vfs in the name of a database.
	Name = "segno-checksum"
	// Pragma returns no row for a connection without the VFS. With the VFS, it returns 1 if the pages of the
	// database have checksums, and 0 otherwise.
	Pragma = "PRAGMA segno_checksum"

	// PageSize is the size of the pages of a database that is created through the VFS. These databases have
	// checksums.
	PageSize = 1 << 10
	// SumSize is the size of a checksum. A database whose header reserves this many bytes of each page has
	// checksums.
	SumSize = 4
)

// Register registers the VFS in this process. Calls after the first one return the result of the first,
// because a process has only one list of VFSs.
var Register = sync.OnceValue(register)

func register() error {
	tls := libc.NewTLS()
	defer tls.Close()
	base := sqlite3.Xsqlite3_vfs_find(tls, 0)
	if base == 0 {
		return errors.New("SQLite has no default VFS")
	}
	name, err := libc.CString(Name)
	if err != nil {
		return err
	}
	vfs := libc.Xmalloc(tls, libc.Tsize_t(unsafe.Sizeof(sqlite3.Tsqlite3_vfs{})))
	if vfs == 0 {
		return errors.New("out of memory")
	}
	v := at[sqlite3.Tsqlite3_vfs](vfs)
	*v = *at[sqlite3.Tsqlite3_vfs](base)
	v.FszOsFile = fileOffset(base) + int32(unsafe.Sizeof(file{}))
	v.FpNext, v.FzName, v.FpAppData = 0, name, base
	v.FxOpen = address(open)
	if code := sqlite3.Xsqlite3_vfs_register(tls, vfs, 0); code != sqlite3.SQLITE_OK {
		return fmt.Errorf("register the VFS %s: SQLite's error %d", Name, code)
	}
	return nil
}

// at returns the object at an address outside of Go's heap.
func at[T any](address uintptr) *T { return *(**T)(unsafe.Pointer(&address)) }

// address returns the address of a top-level function in the form that SQLite, which is translated from C,
// expects.
func address[F any](f F) uintptr { return *(*uintptr)(unsafe.Pointer(&f)) }

// function returns the function at an address that address returned.
func function[F any](address uintptr) F { return *(*F)(unsafe.Pointer(&address)) }

// The types of the replaced functions.
type (
	openFunc            = func(tls *libc.TLS, vfs, name, file uintptr, flags int32, outFlags uintptr) int32
	readFunc            = func(tls *libc.TLS, file, buf uintptr, size int32, offset int64) int32
	controlFunc         = func(tls *libc.TLS, file uintptr, op int32, arg uintptr) int32
	characteristicsFunc = func(tls *libc.TLS, file uintptr) int32
)

// file is the data that the VFS adds to an open database file or log. It follows the file of the default VFS
// in the memory that SQLite allocates. The file's methods are those of the default VFS, some of them replaced.
type file struct {
	methods sqlite3.Tsqlite3_io_methods
	base    sqlite3.Tsqlite3_io_methods // the methods of the default VFS
	hasSums bool
	frame   frame // of a log
}

// fileOffset returns the position of [file] in the memory of a file. base is the default VFS.
func fileOffset(base uintptr) int32 {
	const align = int32(unsafe.Alignof(file{}))
	return (at[sqlite3.Tsqlite3_vfs](base).FszOsFile + align - 1) / align * align
}

// fileOf returns the file of an open database file.
func fileOf(f uintptr) *file { return at[file](at[sqlite3.Tsqlite3_file](f).FpMethods) }

// open is the method xOpen.
func open(tls *libc.TLS, vfs, name, f uintptr, flags int32, outFlags uintptr) int32 {
	base := at[sqlite3.Tsqlite3_vfs](vfs).FpAppData
	code := function[openFunc](at[sqlite3.Tsqlite3_vfs](base).FxOpen)(tls, base, name, f, flags, outFlags)
	isDatabase := flags&sqlite3.SQLITE_OPEN_MAIN_DB != 0
	if code != sqlite3.SQLITE_OK || !isDatabase && flags&sqlite3.SQLITE_OPEN_WAL == 0 {
		return code
	}
	methods := &at[sqlite3.Tsqlite3_file](f).FpMethods
	own := f + uintptr(fileOffset(base))
	x := at[file](own)
	x.base = *at[sqlite3.Tsqlite3_io_methods](*methods)
	x.methods, x.hasSums = x.base, false
	x.replaceCalls(base, isDatabase)
	if isDatabase {
		x.methods.FxRead, x.methods.FxWrite, x.methods.FxFileControl = address(read), address(write), address(control)
		x.methods.FxDeviceCharacteristics = address(characteristics)
		x.methods.FiVersion = min(x.methods.FiVersion, 2) // version 3 would map the file into memory and bypass read
	}
	*methods = own
	return code
}

// headerSize is the size of the database header, at the beginning of page 1.
const headerSize = 100

// The positions of fields in the header.
const (
	headerPageSize = 16
	headerSumSize  = 20
)

// learn determines from a header whether the pages of the database have checksums.
func (x *file) learn(header []byte) {
	if bytes.HasPrefix(header, []byte("SQLite format 3\x00")) {
		x.hasSums = header[headerSumSize] == SumSize
	}
}

// read is the method xRead. SQLite reads the header before any page.
func read(tls *libc.TLS, f, buf uintptr, size int32, offset int64) int32 {
	x := fileOf(f)
	code := function[readFunc](x.base.FxRead)(tls, f, buf, size, offset)
	data := unsafe.Slice(at[byte](buf), size)
	if code == sqlite3.SQLITE_IOERR_SHORT_READ {
		// SQLite filled the buffer with zeros, and will use it.
		switch {
		case offset == 0 && size == headerSize && isZero(data): // of an empty file
			// SQLite derives from this header how it creates the database.
			binary.BigEndian.PutUint16(data[headerPageSize:], PageSize)
			data[headerSumSize] = SumSize
			x.hasSums = true
		case x.hasSums && isPage(data, offset) && !isZero(data): // the file ends within this page
			code = sqlite3.SQLITE_CORRUPT
		}
	}
	if code != sqlite3.SQLITE_OK {
		return code
	}
	if offset == 0 && size >= headerSize {
		x.learn(data)
	}
	if !x.hasSums || !isPage(data, offset) {
		return code
	}
	stored := data[size-SumSize:]
	isSound := binary.LittleEndian.Uint32(stored) == sum(data, offset)
	if isZero(stored) {
		isSound = !hasLostRow(data, offset)
	}
	if !isSound {
		return sqlite3.SQLITE_CORRUPT
	}
	clear(stored)
	return code
}

// write is the method xWrite.
func write(tls *libc.TLS, f, buf uintptr, size int32, offset int64) int32 {
	x := fileOf(f)
	data := unsafe.Slice(at[byte](buf), size)
	if offset == 0 && size >= headerSize {
		x.learn(data)
	}
	if !x.hasSums || !isPage(data, offset) {
		return function[readFunc](x.base.FxWrite)(tls, f, buf, size, offset)
	}
	stored := data[size-SumSize:]
	binary.LittleEndian.PutUint32(stored, sum(data, offset))
	code := function[readFunc](x.base.FxWrite)(tls, f, buf, size, offset)
	clear(stored) // the buffer may be a page in SQLite's cache
	return code
}

// control is the method xFileControl. It answers [Pragma].
func control(tls *libc.TLS, f uintptr, op int32, arg uintptr) int32 {
	x := fileOf(f)
	if op == sqlite3.SQLITE_FCNTL_PRAGMA {
		words := at[[3]uintptr](arg) // the result, the name and the argument of a pragma
		if "PRAGMA "+libc.GoString(words[1]) == Pragma {
			const size = 2
			if words[0] = sqlite3.Xsqlite3_malloc(tls, size); words[0] == 0 {
				return sqlite3.SQLITE_NOMEM
			}
			answer := "0\x00"
			if x.hasSums {
				answer = "1\x00"
			}
			copy(unsafe.Slice(at[byte](words[0]), size), answer)
			return sqlite3.SQLITE_OK
		}
	}
	return function[controlFunc](x.base.FxFileControl)(tls, f, op, arg)
}

// characteristics is the method xDeviceCharacteristics. It prevents SQLite from reading parts of pages,
// except for the header, because they cannot be verified.
func characteristics(tls *libc.TLS, f uintptr) int32 {
	x := fileOf(f)
	flags := function[characteristicsFunc](x.base.FxDeviceCharacteristics)(tls, f)
	if x.hasSums {
		flags &^= sqlite3.SQLITE_IOCAP_SUBPAGE_READ
	}
	return flags
}

// isPage reports whether data is a page. If another process created the database meanwhile, SQLite first
// reads page 1 in a wrong size, and then again.
func isPage(data []byte, offset int64) bool {
	const minSize = 512
	size := len(data)
	if size < minSize || size&(size-1) != 0 || offset%int64(size) != 0 {
		return false
	}
	return offset != 0 || size == int(binary.BigEndian.Uint16(data[headerPageSize:])) || size == 1<<16
}

// hasLostRow reports whether a page without a checksum is a node of a tree that contains a row that begins
// with zeros: the number of its child, or in a leaf its length. SQLite writes no such row. The page has lost
// its end, and with it its checksum.
func hasLostRow(page []byte, offset int64) bool {
	header := page
	if offset == 0 {
		header = page[headerSize:]
	}
	var rows, zeros int // the offset of the positions of the rows, and the size of the beginning of a row
	switch header[0] {
	case 2, 5: // inner nodes of an index and of a table
		rows, zeros = 12, 4
	case 10, 13: // leaves
		rows, zeros = 8, 1
	default:
		return false
	}
	for range binary.BigEndian.Uint16(header[3:]) {
		if rows+2 > len(header) {
			return true
		}
		row := int(binary.BigEndian.Uint16(header[rows:]))
		if row+zeros > len(page) || isZero(page[row:row+zeros]) {
			return true
		}
		rows += 2
	}
	return false
}

// volatile holds the start and end offsets of the header fields that a checksum skips.
var volatile = [...][2]int{{24, 28}, {40, 44}, {60, 64}, {92, 100}}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sum returns the checksum of a page.
func sum(page []byte, offset int64) uint32 {
	var number [4]byte
	binary.LittleEndian.PutUint32(number[:], uint32(offset/int64(len(page))+1))
	sum, begin := crc32.Checksum(number[:], castagnoli), 0
	if offset == 0 {
		for _, v := range volatile {
			sum, begin = crc32.Update(sum, castagnoli, page[begin:v[0]]), v[1]
		}
	}
	sum = crc32.Update(sum, castagnoli, page[begin:len(page)-SumSize])
	return max(sum, 1)
}

func isZero(data []byte) bool {
	for _, b := range data {
		if b != 0 {
			return false
		}
	}
	return true
}
