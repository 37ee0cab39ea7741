package timeline

import (
	"context"
	"fmt"

	"github.com/dalsegno/segno"
)

// lineMerger is the ability of a [Workspace] to merge two versions of a file that were
// made from base. conflict is "" if the merge is clean, else the reason.
type lineMerger interface {
	Merge(base, ours, theirs []byte) (merged []byte, conflict string)
}

// maxMerge is the size above which contents are not read for a merge.
const maxMerge = 8 << 20

// Why entities could not be merged, and whyChanged what a user reads before it.
const (
	whyChanged   = "changed since the turn"
	whyOtherKind = "it is not the same kind of file any more"
	whyMode      = "its mode was changed, too"
	whyXattrs    = "its extended attributes were changed, too"
	whyLarge     = "the file is too large to merge"
)

// merger merges entities for one plan. Merged contents are not in the store until
// keep was called.
type merger struct {
	site   *txn
	staged segno.Staged // of the present; its objects cannot be read until they are kept
	kept   bool
	made   map[segno.Hash][]byte
}

func (tx *txn) newMerger(now currentState) *merger {
	return &merger{site: tx, staged: now.staged, made: map[segno.Hash][]byte{}}
}

// merge merges two versions of an entity, both made from base. Kind, content, mode
// and extended attributes are merged separately: a change of the mode on one side
// and of the content on the other are both kept. conflict is "" if the merge is
// clean.
func (m *merger) merge(ctx context.Context, base, ours, theirs segno.Entity) (merged segno.Entity, conflict string, err error) {
	if base.Type == segno.EntityNone || ours.Type == segno.EntityNone || theirs.Type == segno.EntityNone {
		return segno.Entity{}, whyChanged, nil // created or deleted: nothing to merge with
	}
	kind, ok := mergeField(typeOf(base), typeOf(ours), typeOf(theirs))
	if !ok || kind.Type == segno.EntityProtected || isFile(base) != isFile(ours) || isFile(base) != isFile(theirs) {
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
	merged.Hash, merged.Size, conflict, err = m.mergeContents(ctx, base, ours, theirs)
	return merged, conflict, err
}

// typeOf is what an entity is, without its content and attributes.
func typeOf(e segno.Entity) segno.Entity {
	return segno.Entity{Type: e.Type, Target: e.Target, Why: e.Why}
}

// modeOf is an entity's mode, and what else belongs to neither its kind, its content
// nor its extended attributes.
func modeOf(e segno.Entity) segno.Entity {
	e.Type, e.Target, e.Why, e.Hash, e.Size, e.Xattrs = segno.EntityNone, "", "", segno.Hash{}, 0, segno.Hash{}
	return e
}

// mergeFailure is the reason for a conflict of a path that was changed since the turn.
func mergeFailure(why string) string { return whyChanged + ": " + why }

// isFile reports whether an entity has a content.
func isFile(e segno.Entity) bool { return e.Type == segno.EntityFile || e.Type == segno.EntityHardLink }

// mergeField merges a value that has no parts: the side that changed it wins, and false
// means that both did.
func mergeField[T comparable](base, ours, theirs T) (T, bool) {
	switch {
	case base == theirs, ours == theirs:
		return ours, true
	case base == ours:
		return theirs, true
	}
	return ours, false
}

// mergeContents merges the contents of three files.
func (m *merger) mergeContents(ctx context.Context, base, ours, theirs segno.Entity) (segno.Hash, int64, string, error) {
	w, ok := m.site.Workspace.(lineMerger)
	if !ok {
		return segno.Hash{}, 0, whyChanged, nil
	}
	var data [3][]byte
	for i, e := range []segno.Entity{base, ours, theirs} {
		if e.Size > maxMerge {
			return segno.Hash{}, 0, mergeFailure(whyLarge), nil
		}
		var err error
		if data[i], err = m.read(ctx, e.Hash); err != nil {
			return segno.Hash{}, 0, "", fmt.Errorf("read a file to merge: %w", err)
		}
	}
	merged, conflict := w.Merge(data[0], data[1], data[2])
	if conflict != "" {
		return segno.Hash{}, 0, mergeFailure(conflict), nil
	}
	name := segno.HashOf(merged)
	m.made[name] = merged
	return name, int64(len(merged)), "", nil
}

// read returns a content: one that was merged before, or an object of the store.
func (m *merger) read(ctx context.Context, name segno.Hash) ([]byte, error) {
	if data, ok := m.made[name]; ok {
		return data, nil
	}
	if !m.kept {
		if err := m.site.keepStaged(ctx, m.staged); err != nil {
			return nil, err
		}
		m.kept = true
	}
	return m.site.Store.Objects().Get(ctx, name)
}

// keepStaged makes the merged contents among the steps durable, so that a journalled plan
// can be completed by another process.
func (m *merger) stageMerged(ctx context.Context, steps []segno.Change) error {
	batch := m.site.Store.Objects().Batch()
	defer batch.Close()
	for _, step := range steps {
		if data, ok := m.made[step.To.Hash]; ok {
			if _, err := batch.Put(ctx, data); err != nil {
				return fmt.Errorf("store a merged file: %w", err)
			}
		}
	}
	staged, err := batch.Stage(ctx)
	if err != nil {
		return fmt.Errorf("stage merged files: %w", err)
	}
	return m.site.keepStaged(ctx, staged)
}
