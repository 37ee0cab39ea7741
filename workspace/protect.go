package workspace

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/workspace/internal/gitignore"
)

// The reasons why an entry is protected.
const (
	whyGit         = "git"
	whyMadeAgain   = "can be made again"
	whyCache       = "cache directory"
	whyLarge       = "larger than 64 MiB"
	whyLargeIgnore = "larger than 8 MiB and ignored by git"
	whyNamed       = ".segnoignore"
	whyOwn         = "segno's own"
	whyFIFO        = "fifo"
	whySocket      = "socket"
	whyDevice      = "device"
	whyUnreadable  = "unreadable"
	whyChanging    = "changing"
)

// The sizes above which a file is protected: always, and only if git ignores it.
const (
	maxFile    = 64 << 20
	maxIgnored = 8 << 20
)

// ignoreName is the file in the root that names additional paths to protect.
const ignoreName = ".segnoignore"

// rebuilt describes directories that a tool can make again. A directory with one of the names is
// protected if one of the markers is beside it or inside it. The name alone is not enough: a directory
// called target may contain source code.
type rebuilt struct{ names, beside, inside []string }

// rebuiltDirs returns all kinds of such directories. It leaves out directories that people commonly
// commit or edit in place, such as vendor, Pods or Elixir's deps, and small ones, such as __pycache__.
func rebuiltDirs() []rebuilt {
	return []rebuilt{
		// npm, pnpm and Yarn leave a file inside, which still shows what the directory is after an undo of the turn that made package.json.
		{names: []string{"node_modules"}, beside: []string{"package.json"}, inside: []string{".package-lock.json", ".modules.yaml", ".yarn-integrity", ".yarn-state.yml"}},
		{names: []string{".next", ".nuxt", ".svelte-kit", ".parcel-cache", ".turbo"}, beside: []string{"package.json"}},
		{names: []string{"bower_components"}, beside: []string{"bower.json"}},
		{names: []string{".angular"}, beside: []string{"angular.json"}},
		{names: []string{"target"}, beside: []string{"Cargo.toml", "pom.xml"}},
		{names: []string{".venv", "venv", "env"}, inside: []string{"pyvenv.cfg"}},
		{names: []string{".tox"}, beside: []string{"tox.ini"}},
		{names: []string{".nox"}, beside: []string{"noxfile.py"}},
		{names: []string{".gradle"}, beside: []string{"build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts"}},
		{names: []string{".terraform"}, beside: []string{".terraform.lock.hcl"}},
		{names: []string{".dart_tool"}, beside: []string{"pubspec.yaml"}},
		{names: []string{"_build"}, beside: []string{"mix.exs", "dune-project"}},
		{names: []string{"elm-stuff"}, beside: []string{"elm.json"}},
		{names: []string{".stack-work"}, beside: []string{"stack.yaml"}},
		{names: []string{"dist-newstyle"}, beside: []string{"cabal.project"}},
		{names: []string{".zig-cache", "zig-cache"}, beside: []string{"build.zig"}},
	}
}

// cacheTag is the file that marks a directory as a cache, and cacheSignature is the beginning of that
// file: https://bford.info/cachedir/
const (
	cacheTag       = "CACHEDIR.TAG"
	cacheSignature = "Signature: 8a477f597d28d172789f06886806bc55"
)

// rulesVersion must be increased when the rules in this file change, so that no index keeps a result
// of older rules.
const rulesVersion = 5

// rules decide which paths are protected.
type rules struct {
	rebuilt map[string]rebuilt
	exclude map[string]bool // paths of segno's own directories inside the root
	ignore  *gitignore.List // the root's .segnoignore
	// databases and beside are the paths of attached databases, and of the files beside them.
	databases, beside map[string]bool
	hash              segno.Hash // the hash of all fields above
	// cover decides which paths stay saved although a rule protects them. hash does not include it:
	// each scan checks the held and the protected entries again.
	cover  *cover
	budget budget
}

// reserved lists paths in the tree that the rules protect: segno's own, those of attached databases,
// and those of the files beside the databases.
type reserved struct{ own, databases, beside []string }

// newRules makes rules from the root's .segnoignore, the reserved paths, the cover and the budget.
func newRules(ignore []byte, reserved reserved, cover *cover, limits budget) *rules {
	r := &rules{rebuilt: make(map[string]rebuilt), exclude: make(map[string]bool), ignore: gitignore.Parse(ignore), cover: cover, budget: limits,
		databases: make(map[string]bool), beside: make(map[string]bool)}
	sum := sha256.New()
	sum.Write(binary.AppendUvarint(nil, rulesVersion))
	for _, d := range rebuiltDirs() {
		for _, name := range d.names {
			r.rebuilt[name] = d
		}
		fmt.Fprintf(sum, "%q\n", d)
	}
	for _, p := range reserved.own {
		r.exclude[p] = true
		fmt.Fprintf(sum, "%q\n", p)
	}
	for _, p := range reserved.databases {
		r.databases[p] = true
		fmt.Fprintf(sum, "database %q\n", p)
	}
	for _, p := range reserved.beside {
		r.beside[p] = true
		fmt.Fprintf(sum, "beside %q\n", p)
	}
	sum.Write(ignore)
	r.hash = segno.Hash(sum.Sum(nil))
	return r
}

// special returns why an entry of this type is protected regardless of its name, or "".
func special(st *stat) string {
	switch st.mode & typeMask {
	case typeDir, typeSymlink:
		return ""
	case typeFile:
		if st.size > maxFile {
			return whyLarge
		}
		return ""
	case typeFIFO:
		return whyFIFO
	case typeSocket:
		return whySocket
	}
	return whyDevice
}

// verdict decides whether the entry at dir/name is protected, for every caller and in this order. It
// returns why, or "". held reports that a rule protects the entry, but the cover keeps it saved. handle is
// the open directory. Three reasons need more than the entry: whether a directory is tagged as a cache, see
// [rules.isCache], whether git ignores a large file, and whether a file exceeds the budget.
func (r *rules) verdict(dir, name string, st *stat, handle *dirHandle) (why string, held bool) {
	isDir := st.is(typeDir)
	if len(r.databases) > 0 && r.databases[join(dir, name)] {
		return segno.WhyDatabase, false // regardless of its size
	}
	if why := special(st); why != "" {
		return why, false
	}
	if isGitFile(name, st) {
		return "", false
	}
	if why, held = r.byName(dir, name, isDir, handle); why == "" && isDir {
		why = r.budget.tooDeep(dir, name)
	}
	return why, held
}

// byName is verdict for the rules about paths.
func (r *rules) byName(dir, name string, isDir bool, handle *dirHandle) (why string, held bool) {
	at := join(dir, name)
	switch {
	case name == gitName:
		return whyGit, false
	case r.exclude[at]:
		return whyOwn, false
	case r.beside[at]:
		return segno.WhyDatabase, false
	case at == ignoreName:
		return "", false // always save it, so that a restore can undo a change of the rules
	}
	if isDir {
		if marker := worktreeMarker(handle, name); marker != "" {
			if !r.cover.holds(at, true, whyGit, join(dir, marker)) {
				return whyGit, false
			}
			held = true
		}
	}
	verdict := r.ignore.Match(at, isDir)
	if verdict == gitignore.Ignored {
		if !r.cover.holds(at, isDir, whyNamed) {
			return whyNamed, false
		}
		held = true
	}
	if !isDir || verdict == gitignore.Kept {
		return "", held
	}
	if marker := r.rebuilt[name].marker(name, handle); marker != "" {
		if !r.cover.holds(at, true, whyMadeAgain, join(dir, marker)) {
			return whyMadeAgain, held
		}
		held = true
	}
	return "", held
}

// isBesideDatabase reports whether dir/name is one of the files beside an attached database.
func (r *rules) isBesideDatabase(dir string, name []byte) bool {
	return len(r.beside) > 0 && r.beside[join(dir, string(name))]
}

// CanBeMadeAgain reports whether snapshots leave out a directory, in any workspace, because a tool can make
// it again or because it is tagged as a cache.
func CanBeMadeAgain(dir string) bool {
	parent, err := openRoot(filepath.Dir(dir))
	if err != nil {
		return false
	}
	defer parent.close()
	name := filepath.Base(dir)
	r := newRules(nil, reserved{}, nil, newBudget())
	why, _ := r.byName("", name, true, parent)
	return why == whyMadeAgain || r.isCache(parent, name, name)
}

// marker returns the path of a marker for the directory called name, relative to handle, or "".
func (b rebuilt) marker(name string, handle *dirHandle) string {
	for _, marker := range b.beside {
		if handle.exists(marker) {
			return marker
		}
	}
	for _, marker := range b.inside {
		if marker = join(name, marker); handle.exists(marker) {
			return marker
		}
	}
	return ""
}

// mayTag reports whether a CACHEDIR.TAG in the directory at path has an effect.
func (r *rules) mayTag(path string) bool { return r.ignore.Match(path, true) != gitignore.Kept }

// isCache reports whether the directory called name in handle is tagged as a cache. path is its path.
func (r *rules) isCache(handle *dirHandle, name, path string) bool {
	return r.mayTag(path) && handle.beginsWith(join(name, cacheTag), cacheSignature)
}

// holdsCache reports whether a directory stays saved although it is a cache.
func (r *rules) holdsCache(path string) bool {
	return r.cover.holds(path, true, whyCache, join(path, cacheTag))
}

// The names of segno's temporary files begin with ownPrefix. Those that Apply writes, in the directory
// of the file that each replaces, begin with tempPrefix. 26 random characters follow. No other name
// counts as a temporary file.
const (
	ownPrefix  = ".segno-"
	tempPrefix = ".segno-apply-"
)

func isTemp(name string) bool {
	random, ok := strings.CutPrefix(name, ownPrefix)
	return ok && isRandom(strings.TrimPrefix(random, "apply-"))
}

// isApplyTemp reports whether name is the name of a temporary file that Apply writes.
func isApplyTemp(name string) bool { return strings.HasPrefix(name, tempPrefix) && isTemp(name) }

// isRandom reports whether s has the form of a text by crypto/rand.Text.
func isRandom(s string) bool {
	return len(s) == 26 && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") == ""
}
