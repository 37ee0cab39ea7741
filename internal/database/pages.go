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

// pageWriter stores the pages of a database in groups. It does not store pages and groups of the previous state again.
type pageWriter struct {
	batch    segno.Batch
	recent   *recent
	previous pageList // the groups of the previous state, or nil
	groups   pageList
	pages    int
	pageSize int
	failure  error // the error of the store
}

// begin prepares the writer for a database with a number of pages.
func (w *pageWriter) begin(pages, pageSize int) {
	w.pages, w.pageSize, w.failure = pages, pageSize, nil
	w.groups = make(pageList, groupsOf(pages))
}

// groupsOf returns the number of groups of a number of pages.
func groupsOf(pages int) int { return (pages + groupSize - 1) / groupSize }

// set stores the content of a group.
func (w *pageWriter) set(ctx context.Context, group int, content []byte) error {
	var before pageList
	if group < len(w.previous) {
		// The lists of an uncommitted batch cannot be read. Each page is then looked up.
		before, _ = readHashes(ctx, w.recent, w.previous[group])
	}
	var pages pageList
	for page := range slices.Chunk(content, w.pageSize) {
		h := segno.Hash(sha256.Sum256(page))
		if i := len(pages); i >= len(before) || before[i] != h {
			if _, w.failure = w.batch.Put(ctx, page); w.failure != nil {
				return w.failure
			}
		}
		pages = append(pages, h)
	}
	w.groups[group], w.failure = w.recent.put(ctx, w.batch, pages.encode())
	return w.failure
}

// keep takes a group from the previous state.
func (w *pageWriter) keep(group int) {
	w.groups[group] = w.previous[group]
	w.recent.keep(w.previous[group])
}

// finish stores the list of groups and returns the name of the content.
func (w *pageWriter) finish(ctx context.Context) (segno.Hash, error) {
	return w.recent.put(ctx, w.batch, w.groups.encode())
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
