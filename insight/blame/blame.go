// Package blame finds the checkpoint that brought each line of a file. It compares states of the file, so a change by a
// shell command counts like one by an editing tool, and it needs no git.
//
// A blame begins at a state and follows the line of checkpoints back, through forks, threads of the same workspace and
// renamed paths, until the origin of each line is known. A move of segno writes no new line, so each line of its result has
// the origin that it has in the state from which the move took it.
package blame

import (
	"context"
	"encoding/binary"
	"slices"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history/patch"
	"github.com/dalsegno/segno/workspace"
)

// Author is the kind of author of a line.
type Author string

// The authors.
const (
	Turn     Author = "turn"     // a turn of an agent
	External Author = "external" // not a turn: the user, or any program
	Before   Author = "before"   // the line is older than the first checkpoint
	Unsaved  Author = "unsaved"  // not a turn, and no checkpoint has the line yet
	Running  Author = "running"  // a turn is open, so the turn or the user
	Unknown  Author = "unknown"  // the state that could show it is not recorded
)

// Origin is where lines come from.
type Origin struct {
	Author     Author
	Checkpoint *segno.Checkpoint // the first one with the lines; nil for Unsaved and Running
	Path       string            // of the file there
	// WhileCommand is set if a turn changed the file while a command ran, by no tool that names the file.
	WhileCommand bool
}

// Line is the origin of one line, and its number in the file there. Numbers count from 1.
type Line struct {
	*Origin
	Number int
}

// State is a state of a file.
type State struct {
	Checkpoint *segno.Checkpoint
	Path       string
	Hash       segno.Hash // of the content
}

// Blamer has the sources of a blame.
type Blamer struct {
	Store   segno.Store
	Content func(ctx context.Context, h segno.Hash) ([]byte, error)
	// Unnamed returns the paths that a command of a turn or the user may have changed, as [timeline.Timeline.Unnamed] does. It may be nil.
	Unnamed func(ctx context.Context, turn *segno.Checkpoint, changes []segno.Change) ([]string, error)
	Cache   *Cache // may be nil
}

// maxContent is the size from which on a content is not compared. All its lines are then new.
const maxContent = 16 << 20

// Lines returns the origins of count lines of a file from the line first on, which counts from 0.
func (b *Blamer) Lines(ctx context.Context, s State, first, count int) ([]Line, error) {
	w := b.newWalk(count)
	w.add(s, w.all(first), 0)
	return w.run(ctx)
}

// LinesSince returns the origins of lines of a content that was made after a commit. Lines that the file does not have at
// the nearest checkpoint with files are by an author. If its content there is not recorded, the author is not known.
func (b *Blamer) LinesSince(ctx context.Context, content []byte, at segno.CommitID, path string, by Author, first, count int) ([]Line, error) {
	w := b.newWalk(count)
	c, _, err := w.before(ctx, &segno.Checkpoint{Parent: at})
	if err != nil {
		return nil, err
	}
	var e segno.Entity
	if c != nil {
		if e, err = w.entity(ctx, c.Tree(), path); err != nil {
			return nil, err
		}
	}
	if c == nil || e.Type == segno.EntityProtected {
		by = Unknown
	}
	old, rest := []ref(nil), w.all(first)
	if e.HasContent() && e.Size <= maxContent {
		before, err := b.Content(ctx, e.Hash)
		if err != nil {
			return nil, err
		}
		old, rest = through(patch.Hunks(before, content), rest)
	}
	w.set(rest, &Origin{Author: by, Path: path})
	w.add(State{c, path, e.Hash}, old, 0)
	return w.run(ctx)
}

// LinesOf returns the origins of the lines of a content that a checkpoint may have had: the newest checkpoint with it, from a
// commit back, decides. Without one, a line that the file does not have at the commit is [Unknown].
func (b *Blamer) LinesOf(ctx context.Context, content []byte, at segno.CommitID, path string) ([]Line, error) {
	n := len(Texts(content))
	w := b.newWalk(n)
	hash := segno.HashOf(content)
	for c := (&segno.Checkpoint{Parent: at}); ; {
		up, _, err := w.before(ctx, c)
		if err == nil && up == nil {
			return b.LinesSince(ctx, content, at, path, Unknown, 0, n)
		}
		var e segno.Entity
		if err == nil {
			e, err = w.entity(ctx, up.Tree(), path)
		}
		if err != nil {
			return nil, err
		}
		if e.HasContent() && e.Hash == hash {
			w.add(State{up, path, hash}, w.all(0), 0)
			return w.run(ctx)
		}
		c = up
	}
}

// Texts returns the lines of a content without the newlines.
func Texts(content []byte) (texts []string) {
	for line := range strings.Lines(string(content)) {
		texts = append(texts, strings.TrimSuffix(line, "\n"))
	}
	return texts
}

// ref is a line whose origin is sought: its index in the result, and its index in the present state.
type ref struct{ result, line int }

// item is a state, with lines that it has.
type item struct {
	State
	refs  []ref // sorted by line
	jumps int   // to other lines of checkpoints
}

// maxJumps ends a search that clocks set back could make endless.
const maxJumps = 1000

type place struct {
	id   segno.CommitID
	path string
}

// walk is one blame.
type walk struct {
	*Blamer
	lines   []Line
	items   map[place]*item
	nodes   map[segno.CommitID]*segno.Node
	origins map[place]*Origin
	shared  map[segno.WorkspaceID][]segno.Checkpoint // see sharedTurns
}

func (b *Blamer) newWalk(count int) *walk {
	return &walk{Blamer: b, lines: make([]Line, count), items: map[place]*item{}, nodes: map[segno.CommitID]*segno.Node{},
		origins: map[place]*Origin{}, shared: map[segno.WorkspaceID][]segno.Checkpoint{}}
}

// all returns a ref for each line of the result.
func (w *walk) all(first int) []ref {
	refs := make([]ref, len(w.lines))
	for i := range refs {
		refs[i] = ref{i, first + i}
	}
	return refs
}

// add adds lines to look for in a state. Lines that reach a state on several ways go on together.
func (w *walk) add(s State, refs []ref, jumps int) {
	if len(refs) == 0 {
		return
	}
	at := place{s.Checkpoint.ID, s.Path}
	it := w.items[at]
	if it == nil {
		w.items[at] = &item{s, refs, jumps}
		return
	}
	it.jumps = max(it.jumps, jumps)
	it.refs = slices.Concat(it.refs, refs)
	slices.SortStableFunc(it.refs, func(a, b ref) int { return a.line - b.line })
}

func (w *walk) run(ctx context.Context) ([]Line, error) {
	for len(w.items) > 0 {
		if err := ctx.Err(); err != nil {
			return nil, segno.NewError(segno.KindCancelled, "blame", "", err)
		}
		var at place // of the newest state
		for p, it := range w.items {
			if at.id == "" || it.Checkpoint.Time.After(w.items[at].Checkpoint.Time) {
				at = p
			}
		}
		it := w.items[at]
		delete(w.items, at)
		if err := w.step(ctx, it); err != nil {
			return nil, err
		}
	}
	return w.lines, w.findCommands(ctx)
}

// step finds out which lines of an item its checkpoint brought. The others go on in the state before.
func (w *walk) step(ctx context.Context, it *item) error {
	up, isGap, err := w.before(ctx, it.Checkpoint)
	switch {
	case err != nil:
		return err
	case up == nil:
		return w.first(ctx, it, isGap)
	}
	from, err := w.pathBefore(ctx, it, up)
	if err != nil {
		return err
	}
	e, err := w.entity(ctx, up.Tree(), from)
	if err != nil {
		return err
	}
	old, rest, err := w.compare(ctx, e, it.Hash, it.refs)
	if err != nil {
		return err
	}
	w.add(State{up, from, e.Hash}, old, it.jumps)
	switch {
	case len(rest) == 0:
	case e.Type == segno.EntityProtected, isGap:
		w.set(rest, w.origin(it, Unknown))
	default:
		return w.brought(ctx, it, rest, up)
	}
	return nil
}

// compare divides lines of a content into those that an entity has, too, and the rest.
func (w *walk) compare(ctx context.Context, e segno.Entity, content segno.Hash, refs []ref) (old, rest []ref, err error) {
	switch {
	case !e.HasContent() || e.Size > maxContent:
		return nil, refs, nil
	case e.Hash == content:
		return refs, nil, nil
	}
	hunks, err := w.hunks(ctx, e.Hash, content)
	if err != nil {
		return nil, nil, err
	}
	old, rest = through(hunks, refs)
	return old, rest, nil
}

// brought sets the origin of lines that a checkpoint has and the state before it, up, does not have.
func (w *walk) brought(ctx context.Context, it *item, refs []ref, up *segno.Checkpoint) error {
	c := it.Checkpoint
	if isTurn(c) {
		w.set(refs, w.origin(it, Turn))
		return nil
	}
	var err error
	if isMove := c.Kind == segno.CheckpointRestore || c.Kind == segno.CheckpointExternal && c.Label != ""; isMove {
		refs, err = w.elsewhere(ctx, it, refs, true)
	} else {
		refs, err = w.beside(ctx, it, refs, up)
	}
	if err == nil {
		w.set(refs, w.origin(it, External))
	}
	return err
}

func isTurn(c *segno.Checkpoint) bool {
	return c.Kind == segno.CheckpointTurn || c.Kind == segno.CheckpointStep
}

// set sets the origin of lines.
func (w *walk) set(refs []ref, o *Origin) {
	for _, r := range refs {
		w.lines[r.result] = Line{o, r.line + 1}
	}
}

func (w *walk) origin(it *item, by Author) *Origin {
	at := place{it.Checkpoint.ID, it.Path}
	o := w.origins[at]
	if o == nil || o.Author != by {
		o = &Origin{Author: by, Checkpoint: it.Checkpoint, Path: it.Path}
		w.origins[at] = o
	}
	return o
}

// through divides lines by the hunks that changed them. Lines outside the hunks get their index before the change.
func through(hunks []patch.Hunk, refs []ref) (old, rest []ref) {
	i, shift := 0, 0
	old = make([]ref, 0, len(refs))
	for _, r := range refs {
		for i < len(hunks) && hunks[i].ToEnd <= r.line {
			shift = hunks[i].FromEnd - hunks[i].ToEnd
			i++
		}
		if i < len(hunks) && hunks[i].To <= r.line {
			rest = append(rest, r)
		} else {
			old = append(old, ref{r.result, r.line + shift})
		}
	}
	return old, rest
}

// before returns the nearest checkpoint with files before c, or nil. isGap reports whether there are checkpoints between them
// whose files are not recorded, or that a collection dropped.
func (w *walk) before(ctx context.Context, c *segno.Checkpoint) (up *segno.Checkpoint, isGap bool, err error) {
	for id := c.Parent; id != ""; {
		n, err := w.node(ctx, id)
		if segno.KindOf(err) == segno.KindNotFound {
			return nil, true, nil
		}
		if err != nil {
			return nil, false, err
		}
		switch up := n.Checkpoint; {
		case !up.Tree().IsZero():
			return up, isGap, nil
		case up != nil && up.Kind != segno.CheckpointStep:
			isGap = true
		}
		id = n.Parent
	}
	return nil, isGap, nil
}

// node returns a commit. It reads many ancestors at once.
func (w *walk) node(ctx context.Context, id segno.CommitID) (*segno.Node, error) {
	if n := w.nodes[id]; n != nil {
		return n, nil
	}
	const many = 256
	line, err := w.Store.Load(ctx, id, segno.Window{Last: many})
	if err != nil {
		return nil, err
	}
	for i := range line.Commits {
		w.nodes[line.Commits[i].ID] = &line.Commits[i]
	}
	return w.nodes[id], nil
}

// entity returns the entity at a path of a tree, with no type if there is none.
func (w *walk) entity(ctx context.Context, tree segno.Hash, path string) (e segno.Entity, err error) {
	data, err := w.Cache.fact(ctx, "entity", func() ([]byte, error) {
		e, err := workspace.LookupFile(ctx, w.Store.Objects(), tree, path)
		switch kind := segno.KindOf(err); {
		case e.Type == segno.EntityProtected:
		case kind == segno.KindNotFound || kind == segno.KindInvalid: // there is none, or a directory
			e = segno.Entity{}
		case err != nil:
			return nil, err
		}
		return append(append(binary.AppendUvarint(nil, uint64(e.Size)), e.Hash[:]...), e.Type...), nil
	}, tree[:], []byte(path))
	if err != nil {
		return e, err
	}
	size, n := binary.Uvarint(data)
	if n <= 0 || len(data) < n+len(e.Hash) {
		return e, errCache
	}
	e.Size, e.Hash, e.Type = int64(size), segno.Hash(data[n:n+len(e.Hash)]), segno.EntityType(data[n+len(e.Hash):])
	return e, nil
}

// pathBefore returns the path that a file had in the state before its checkpoint.
func (w *walk) pathBefore(ctx context.Context, it *item, up *segno.Checkpoint) (string, error) {
	tree := it.Checkpoint.Tree()
	if tree == up.Tree() {
		return it.Path, nil
	}
	if e, err := w.entity(ctx, up.Tree(), it.Path); err != nil || e.Type != segno.EntityNone {
		return it.Path, err
	}
	old := up.Tree()
	path, err := w.Cache.fact(ctx, "rename", func() ([]byte, error) {
		diff, err := workspace.Diff(ctx, w.Store.Objects(), old, tree)
		if err != nil {
			return nil, err
		}
		from, _, err := w.Former(ctx, diff, it.Path, it.Hash)
		return []byte(from), err
	}, old[:], tree[:], []byte(it.Path))
	return string(path), err
}

// hunks returns the changes between two contents.
func (w *walk) hunks(ctx context.Context, from, to segno.Hash) (all []patch.Hunk, err error) {
	data, err := w.Cache.fact(ctx, "hunks", func() ([]byte, error) {
		before, err := w.Content(ctx, from)
		if err != nil {
			return nil, err
		}
		after, err := w.Content(ctx, to)
		if err != nil {
			return nil, err
		}
		var out []byte
		for _, h := range patch.Hunks(before, after) {
			for _, n := range []int{h.From, h.FromEnd, h.To, h.ToEnd} {
				out = binary.AppendUvarint(out, uint64(n))
			}
		}
		return out, nil
	}, from[:], to[:])
	for len(data) > 0 && err == nil {
		var h patch.Hunk
		for _, to := range []*int{&h.From, &h.FromEnd, &h.To, &h.ToEnd} {
			n, size := binary.Uvarint(data)
			if size <= 0 {
				return nil, errCache
			}
			*to, data = int(n), data[size:]
		}
		all = append(all, h)
	}
	return all, err
}

// findCommands sets WhileCommand in the origins.
func (w *walk) findCommands(ctx context.Context) error {
	if w.Unnamed == nil {
		return nil
	}
	for at, o := range w.origins {
		if o.Author != Turn {
			continue
		}
		found, err := w.Cache.fact(ctx, "unnamed", func() ([]byte, error) {
			change := segno.Change{Path: o.Path, To: segno.Entity{Type: segno.EntityFile}}
			paths, err := w.Unnamed(ctx, o.Checkpoint, []segno.Change{change})
			return []byte{byte(len(paths))}, err
		}, []byte(at.id), []byte(at.path))
		if err != nil {
			return err
		}
		o.WhileCommand = len(found) > 0 && found[0] > 0
	}
	return nil
}
