package workspace

import (
	"context"
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

// timeRecord is one entry of a times object: a file's time, or a directory's child.
type timeRecord struct {
	name  string
	mtime int64
	child segno.Hash // zero for a file
}

// encodeTree returns the object of a directory whose records are in order.
func encodeTree(records []record) []byte {
	magic, size := treeMagic, len(ownedMagic)
	for i := range records {
		r := &records[i]
		size += len(r.name) + len(r.Target) + len(r.Why) + 80
		if r.Owner.Known {
			magic = ownedMagic
		}
	}
	b := append(make([]byte, 0, size), magic...)
	for i := range records {
		b = appendRecord(b, &records[i])
	}
	return b
}

// encodeTimes returns the times object of a directory whose records are in order, nil for
// none.
func encodeTimes(records []timeRecord) []byte {
	if len(records) == 0 {
		return nil
	}
	b := append(make([]byte, 0, len(timesMagic)+40*len(records)), timesMagic...)
	for i := range records {
		r := &records[i]
		if r.child.IsZero() {
			b = appendString(append(b, kindFile), r.name)
			b = binary.BigEndian.AppendUint64(b, uint64(r.mtime))
		} else {
			b = append(appendString(append(b, kindDir), r.name), r.child[:]...)
		}
	}
	return b
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

// decodeTree reads a tree object. It accepts exactly what encodeTree returns.
func decodeTree(data []byte) ([]record, error) {
	d, owned := &decoder{owned: true}, false
	var isOwned bool
	if d.rest, isOwned = strings.CutPrefix(string(data), ownedMagic); !isOwned {
		var err error
		if d, err = newDecoder(data, treeMagic); err != nil {
			return nil, err
		}
	}
	out := decodeEntries(d, func(d *decoder) (record, string) {
		r := d.record()
		owned = owned || r.Owner.Known
		return r, r.name
	})
	if owned != d.owned {
		d.fail("a tree of the wrong version")
	}
	return out, d.err
}

// decodeTimes reads a times object. It accepts exactly what encodeTimes returns.
func decodeTimes(data []byte) ([]timeRecord, error) {
	return decodeAll(data, timesMagic, func(d *decoder) (timeRecord, string) {
		kind := d.byte()
		r := timeRecord{name: d.name()}
		switch kind {
		case kindFile:
			if s := d.take(8); s != "" {
				r.mtime = int64(binary.BigEndian.Uint64([]byte(s)))
			}
		case kindDir:
			r.child = d.hash()
		default:
			d.fail("an entry of an unknown kind")
		}
		return r, r.name
	})
}

// decodeAll reads an object that has at least one entry.
func decodeAll[T any](data []byte, magic string, one func(*decoder) (T, string)) ([]T, error) {
	d, err := newDecoder(data, magic)
	if err != nil {
		return nil, err
	}
	out := decodeEntries(d, one)
	if len(out) == 0 {
		d.fail("no entries")
	}
	return out, d.err
}

// decodeEntries reads entries up to the end. one reads one entry and returns its name; the
// names must ascend strictly.
func decodeEntries[T any](d *decoder, one func(*decoder) (T, string)) []T {
	out := make([]T, 0, len(d.rest)/64)
	for last := ""; len(d.rest) > 0; {
		r, name := one(d)
		if last != "" && name <= last {
			d.fail("the names are not in order")
		}
		out, last = append(out, r), name
	}
	return out
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

// decoder reads an object strictly. It keeps the first mistake in err.
type decoder struct {
	rest  string
	owned bool // an owner follows setuid and setgid
	err   error
}

// newDecoder starts to read an object that begins with magic.
func newDecoder(data []byte, magic string) (*decoder, error) {
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

// getter is the part of [segno.Objects] that reads.
type getter interface {
	Get(ctx context.Context, name segno.Hash) ([]byte, error)
}

// load reads an object that decode understands; the zero hash is the empty one. The error
// has [segno.KindCorrupt] if the object exists and cannot be decoded.
func load[T any](ctx context.Context, objects getter, what string, name segno.Hash, decode func([]byte) ([]T, error)) ([]T, error) {
	if name.IsZero() {
		return nil, nil
	}
	data, err := objects.Get(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", what, err)
	}
	out, err := decode(data)
	if err != nil {
		kind := segno.KindCorrupt
		if segno.KindOf(err) == segno.KindNewer {
			kind = segno.KindNewer
		}
		return nil, segno.NewError(kind, "read "+what, name.String(), err)
	}
	return out, nil
}

func loadTree(ctx context.Context, objects getter, name segno.Hash) ([]record, error) {
	return load(ctx, objects, "tree", name, decodeTree)
}

func loadTimes(ctx context.Context, objects getter, name segno.Hash) ([]timeRecord, error) {
	return load(ctx, objects, "times", name, decodeTimes)
}
