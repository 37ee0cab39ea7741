package timeline

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agents"
	"github.com/dalsegno/segno/internal/history/turns"
	"github.com/dalsegno/segno/timeline/internal/ownership"
)

// Point is a moment inside a turn: the end of one of its tool calls. Only the files of that moment are known.
type Point struct {
	Turn int `json:"turn"`
	Call int `json:"call"` // counts from 1, in the order of [turns.Turn.Calls]
	// Unknown lists the paths whose state at the moment is not certain, sorted. The state of the moment has the last
	// known state of each.
	Unknown []string `json:"unknown,omitempty"`
}

// Name returns the name of the point, such as t7.3.
func (p Point) Name() string { return fmt.Sprintf("t%d.%d", p.Turn, p.Call) }

// IsExact reports whether the state of every path at the moment is known.
func (p Point) IsExact() bool { return len(p.Unknown) == 0 }

// Points returns the points of a turn, one for each call. It returns none if no files were saved after its calls.
func (tl *Timeline) Points(ctx context.Context, turn *segno.Checkpoint) ([]Point, error) {
	if turn.Points.IsZero() {
		return nil, nil
	}
	s, err := tl.unlocked().readPoints(ctx, turn)
	if err != nil {
		return nil, err
	}
	all := make([]Point, len(s.calls))
	for i := range all {
		all[i], _ = s.at(i)
	}
	return all, nil
}

// AtPoint returns a copy of the checkpoint of a turn with the files at the end of a call, which counts from 1.
func (tl *Timeline) AtPoint(ctx context.Context, turn *segno.Checkpoint, call int) (*segno.Checkpoint, Point, error) {
	return tl.unlocked().atPoint(ctx, turn, call)
}

func (tx *txn) atPoint(ctx context.Context, turn *segno.Checkpoint, call int) (*segno.Checkpoint, Point, error) {
	p := Point{Turn: turn.Turn, Call: call}
	turn, err := tx.checkpoint(ctx, turn.ID) // a history changes the parent of a checkpoint
	if err != nil {
		return nil, p, err
	}
	if turn.Points.IsZero() {
		return nil, p, segno.Errorf(segno.KindNotFound, "find point", p.Name(), "no files were saved after the calls of the turn").
			WithHint(fmt.Sprintf("use t%d for its end, or t%d- for its beginning", turn.Turn, turn.Turn))
	}
	s, err := tx.readPoints(ctx, turn)
	if err != nil {
		return nil, p, err
	}
	if call < 1 || call > len(s.calls) {
		return nil, p, segno.Errorf(segno.KindNotFound, "find point", p.Name(), "the turn has %d calls", len(s.calls)).
			WithHint(fmt.Sprintf("run 'segno show t%d' to see them", turn.Turn))
	}
	p, changes := s.at(call - 1)
	snap, staged, err := tx.withChanges(ctx, *s.before, *turn.Workspace, changes)
	if err == nil {
		err = tx.keepStaged(ctx, staged)
	}
	if err != nil {
		return nil, p, fmt.Errorf("compose the files at %s: %w", p.Name(), err)
	}
	snap.Git, snap.World = nil, nil
	at := *turn
	at.Workspace, at.Session = &snap, nil
	return &at, p, nil
}

// pointState has the facts about the calls of a turn from which the files at the end of each call follow.
type pointState struct {
	turn   *segno.Checkpoint
	before *segno.Snapshot
	start  time.Time
	calls  []turns.Call
	free   []span // calls that may change any file
	paths  map[string]*pathPoints
}

// span is the time of a call, as numbers of entries.
type span struct{ from, to int }

// pathPoints is what is known about one path during a turn.
type pathPoints struct {
	from, to segno.Entity // before and after the turn
	writes   []pathWrite  // in the order in which they ended
	lost     int          // the beginning of the first call without a result that named the path, or 0
	touched  time.Time    // when the file at the path changed last; zero if that is not known
	placed   time.Time    // the latest of touched and the times of the directories above, one of which may have been moved
}

// pathWrite is a call that named a path.
type pathWrite struct {
	end     int // the number of the entry of its end
	entity  segno.Entity
	changed time.Time  // of the path after the call
	seen    *time.Time // when the path changed last before the call; zero if it did not exist, nil if not known
	isKnown bool       // entity is the state after the call
}

// readPoints reads the facts about the calls of a turn.
func (tx *txn) readPoints(ctx context.Context, turn *segno.Checkpoint) (*pointState, error) {
	s := &pointState{turn: turn, paths: map[string]*pathPoints{}}
	var err error
	if s.before, err = tx.stateAt(ctx, turn.Parent); err != nil {
		return nil, err
	}
	if !hasTree(s.before) || turn.Tree().IsZero() {
		return nil, segno.Errorf(segno.KindNotFound, "find point", fmt.Sprintf("t%d", turn.Turn), "the files before the turn were not recorded")
	}
	changes, err := tx.diff(ctx, s.before.Tree, turn.Tree())
	if err != nil {
		return nil, err
	}
	entries, err := tx.commitEntries(ctx, turn.ID)
	if err != nil {
		return nil, err
	}
	for _, c := range changes {
		s.paths[c.Path] = &pathPoints{from: c.From, to: c.To}
	}
	var read turns.Turn
	read.Add(entries...)
	s.calls, s.start = read.Calls(), read.Start
	saved, err := readSavedCalls(ctx, tx.Store.Objects(), turn)
	if kind := segno.KindOf(err); err != nil && kind != segno.KindNotFound && kind != segno.KindCorrupt {
		return nil, err
	}
	if ownership.WhyWhole(entries, s.start, turn.Time, agents.ReportsCalls(turn.Agent)) != "" || ownership.LacksIntent(entries) {
		s.free = append(s.free, span{0, math.MaxInt}) // the calls are not all known, or their times
	}
	s.addSaved(&saved)
	tx.addExpansions(s)
	if err := tx.dropMissing(ctx, s); err != nil {
		return nil, err
	}
	return s, tx.findUnchanged(ctx, s)
}

// addExpansions adds the times in which the agent may have run commands without a hook.
func (tx *txn) addExpansions(s *pointState) {
	if tx.mayExpandPrompt(s.turn) {
		s.free = append(s.free, span{}) // before the first call
	}
	for _, c := range s.calls {
		if !tx.runsCommandsFirst(s.turn, c.Tool, c.Input) {
			continue
		}
		end := c.Ended
		if !c.Done {
			end = math.MaxInt
		}
		s.free = append(s.free, span{c.Began, end})
	}
}

// addSaved adds the calls, with the states that hooks saved after them.
func (s *pointState) addSaved(saved *savedCalls) {
	for i := range s.calls {
		s.addCall(&s.calls[i], saved.Calls)
	}
	touched := make(map[string]time.Time, len(saved.Touched))
	for _, x := range saved.Touched {
		touched[string(x.Path)] = x.Time
	}
	for name, p := range s.paths {
		p.touched, p.placed = touched[name], touched[name]
		for dir := path.Dir(name); dir != "." && !p.touched.IsZero(); dir = path.Dir(dir) {
			if touched[dir].After(p.placed) {
				p.placed = touched[dir]
			}
		}
	}
	for _, p := range s.paths {
		slices.SortStableFunc(p.writes, func(a, b pathWrite) int { return cmp.Compare(a.end, b.end) })
	}
}

// addCall adds a call to the paths that it named, or to the calls that may change any file.
func (s *pointState) addCall(c *turns.Call, saved []SavedCall) {
	tool := agents.Tool(c.Tool)
	if !tool.ChangesFiles() {
		return
	}
	end := c.Ended
	leavesProcess := agents.IsShell(c.Tool) && (ownership.IsBackground(c.Input) || ownership.LeavesProcess(tool.Command(c.Input)))
	if !c.Done || ownership.StartedTask(c.Body) != "" || leavesProcess {
		end = math.MaxInt
	}
	files := tool.Files(c.Input)
	at := slices.IndexFunc(saved, func(x SavedCall) bool { return x.Call == SavedName(c.ID, c.End) })
	if at < 0 && len(files) == 0 {
		s.free = append(s.free, span{c.Began, end})
		return
	}
	if at < 0 {
		for _, file := range files {
			if name, ok := s.inside(file); ok {
				s.addUnsaved(name, c, end)
			}
		}
		return
	}
	for _, f := range saved[at].Files {
		w := pathWrite{end: end, entity: f.Entity, changed: f.Changed, isKnown: f.Entity.Type != segno.EntityProtected}
		if f.Named < len(c.Changed) && len(c.Changed) == len(files) {
			w.seen = c.Changed[f.Named]
		}
		s.add(string(f.Path), w)
	}
}

// SavedName returns [SavedCall.Call] of a call with an id, or without one, as some agents' calls are. end is the time of the
// entry of its end.
func SavedName(id string, end time.Time) string {
	return cmp.Or(id, end.UTC().Format(time.RFC3339Nano))
}

// inside returns the path of a file that a call named, relative to the root.
func (s *pointState) inside(file string) (string, bool) {
	if !filepath.IsAbs(file) {
		file = filepath.Join(dirOf(s.turn), file)
	}
	return strings.CutPrefix(filepath.Clean(file), s.before.Root+"/")
}

func (s *pointState) path(name string) *pathPoints {
	if s.paths[name] == nil {
		s.paths[name] = new(pathPoints)
	}
	return s.paths[name]
}

func (s *pointState) add(name string, w pathWrite) {
	p := s.path(name)
	p.writes = append(p.writes, w)
}

// addUnsaved adds a call of which no state was saved. Without a result, the call may have written the path, or the user did not
// permit it.
func (s *pointState) addUnsaved(name string, c *turns.Call, end int) {
	if c.Done {
		s.add(name, pathWrite{end: end})
	} else if p := s.path(name); p.lost == 0 {
		p.lost = c.Began
	}
}

// dropMissing marks the states whose contents the store lacks as not known.
func (tx *txn) dropMissing(ctx context.Context, s *pointState) error {
	for _, p := range s.paths {
		for i := range p.writes {
			w := &p.writes[i]
			if !w.isKnown || !w.entity.HasContent() {
				continue
			}
			var err error
			if w.isKnown, err = tx.Store.Objects().Has(ctx, w.entity.Hash); err != nil {
				return err
			}
		}
	}
	return nil
}

// findUnchanged finds the states of paths that calls named and that are the same before and after the turn, and of the
// directories above them. Above any other path, the changes of the turn contain the directories that it made or removed.
func (tx *txn) findUnchanged(ctx context.Context, s *pointState) error {
	var missing []string
	for name, p := range s.paths {
		for at := name; p.from == p.to && at != "."; at = path.Dir(at) {
			if at == name || s.paths[at] == nil {
				missing = append(missing, at)
			}
		}
	}
	if len(missing) == 0 {
		return nil
	}
	all, err := tx.diff(ctx, segno.Hash{}, s.before.Tree)
	if err != nil {
		return err
	}
	present := entities(all)
	for _, name := range missing {
		p := s.path(name)
		p.from, p.to = present[name], present[name]
	}
	return nil
}

// at returns the point at the end of call i, and the changes that lead there from the state before the turn.
func (s *pointState) at(i int) (Point, []segno.Change) {
	p := Point{Turn: s.turn.Turn, Call: i + 1}
	pos, at := s.calls[i].Ended, s.calls[i].End
	if !s.calls[i].Done {
		pos, at = s.calls[i].Began, time.Time{}
	}
	state := map[string]segno.Entity{}
	for name, x := range s.paths {
		e, known := s.stateOf(x, pos, at)
		if state[name] = e; !known {
			p.Unknown = append(p.Unknown, name)
		}
	}
	for name := range s.paths {
		if e := state[name]; len(s.paths[name].writes) > 0 && e.Type != segno.EntityNone && e.Type != segno.EntityProtected {
			s.addDirs(name, state, &p)
		}
	}
	slices.Sort(p.Unknown)
	var changes []segno.Change
	for _, name := range slices.Sorted(maps.Keys(state)) {
		if from := s.paths[name].from; from != state[name] {
			changes = append(changes, segno.Change{Path: name, From: from, To: state[name]})
		}
	}
	return p, changes
}

// defaultDirMode is the mode of a directory that a turn made and removed again.
const defaultDirMode = 0o755

// addDirs adds the directories above a path that exists at a point. They exist, too.
func (s *pointState) addDirs(name string, state map[string]segno.Entity, p *Point) {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if state[dir].Type == segno.EntityDir || s.paths[dir] == nil {
			continue
		}
		if state[dir] = s.paths[dir].to; state[dir].Type != segno.EntityDir {
			state[dir] = segno.Entity{Type: segno.EntityDir, Mode: defaultDirMode}
		}
		p.Unknown = slices.DeleteFunc(p.Unknown, func(x string) bool { return x == dir })
	}
}

// isMissing reports whether a hook before a call found no file.
func isMissing(seen *time.Time) bool { return seen != nil && seen.IsZero() }

// stateOf returns the state of a path at the entry pos, and whether it is certain.
//
// A state that a hook saved after a call is certain at the end of this call. It is certain until the next call that names
// the path if the hook before that call saw the same time of change, and until the end of the turn if the turn left this
// state and no command can have changed the path and changed it back. A path that no call named has changed only while a
// call ran that can change any file. So it is as before the turn until the first of these calls begins, and as after the
// turn once the last has ended, or after its newest change and those of the directories above. at is the time of the
// entry, or zero.
func (s *pointState) stateOf(x *pathPoints, pos int, at time.Time) (e segno.Entity, known bool) {
	last := -1
	for i, w := range x.writes {
		if w.end <= pos {
			last = i
		}
	}
	mayRun := x.lost > 0 || slices.ContainsFunc(s.free, func(c span) bool { return c.to > pos })
	isPast := func(t time.Time) bool { return !t.IsZero() && at.Sub(t) > maxTick }
	if last >= 0 {
		// A command may have changed the path, and a later one may have changed it back.
		end := x.writes[last].end
		ran := slices.ContainsFunc(s.free, func(c span) bool { return c.from <= pos && c.to > end })
		return x.stateSince(last, pos, !ran || !mayRun || isPast(x.touched))
	}
	hasRun := x.lost > 0 && x.lost <= pos || slices.ContainsFunc(s.free, func(c span) bool { return c.from <= pos })
	switch {
	case !hasRun:
		return x.from, true
	case len(x.writes) > 0:
		seen := x.writes[0].seen
		return x.from, isMissing(seen) == (x.from.Type == segno.EntityNone) && seen != nil && s.start.Sub(*seen) > maxTick
	case !mayRun, isPast(x.placed):
		return x.to, true
	}
	return x.from, x.from == x.to
}

// maxTick is longer than the ticks in which file systems count the times of changes.
const maxTick = 20 * time.Millisecond

// stateSince is stateOf for an entry after the end of a call that named the path, and before the next. isStable reports that
// no command changed the path in between if the turn left the state that the call left.
func (x *pathPoints) stateSince(write, pos int, isStable bool) (e segno.Entity, known bool) {
	w, isNewest := x.writes[write], write == len(x.writes)-1
	switch {
	case !w.isKnown && isNewest:
		return x.to, false
	case !w.isKnown:
		return x.from, false
	case w.end == pos:
		return w.entity, true
	case isNewest:
		return w.entity, isStable && w.entity == x.to
	}
	seen := x.writes[write+1].seen
	return w.entity, isMissing(seen) == (w.entity.Type == segno.EntityNone) && seen != nil && seen.Equal(w.changed)
}
