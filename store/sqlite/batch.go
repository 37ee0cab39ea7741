package sqlite

import (
	"context"
	"errors"
	"sync"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/store/ledger"
)

const (
	// maxSmall is the number of bytes of a batch that are compressed well. A longer batch is bulk, such as a
	// first snapshot, and is compressed fast.
	maxSmall = 4 << 20
	// maxCompressed is the number of bytes of a batch that are compressed at all. The rest is stored plain,
	// because the caller waits; [Store.CompressPacks] compresses it later.
	maxCompressed = 32 << 20
)

// sink is the [ledger.Sink] of the store. A batch that does not fit into a commit goes to a pack.
type sink struct {
	s     *Store
	plain plainPacks

	mu    sync.Mutex // guards the fields below
	bytes int64      // the total size of the objects so far, with those of earlier batches of the same caller
	pack  *packWriter
	known map[segno.Hash]struct{} // the stored names of all objects; nil until learnNames reads them
	asked int
}

// Batch implements [segno.Objects].
func (o objects) Batch() segno.Batch { return ledger.NewBatch(&sink{s: o.s}) }

// BatchAfter is Batch for a caller that stores a large amount of data in several batches, of which earlier ones have some
// bytes. The objects are compressed as those after that many bytes of one batch.
func (o objects) BatchAfter(bytes int64) segno.Batch {
	return ledger.NewBatch(&sink{s: o.s, bytes: bytes})
}

// Has implements [ledger.Sink].
func (k *sink) Has(ctx context.Context, name segno.Hash) (bool, error) {
	k.mu.Lock()
	err := k.learnNames(ctx)
	known := k.known
	k.mu.Unlock()
	if err != nil || known == nil {
		found, hasErr := objects{k.s}.Has(ctx, name)
		return found && err == nil, errors.Join(err, hasErr)
	}
	_, found := known[k.s.records.ObjectName(name)]
	return found, nil
}

// learnNames reads the names of all objects once the batch has asked for a quarter of that number, because
// reading a name in a scan costs a fraction of a look-up.
func (k *sink) learnNames(ctx context.Context) error {
	const fraction = 4
	if k.known != nil {
		return nil
	}
	k.asked++
	if k.asked&(k.asked-1) != 0 { // count the objects at 1, 2, 4, 8, … look-ups
		return nil
	}
	return k.s.read(ctx, "read object names", "", func(ctx context.Context, c *conn) error {
		var count int
		if _, err := c.row(ctx, `SELECT (SELECT coalesce(sum(objects), 0) FROM packs) + (SELECT coalesce(max(n), 0) FROM small)`, nil,
			&count); err != nil {
			return err
		}
		if count > fraction*k.asked {
			return nil
		}
		known := make(map[segno.Hash]struct{}, count)
		err := storedNames(ctx, c, func(stored segno.Hash) error {
			known[stored] = struct{}{}
			return nil
		})
		if err == nil {
			k.known = known
		}
		return err
	})
}

// Encode implements [ledger.Sink]. Once the batch has a pack, the object goes there. The compression level of
// an object depends on the bytes of the batch so far. Compression runs outside the lock, so that several
// goroutines can compress at the same time; only the pack is written under the lock.
func (k *sink) Encode(_ context.Context, name segno.Hash, data []byte) (o segno.Object, err error) {
	err = k.encode(&o, name, data)
	return o, fail("put object", name.String(), err)
}

func (k *sink) encode(o *segno.Object, name segno.Hash, data []byte) error {
	*o = segno.Object{Name: name, Size: int64(len(data))}
	records, stored := &k.s.records, k.s.records.ObjectName(name)
	k.mu.Lock()
	k.bytes += o.Size
	bytes := k.bytes
	k.mu.Unlock()
	if bytes > maxCompressed {
		return k.plain.add(k.s, stored, data)
	}
	compress := records.Compressor.Small
	if bytes > maxSmall {
		compress = records.Compressor.Fast
	}
	buf := records.Compressor.Buffer(len(data) + len(data)/8 + 64)
	defer records.Compressor.Free(buf)
	encoded := records.EncodeObject((*buf)[:0], stored, data, compress)
	if records.Sealer == nil {
		*buf = encoded // keep the buffer, because it may have grown
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.pack == nil {
		o.Data = append([]byte(nil), encoded...)
		return nil
	}
	return k.pack.add(stored, o.Size, encoded)
}

// Spill implements [ledger.Sink]: it writes objects to the batch's pack.
func (k *sink) Spill(_ context.Context, all []segno.Object) ([]segno.Object, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	var err error
	if k.pack == nil {
		k.pack, err = k.s.createPack(newPackName())
	}
	for i := 0; i < len(all) && err == nil; i++ {
		err = k.pack.add(k.s.records.ObjectName(all[i].Name), all[i].Size, all[i].Data)
	}
	return nil, fail("put object", "", err)
}

// Finish implements [ledger.Sink].
func (k *sink) Finish(ctx context.Context) (packs []string, err error) {
	const op = "stage objects"
	if err := k.s.calls.Begin(ctx, op); err != nil {
		return nil, err
	}
	defer k.s.calls.End()
	packs, err = k.plain.finish(k.pack)
	return packs, fail(op, "", err)
}

// Drop implements [ledger.Sink].
func (k *sink) Drop() error {
	err := k.plain.remove()
	if k.pack != nil {
		err = errors.Join(err, k.pack.remove())
	}
	return fail("close batch", "", err)
}
