package segno_test

import (
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// idiom matches turns of phrase that hide an actor or an action. CONTRIBUTING.md has a plain
// word for each of them.
var idiom = regexp.MustCompile(`(?i)\b(anew|stands? on|(is|are|was|were|be) told|(is|are) no [a-z]|who|whoever|whom|nobody|somebody|someone|` +
	`what (is|was|were|it|they|there|nothing)|takes? (it |them )?back|taken back|noughts?|by (it|them)sel(f|ves)|for ever|the like|of (its|their|his) own|` +
	`ours|theirs|as ever|broken off|goes by|makes? do|knows? better|ends well|is looked (at|for)|are looked (at|for)|hears? of|lies (there|beside|in)|says so|said so)\b`)

// mostIdiom is the share of comment lines, in percent, that may match idiom.
const mostIdiom = 2.0

// TestCommentsArePlain counts the comment lines that use an idiom.
func TestCommentsArePlain(t *testing.T) {
	lines, found := 0, 0
	perPackage := map[string][2]int{}
	err := filepath.WalkDir(".", func(path string, de fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if de.IsDir() && path != "." && (strings.HasPrefix(de.Name(), ".") || de.Name() == "testdata") {
			return fs.SkipDir
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		eachLine(t, path, func(n int, line string) {
			line = strings.TrimSpace(line)
			_, comment, ok := strings.Cut(line, "// ")
			if !ok {
				return
			}
			lines++
			p := perPackage[filepath.Dir(path)]
			p[0]++
			if idiom.MatchString(comment) {
				found++
				p[1]++
			}
			perPackage[filepath.Dir(path)] = p
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	share := 100 * float64(found) / float64(lines)
	t.Logf("%d of %d comment lines, %.1f %%", found, lines, share)
	for dir, p := range perPackage {
		t.Logf("%s: %d of %d", dir, p[1], p[0])
	}
	if share > mostIdiom {
		t.Errorf("%.1f %% of comment lines use an idiom of those that CONTRIBUTING.md lists; at most %.1f %%", share, mostIdiom)
	}
}

// TestDocumentsArePlain refuses the same idioms in documents that are written by hand, except
// in the tables of CONTRIBUTING.md, which quote them.
func TestDocumentsArePlain(t *testing.T) {
	documents := []string{"README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "bench/README.md",
		"docs/acp.md", "docs/archive.md", "docs/figures.md", "docs/glossary.md", "docs/library.md", "docs/worlds.md", "internal/cli/testdata/docs/intro.md"}
	for _, name := range documents {
		eachLine(t, name, func(n int, line string) {
			if name == "CONTRIBUTING.md" && strings.HasPrefix(line, "|") {
				return
			}
			if found := idiom.FindString(line); found != "" {
				t.Errorf("%s:%d uses the idiom %q: %s", name, n, found, line)
			}
		})
	}
}
