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
	before, proves, err := takeFingerprint(path, w.options.Now())
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
	if !known {
		last = cacheEntry{}
	}
	delete(cached, at.Name)
	for how := accessFor(path, proves); ; how = accessLocked {
		s, sums, err := w.readOne(ctx, b, at, last, how)
		if err != nil {
			return s, err
		}
		after, proves, err := takeFingerprint(path, w.options.Now())
		isUnchanged := err == nil && after == before
		switch {
		case how != accessLocked && !isUnchanged, how == accessLog && s.Unread != "":
			continue
		case s.Unread != "":
			return s, nil
		}
		entry := entryOf(s, sums, after, isUnchanged && proves)
		entry.Mode = w.modeOf(at)
		cached[at.Name] = entry
		return s, nil
	}
}

// entryOf returns what the cache keeps of a save. If nothing proves that the database has not changed since, the next save
// reads all of it.
func entryOf(s saved, sums *groupSums, at fingerprint, isProof bool) cacheEntry {
	if isProof {
		return cacheEntry{Fingerprint: at, State: s, Sums: sums}
	}
	sums.File, sums.Log = "", logPosition{}
	return cacheEntry{State: s, Sums: sums}
}

// accessFor returns how the content of a database is read. proves is that of its fingerprint.
func accessFor(path string, proves bool) access {
	switch {
	case !isWAL(path):
		return accessLocked
	case !exists(path + "-wal"):
		return accessImmutable // with locks, SQLite would leave files beside it
	case proves:
		return accessLog
	}
	return accessLocked
}

// readOne saves the present content of a database.
func (w *Attached) readOne(ctx context.Context, b segno.Batch, at Attachment, last cacheEntry, how access) (s saved, sums *groupSums, err error) {
	pages := &pageWriter{batch: b, recent: w.recent}
	if !last.State.Content.IsZero() {
		pages.previous, _ = readHashes(ctx, w.recent, last.State.Content) // see pageWriter.set
	}
	s = saved{Name: at.Name, Kind: at.Kind}
	path := at.File(w.Root())
	sums, err = readSQLite(ctx, path, pages, last, how)
	switch {
	case ctx.Err() != nil:
		return s, nil, segno.NewError(segno.KindCancelled, "save database", path, ctx.Err())
	case pages.failure != nil: // the error is the store's
		return s, nil, pages.failure
	case err != nil:
		return unread(at, err), nil, nil
	}
	if s.Pages = pages.pages; s.Pages > 0 {
		s.PageSize = pages.pageSize
	}
	s.Content, err = pages.finish(ctx)
	return s, sums, err
}

// isStored reports whether the store or the batch has the lists of a content.
func (w *Attached) isStored(ctx context.Context, b segno.Batch, content segno.Hash) (bool, error) {
	if content.IsZero() {
		return false, nil
	}
	return b.Has(ctx, content)
}
