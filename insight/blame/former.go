package blame

import (
	"context"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history/patch"
	"github.com/dalsegno/segno/timeline"
)

// maxFormer is how many deleted files are compared with a created one.
const maxFormer = 32

// Former returns the path and the entity that a file had before changes between two trees. A created file has its own path,
// unless a deleted file had the same content, or at least half of its lines: then the file was renamed, and perhaps edited.
func (b *Blamer) Former(ctx context.Context, changes []segno.Change, path string, content segno.Hash) (from string, e segno.Entity, err error) {
	var deleted []timeline.PathChange
	for _, x := range timeline.PathChanges(changes) {
		switch {
		case x.Path == path && x.Action == timeline.Renamed:
			return x.From, x.Before, nil
		case x.Path == path && x.Action != timeline.Created:
			return path, x.Before, nil
		case x.Action == timeline.Deleted && x.Before.HasContent() && x.Before.Size <= maxContent && len(deleted) < maxFormer:
			deleted = append(deleted, x)
		}
	}
	if len(deleted) == 0 {
		return path, e, nil
	}
	x, err := b.mostAlike(ctx, deleted, content)
	if err != nil || x == nil {
		return path, e, err
	}
	return x.Path, x.Before, nil
}

// mostAlike returns the one of some deleted files with the most lines in common with a content, if at least half of the lines
// are, or nil.
func (b *Blamer) mostAlike(ctx context.Context, deleted []timeline.PathChange, content segno.Hash) (best *timeline.PathChange, err error) {
	after, err := b.Content(ctx, content)
	if err != nil {
		return nil, err
	}
	lines, most := len(Texts(after)), 0
	for i := range deleted {
		before, err := b.Content(ctx, deleted[i].Before.Hash)
		if err != nil {
			return nil, err
		}
		common := lines
		for _, h := range patch.Hunks(before, after) {
			common -= h.ToEnd - h.To
		}
		if common > most && 2*common >= max(lines, len(Texts(before))) {
			best, most = &deleted[i], common
		}
	}
	return best, nil
}
