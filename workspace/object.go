package workspace

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/dalsegno/segno"
)

// The first line of each kind of object, with its version.
const (
	treeMagic  = "segno tree 1\n"
	ownedMagic = "segno tree 2\n" // with an owner beside each setuid and setgid
	timesMagic = "segno times 1\n"
	xattrMagic = "segno xattrs 1\n"
)

// The kinds of entry in a tree object.
const (
	kindFile      = 'f'
	kindDir       = 'd'
	kindSymlink   = 's'
	kindHardLink  = 'h'
	kindProtected = 'p'
)

// record is one entry of a tree object.
type record struct {
	name string
	segno.Entity
	child segno.Hash // of a directory: its own tree object
}

// appendTree starts a tree object, owned if an entry has an owner; appendRecord
// adds its entries, in order.
func appendTree(b []byte, owned bool) []byte {
	if owned {
		return append(b, ownedMagic...)
	}
	return append(b, treeMagic...)
}

func appendRecord(b []byte, r *record) []byte {
	switch r.Type {
	case segno.EntityFile:
		b = appendContent(appendString(append(b, kindFile), r.name), &r.Entity)
	case segno.EntityHardLink:
		b = appendContent(appendString(append(b, kindHardLink), r.name), &r.Entity)
		b = appendString(b, r.Target)
	case segno.EntityDir:
		b = appendMode(appendString(append(b, kindDir), r.name), &r.Entity)
		b = append(b, r.child[:]...)
		b = appendOptional(b, r.Xattrs)
	case segno.EntitySymlink:
		b = appendString(appendString(append(b, kindSymlink), r.name), r.Target)
	case segno.EntityProtected:
		b = appendString(appendString(append(b, kindProtected), r.name), r.Why)
	default:
		panic("workspace: internal error: a tree entry of type " + string(r.Type))
	}
	return b
}

func appendContent(b []byte, e *segno.Entity) []byte {
	b = appendMode(b, e)
	b = binary.AppendUvarint(b, uint64(e.Size))
	b = append(b, e.Hash[:]...)
	return appendOptional(b, e.Xattrs)
}

func appendMode(b []byte, e *segno.Entity) []byte {
	b = binary.AppendUvarint(b, uint64(e.Mode))
	if e.Owner.Known {
		b = binary.AppendUvarint(b, uint64(e.Owner.UID))
		b = binary.AppendUvarint(b, uint64(e.Owner.GID))
	}
	return b
}

func appendOptional(b []byte, h segno.Hash) []byte {
	if h.IsZero() {
		return append(b, 0)
	}
	return append(append(b, 1), h[:]...)
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// decodeTree reads a tree object. It accepts exactly what encoding makes.
func decodeTree(data []byte) ([]record, error) {
	d, err := decodeEither(data)
	if err != nil {
		return nil, err
	}
	out := make([]record, 0, len(data)/64)
	last, owned := "", false
	for len(d.rest) > 0 && d.err == nil {
		r := d.record()
		d.order(&last, r.name)
		owned = owned || r.Owner.Known
		out = append(out, r)
	}
	if owned != d.owned {
		d.fail("a tree of the wrong version")
	}
	return out, d.err
}

// decodeEither starts to read a tree object of either version.
func decodeEither(data []byte) (*decoder, error) {
	if rest, ok := strings.CutPrefix(string(data), ownedMagic); ok {
		return &decoder{rest: rest, owned: true}, nil
	}
	return decode(data, treeMagic)
}

func (d *decoder) record() (r record) {
	kind := d.byte()
	r.name = d.name()
	switch kind {
	case kindFile:
		r.Type = segno.EntityFile
		d.content(&r.Entity)
	case kindHardLink:
		r.Type = segno.EntityHardLink
		d.content(&r.Entity)
		if r.Target = d.string(); d.err == nil && !validPath(r.Target) {
			d.fail("a hard link's first name is no path")
		}
	case kindDir:
		r.Type = segno.EntityDir
		d.mode(&r.Entity)
		r.child, r.Xattrs = d.hash(), d.optional()
	case kindSymlink:
		r.Type = segno.EntitySymlink
		if r.Target = d.string(); r.Target == "" || strings.IndexByte(r.Target, 0) >= 0 {
			d.fail("a symlink's target is not one")
		}
	case kindProtected:
		r.Type = segno.EntityProtected
		if r.Why = d.string(); r.Why == "" {
			d.fail("a protected entry without a reason")
		}
	default:
		d.fail("an entry of an unknown kind")
	}
	return r
}

func (d *decoder) content(e *segno.Entity) {
	d.mode(e)
	size := d.uint()
	if size > math.MaxInt64 {
		d.fail("a size out of range")
	}
	e.Size, e.Hash, e.Xattrs = int64(size), d.hash(), d.optional()
}

// validName reports whether s can be one name in a directory.
func validName(s string) bool {
	return s != "" && s != "." && s != ".." && !strings.ContainsAny(s, "/\x00")
}

// validPath reports whether s is names joined by slashes, so that it cannot lead
// out of the root.
func validPath(s string) bool {
	for name := range strings.SplitSeq(s, "/") {
		if !validName(name) {
			return false
		}
	}
	return true
}

// decoder reads an object strictly; the first mistake stays in err.
type decoder struct {
	rest  string
	owned bool // setuid and setgid come with an owner
	err   error
}

func decode(data []byte, magic string) (*decoder, error) {
	rest, ok := strings.CutPrefix(string(data), magic)
	if ok {
		return &decoder{rest: rest}, nil
	}
	word := magic[:strings.LastIndexByte(magic, ' ')+1]
	if strings.HasPrefix(string(data), word) {
		return nil, segno.NewError(segno.KindNewer, "read object", "", nil)
	}
	return nil, errors.New("not a " + strings.TrimSpace(word) + " object")
}

func (d *decoder) fail(why string) {
	if d.err == nil {
		d.err = errors.New(why)
	}
	d.rest = ""
}

func (d *decoder) take(n uint64) string {
	if n > uint64(len(d.rest)) {
		d.fail("it ends too early")
		return ""
	}
	s := d.rest[:n]
	d.rest = d.rest[n:]
	return s
}

func (d *decoder) byte() byte {
	if s := d.take(1); s != "" {
		return s[0]
	}
	return 0
}

func (d *decoder) uint() (v uint64) {
	for shift := 0; ; shift += 7 {
		b := d.byte()
		if shift == 63 && b > 1 || shift > 63 {
			d.fail("a number out of range")
			return 0
		}
		v |= uint64(b&0x7f) << shift
		if b < 0x80 {
			if b == 0 && shift > 0 {
				d.fail("a number not in its shortest form")
			}
			return v
		}
	}
}

func (d *decoder) string() string { return d.take(d.uint()) }

func (d *decoder) name() string {
	s := d.string()
	if d.err == nil && !validName(s) {
		d.fail(fmt.Sprintf("the name %q", s))
	}
	return s
}

// mode reads a mode, and the owner that may come with it.
func (d *decoder) mode(e *segno.Entity) {
	m := d.uint()
	if m > permMask {
		d.fail("a mode out of range")
	}
	e.Mode = uint32(m)
	if d.owned && m&setIDs != 0 {
		e.Owner = segno.Owner{Known: true, UID: d.id(), GID: d.id()}
	}
}

func (d *decoder) id() uint32 {
	id := d.uint()
	if id > math.MaxUint32 {
		d.fail("an owner out of range")
	}
	return uint32(id)
}

func (d *decoder) hash() (h segno.Hash) {
	copy(h[:], d.take(uint64(len(h))))
	if d.err == nil && h.IsZero() {
		d.fail("a hash of zeros")
	}
	return h
}

func (d *decoder) optional() segno.Hash {
	switch d.byte() {
	case 0:
	case 1:
		return d.hash()
	default:
		d.fail("neither with nor without attributes")
	}
	return segno.Hash{}
}

// order checks that names ascend strictly.
func (d *decoder) order(last *string, name string) {
	if d.err == nil && *last != "" && name <= *last {
		d.fail("the names are not in order")
	}
	*last = name
}
