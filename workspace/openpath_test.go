package workspace

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/dalsegno/segno/internal/testing/soak"
)

// countedDirs counts the directories that were opened and those that are open. A directory is
// represented by its path.
type countedDirs struct {
	t            *testing.T
	way          openPath[string]
	opened, open int
	most         int
	missing      string // a name that does not exist
}

func (c *countedDirs) to(path string) error {
	c.t.Helper()
	got, err := c.way.open("top", path, func(in, name, at string) (string, error) {
		if name == c.missing {
			return "", fs.ErrNotExist
		}
		c.opened++
		c.open++
		c.most = max(c.most, c.open)
		if in+"/"+name != "top/"+at || strings.Contains(name, "/") {
			c.t.Fatalf("%q is opened in %q as %q", name, in, at)
		}
		return in + "/" + name, nil
	}, func(string) { c.open-- })
	if want := strings.TrimSuffix("top/"+path, "/"); err == nil && got != want {
		c.t.Fatalf("%q is opened instead of %q", got, want)
	}
	return err
}

// TestOpenPathIsLinear walks down a deep tree and up again, as a copy does.
func TestOpenPathIsLinear(t *testing.T) {
	const levels = 5000
	c := &countedDirs{t: t}
	paths := []string{""}
	for range levels {
		paths = append(paths, strings.TrimPrefix(paths[len(paths)-1]+"/d", "/"))
	}
	for _, p := range paths {
		if err := c.to(p); err != nil {
			t.Fatal(err)
		}
	}
	for i := range paths {
		if err := c.to(paths[len(paths)-1-i]); err != nil {
			t.Fatal(err)
		}
	}
	if c.opened > 3*levels || c.most > levels/10 {
		t.Errorf("%d levels: %d directories were opened, at most %d at once", levels, c.opened, c.most)
	}
	c.way.closeFrom(0, func(string) { c.open-- })
	if c.open != 0 {
		t.Errorf("%d directories stay open", c.open)
	}
}

// TestOpenPathAnywhere opens random paths. Some are prefixes of others, and some do not exist.
func TestOpenPathAnywhere(t *testing.T) {
	if testing.Short() {
		return // it takes seconds
	}
	r := rand.New(rand.NewPCG(soak.Seed(t), 0))
	c := &countedDirs{t: t, missing: "gone"}
	names := []string{"a", "aa", "b", "gone"}
	var path []string
	for range soak.Count(t, 20_000, 2_000_000) {
		path = path[:r.IntN(len(path)+1)]
		for range r.IntN(300) {
			name := names[0]
			if r.IntN(8) == 0 {
				name = names[r.IntN(len(names))]
			}
			path = append(path, name)
		}
		if len(path) > 600 {
			path = path[:r.IntN(600)]
		}
		isMissing := strings.Contains(fmt.Sprint(path), "gone")
		if err := c.to(strings.Join(path, "/")); isMissing != errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("%q: %v", path, err)
		}
	}
	c.way.closeFrom(0, func(string) { c.open-- })
	if c.open != 0 {
		t.Errorf("%d directories stay open", c.open)
	}
}
