package kv

import (
	"context"
	"errors"
	"hash/crc32"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/store/ledger"
	"github.com/dalsegno/segno/internal/store/record"
)

// An object has one value with its encoding, its size, the number of other values that contain its
// bytes, and the bytes themselves if that number is 0. Bulk is written to those other values when it is
// staged. The object does not exist until its own value does.

// keptObject is an object as it is stored.
type keptObject struct {
	code  record.Encoding
	size  int64
	parts int
	sum   uint32 // names the parts, because another version of zstd may write other bytes
	data  []byte // only if there are no parts
}

func (x *keptObject) fields(f *fields) {
	octet(f, &x.code)
	unsigned(f, &x.size)
	unsigned(f, &x.parts)
	unsigned(f, &x.sum)
	f.rest(&x.data)
}

type objects struct{ s *Store }

// Objects implements [segno.Store].
func (s *Store) Objects() segno.Objects { return objects{s} }

// Get implements [segno.Objects].
func (o objects) Get(ctx context.Context, name segno.Hash) ([]byte, error) {
	return call(ctx, o.s, "read object", name.String(), func() ([]byte, error) { return o.s.object(ctx, name) })
}

func (s *Store) object(ctx context.Context, name segno.Hash) ([]byte, error) {
	key := s.objectKey(name)
	val, _, err := s.get(ctx, key)
	if err == nil && val == nil {
		err = segno.NewError(segno.KindNotFound, "", "", nil)
	}
	if err != nil {
		return nil, err
	}
	var x keptObject
	if err := s.code.decode(key, val, x.fields); err != nil {
		return nil, err
	}
	if x.parts > 0 {
		keys := make([]string, x.parts)
		for i := range keys {
			keys[i] = s.objectPart(name, x.sum, i)
		}
		vals, err := s.getAll(ctx, keys)
		if err != nil {
			return nil, err
		}
		if x.data, err = s.join(keys, vals); err != nil {
			return nil, err
		}
	}
	data, err := s.code.Expand(x.code, x.data, x.size)
	if err == nil && segno.HashOf(data) != name {
		err = errors.New("its bytes do not match its name")
	}
	if err != nil {
		return nil, damaged(key, err)
	}
	return data, nil
}

// Has implements [segno.Objects].
func (o objects) Has(ctx context.Context, name segno.Hash) (bool, error) {
	return call(ctx, o.s, "look for object", name.String(), func() (bool, error) {
		missing, err := o.s.missingObject(ctx, []segno.Hash{name})
		return err == nil && missing.IsZero(), err
	})
}

// missingObject returns the first of names that is not in the store, or the zero hash.
func (s *Store) missingObject(ctx context.Context, names []segno.Hash) (segno.Hash, error) {
	keys := make([]string, len(names))
	for i, h := range names {
		keys[i] = s.objectKey(h)
	}
	vals, err := s.getAll(ctx, keys)
	for i, val := range vals {
		if val == nil {
			return names[i], nil
		}
	}
	return segno.Hash{}, err
}

// Keep implements [segno.Objects]. With a TTL, the object lives as long as a thread, and at least an
// hour.
func (o objects) Keep(ctx context.Context, staged segno.Staged) error {
	const op = "keep objects"
	return o.s.run(ctx, op, "", func() error {
		c := segno.Commit{Staged: staged}
		missing, err := o.s.missingObject(ctx, ledger.Objects(&c))
		if err == nil && !missing.IsZero() {
			err = segno.Errorf(segno.KindNotFound, op, missing.String(), "the object does not exist")
		}
		if err == nil {
			_, err = o.s.apply(ctx, ownLast("", o.s.objectOps(&c)))
		}
		return err
	})
}

// objectOps returns the changes that write the objects of a commit, and that extend the time to live of
// all objects that it names. The checks of objects that must exist come first: if one is missing, a KV
// that makes changes one by one then writes nothing.
func (s *Store) objectOps(c *segno.Commit) (ops []Op) {
	ttl := s.objectTTL()
	for _, h := range ledger.Objects(c) {
		ops = append(ops, Op{Key: s.objectKey(h), If: RevSome, TTL: ttl})
	}
	for _, o := range c.Staged.Objects {
		if key := s.objectKey(o.Name); o.Data != nil {
			ops = append(ops, Op{Key: key, Val: s.code.frame(key, o.Data), If: RevAny, TTL: ttl})
		}
	}
	return ops
}

// objectsOf returns all objects that a commit adds or names.
func objectsOf(c *segno.Commit) []segno.Hash {
	all := ledger.Objects(c)
	for _, o := range c.Staged.Objects {
		if o.Data != nil {
			all = append(all, o.Name)
		}
	}
	return all
}

// objectTTL is how long an object lives after a commit has named it.
func (s *Store) objectTTL() time.Duration {
	if s.options.TTL == 0 {
		return 0
	}
	return max(2*s.options.TTL, time.Hour)
}

// Batch implements [segno.Objects].
func (o objects) Batch() segno.Batch { return ledger.NewBatch(sink{o}) }

// sink writes the bulk of a batch: [ledger.Sink].
type sink struct{ objects }

// Encode implements [ledger.Sink]. An object that is too large for one value becomes a reference.
func (k sink) Encode(ctx context.Context, name segno.Hash, data []byte) (segno.Object, error) {
	x := keptObject{size: int64(len(data))}
	x.data, x.code = k.s.code.Small(nil, data)
	o := segno.Object{Name: name, Size: x.size, Data: encodeFields(x.fields)}
	if len(o.Data) <= maxValue {
		return o, nil
	}
	return k.writeParts(ctx, o)
}

// Spill implements [ledger.Sink]: all objects become references.
func (k sink) Spill(ctx context.Context, all []segno.Object) (_ []segno.Object, err error) {
	for i, o := range all {
		if all[i], err = k.writeParts(ctx, o); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// writeParts writes the bytes of an object to values outside the object's own, and returns the object
// that refers to them.
func (k sink) writeParts(ctx context.Context, o segno.Object) (segno.Object, error) {
	x := new(keptObject)
	if x.fields(&fields{b: o.Data, decoding: true}); x.parts > 0 {
		return o, nil // Encode has already written them
	}
	data := x.data
	x.data = nil
	x.sum = k.s.code.seal.Cuts(data, crc32.ChecksumIEEE)
	err := k.s.run(ctx, "put object", o.Name.String(), func() error {
		for ; x.parts == 0 || len(data) > 0; x.parts++ {
			n := min(len(data), maxValue)
			key := k.s.objectPart(o.Name, x.sum, x.parts)
			if _, err := k.s.apply(ctx, []Op{{Key: key, Val: k.s.code.frame(key, data[:n]), If: RevAny, TTL: k.s.stagedTTL()}}); err != nil {
				return err
			}
			data = data[n:]
		}
		return nil
	})
	o.Data = encodeFields(x.fields)
	return o, err
}

// stagedTTL is how long bulk waits for its commit; it is 0 if threads do not expire.
func (s *Store) stagedTTL() time.Duration {
	const day = 24 * time.Hour
	if s.options.TTL == 0 {
		return 0
	}
	return max(day, s.objectTTL())
}

// Finish has nothing to do, because the parts are already durable. It fails if the store is closed.
func (k sink) Finish(ctx context.Context) ([]string, error) {
	return nil, k.s.run(ctx, "stage objects", "", func() error { return nil })
}

// Drop leaves the parts in the KV without a commit; see the package comment.
func (k sink) Drop() error { return nil }
