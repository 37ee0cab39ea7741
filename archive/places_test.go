package archive

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/dalsegno/segno/internal/testing/soak"
)

// TestEveryPlaceIsDenied checks each line of the table: the place and a path below it, in any
// directory, in any case, and with the changes of a name that some file system ignores.
func TestEveryPlaceIsDenied(t *testing.T) {
	t.Parallel()
	for _, place := range places {
		t.Run(place, func(t *testing.T) {
			if fold(place) != place {
				t.Errorf("the table has the place in another form than %q", fold(place))
			}
			p := example(place)
			variants := []string{p, p + "/x", "a/" + p, "a/b/" + strings.ToUpper(p) + "/c", p + ".", p + " /x", p + ":stream", p[:1] + "\u200c" + p[1:], wide(p)}
			for _, name := range variants {
				if !denied(Workspace, name) {
					t.Errorf("%q is not denied", name)
				}
				if !deniedLink(name) {
					t.Errorf("a link %q is not denied", name)
				}
			}
			names := strings.Split(p, "/")
			for i := range names {
				if above := "a/" + strings.Join(names[:i+1], "/"); !deniedLink(above) || !deniedLink(strings.ToUpper(above)) {
					t.Errorf("a link %q is not denied, and the place is below it", above)
				}
			}
			if name := "x" + p + "x"; denied(Workspace, name) || deniedLink(name) {
				t.Errorf("%q is denied", name)
			}
		})
	}
	for _, name := range []string{"docs", "a/b", "CLAUDE.md", ".claude/rules", ".github/workflows", ".cursor/rules", "settings.json", "config.toml", "cargo/config.toml"} {
		if denied(Workspace, name) || deniedLink(name) {
			t.Errorf("%q is denied", name)
		}
	}
}

// example returns a path that a place matches.
func example(place string) string { return strings.ReplaceAll(place, "*", "x") }

// wide replaces each letter by another form that normalization makes equal.
func wide(name string) string {
	return strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' {
			return r - 'a' + 'ａ'
		}
		return r
	}, name)
}

// A hostileTree contains the files and links of a workspace.
type hostileTree struct {
	files, links map[string]string // path → content or target
}

func newHostileTree() *hostileTree {
	return &hostileTree{files: map[string]string{}, links: map[string]string{}}
}

// state returns the tree as a program that packs it would describe it.
func (h *hostileTree) state() State {
	a := AgentState{Info: AgentInfo{Name: "a"}}
	for name, text := range h.files {
		a.Workspace = append(a.Workspace, content(name, text))
	}
	for name, target := range h.links {
		a.Links = append(a.Links, Link{name, target})
	}
	return State{Agents: []AgentState{a}}
}

// forged returns an archive of the tree that another program made.
func (h *hostileTree) forged() []byte {
	const root = "agents/a/workspace/"
	var files [][2]string
	for name, text := range h.files {
		files = append(files, [2]string{root + name, text})
	}
	slices.SortFunc(files, func(a, b [2]string) int { return strings.Compare(a[0], b[0]) })
	return forge(func(m *Manifest) {
		for name, target := range h.links {
			m.Links = append(m.Links, Link{root + name, target})
		}
		slices.SortFunc(m.Links, func(a, b Link) int { return strings.Compare(a.Path, b.Path) })
	}, files...).bytes()
}

// extract writes the tree as an archive in both ways, and loads each one without trust.
func (h *hostileTree) extract(t testing.TB) (dirs []string) {
	t.Helper()
	dir := t.TempDir()
	packed, forged := filepath.Join(dir, "packed.ckpt"), filepath.Join(dir, "forged.ckpt")
	if _, err := Write(t.Context(), packed, h.state(), WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(forged, h.forged(), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{packed, forged} {
		into := strings.TrimSuffix(name, ".ckpt")
		loaded, err := Load(t.Context(), name, Into{Dir: into})
		if err != nil {
			t.Fatal(err)
		}
		h.checkNamed(t, loaded, name == forged)
		dirs = append(dirs, filepath.Join(into, "agents", "a", "workspace"))
	}
	return dirs
}

// checkNamed checks that every omitted path is listed: by the manifest if it was not
// packed, and otherwise by the manifest and the result of the load.
func (h *hostileTree) checkNamed(t testing.TB, loaded *Loaded, isForged bool) {
	t.Helper()
	named := map[string]bool{}
	list := loaded.Manifest.Omitted
	if isForged {
		list = loaded.Skipped
	}
	for _, o := range list {
		named[o.Path] = true
	}
	for _, all := range []map[string]string{h.files, h.links} {
		for name := range all {
			at := filepath.Join(loaded.Agents["a"].Workspace, name)
			if _, err := os.Lstat(at); err != nil && !named["agents/a/workspace/"+name] {
				t.Errorf("%s was left out and is not named", name)
			}
		}
	}
	if isForged {
		for _, name := range loaded.Manifest.Denied() {
			if !named[name] {
				t.Errorf("%s is listed as never extracted, and was extracted", name)
			}
		}
	}
}

// reachable returns the places that a program finds in a directory or one below it. It asks the
// file system and follows links, as the program does. It ignores the case of names, because the
// archive may be extracted on a file system that does so.
func reachable(t testing.TB, root string) (found []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(dir string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		here, err := os.ReadDir(dir)
		for _, place := range places {
			if at := lookUp(dir, here, strings.Split(place, "/")); at != "" {
				found = append(found, place+" at "+at)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// lookUp returns the path of names in a directory with the given entries, or "".
func lookUp(dir string, entries []os.DirEntry, names []string) string {
	for _, e := range entries {
		if ok, _ := path.Match(names[0], strings.ToLower(e.Name())); !ok {
			continue
		}
		at := filepath.Join(dir, e.Name())
		if len(names) == 1 {
			if _, err := os.Stat(at); err == nil {
				return at
			}
		} else if below, err := os.ReadDir(at); err == nil {
			if found := lookUp(at, below, names[1:]); found != "" {
				return found
			}
		}
	}
	return ""
}

// TestNoLinkLeadsToAPlace has a link in each position of each place, at several depths, through
// chains of links, with a target before or after it in the order of an archive. Each case is in a
// separate directory. The test extracts two archives, one of them made by hand, and no place is
// reachable.
func TestNoLinkLeadsToAPlace(t *testing.T) {
	t.Parallel()
	h, cases, depths := newHostileTree(), 0, []string{"", "p/", "p/q/"}
	if testing.Short() {
		depths = depths[1:2]
	}
	for _, place := range places {
		names := strings.Split(example(place), "/")
		for cut := range names {
			for _, depth := range depths {
				for _, target := range []string{"-t", "zt"} {
					for chain := range 3 {
						cases++
						h.addCase(fmt.Sprintf("%s%d/", depth, cases), names, cut+1, target, chain)
					}
				}
			}
		}
	}
	h.links["CLAUDE.md"], h.files["AGENTS.md"] = "AGENTS.md", "Be brief.\n"
	for _, dir := range h.extract(t) {
		found := reachable(t, dir)
		for _, at := range found[:min(len(found), 20)] {
			t.Errorf("a program finds %s", at)
		}
		if text, err := os.ReadFile(filepath.Join(dir, "CLAUDE.md")); err != nil || string(text) != "Be brief.\n" {
			t.Errorf("a link that leads to no place: %q, %v", text, err)
		}
	}
	t.Logf("%d cases", cases)
}

// addCase makes the first names of a place a link to a directory that contains the other names,
// through a chain of further links.
func (h *hostileTree) addCase(at string, names []string, cut int, target string, chain int) {
	up := strings.Repeat("../", cut-1)
	link := at + strings.Join(names[:cut], "/")
	file := at + target + "/" + strings.Join(append(slices.Clone(names[cut:]), "f"), "/")
	h.files[file] = "content\n"
	for i := range chain {
		next := fmt.Sprintf("%s%d", target, i)
		h.links[link] = up + next
		link, up = at+next, ""
	}
	h.links[link] = up + target
	if len(names) > cut && chain == 2 { // the last name is a link, too
		delete(h.files, file)
		h.files[at+"file"] = "content\n"
		h.links[path.Dir(file)] = strings.Repeat("../", len(names)-cut) + "file"
	}
}

// TestNoLinksLeadToAPlace has random links. Their names are those of places, and their
// targets are anywhere.
func TestNoLinksLeadToAPlace(t *testing.T) {
	t.Parallel()
	var words []string
	for _, place := range places {
		if strings.Contains(place, "/") {
			words = append(words, strings.Split(example(place), "/")...)
		}
	}
	words = append(words, "docs", "Docs", ".Claude", "SETTINGS.json", "x")
	anyName := rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(rapid.SampledFrom(words), 1, 4).Draw(t, "names"), "/")
	})
	dir, n := t.TempDir(), 0
	soak.Rapid(t, 40, 2000)
	rapid.Check(t, func(rt *rapid.T) {
		names, h := newNameSet(8), newHostileTree()
		for range rapid.IntRange(1, 12).Draw(rt, "entries") {
			name := anyName.Draw(rt, "name")
			if names.add("agents/a/workspace/"+name) != nil {
				continue
			}
			if rapid.Bool().Draw(rt, "link") {
				up := rapid.IntRange(0, strings.Count(name, "/")).Draw(rt, "up")
				h.links[name] = strings.Repeat("../", up) + anyName.Draw(rt, "target")
			} else {
				h.files[name] = "content\n"
			}
		}
		data := h.forged()
		n++
		into := filepath.Join(dir, fmt.Sprint(n))
		archive := into + ".ckpt"
		if err := os.WriteFile(archive, data, 0o600); err != nil {
			rt.Fatal(err)
		}
		if _, err := Load(t.Context(), archive, Into{Dir: into}); err != nil {
			return // a link points outside
		}
		for _, at := range reachable(t, into) {
			rt.Errorf("a program finds %s, of the files %v and the links %v", at, h.files, h.links)
		}
		if err := os.RemoveAll(into); err != nil {
			rt.Fatal(err)
		}
	})
}
