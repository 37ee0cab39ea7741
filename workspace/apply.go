package workspace

import (
	"context"
	"errors"
	"os"
	"slices"

	"github.com/dalsegno/segno"
)

// Apply makes each step's path what its To says, if it still is what its From
// says, and returns the steps it could not take, by path.
//
// Everything is decided, and every object that will be needed is read and found
// sound, before the first write; an error up to then has touched nothing. What
// stands at a path is looked at again right before it is replaced. A step into, or
// about, something protected is a conflict, except that what is merely no longer
// recorded is left in peace. A directory goes only once it is empty; one that
// still holds others' files stays, and that is no conflict.
//
// A few files are synced one by one before they take their places, many together
// at the end; either way they are on disk when Apply returns. A process killed in
// between leaves each path old or new, except that a directory which was not
// writable may stay so; Apply with the same steps completes it.
func (d *Dir) Apply(ctx context.Context, steps []segno.Change, times segno.Hash) ([]segno.Conflict, error) {
	moves, err := plan(steps)
	if err != nil || len(moves) == 0 {
		return nil, err
	}
	a, err := d.newApply(ctx, moves, times)
	if err != nil {
		return nil, err
	}
	defer a.eyes.close()
	for _, m := range moves {
		if err := a.judge(m); err != nil {
			return nil, err
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	if err := a.consider(); err != nil {
		return nil, err
	}
	if err := a.fetch(ctx); err != nil {
		return nil, err
	}
	if err := a.carryOut(ctx); err != nil {
		return nil, err
	}
	if err := a.readBack(ctx); err != nil {
		return nil, err
	}
	return a.conflicts(), nil
}

// apply is one Apply under way.
type apply struct {
	dir    *Dir
	eyes   *eyes
	moves  []*move // by path
	byPath map[string]*move
	supply *supply
	few    bool              // sync each file
	opened map[string]uint32 // directories made writable for a while → their mode
	soiled map[string]bool   // directories whose names changed
}

// few is up to how many written files are synced one by one. It costs about as
// much as one sync of the whole file system, which waits for everybody's writes.
const few = 64

func (d *Dir) newApply(ctx context.Context, moves []*move, times segno.Hash) (*apply, error) {
	root, err := openRootDir(d.root)
	if err != nil {
		return nil, pathError("restore", d.root, err)
	}
	defer root.close()
	self, err := root.dir().self()
	if err != nil {
		return nil, pathError("restore", d.root, err)
	}
	rules, err := d.rules(ctx, root.dir())
	if err != nil {
		return nil, err
	}
	a := &apply{
		dir: d, moves: moves, byPath: make(map[string]*move, len(moves)),
		supply: newSupply(d.config.Objects, times),
		opened: make(map[string]uint32), soiled: make(map[string]bool),
	}
	for _, m := range moves {
		a.byPath[m.Path] = m
	}
	hands, err := d.open()
	if err != nil {
		return nil, err
	}
	a.eyes = &eyes{hands: hands, rules: rules, budget: d.budget, clock: newClock(root, self), guarded: make(map[string]string)}
	if x := d.load(self); x != nil {
		a.eyes.index = x.top
	}
	return a, nil
}

// fetch makes sure of everything that will be written.
func (a *apply) fetch(ctx context.Context) error {
	writes := 0
	for _, m := range a.moves {
		if m.verdict == refused || m.verdict == taken && m.To.Type != segno.EntityHardLink {
			continue
		}
		if isContent(m.To) {
			writes++
			a.supply.want(m.To.Hash)
			if _, _, err := a.supply.mtime(ctx, m.Path); err != nil {
				return err
			}
		}
		if !m.To.Xattrs.IsZero() {
			if _, err := a.supply.xattrs(ctx, m.To.Xattrs); err != nil {
				return err
			}
		}
	}
	a.few = writes <= few
	return a.supply.check(ctx)
}

// carryOut writes. First goes what is to go, deepest first, then directories are
// made, then what stands in them, and last the modes of directories are set, since
// one that is not writable could not be filled.
func (a *apply) carryOut(ctx context.Context) (err error) {
	defer func() { err = errors.Join(err, a.lockAgain()) }()
	phases := []struct {
		deepFirst bool
		part      func(*move) bool
		do        func(context.Context, *move) error
	}{
		{true, (*move).clears, a.remove},
		{false, (*move).makesDir, a.mkdir},
		{false, (*move).makesEntry, a.put},
		{false, (*move).makesLink, a.relink},
		{true, (*move).setsDir, a.finish},
	}
	for _, p := range phases {
		for i := range a.moves {
			m := a.moves[i]
			if p.deepFirst {
				m = a.moves[len(a.moves)-1-i]
			}
			if m.verdict == refused || !p.part(m) {
				continue
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := p.do(ctx, m); isDenied(err) {
				m.refuse(cause(err))
			} else if err != nil {
				return pathError("restore", m.Path, err)
			}
		}
	}
	return a.sync()
}

// What a move has a part in.
func (m *move) clears() bool {
	return m.verdict == write && m.was.Type != segno.EntityNone &&
		(m.To.Type == segno.EntityNone || (m.was.Type == segno.EntityDir) != (m.To.Type == segno.EntityDir))
}
func (m *move) makesDir() bool {
	return m.verdict == write && m.To.Type == segno.EntityDir && m.was.Type != segno.EntityDir
}
func (m *move) makesEntry() bool {
	return m.verdict == write && (m.To.Type == segno.EntityFile || m.To.Type == segno.EntitySymlink)
}
func (m *move) makesLink() bool { return m.To.Type == segno.EntityHardLink }
func (m *move) setsDir() bool   { return m.verdict == write && m.To.Type == segno.EntityDir }

// conflicts returns the steps that were not taken.
func (a *apply) conflicts() (out []segno.Conflict) {
	for _, m := range a.moves {
		switch {
		case m.verdict == refused:
			out = append(out, segno.Conflict{Path: m.Path, Why: m.why})
		case m.stripped:
			out = append(out, segno.Conflict{Path: m.Path, Why: whyStripped})
		}
	}
	return out
}

// readBack compares what was written with what should stand there.
func (a *apply) readBack(ctx context.Context) error {
	a.eyes.forget()
	for _, m := range a.moves {
		if m.verdict != write {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		now, err := a.eyes.look(m.Path)
		if err != nil {
			return pathError("read back", m.Path, err)
		}
		left := m.To.Type == segno.EntityNone && (now.Type == segno.EntityDir || now.Type == segno.EntityProtected)
		// What was written may itself be, or bring, a marker that protects it.
		want := m.To
		if m.stripped {
			want = strip(want)
		}
		if !left && now.Type != segno.EntityProtected && !equal(now.Entity, want) {
			return segno.Errorf(segno.KindIO, "read back", m.Path, "it is not what was written")
		}
	}
	return nil
}

// names returns the names in a directory, in order.
func (h *hands) names(dir string) ([]string, error) {
	at, err := h.dir(dir)
	if isAbsent(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	f, err := at.OpenFile(".", os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := listNames(f)
	slices.Sort(names)
	return names, err
}

func invalidStep(path, why string) error {
	return segno.Errorf(segno.KindInvalid, "restore", path, "%s", why)
}

// cause returns the innermost text of an error about a path.
func cause(err error) string {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err.Error()
		}
		err = inner
	}
}
