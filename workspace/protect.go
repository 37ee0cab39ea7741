package workspace

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"path"
	"strings"

	"github.com/dalsegno/segno"
)

// Why an entry is protected.
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
	whyName        = "a name segno keeps for itself"
)

// The sizes above which a file is protected: always, and if git ignores it.
const (
	maxFile    = 64 << 20
	maxIgnored = 8 << 20
)

// ignoreName is the file in the root that names further paths to protect.
const ignoreName = ".segnoignore"

// rebuilt says that a directory of this name is made again by a tool, if one of
// the markers stands beside it or inside it. Names alone prove nothing: what is
// called target may be somebody's source.
type rebuilt struct {
	name           string
	beside, inside []string
}

// rebuiltDirs is the list. It leaves out what people commonly commit or edit in
// place, such as vendor, Pods or Elixir's deps, and what is small enough to save,
// such as __pycache__.
func rebuiltDirs() []rebuilt {
	npm := []string{"package.json"}
	venv := []string{"pyvenv.cfg"}
	return []rebuilt{
		{name: "node_modules", beside: npm},
		{name: "bower_components", beside: []string{"bower.json"}},
		{name: ".next", beside: npm},
		{name: ".nuxt", beside: npm},
		{name: ".svelte-kit", beside: npm},
		{name: ".parcel-cache", beside: npm},
		{name: ".turbo", beside: npm},
		{name: ".angular", beside: []string{"angular.json"}},
		{name: "target", beside: []string{"Cargo.toml", "pom.xml"}},
		{name: ".venv", inside: venv},
		{name: "venv", inside: venv},
		{name: "env", inside: venv},
		{name: ".tox", beside: []string{"tox.ini"}},
		{name: ".nox", beside: []string{"noxfile.py"}},
		{name: ".gradle", beside: []string{"build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts"}},
		{name: ".terraform", beside: []string{".terraform.lock.hcl"}},
		{name: ".dart_tool", beside: []string{"pubspec.yaml"}},
		{name: "_build", beside: []string{"mix.exs", "dune-project"}},
		{name: "elm-stuff", beside: []string{"elm.json"}},
		{name: ".stack-work", beside: []string{"stack.yaml"}},
		{name: "dist-newstyle", beside: []string{"cabal.project"}},
		{name: ".zig-cache", beside: []string{"build.zig"}},
		{name: "zig-cache", beside: []string{"build.zig"}},
	}
}

// cacheTag is the file that marks a directory as a cache, and cacheSignature how
// it begins: https://bford.info/cachedir/
const (
	cacheTag       = "CACHEDIR.TAG"
	cacheSignature = "Signature: 8a477f597d28d172789f06886806bc55"
)

// rulesVersion is raised when the rules in this file change, so that no index
// keeps a verdict of older ones.
const rulesVersion = 3

// rules decide which paths are protected.
type rules struct {
	rebuilt map[string]rebuilt
	exclude map[string]bool // paths of segno's own directories inside the root
	ignore  patterns
	hash    segno.Hash // of all of the above
	// cover decides which paths stay saved all the same. It is not part of hash: each
	// scan checks again the entries that are held and those that are protected.
	cover *cover
}

// newRules makes rules of the root's .segnoignore, the directories to exclude and
// what stays saved whatever they say.
func newRules(ignore []byte, exclude []string, held *cover) *rules {
	r := &rules{rebuilt: make(map[string]rebuilt), exclude: make(map[string]bool), ignore: parsePatterns(ignore), cover: held}
	sum := sha256.New()
	sum.Write(binary.AppendUvarint(nil, rulesVersion))
	for _, d := range rebuiltDirs() {
		r.rebuilt[d.name] = d
		fmt.Fprintf(sum, "%q\n", d)
	}
	for _, p := range exclude {
		r.exclude[p] = true
		fmt.Fprintf(sum, "%q\n", p)
	}
	sum.Write(ignore)
	r.hash = segno.Hash(sum.Sum(nil))
	return r
}

// prober looks at names near a directory: whether one exists, and how a file
// begins. Both a scan and a restore ask the rules through one.
type prober interface {
	exists(name string) bool
	begins(name, prefix string) bool
}

// special returns why an entry of this type is protected whatever its name, or "".
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

// named returns why the entry at dir/name is protected, or "", and whether a rule
// would protect it if it did not stay saved. near sees dir.
func (r *rules) named(dir, name string, isDir bool, near prober) (why string, held bool) {
	if name == ".git" {
		return whyGit, false
	}
	if len(r.exclude) > 0 && r.exclude[join(dir, name)] {
		return whyOwn, false
	}
	if dir == "" && name == ignoreName {
		return "", false // what it says can be taken back
	}
	verdict := r.ignore.match(dir, name, isDir)
	if verdict == matchIgnored {
		if !r.cover.holds(dir, name, isDir, whyNamed) {
			return whyNamed, false
		}
		held = true
	}
	if !isDir || verdict == matchKept {
		return "", held
	}
	known, ok := r.rebuilt[name]
	if !ok {
		return "", held
	}
	for _, marker := range known.beside {
		if near.exists(marker) {
			return r.unlessHeld(whyMadeAgain, dir, name, join(dir, marker), held)
		}
	}
	for _, marker := range known.inside {
		if marker = path.Join(name, marker); near.exists(marker) {
			return r.unlessHeld(whyMadeAgain, dir, name, join(dir, marker), held)
		}
	}
	return "", held
}

// unlessHeld is the verdict about a directory that marker makes protected.
func (r *rules) unlessHeld(why, dir, name, marker string, held bool) (string, bool) {
	if r.cover.holds(dir, name, true, why, marker) {
		return "", true
	}
	return why, held
}

// mayTag reports whether a CACHEDIR.TAG in this directory counts.
func (r *rules) mayTag(path string) bool { return r.ignore.match("", path, true) != matchKept }

// holdsCache reports whether a directory stays saved although it is a cache.
func (r *rules) holdsCache(path string) bool {
	return r.cover.holds("", path, true, whyCache, cacheMarker(path))
}

// tempPrefix begins the names under which Apply writes, next to the place, what it
// then renames. 26 letters and digits follow; no other name is ever taken for one.
const tempPrefix = ".segno-apply-"

func isTemp[T string | []byte](name T) bool {
	if len(name) < len(".segno-")+26 || string(name[:len(".segno-")]) != ".segno-" {
		return false
	}
	return isRandom(string(name[len(name)-26:])) &&
		(len(name) == len(".segno-")+26 || len(name) == len(tempPrefix)+26 && string(name[:len(tempPrefix)]) == tempPrefix)
}

// isOurTemp reports whether a name is one of those Apply writes under.
func isOurTemp[T string | []byte](name T) bool {
	return isTemp(name) && len(name) == len(tempPrefix)+26
}

// isRandom reports whether s is text as crypto/rand.Text makes it.
func isRandom(s string) bool {
	return strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") == ""
}
