package timeline

import (
	"context"
	"fmt"

	"github.com/dalsegno/segno"
)

// maxMerge is the size in bytes above which contents are not merged.
const maxMerge = 8 << 20

// The reasons why entities could not be merged. In the text for the user, whyChanged precedes
// the others.
const (
	whyChanged   = "also changed outside the turn since it began"
	whyOtherKind = "the type of the file changed"
	whyMode      = "its mode was changed, too"
	whyXattrs    = "its extended attributes were changed, too"
	whyLarge     = "the file is too large to merge"
	whyParent    = "in a directory whose path is a conflict"
	whyInTheWay  = "in a directory that was made at the path of a file since"
	whyNotEmpty  = "a directory is at its path, with files that stay"
	whyUnwritten = "the move did not write it"
)

// mergeEntities merges two versions of an entity that were both made from base. It merges type,
// content, mode and extended attributes separately, so that a change of the mode on one side and
// of the content on the other are both kept. conflict is "" if the merge is clean.
func (r *reverter) mergeEntities(ctx context.Context, base, ours, theirs segno.Entity) (merged segno.Entity, conflict string, err error) {
	if base.Type == segno.EntityNone || ours.Type == segno.EntityNone || theirs.Type == segno.EntityNone {
		return segno.Entity{}, whyChanged, nil // created or deleted: there is no base to merge with
	}
	kind, ok := mergeField(typeOf(base), typeOf(ours), typeOf(theirs))
	if !ok || kind.Type == segno.EntityProtected || base.HasContent() != ours.HasContent() || base.HasContent() != theirs.HasContent() {
		return segno.Entity{}, mergeFailure(whyOtherKind), nil
	}
	if merged, ok = mergeField(modeOf(base), modeOf(ours), modeOf(theirs)); !ok {
		return segno.Entity{}, mergeFailure(whyMode), nil
	}
	merged.Type, merged.Target, merged.Why = kind.Type, kind.Target, kind.Why
	if merged.Xattrs, ok = mergeField(base.Xattrs, ours.Xattrs, theirs.Xattrs); !ok {
		return segno.Entity{}, mergeFailure(whyXattrs), nil
	}
	if merged.Hash, ok = mergeField(base.Hash, ours.Hash, theirs.Hash); ok {
		merged.Size, _ = mergeField(base.Size, ours.Size, theirs.Size)
		return merged, "", nil
	}
	if merged.Type == segno.EntityDatabase {
		return segno.Entity{}, whyChanged, nil
	}
	merged.Hash, merged.Size, conflict, err = r.mergeContents(ctx, base, ours, theirs)
	return merged, conflict, err
}

// typeOf returns an entity with only its type, and its target or reason if it has one.
func typeOf(e segno.Entity) segno.Entity {
	return segno.Entity{Type: e.Type, Target: e.Target, Why: e.Why}
}

// modeOf returns an entity with its mode and owner only.
func modeOf(e segno.Entity) segno.Entity {
	e.Type, e.Target, e.Why, e.Hash, e.Size, e.Xattrs = segno.EntityNone, "", "", segno.Hash{}, 0, segno.Hash{}
	return e
}

// mergeFailure returns the reason for a conflict at a path that was changed outside the turn, while it ran or after it.
func mergeFailure(why string) string { return whyChanged + ": " + why }

// mergeField merges a value without parts: the side that changed it wins. It returns false if
// both sides changed it.
func mergeField[T comparable](base, ours, theirs T) (T, bool) {
	switch {
	case base == theirs, ours == theirs:
		return ours, true
	case base == ours:
		return theirs, true
	}
	return ours, false
}

// mergeContents merges the contents of the three files.
func (r *reverter) mergeContents(ctx context.Context, base, ours, theirs segno.Entity) (segno.Hash, int64, string, error) {
	var data [3][]byte
	for i, e := range []segno.Entity{base, ours, theirs} {
		if e.Size > maxMerge {
			return segno.Hash{}, 0, mergeFailure(whyLarge), nil
		}
		var err error
		if data[i], err = r.read(ctx, e.Hash); err != nil {
			return segno.Hash{}, 0, "", fmt.Errorf("read a file to merge: %w", err)
		}
	}
	merged, conflict := r.Workspace.Merge(data[0], data[1], data[2])
	if conflict != "" {
		return segno.Hash{}, 0, mergeFailure(conflict), nil
	}
	name := segno.HashOf(merged)
	if r.contents == nil {
		r.contents = map[segno.Hash][]byte{}
	}
	r.contents[name] = merged
	return name, int64(len(merged)), "", nil
}

// read returns the contents of a file: merged contents that are not stored yet, or an object of
// the store.
func (r *reverter) read(ctx context.Context, name segno.Hash) ([]byte, error) {
	if data, ok := r.contents[name]; ok {
		return data, nil
	}
	if err := r.keepStaged(ctx, r.now.staged); err != nil { // after that, the objects of the present can be read
		return nil, err
	}
	r.now.staged = segno.Staged{}
	data, err := r.Store.Objects().Get(ctx, name)
	if segno.KindOf(err) == segno.KindNotFound { // a tree names the object, so the store has lost it
		err = segno.NewError(segno.KindCorrupt, "read file", name.String(), err).WithHint("run 'segno check' to list all damage")
	}
	return data, err
}

// stageMerged makes the merged contents in steps durable, so that another process can complete a
// plan from the journal.
func (r *reverter) stageMerged(ctx context.Context, steps []segno.Change) error {
	if len(r.contents) == 0 {
		return nil
	}
	batch := r.Store.Objects().Batch()
	defer batch.Close()
	for _, step := range steps {
		if data, ok := r.contents[step.To.Hash]; ok {
			if _, err := batch.Put(ctx, data); err != nil {
				return fmt.Errorf("store a merged file: %w", err)
			}
		}
	}
	staged, err := batch.Stage(ctx)
	if err != nil {
		return fmt.Errorf("stage merged files: %w", err)
	}
	return r.keepStaged(ctx, staged)
}
