package timeline

import (
	"context"
	"path"
	"slices"
	"strings"

	"github.com/dalsegno/segno"
)

// reverter computes, path by path, the writes that revert changes. It starts from the present state
// and receives the changes of one turn at a time. If a path differs from the state that the turn left,
// another author has changed it since then: the reverter merges both changes or reports a conflict.
type reverter struct {
	*txn
	now      currentState
	force    bool // conflicts are overwritten
	files    map[string]*reversal
	hidden   map[string]bool         // paths that were saved and are protected now
	since    map[string]segno.Entity // the present state of the paths that changed since the states that the turns left
	overlaps overlaps
	targets  []segno.Hash // the trees to which the changes lead
	unnamed  []string     // see [FilePlan]
	// merge merges two versions of an entity that were made from base. contents holds merged contents
	// that are not stored yet.
	merge    func(ctx context.Context, base, ours, theirs segno.Entity) (merged segno.Entity, conflict string, err error)
	contents map[segno.Hash][]byte
}

// reversal is the write of one path.
type reversal struct {
	present  segno.Entity
	want     segno.Entity // the state after the write
	forced   segno.Entity // the state after the write if force were set
	merged   bool         // want contains changes of both sides
	replaced bool         // a directory that was made there since the turn is in the way of forced
	conflict string       // why the path stays unchanged, or ""
	reverted bool         // a change was reverted, even if a later one restores it, so that nothing is written

	forcedOver bool // force overwrote a conflict
}

// writes reports whether a reversal, which may be nil, leaves its path in a state.
func (f *reversal) writes(e segno.Entity) bool { return f != nil && f.conflict == "" && f.want == e }

// set sets the state to write after c is reversed, to which want was merged. why is the conflict, or "".
func (f *reversal) set(c segno.Change, want segno.Entity, why string, force bool) {
	f.reverted = f.reverted || why == "" && want != f.want || why != "" && force
	switch {
	case why == "":
		f.merged = f.want != c.To && want != c.From
		f.want = want
	case force:
		f.want, f.merged, f.forcedOver = c.From, false, true
	default:
		f.conflict = why
	}
}

func (tx *txn) newReverter(ask *MoveRequest, now currentState) *reverter {
	r := &reverter{txn: tx, now: now, force: ask.Force, files: map[string]*reversal{}, hidden: map[string]bool{}, since: map[string]segno.Entity{},
		overlaps: overlaps{txn: tx}}
	r.merge = r.mergeEntities
	return r
}

// add adds one set of changes. In each change, From is the state to write and To the state that the
// turn left. present has the paths that differ from the state that the turn left. contested returns
// why a path may not belong to this turn alone, or "". It may be nil.
func (r *reverter) add(ctx context.Context, changes []segno.Change, present map[string]segno.Entity, contested func(path string) string) error {
	for _, c := range changes {
		f := r.files[c.Path]
		if f == nil {
			cur, differs := present[c.Path]
			if !differs {
				cur = c.To
			}
			f = &reversal{present: cur, want: cur, replaced: cur.Type == segno.EntityDir && c.To.Type != segno.EntityDir}
			r.files[c.Path] = f
		}
		f.forced = c.From
		why := unreadConflict(c.Path, f.present, c.To, c.From)
		if f.want == c.From && why == "" || f.conflict != "" {
			continue
		}
		if contested != nil && why == "" {
			why = contested(c.Path)
		}
		want := c.From
		if why == "" && f.want != c.To {
			var err error
			if want, why, err = r.merge(ctx, c.To, f.want, c.From); err != nil {
				return err
			}
		}
		f.set(c, want, why, r.force)
	}
	return nil
}

// reverse adds the changes from the state left to target, which undo or redo a turn. turn is the
// undone checkpoint; it is nil in a redo. only, if not nil, limits the changes to some paths.
func (r *reverter) reverse(ctx context.Context, left, target *segno.Snapshot, turn *segno.Checkpoint, only func(path string) bool) error {
	if !hasTree(left) || !hasTree(target) {
		return nil // the turn is older than the use of segno: its files were not recorded
	}
	changes, err := r.diffStates(ctx, target, left)
	if err != nil {
		return err
	}
	if only != nil {
		changes = slices.DeleteFunc(changes, func(c segno.Change) bool { return !only(c.Path) })
	}
	since, err := r.diffStates(ctx, left, &r.now.snap)
	if err != nil {
		return err
	}
	var contested func(string) string
	if turn != nil {
		entries, err := turnEntries(ctx, r.Store, turn)
		if err != nil {
			return err
		}
		if contested, err = r.overlaps.contestedPaths(ctx, turn, entries, changes); err != nil {
			return err
		}
		r.unnamed = append(r.unnamed, r.txn.unnamed(turn, entries, changes)...)
	}
	if err := r.add(ctx, changes, entities(since), contested); err != nil {
		return err
	}
	r.targets = append(r.targets, target.Tree)
	for _, c := range since {
		r.since[c.Path] = c.To
		if isSaved(c.From) && c.To.Type == segno.EntityProtected {
			r.hidden[c.Path] = true
		}
	}
	return r.reverseUnsaved(ctx, target.Tree, changes)
}

// hasTree reports whether the files of a state were recorded.
func hasTree(s *segno.Snapshot) bool { return s != nil && !s.Tree.IsZero() }

// entities returns the state of each changed path after the changes.
func entities(changes []segno.Change) map[string]segno.Entity {
	m := make(map[string]segno.Entity, len(changes))
	for _, c := range changes {
		m[c.Path] = c.To
	}
	return m
}

// turnEntries returns a turn's entries: those of its checkpoint's commit, and those of the steps
// before it.
func turnEntries(ctx context.Context, store segno.Store, turn *segno.Checkpoint) (entries []segno.Entry, err error) {
	for n, err := range segno.Ancestors(ctx, store, turn.ID, segno.Window{Entries: true}) {
		if err != nil {
			return nil, err
		}
		if c := n.Checkpoint; c != nil && n.ID != turn.ID && (c.Kind != segno.CheckpointStep || c.Turn != turn.Turn) {
			break
		}
		entries = append(entries, n.Entries...)
	}
	return entries, nil
}

// setSteps sets the plan's steps to the result of a reversal.
func (p *FilePlan) setSteps(ctx context.Context, r *reverter) error {
	r.dropConflictsWithoutChange()
	r.blockFullDirectories()
	r.blockBelowConflicts()
	var changes []segno.Change
	for name, f := range r.files {
		if f.conflict == "" {
			changes = append(changes, segno.Change{Path: name, From: f.present, To: f.want, Merged: f.merged})
			continue
		}
		p.Conflicts = append(p.Conflicts, segno.Conflict{Path: name, Why: f.conflict})
		if unreadConflict(name, f.present, segno.Entity{}, f.forced) == "" {
			p.Forced = append(p.Forced, segno.Change{Path: name, From: f.present, To: f.forced})
		}
	}
	for name, f := range r.files {
		switch in := r.inTheWay(name, f); {
		case f.conflict != "":
			for _, c := range in {
				p.Conflicts = append(p.Conflicts, segno.Conflict{Path: c.Path, Why: whyInTheWay})
			}
			p.Forced = append(p.Forced, in...)
		case f.forcedOver:
			changes = append(changes, in...)
		}
	}
	p.split(changes)
	p.dropFull(r.keepsFull)
	p.hide(r)
	p.setUnnamed(r.unnamed)
	return r.stageMerged(ctx, p.Steps)
}

// dropConflictsWithoutChange drops the conflicts of paths that already have the state from before all turns: the user reverted a change of
// several turns, which cannot be merged turn by turn. Force has nothing to overwrite there, so that a repeated move with
// force would not be taken for a repetition, and would move further turns.
func (r *reverter) dropConflictsWithoutChange() {
	for name, f := range r.files {
		if f.conflict != "" && f.forced == f.present && unreadConflict(name, f.present, segno.Entity{}, f.forced) == "" {
			f.conflict, f.want, f.merged = "", f.present, false
		}
	}
}

// blockFullDirectories makes conflicts of files that a turn replaced by a directory, if files that stay are in the directory. A move
// could not write the path.
func (r *reverter) blockFullDirectories() {
	for name, f := range r.files {
		makesFile := f.conflict == "" && f.want.Type != segno.EntityDir && f.want.Type != segno.EntityNone
		if makesFile && f.present.Type == segno.EntityDir && r.staysBelow(name) {
			f.replaced, f.forced = true, f.want
			f.set(segno.Change{From: f.want}, f.want, whyNotEmpty, r.force)
		}
	}
}

// blockFull makes conflicts of the steps that replace a directory by another entity if the plan leaves a path in it, such as a
// protected one. No move could write them, also with force.
func (tx *txn) blockFull(ctx context.Context, now currentState, p *Plan) error {
	replaces := func(c segno.Change) bool {
		return c.From.Type == segno.EntityDir && c.To.Type != segno.EntityDir && c.To.Type != segno.EntityNone
	}
	if !slices.ContainsFunc(p.Steps, replaces) {
		return nil
	}
	all, err := tx.diff(ctx, segno.Hash{}, now.snap.Tree)
	if err != nil {
		return err
	}
	after := entities(p.Steps)
	isFull := func(c segno.Change) bool {
		return replaces(c) && slices.ContainsFunc(all, func(in segno.Change) bool {
			to, isStep := after[in.Path]
			return strings.HasPrefix(in.Path, c.Path+"/") && (!isStep || to.Type != segno.EntityNone)
		})
	}
	for _, c := range p.Steps {
		if isFull(c) {
			p.Conflicts = append(p.Conflicts, segno.Conflict{Path: c.Path, Why: whyNotEmpty})
		}
	}
	p.Steps = slices.DeleteFunc(p.Steps, isFull)
	p.sortPaths()
	return nil
}

// staysBelow reports whether a path below a directory stays: one of others, or a conflict.
func (r *reverter) staysBelow(dir string) bool {
	for at, e := range r.since {
		if strings.HasPrefix(at, dir+"/") && e.Type != segno.EntityNone && r.files[at] == nil {
			return true
		}
	}
	for at, f := range r.files {
		if strings.HasPrefix(at, dir+"/") && f.conflict != "" {
			return true
		}
	}
	return false
}

// blockBelowConflicts makes conflicts of the paths that need a directory at a path that is a conflict. A move could not write
// them, and force, which makes the directory, must write them, too.
func (r *reverter) blockBelowConflicts() {
	for name, f := range r.files {
		for dir := path.Dir(name); dir != "." && f.conflict == "" && f.want.Type != segno.EntityNone; dir = path.Dir(dir) {
			if up := r.files[dir]; up != nil && up.conflict != "" && up.present.Type != segno.EntityDir {
				f.conflict = whyParent
			}
		}
	}
}

// keepsFull reports whether a path of others stays below a directory, or one that the plan writes there.
func (r *reverter) keepsFull(dir string) bool {
	for at, e := range r.since {
		if strings.HasPrefix(at, dir+"/") && e.Type != segno.EntityNone && r.files[at] == nil {
			return true
		}
	}
	for at, f := range r.files {
		if strings.HasPrefix(at, dir+"/") && f.conflict == "" && f.want.Type != segno.EntityNone {
			return true
		}
	}
	return false
}

// dropFull drops the steps that remove a directory in which a path stays: a move would leave it. isFull reports this for paths that are not
// in the plan. A directory in which only conflicts stay is kept for a later move that overwrites them.
func (p *FilePlan) dropFull(isFull func(dir string) bool) {
	isBelow := func(list []segno.Conflict, dir string) bool {
		return slices.ContainsFunc(list, func(c segno.Conflict) bool { return strings.HasPrefix(c.Path, dir+"/") })
	}
	p.Steps = slices.DeleteFunc(p.Steps, func(s segno.Change) bool {
		switch {
		case s.From.Type != segno.EntityDir || s.To.Type != segno.EntityNone:
			return false
		case isFull(s.Path) || isBelow(p.Kept, s.Path):
			return true
		case isBelow(p.Conflicts, s.Path):
			p.full = append(p.full, s)
			return true
		}
		return false
	})
}

// setUnnamed sets the steps that a command of an undone turn or the user may have made.
func (p *FilePlan) setUnnamed(paths []string) {
	slices.Sort(paths)
	p.Unnamed = nil
	for _, s := range p.Steps {
		if _, found := slices.BinarySearch(paths, s.Path); found {
			p.Unnamed = append(p.Unnamed, s.Path)
		}
	}
}

// inTheWay returns deletions for the content of a directory that was made at a path since the turn.
// Without them, force could not write that path. They are conflicts, like the path, so that force
// deletes only what the plan lists.
func (r *reverter) inTheWay(name string, f *reversal) (gone []segno.Change) {
	if !f.replaced || f.forced.Type == segno.EntityDir {
		return nil
	}
	for at, e := range r.since {
		if strings.HasPrefix(at, name+"/") && e.Type != segno.EntityNone && r.files[at] == nil {
			gone = append(gone, segno.Change{Path: at, From: e})
		}
	}
	return gone
}

// split divides changes into steps that can be executed, and paths that stay because one side of them
// is protected, that is, recorded but not stored.
func (p *FilePlan) split(changes []segno.Change) {
	keep := func(list *[]segno.Conflict, path, why string) {
		*list = append(*list, segno.Conflict{Path: path, Why: why})
	}
	for _, c := range changes {
		fromProtected, toProtected := c.From.Type == segno.EntityProtected, c.To.Type == segno.EntityProtected
		switch unread := unreadConflict(c.Path, c.From, segno.Entity{}, c.To); {
		case unread != "":
			keep(&p.Conflicts, c.Path, unread)
		case c.From == c.To:
		case path.Base(c.Path) == ".git" && isSaved(c.From):
			keep(&p.Kept, c.Path, "protected: git") // restored if it is missing, never changed
		case fromProtected && isSaved(c.To):
			p.hidden = append(p.hidden, c.Path)
			keep(&p.Conflicts, c.Path, "protected now, cannot be restored: "+c.From.Why)
		case fromProtected:
			keep(&p.Kept, c.Path, "protected: "+c.From.Why)
		case toProtected && c.From.Type == segno.EntityNone:
			keep(&p.Kept, c.Path, "was protected, cannot be restored: "+c.To.Why)
			p.Lost = true
		case toProtected:
			keep(&p.Conflicts, c.Path, "was protected at that checkpoint: "+c.To.Why)
		default:
			p.Steps = append(p.Steps, c)
		}
	}
	p.sortPaths()
}

// sortPaths sorts the lists of a plan by path.
func (p *FilePlan) sortPaths() {
	for _, list := range [][]segno.Change{p.Steps, p.Forced} {
		slices.SortFunc(list, func(a, b segno.Change) int { return strings.Compare(a.Path, b.Path) })
	}
	for _, list := range [][]segno.Conflict{p.Conflicts, p.Kept} {
		slices.SortFunc(list, func(a, b segno.Conflict) int { return strings.Compare(a.Path, b.Path) })
	}
}

// filterPaths keeps the changes at or below paths, and the changes of the directories above them that
// must exist.
func filterPaths(changes []segno.Change, paths []string) []segno.Change {
	if len(paths) == 0 {
		return changes
	}
	all := slices.Contains(paths, ".")
	var in []segno.Change
	above := map[string]bool{}
	for _, c := range changes {
		if all || isBelow(c.Path, paths) {
			in = append(in, c)
			for d := path.Dir(c.Path); d != "."; d = path.Dir(d) {
				above[d] = c.To.Type != segno.EntityNone
			}
		}
	}
	for _, c := range changes {
		if above[c.Path] && c.From.Type == segno.EntityNone && c.To.Type == segno.EntityDir && !all && !isBelow(c.Path, paths) {
			in = append(in, c)
		}
	}
	return in
}
