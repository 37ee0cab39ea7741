package pack_test

import (
	"errors"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/archive"
	"github.com/dalsegno/segno/internal/pack"
	"github.com/dalsegno/segno/internal/testing/faultfs"
	"github.com/dalsegno/segno/workspace"
)

// settings are the files that programs would obey if the links of linkedSettings existed.
var settings = []string{".claude/settings.json", ".vscode/tasks.json", ".cursor/hooks.json", ".gemini/settings.json", ".github/hooks/a.json",
	"sub/.claude/settings.json", "sub/.CLAUDE/settings.json", "bare/HEAD"}

// linkedSettings writes settings under harmless names, and links that would make them settings.
// It returns the paths of these links, and of a file that makes a directory a repository.
func linkedSettings(f *fixture) (links []string) {
	f.Helper()
	for _, name := range []string{"settings.json", "tasks.json", "hooks.json", "hooks/a.json"} {
		f.write(f.project, "docs/"+name, `{"hooks":{}}`)
	}
	f.write(f.project, "sub/x", "x")
	for _, name := range []string{"HEAD", "config", "objects/x", "refs/x"} { // git would obey the config
		f.write(f.project, "bare/"+name, "x")
	}
	links = append(links, "bare/HEAD")
	for link, target := range map[string]string{".claude": "docs", ".vscode": "first", "first": "second", "second": "docs", ".cursor": ".first", ".first": "docs/.",
		".gemini": "sub/../docs", ".github": "zdocs", "zdocs": "docs", "sub/.claude": "../docs", "sub/.CLAUDE": "../docs"} {
		must(f, os.Symlink(target, filepath.Join(f.project, link)))
		if strings.Contains(link, ".c") || strings.Contains(link, ".C") || link == ".vscode" || strings.HasPrefix(link, ".g") {
			links = append(links, link)
		}
	}
	for _, name := range settings {
		if _, err := os.Stat(filepath.Join(f.project, name)); err != nil {
			f.Fatalf("the project of the test does not have %s: %v", name, err)
		}
	}
	return links
}

// checkHarmless checks that no settings can be reached in a directory, and that the list names the links.
func checkHarmless(t *testing.T, dir string, list []archive.Omission, links []string) {
	t.Helper()
	for _, name := range settings {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			t.Errorf("%s can be reached", name)
		}
	}
	if text, err := os.ReadFile(filepath.Join(dir, "docs/settings.json")); err != nil || len(text) == 0 {
		t.Errorf("a file that no link leads to: %q, %v", text, err)
	}
	whys := map[string]string{}
	for _, o := range list {
		_, path, _ := strings.Cut(o.Path, "/workspace/")
		whys[path] = o.Why
	}
	for _, link := range links {
		if whys[link] != archive.OmittedCredential {
			t.Errorf("%s was left out, and the list has it as %q", link, whys[link])
		}
	}
}

// TestLinkedSettingsAreNotPacked packs a workspace whose links lead to files that would be settings:
// as a checkpoint, and as a thread in which .claude was a directory before.
func TestLinkedSettingsAreNotPacked(t *testing.T) {
	f := newFixture(t)
	f.write(f.project, ".claude/rules/a.md", "Be brief.\n")
	f.say("alpha")
	f.checkpoint("t", nil)
	must(t, os.RemoveAll(filepath.Join(f.project, ".claude")))
	links := linkedSettings(f)
	f.say("beta")
	at := f.checkpoint("t", nil)

	name, m := f.pack(at, pack.Options{})
	to := newTarget(t)
	_, err := pack.Unpack(t.Context(), f.open(name), to.into())
	must(t, err)
	checkHarmless(t, to.dir, m.Omitted, links)

	name, m = packThread(t, f.store, "t", pack.Options{})
	computer := newMachine(t)
	dir := filepath.Join(computer.dir, "in")
	_, err = computer.importer().Thread(t.Context(), f.open(name), pack.Into{Dir: dir, TrustSession: true})
	must(t, err)
	checkHarmless(t, dir, m.Omitted, links)
	computer.checkSnapshots()
}

// checkSnapshots checks that no checkpoint of the store contains a denied path.
func (m *machine) checkSnapshots() {
	m.Helper()
	n := 0
	for c, err := range m.store.Checkpoints(m.Context(), segno.CheckpointQuery{}) {
		must(m, err)
		if c.Workspace == nil {
			continue
		}
		n++
		must(m, workspace.List(m.Context(), m.store.Objects(), *c.Workspace, func(path string, e segno.Entity, _ time.Time) error {
			if archive.IsDenied(archive.Workspace, path) || e.Type == segno.EntitySymlink && archive.IsDeniedLink(path) {
				m.Errorf("a checkpoint has %s", path)
			}
			return nil
		}))
	}
	if n == 0 {
		m.Error("the store has no checkpoint with files")
	}
}

// removeOrphans removes the objects that no other part names.
func (p *parts) removeOrphans() {
	for again := true; again; {
		again = false
		for file := range p.files {
			name := path.Base(file)
			raw, err := segno.ParseHash(name)
			if err != nil || strings.Contains(p.files["commits.jsonl"], name) {
				continue
			}
			isNamed := false
			for _, data := range p.files {
				isNamed = isNamed || strings.Contains(data, string(raw[:])) || strings.Contains(data, name)
			}
			if !isNamed {
				delete(p.files, file)
				again = true
			}
		}
	}
}

// TestDeniedPathsOfAThreadAreSkipped imports threads with paths that an archive must not have.
// Another program, or a version with a shorter list of places, may have written them.
func TestDeniedPathsOfAThreadAreSkipped(t *testing.T) {
	raw := func(name string) string {
		h, err := segno.ParseHash(name)
		must(t, err)
		return string(h[:])
	}
	const treeHead = "segno tree 1\n"
	sound := soundParts(t)
	entry := func(p *parts, name string) string {
		return "f" + string(rune(len(name))) + name + "\xa4\x03\x01" + raw(p.put("x")) + "\x00"
	}
	link := func(name, target string) string {
		return "s" + string(rune(len(name))) + name + string(rune(len(target))) + target
	}
	dir := func(p *parts, name, entries string) string {
		return "d" + string(rune(len(name))) + name + "\xed\x03" + raw(p.put(treeHead+entries)) + "\x00"
	}
	for name, c := range map[string]struct {
		entries func(p *parts) string
		files   string
		want    []string
	}{
		"credentials":  {func(p *parts) string { return entry(p, ".env") + entry(p, "a") }, "2", []string{".env"}},
		"abilities":    {func(p *parts) string { return entry(p, ".mcp.json") + entry(p, "a") }, "2", []string{".mcp.json"}},
		"a repository": {func(p *parts) string { return dir(p, ".git", entry(p, "config")) + entry(p, "a") }, "2", []string{".git"}},
		"a link": {func(p *parts) string {
			return link(".claude", "docs") + entry(p, "a") + dir(p, "docs", entry(p, "settings.json"))
		}, "2", []string{".claude"}},
		"a link that leads out": {func(p *parts) string { return link(".claude", "/etc") + entry(p, "a") }, "1", []string{".claude"}},
		"in directories": {func(p *parts) string {
			return entry(p, "a") + dir(p, "b", dir(p, ".vscode", entry(p, "tasks.json")+entry(p, "x")))
		}, "3", []string{"b/.vscode/tasks.json"}},
		"an invisible character": {func(p *parts) string {
			return entry(p, ".cl\u200caude") + dir(p, ".m\u200ccp.json", entry(p, "x")) + entry(p, "a")
		}, "3",
			[]string{`"agents/claude/workspace/.m\342\200\214cp.json"`}},
	} {
		t.Run(name, func(t *testing.T) {
			p := sound.clone(t)
			p.root(treeHead + c.entries(p))
			second := p.lines()[1]
			changed := strings.Replace(second, `"files":1,"bytes":4`, `"files":`+c.files+`,"bytes":`+c.files, 1)
			p.edit("commits.jsonl", second, regexp.MustCompile(`"times":"[0-9a-f]*",?`).ReplaceAllString(changed, ""))
			p.removeOrphans()
			m := newMachine(t)
			in := filepath.Join(m.dir, "in")
			got, err := m.importer().Thread(t.Context(), p.write(), pack.Into{Dir: in, TrustSession: true})
			must(t, err)
			var skipped []string
			for _, o := range got.Skipped {
				skipped = append(skipped, strings.TrimPrefix(o.Path, "agents/claude/workspace/"))
				if o.Why != archive.OmittedCredential {
					t.Errorf("%s is skipped as %q", o.Path, o.Why)
				}
			}
			if diff := cmp.Diff(c.want, skipped); diff != "" {
				t.Errorf("skipped (-want +got):\n%s", diff)
			}
			for _, name := range c.want {
				if _, err := os.Lstat(filepath.Join(in, name)); err == nil {
					t.Errorf("%s was extracted", name)
				}
			}
			if _, err := os.Stat(filepath.Join(in, "a")); err != nil {
				t.Error(err)
			}
			m.checkSnapshots()
			must(t, check(t, m))
		})
	}
}

// TestNoDirectoryMakesSettings unpacks to directories where harmless names would become settings.
func TestNoDirectoryMakesSettings(t *testing.T) {
	f := newFixture(t)
	f.write(f.project, "settings.json", "{}")
	f.say("alpha")
	name, _ := f.pack(f.checkpoint("t", nil), pack.Options{})
	thread, _ := packThread(t, f.store, "t", pack.Options{})
	m := newMachine(t)
	must(t, errors.Join(os.MkdirAll(filepath.Join(m.dir, "shared"), 0o755), os.MkdirAll(filepath.Join(m.dir, "p"), 0o755),
		os.Symlink("../shared", filepath.Join(m.dir, "p/.claude"))))
	for _, to := range []string{"q/.claude", "p/.claude/hooks", "q/.git/x"} {
		dir := filepath.Join(m.dir, to)
		_, err := pack.Unpack(t.Context(), f.open(name), pack.Into{Dir: dir})
		_, threadErr := m.importer().Thread(t.Context(), f.open(thread), pack.Into{Dir: dir, TrustSession: true})
		for _, err := range []error{err, threadErr} {
			if segno.KindOf(err) != segno.KindRefused || segno.HintOf(err) == "" {
				t.Errorf("into %s: %v", to, err)
			}
		}
		m.isEmpty(dir)
	}
	if _, err := os.Lstat(filepath.Join(m.dir, "q")); err == nil {
		t.Error("a refused directory has parents")
	}
}

// TestALinkInTheDirectoryStopsAnImport interrupts an import. The user then makes a link in its
// directory, and the import is repeated.
func TestALinkInTheDirectoryStopsAnImport(t *testing.T) {
	f := newFixture(t)
	f.write(f.project, "docs/settings.json", "{}")
	f.say("alpha")
	f.checkpoint("t", nil)
	f.say("beta")
	f.checkpoint("t", nil)
	name, _ := packThread(t, f.store, "t", pack.Options{})
	m := newMachine(t)
	dir := filepath.Join(m.dir, "in")
	must(t, m.store.Close())
	failed := errors.New("the machine stops")
	_, err := importWith(t.Context(), m.dir, name, faultfs.FailAt(-1), func() error {
		if _, err := os.Stat(filepath.Join(dir, "docs/settings.json")); err == nil {
			return failed
		}
		return nil
	})
	if !errors.Is(err, failed) {
		t.Fatalf("the import was not interrupted: %v", err)
	}
	link := filepath.Join(dir, ".claude")
	must(t, os.Symlink("docs", link))
	_, err = importWith(t.Context(), m.dir, name, faultfs.FailAt(-1), func() error { return nil })
	if segno.KindOf(err) != segno.KindConflict || !strings.Contains(err.Error(), link) {
		t.Errorf("with the link: %v", err)
	}
	must(t, os.Remove(link))
	got, err := importWith(t.Context(), m.dir, name, faultfs.FailAt(-1), func() error { return nil })
	must(t, err)
	if got.WasComplete || got.Commits != 2 {
		t.Errorf("completed: %+v", got)
	}
	m.store, err = m.place().Open(t.Context())
	must(t, err)
}
