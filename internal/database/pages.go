package database

import (
	"context"
	"crypto/sha256"
	"slices"

	"github.com/dalsegno/segno"
)

// groupSize is the number of pages in a group.
const groupSize = 256

// pageList has the hashes of the pages of a database, in order.
type pageList []segno.Hash

// pageWriter stores the pages of a database. It does not store pages of the previous state again.
type pageWriter struct {
	batch    segno.Batch
	recent   *recent
	previous pageList
	pages    pageList
	failure  error // the error of the store
}

func (w *pageWriter) add(ctx context.Context, page []byte) error {
	i := len(w.pages)
	if i < len(w.previous) && w.previous[i] == segno.Hash(sha256.Sum256(page)) {
		w.pages = append(w.pages, w.previous[i])
		return nil
	}
	var h segno.Hash
	h, w.failure = w.batch.Put(ctx, page)
	w.pages = append(w.pages, h)
	return w.failure
}

// finish stores the lists of hashes and returns the name of the content.
func (w *pageWriter) finish(ctx context.Context) (segno.Hash, error) {
	var groups pageList
	for group := range slices.Chunk(w.pages, groupSize) {
		h, err := w.recent.put(ctx, w.batch, group.encode())
		if err != nil {
			return h, err
		}
		groups = append(groups, h)
	}
	return w.recent.put(ctx, w.batch, groups.encode())
}

func (l pageList) encode() []byte {
	out := make([]byte, 0, len(l)*len(segno.Hash{}))
	for _, h := range l {
		out = append(out, h[:]...)
	}
	return out
}

// readHashes reads an object that is a list of hashes.
func readHashes(ctx context.Context, objects getter, name segno.Hash) (pageList, error) {
	data, err := objects.Get(ctx, name)
	if err != nil {
		return nil, segno.NewError(segno.KindCorrupt, "read database", name.String(), err)
	}
	if len(data)%len(segno.Hash{}) != 0 {
		return nil, segno.Errorf(segno.KindCorrupt, "read database", name.String(), "the list of hashes is truncated")
	}
	list := make(pageList, 0, len(data)/len(segno.Hash{}))
	for h := range slices.Chunk(data, len(segno.Hash{})) {
		list = append(list, segno.Hash(h))
	}
	return list, nil
}

// readPages returns the hashes of all pages of a saved content.
func readPages(ctx context.Context, objects getter, content segno.Hash) (pageList, error) {
	if content.IsZero() {
		return nil, nil
	}
	groups, err := readHashes(ctx, objects, content)
	if err != nil {
		return nil, err
	}
	var all pageList
	for _, g := range groups {
		pages, err := readHashes(ctx, objects, g)
		if err != nil {
			return nil, err
		}
		all = append(all, pages...)
	}
	return all, nil
}

// differing returns the number of pages that differ between two lists.
func differing(a, b pageList) (n int) {
	for i := range max(len(a), len(b)) {
		if i >= len(a) || i >= len(b) || a[i] != b[i] {
			n++
		}
	}
	return n
}
