package workspace

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/workspace/internal/gitignore"
)

// Cover makes the following snapshots and restores continue to save the paths that the given trees
// saved, even if the rules of the workspace now protect them. Without arguments, the rules alone
// decide. See [segno.Coverage].
func (d *Dir) Cover(with ...segno.Coverage) { d.coverage = with }

// cover decides whether a path stays saved although a rule protects it. It reads the trees that
// the caller of [Dir.Cover] named, but only the directories that it needs. Its methods may be
// called from several goroutines. A nil cover holds no path.
type cover struct {
	bases []base
	load  func(tree segno.Hash) ([]record, error)

	mu   sync.Mutex
	dirs map[segno.Hash]map[string]record
	err  error // the first error other than a missing object
}

// base is a tree whose saved paths the cover keeps saved.
type base struct {
	segno.Coverage
	text   []byte // its .segnoignore
	ignore *gitignore.List
	same   bool // the workspace has the same .segnoignore
}

// newCover returns a cover of the given trees, or nil if there are none.
func newCover(ctx context.Context, objects getter, with []segno.Coverage) *cover {
	c := &cover{dirs: make(map[segno.Hash]map[string]record)}
	c.load = func(tree segno.Hash) ([]record, error) { return loadTree(ctx, objects, tree) }
	for _, w := range with {
		if w.Tree.IsZero() {
			continue
		}
		b := base{Coverage: w}
		if r, ok := c.find(w.Tree, ignoreName); ok && r.Entity.HasContent() {
			text, err := objects.Get(ctx, r.Hash)
			c.addError(err)
			b.text, b.ignore = text, gitignore.Parse(text)
		}
		c.bases = append(c.bases, b)
	}
	if len(c.bases) == 0 {
		return nil
	}
	return c
}

// compare determines which bases have the same .segnoignore as the workspace.
func (c *cover) compare(ignore []byte) {
	for i := range c.bases {
		c.bases[i].same = bytes.Equal(c.bases[i].text, ignore)
	}
}

// addError keeps the first error. It ignores a missing object: the cover then does not hold the
// paths below it, and the caller finds the missing object when it compares trees.
func (c *cover) addError(err error) {
	if err != nil && !errors.Is(err, segno.KindNotFound) && c.err == nil {
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

// find returns the entry of a tree at a path.
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

// dir returns a directory of a tree. The caller must hold the lock.
func (c *cover) dir(tree segno.Hash) map[string]record {
	entries, known := c.dirs[tree]
	if !known {
		records, err := c.load(tree)
		c.addError(err)
		entries = make(map[string]record, len(records))
		for _, r := range records {
			entries[r.name] = r
		}
		c.dirs[tree] = entries
	}
	return entries
}

// holds reports whether a path stays saved although the rules protect it for the reason why.
// markers are the paths of the files that caused the protection.
func (c *cover) holds(path string, isDir bool, why string, markers ...string) bool {
	if c == nil {
		return false
	}
	for i := range c.bases {
		b := &c.bases[i]
		was, known := c.find(b.Tree, path)
		saved := known && was.Type != segno.EntityProtected
		switch {
		case why == whyNamed && b.Strict && !known:
			if b.ignore.Match(path, isDir) != gitignore.Ignored {
				return true
			}
		case !saved:
		case b.Strict, why == whyLargeIgnore, why == whyNamed && b.same:
			return true
		case why == whyMadeAgain || why == whyCache || why == whyGit:
			for _, marker := range markers {
				if _, exists := c.find(b.Tree, marker); exists {
					return true // the tree saved the path although the marker already existed
				}
			}
		}
	}
	return false
}

// is reports whether the cover consists of exactly one tree, the given one.
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
