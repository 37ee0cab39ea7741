package database

import (
	"context"
	"encoding/json"
	"maps"

	"github.com/dalsegno/segno"
)

// save saves databases. It returns their states, and the document that contains them.
func (w *Attached) save(ctx context.Context, b segno.Batch, all []Attachment) (*document, *segno.Document, error) {
	w.recent.begin()
	doc := document{Format: Format, Databases: []saved{}}
	cached := w.options.Cache.read()
	before := maps.Clone(cached)
	for _, at := range all {
		s, err := w.saveOne(ctx, b, at, cached)
		if err != nil {
			return nil, nil, err
		}
		doc.Databases = append(doc.Databases, s)
	}
	if !maps.Equal(cached, before) { // skip the write if nothing changed, because it waits for the disk
		w.options.Cache.write(cached)
	}
	put, err := w.putDocument(ctx, b, &doc)
	return &doc, put, err
}

// putDocument adds a document to a batch.
func (w *Attached) putDocument(ctx context.Context, b segno.Batch, doc *document) (*segno.Document, error) {
	data, err := json.Marshal(doc)
	if err != nil {
		return nil, err
	}
	h, err := w.recent.put(ctx, b, data)
	if err != nil {
		return nil, err
	}
	return &segno.Document{Type: Format, Data: h}, nil
}

// saveOne saves one database, or returns its newest state if it did not change since.
func (w *Attached) saveOne(ctx context.Context, b segno.Batch, at Attachment, cached cacheEntries) (saved, error) {
	unlock, err := w.options.Lock(ctx, w.lockName(at))
	if err != nil {
		return saved{}, err
	}
	defer unlock()
	if at.Kind == KindPostgres {
		return w.savePostgres(ctx, b, at, cached)
	}
	if !isPlain(at.File(w.Root())) {
		return unread(at, errNotPlain), nil
	}
	return w.saveSQLite(ctx, b, at, cached)
}

func (w *Attached) saveSQLite(ctx context.Context, b segno.Batch, at Attachment, cached cacheEntries) (saved, error) {
	path, last := at.File(w.Root()), cached[at.Name]
	before, _, err := takeFingerprint(path, w.options.Now())
	if err != nil {
		return unread(at, err), nil
	}
	known, err := w.isStored(ctx, b, last.State.Content)
	if err != nil {
		return saved{}, err
	}
	if known && last.Fingerprint == before {
		return last.State, nil
	}
	if !exists(path) {
		return saved{Name: at.Name, Kind: at.Kind, Missing: true}, nil
	}
	var previous pageList
	if known {
		// The lists of an uncommitted batch cannot be read. Each page is then looked up.
		previous, _ = readPages(ctx, w.recent, last.State.Content)
	}
	delete(cached, at.Name)
	// If no program has a database in WAL mode open, reading it with locks would leave files beside it.
	locked := !isWAL(path) || exists(path+"-wal")
	s, err := w.readOne(ctx, b, at, previous, locked)
	after, proves, fingerprintErr := takeFingerprint(path, w.options.Now())
	isUnchanged := fingerprintErr == nil && after == before
	switch {
	case err != nil:
	case !locked && !isUnchanged:
		s, err = w.readOne(ctx, b, at, previous, true)
	case isUnchanged && proves && s.Unread == "":
		cached[at.Name] = cacheEntry{after, s}
	}
	return s, err
}

// readOne saves the present content of a database. See readSQLite for locked.
func (w *Attached) readOne(ctx context.Context, b segno.Batch, at Attachment, previous pageList, locked bool) (s saved, err error) {
	pages := &pageWriter{batch: b, recent: w.recent, previous: previous}
	s = saved{Name: at.Name, Kind: at.Kind}
	path := at.File(w.Root())
	s.PageSize, err = readSQLite(ctx, path, pages, locked)
	switch {
	case ctx.Err() != nil:
		return s, segno.NewError(segno.KindCancelled, "save database", path, ctx.Err())
	case pages.failure != nil: // the error is the store's
		return s, pages.failure
	case err != nil:
		return unread(at, err), nil
	}
	s.Pages = len(pages.pages)
	s.Content, err = pages.finish(ctx)
	return s, err
}

// isStored reports whether the store or the batch has the lists of a content.
func (w *Attached) isStored(ctx context.Context, b segno.Batch, content segno.Hash) (bool, error) {
	if content.IsZero() {
		return false, nil
	}
	return b.Has(ctx, content)
}
