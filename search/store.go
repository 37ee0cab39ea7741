package search

import (
	"context"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history/turns"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/timeline"
	"github.com/dalsegno/segno/workspace"
)

// OfStore opens the index of a store on this machine.
func OfStore(s *local.Store) *Index {
	f := s.SearchFiles()
	return Open(Config{Dir: f.Dir, FS: f.FS, Sealer: f.Sealer, ReadOnly: f.ReadOnly, Lock: f.Lock})
}

// ReaderOf returns the reader of a store.
func ReaderOf(s segno.Store, transcripts map[string]segno.Transcript) Reader {
	objects := s.Objects()
	diff := func(ctx context.Context, a, b segno.Hash) ([]segno.Change, error) {
		return workspace.Diff(ctx, objects, a, b)
	}
	return Reader{Store: s, Finder: timeline.PathFinder{Store: s, Diff: diff}, Content: objects.Get,
		Turns: turns.Source{Store: s, Transcripts: transcripts}}
}
