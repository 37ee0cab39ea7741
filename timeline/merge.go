package timeline

import (
	"context"
	"fmt"

	"github.com/dalsegno/segno"
)

// merging is the ability of a [Workspace] to merge two versions of a file that were
// made from base. conflict is "" if the merge is clean, else the reason.
type merging interface {
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

func (s *txn) newMerger(now present) *merger {
	return &merger{site: s, staged: now.staged, made: map[segno.Hash][]byte{}}
}

// merge merges ours and theirs, which were both made from base. Kind, content, mode
// and extended attributes are merged separately: a change of the mode on one side
// and of the content on the other are both kept. conflict is "" if the merge is
// clean.
func (m *merger) merge(ctx context.Context, base, ours, theirs segno.Entity) (merged segno.Entity, conflict string, err error) {
	if base.Type == segno.EntityNone || ours.Type == segno.EntityNone || theirs.Type == segno.EntityNone {
		return segno.Entity{}, whyChanged, nil // created or deleted: nothing to merge with
	}
	kind, ok := pick(kindOf(base), kindOf(ours), kindOf(theirs))
	if !ok || kind.Type == segno.EntityProtected || isFile(base) != isFile(ours) || isFile(base) != isFile(theirs) {
		return segno.Entity{}, because(whyOtherKind), nil
	}
	if merged, ok = pick(modeOf(base), modeOf(ours), modeOf(theirs)); !ok {
		return segno.Entity{}, because(whyMode), nil
	}
	merged.Type, merged.Target, merged.Why = kind.Type, kind.Target, kind.Why
	if merged.Xattrs, ok = pick(base.Xattrs, ours.Xattrs, theirs.Xattrs); !ok {
		return segno.Entity{}, because(whyXattrs), nil
	}
	if merged.Hash, ok = pick(base.Hash, ours.Hash, theirs.Hash); ok {
		merged.Size, _ = pick(base.Size, ours.Size, theirs.Size)
		return merged, "", nil
	}
	merged.Hash, merged.Size, conflict, err = m.contents(ctx, base, ours, theirs)
	return merged, conflict, err
}

// kindOf is what an entity is, without its content and attributes.
func kindOf(e segno.Entity) segno.Entity {
	return segno.Entity{Type: e.Type, Target: e.Target, Why: e.Why}
}

// modeOf is an entity's mode, and what else belongs to neither its kind, its content
// nor its extended attributes.
func modeOf(e segno.Entity) segno.Entity {
	e.Type, e.Target, e.Why, e.Hash, e.Size, e.Xattrs = segno.EntityNone, "", "", segno.Hash{}, 0, segno.Hash{}
	return e
}

// because is the reason for a conflict of a path that was changed since the turn.
func because(why string) string { return whyChanged + ": " + why }

// isFile reports whether an entity has a content.
func isFile(e segno.Entity) bool { return e.Type == segno.EntityFile || e.Type == segno.EntityHardLink }

// pick merges a value that has no parts: the side that changed it wins, and false
// means that both did.
func pick[T comparable](base, ours, theirs T) (T, bool) {
	switch {
	case base == theirs, ours == theirs:
		return ours, true
	case base == ours:
		return theirs, true
	}
	return ours, false
}

// contents merges the contents of three files.
func (m *merger) contents(ctx context.Context, base, ours, theirs segno.Entity) (segno.Hash, int64, string, error) {
	w, ok := m.site.Workspace.(merging)
	if !ok {
		return segno.Hash{}, 0, whyChanged, nil
	}
	var data [3][]byte
	for i, e := range []segno.Entity{base, ours, theirs} {
		if e.Size > maxMerge {
			return segno.Hash{}, 0, because(whyLarge), nil
		}
		var err error
		if data[i], err = m.read(ctx, e.Hash); err != nil {
			return segno.Hash{}, 0, "", fmt.Errorf("read a file to merge: %w", err)
		}
	}
	merged, conflict := w.Merge(data[0], data[1], data[2])
	if conflict != "" {
		return segno.Hash{}, 0, because(conflict), nil
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
		if err := m.site.keep(ctx, m.staged); err != nil {
			return nil, err
		}
		m.kept = true
	}
	return m.site.Store.Objects().Get(ctx, name)
}

// keep makes the merged contents among the steps durable, so that a journalled plan
// can be completed by another process.
func (m *merger) keep(ctx context.Context, steps []segno.Change) error {
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
	return m.site.keep(ctx, staged)
}
