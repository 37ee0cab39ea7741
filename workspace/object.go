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
	ownedMagic = "segno tree 2\n" // with an owner after each mode with setuid or setgid
	timesMagic = "segno times 1\n"
	xattrMagic = "segno xattrs 1\n"
)

// The kinds of entry in a tree object: the first letters of the entity types.
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
	child segno.Hash // for a directory: its tree object
}

// timeRecord is one entry of a times object: the time of a file or the times object of a
// directory.
type timeRecord struct {
	name  string
	mtime int64
	child segno.Hash // zero for a file
}

// encodeTree returns the object of a directory. The records must be in order.
func encodeTree(records []record) []byte {
	magic := treeMagic
	for i := range records {
		if records[i].Owner.Known {
			magic = ownedMagic
		}
	}
	return encodeList(magic, records, (*codec).record)
}

// decodeTree reads a tree object. It accepts exactly what encodeTree returns.
func decodeTree(data []byte) ([]record, error) {
	magic := treeMagic
	if strings.HasPrefix(string(data), ownedMagic) {
		magic = ownedMagic
	}
	out, err := decodeList(data, magic, (*codec).record)
	hasOwner := false
	for i := range out {
		hasOwner = hasOwner || out[i].Owner.Known
	}
	if err == nil && hasOwner != (magic == ownedMagic) {
		err = errors.New("a tree of the wrong version")
	}
	return out, err
}

// encodeTimes returns the times object of a directory, or nil if there are no records. The
// records must be in order.
func encodeTimes(records []timeRecord) []byte {
	if len(records) == 0 {
		return nil
	}
	return encodeList(timesMagic, records, (*codec).timeRecord)
}

// decodeTimes reads a times object. It accepts exactly what encodeTimes returns.
func decodeTimes(data []byte) ([]timeRecord, error) {
	out, err := decodeList(data, timesMagic, (*codec).timeRecord)
	return out, notEmpty(out, err)
}

// notEmpty returns err, or else an error if a decoded object has no entries.
func notEmpty[T any](entries []T, err error) error {
	if err == nil && len(entries) == 0 {
		return errors.New("no entries")
	}
	return err
}

// encodeList returns an object: its first line and its entries.
func encodeList[T any](magic string, entries []T, code func(*codec, *T)) []byte {
	c := codec{out: append(make([]byte, 0, len(magic)+128*len(entries)), magic...)}
	for i := range entries {
		code(&c, &entries[i])
	}
	return c.out
}

// decodeList reads the entries of an object that begins with magic.
func decodeList[T any](data []byte, magic string, code func(*codec, *T)) ([]T, error) {
	rest, ok := strings.CutPrefix(string(data), magic)
	if !ok {
		word := magic[:strings.LastIndexByte(magic, ' ')+1]
		if strings.HasPrefix(string(data), word) {
			return nil, segno.NewError(segno.KindNewer, "read object", "", nil)
		}
		return nil, errors.New("not a " + strings.TrimSpace(word) + " object")
	}
	c := codec{decoding: true, in: rest, owned: magic == ownedMagic}
	out := make([]T, 0, len(rest)/64)
	for len(c.in) > 0 {
		var entry T
		code(&c, &entry)
		out = append(out, entry)
	}
	return out, c.err
}

// record codes one entry of a tree.
func (c *codec) record(r *record) {
	c.entityType(&r.Type)
	c.name(&r.name)
	switch r.Type {
	case segno.EntityFile, segno.EntityHardLink:
		c.mode(&r.Entity)
		size := uint64(r.Size)
		c.uint(&size, math.MaxInt64)
		r.Size = int64(size)
		c.hash(&r.Hash)
		c.optional(&r.Xattrs)
		if r.Type == segno.EntityHardLink {
			c.text(&r.Target)
			c.check(validPath(r.Target), "a hard link with an invalid first name")
		}
	case segno.EntityDir:
		c.mode(&r.Entity)
		c.hash(&r.child)
		c.optional(&r.Xattrs)
	case segno.EntitySymlink:
		c.text(&r.Target)
		c.check(r.Target != "" && strings.IndexByte(r.Target, 0) < 0, "a symlink with an invalid target")
	case segno.EntityProtected:
		c.text(&r.Why)
		c.check(r.Why != "", "a protected entry without a reason")
	}
}

// entityType codes the kind of an entry.
func (c *codec) entityType(t *segno.EntityType) {
	if !c.decoding {
		c.out = append(c.out, (*t)[0])
		return
	}
	var kind byte
	c.byte(&kind)
	for _, known := range []segno.EntityType{
		segno.EntityFile, segno.EntityDir, segno.EntitySymlink, segno.EntityHardLink, segno.EntityProtected,
	} {
		if kind == known[0] {
			*t = known
			return
		}
	}
	c.fail("an entry of an unknown kind")
}

// mode codes a mode, and the owner if one follows.
func (c *codec) mode(e *segno.Entity) {
	mode := uint64(e.Mode)
	c.uint(&mode, permMask)
	e.Mode = uint32(mode)
	if c.decoding && c.owned && e.Mode&setIDs != 0 {
		e.Owner.Known = true
	}
	if e.Owner.Known {
		for _, id := range []*uint32{&e.Owner.UID, &e.Owner.GID} {
			wide := uint64(*id)
			c.uint(&wide, math.MaxUint32)
			*id = uint32(wide)
		}
	}
}

// timeRecord codes one entry of a times object.
func (c *codec) timeRecord(r *timeRecord) {
	kind := byte(kindFile)
	if !r.child.IsZero() {
		kind = kindDir
	}
	c.byte(&kind)
	c.name(&r.name)
	switch kind {
	case kindFile:
		time := binary.BigEndian.AppendUint64(nil, uint64(r.mtime))
		c.raw(time)
		r.mtime = int64(binary.BigEndian.Uint64(time))
	case kindDir:
		c.hash(&r.child)
	default:
		c.fail("an entry of an unknown kind")
	}
}

// getter is the read method of [segno.Objects].
type getter interface {
	Get(ctx context.Context, name segno.Hash) ([]byte, error)
}

// load reads and decodes an object; the zero hash stands for an empty one. The error has
// [segno.KindCorrupt] if the object cannot be decoded, and if the store does not have it, because a
// record or another object names it. Its cause then has [segno.KindNotFound].
func load[T any](ctx context.Context, objects getter, what string, name segno.Hash, decode func([]byte) ([]T, error)) ([]T, error) {
	if name.IsZero() {
		return nil, nil
	}
	data, err := objects.Get(ctx, name)
	if segno.KindOf(err) == segno.KindNotFound {
		return nil, segno.NewError(segno.KindCorrupt, "read "+what, "", err).WithHint("run 'segno check' to list all damage")
	}
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
