package workspace

import (
	"bytes"
	"context"
	"path"
	"strings"
	"sync"

	"github.com/dalsegno/segno"
)

// Cover has the following snapshots and restores go on saving what the given trees
// saved, although the rules of the workspace protect it by now. Without arguments
// the rules alone decide. See [segno.Coverage].
func (d *Dir) Cover(with ...segno.Coverage) { d.coverage = with }

// cover answers whether a path stays saved although a rule protects it. It reads the
// trees that the caller named, and of those only the directories that are asked for.
// Its methods may be called from several goroutines; the nil cover holds nothing.
type cover struct {
	bases []base
	get   func(name segno.Hash) ([]byte, error)

	mu   sync.Mutex
	dirs map[segno.Hash]map[string]record
	err  error // the first one that is not about a missing object
}

// base is one tree that paths may stay saved by.
type base struct {
	segno.Coverage
	text   []byte // its .segnoignore
	ignore patterns
	same   bool // its .segnoignore is that of the workspace
}

// newCover returns nil if there is nothing to hold on to.
func newCover(ctx context.Context, objects getter, with []segno.Coverage) *cover {
	c := &cover{dirs: make(map[segno.Hash]map[string]record)}
	c.get = func(name segno.Hash) ([]byte, error) { return objects.Get(ctx, name) }
	for _, w := range with {
		if w.Tree.IsZero() {
			continue
		}
		b := base{Coverage: w}
		if r, ok := c.find(w.Tree, ignoreName); ok && isContent(r.Entity) {
			text, err := c.get(r.Hash)
			c.note(err)
			b.text, b.ignore = text, parsePatterns(text)
		}
		c.bases = append(c.bases, b)
	}
	if len(c.bases) == 0 {
		return nil
	}
	return c
}

// compare notes which bases have the .segnoignore that the workspace has.
func (c *cover) compare(ignore []byte) {
	for i := range c.bases {
		c.bases[i].same = bytes.Equal(c.bases[i].text, ignore)
	}
}

// note remembers an error. A missing object is none: what it would have held is not
// held, and the caller finds it missing when it compares.
func (c *cover) note(err error) {
	if err != nil && segno.KindOf(err) != segno.KindNotFound && c.err == nil {
		c.err = err
	}
}

// failure returns the first error of a look-up, or nil.
func (c *cover) failure() error {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// find returns what a tree has at a path.
func (c *cover) find(tree segno.Hash, path string) (r record, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		name, rest, deeper := strings.Cut(path, "/")
		if r, ok = c.dir(tree)[name]; !ok || !deeper {
			return r, ok
		}
		if r.Type != segno.EntityDir {
			return record{}, false
		}
		tree, path = r.child, rest
	}
}

// dir returns a directory of a tree. The caller holds the lock.
func (c *cover) dir(tree segno.Hash) map[string]record {
	if tree.IsZero() {
		return nil
	}
	entries, known := c.dirs[tree]
	if known {
		return entries
	}
	data, err := c.get(tree)
	c.note(err)
	if err == nil {
		var records []record
		if records, err = decodeTree(data); err != nil {
			c.note(damaged("read tree", tree, err))
		}
		entries = make(map[string]record, len(records))
		for _, r := range records {
			entries[r.name] = r
		}
	}
	c.dirs[tree] = entries
	return entries
}

// holds reports whether the path dir/name, which the rules protect for the reason
// why, stays saved. markers are the files that led to the verdict, as paths.
func (c *cover) holds(dir, name string, isDir bool, why string, markers ...string) bool {
	if c == nil {
		return false
	}
	at := join(dir, name)
	for i := range c.bases {
		b := &c.bases[i]
		was, known := c.find(b.Tree, at)
		saved := known && was.Type != segno.EntityProtected
		switch {
		case why == whyNamed && b.Strict && !known:
			if b.ignore.match(dir, name, isDir) != matchIgnored {
				return true
			}
		case !saved:
		case b.Strict, why == whyLargeIgnore, why == whyNamed && b.same:
			return true
		case why == whyMadeAgain || why == whyCache:
			for _, marker := range markers {
				if _, there := c.find(b.Tree, marker); there {
					return true // it was there when the tree was saved all the same
				}
			}
		}
	}
	return false
}

// is reports whether the cover consists of one tree, which is the given one.
func (c *cover) is(tree segno.Hash) bool {
	return c == nil || len(c.bases) == 1 && c.bases[0].Tree == tree
}

// ignoreText returns the .segnoignore of the first base that saved one.
func (c *cover) ignoreText() ([]byte, bool) {
	if c == nil {
		return nil, false
	}
	for i := range c.bases {
		if c.bases[i].text != nil {
			return c.bases[i].text, true
		}
	}
	return nil, len(c.bases) > 0
}

// Lost returns how many files tree a saved that tree b only records as protected.
// Files that could not be read are not among them: a snapshot lists those.
func (d *Dir) Lost(ctx context.Context, a, b segno.Hash) (files int, err error) {
	c := comparison{objects: d.recent}
	if err := c.dirs(ctx, "", a, b); err != nil {
		return 0, err
	}
	held := newCover(ctx, d.recent, []segno.Coverage{{Tree: a}})
	for _, x := range c.changes {
		if x.To.Type != segno.EntityProtected || x.To.Why == whyUnreadable || x.To.Why == whyChanging || held == nil {
			continue
		}
		if r, ok := held.find(a, x.Path); ok {
			files += held.files(r)
		}
	}
	return files, held.failure()
}

// files counts the files at and below an entry.
func (c *cover) files(r record) (n int) {
	switch r.Type {
	case segno.EntityDir:
		c.mu.Lock()
		entries := c.dir(r.child)
		c.mu.Unlock()
		for _, below := range entries {
			n += c.files(below)
		}
	case segno.EntityProtected, segno.EntityNone:
	default:
		n = 1
	}
	return n
}

// cacheMarker is the path of the file that makes dir a cache directory.
func cacheMarker(dir string) string { return path.Join(dir, cacheTag) }
