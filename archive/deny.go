package archive

import (
	"path"
	"slices"
	"strings"
	"sync"
	"unicode"
)

// Credentials and the configuration of an agent's abilities never enter an archive and
// never leave one. The rules look at folded names. In a workspace the path decides, because
// a project may have a settings.json for another purpose. In a session the bare name decides,
// because no such file belongs there.

// credentialNames are names of credential files, in any directory. A star at the end stands for
// any rest of a name, and a star at the beginning for any beginning.
var credentialNames = strings.Fields(`.credentials.json .claude.json .netrc _netrc .npmrc .pypirc .git-credentials .envrc .env .env.*
	id_rsa id_dsa id_ecdsa id_ed25519 id_ecdsa_sk id_ed25519_sk *.pem *.p12 *.pfx *.key *.ppk *.jks *.keystore *.kdbx .pgpass .my.cnf
	.htpasswd .dockercfg .boto .s3cfg .vault-token managed-settings.json`)

// exampleNames match credentialNames, but by convention contain no credentials.
var exampleNames = strings.Fields(`.env.example .env.sample .env.template .env.dist .env.defaults`)

// abilityNames are files that give an agent or a tool abilities, if they are in a session.
var abilityNames = strings.Fields(`settings.json settings.local.json auth.json config.toml *.config.toml .mcp.json mcp.json hooks.json
	permissions*.json config.json credentials.json token.json oauth.json`)

// denied reports whether a path in a tier may not be in an archive.
func denied(tier Tier, name string) bool {
	folded := foldPlace(name)
	base := path.Base(folded)
	if !slices.Contains(exampleNames, base) && slices.ContainsFunc(credentialNames, matches(base)) {
		return true
	}
	if tier == Session && slices.ContainsFunc(abilityNames, matches(base)) {
		return true
	}
	isInside, _ := placeTable().find(folded)
	return isInside
}

// deniedLink reports whether a symbolic link of a workspace may not be in an archive. A link may not
// have a path that no file may have. It may not be a directory on the way to a place either: with
// .claude → docs, docs/settings.json would be .claude/settings.json. So every directory on the way to a
// place is a real one, and nothing is at the place: see [IsDenied]. The rule ignores the target, because
// the target can change.
func deniedLink(name string) bool {
	_, leads := placeTable().find(foldPlace(name))
	return leads || denied(Workspace, name)
}

// IsDenied reports whether a path, relative to its tier, may not be in an archive because it is
// a place for credentials or for the abilities of an agent.
func IsDenied(tier Tier, name string) bool { return denied(tier, name) }

// IsDeniedLink reports whether a symbolic link of a workspace may not be in an archive: its path is
// one that [IsDenied] reports, or a directory on the way to one.
func IsDeniedLink(name string) bool { return deniedLink(name) }

// A placeFinder finds places in paths. All names are folded.
type placeFinder struct {
	byFirst  map[string][][]string // places by their first name, split into names
	patterns []namePattern         // places of one name with a star
}

// A namePattern is a name with a star between two parts.
type namePattern struct{ before, after string }

func (p namePattern) matches(name string) bool {
	return len(name) >= len(p.before)+len(p.after) && strings.HasSuffix(name, p.after) && strings.HasPrefix(name, p.before)
}

var placeTable = sync.OnceValue(func() placeFinder { return newPlaceFinder(slices.Concat(places, credentialPlaces)) })

func newPlaceFinder(places []string) placeFinder {
	f := placeFinder{byFirst: map[string][][]string{}}
	for _, p := range places {
		names := strings.Split(p, "/")
		if before, after, star := strings.Cut(names[0], "*"); star {
			f.patterns = append(f.patterns, namePattern{before, after})
		} else {
			f.byFirst[names[0]] = append(f.byFirst[names[0]], names)
		}
	}
	return f
}

// find reports whether a folded path is at or below a place. leads is true if the last names of the path
// are the first names of a place, so that the place would be below the path.
func (f placeFinder) find(folded string) (isInside, leads bool) {
	for more := true; more; {
		var first, rest string
		first, rest, more = strings.Cut(folded, "/")
		for _, p := range f.patterns {
			isInside = isInside || p.matches(first)
		}
		list := f.byFirst[first]
		if s, ok := parseShort(first); ok {
			list = f.ofShort(s)
			isInside = isInside || slices.ContainsFunc(f.patterns, func(p namePattern) bool { return s.matches(p.before + "*" + p.after) })
		}
		if list != nil {
			names := strings.Split(folded, "/")
			for _, place := range list {
				switch countSame(place, names) {
				case len(place):
					isInside = true
				case len(names):
					leads = true
				}
			}
		}
		folded = rest
	}
	return isInside, leads
}

// ofShort returns the places for which a short name of their first directory may stand.
func (f placeFinder) ofShort(s shortName) (list [][]string) {
	for first, places := range f.byFirst {
		if s.matches(first) {
			list = append(list, places...)
		}
	}
	return list
}

// countSame returns how many of the first names of a path match those of a place.
func countSame(place, names []string) (n int) {
	for n < len(place) && n < len(names) && matches(names[n])(place[n]) {
		n++
	}
	return n
}

// foldPlace is fold for names that need not be valid in an archive. It also leaves out the parts of a
// name that some file system ignores: invisible characters, dots and spaces at the end, and the name
// of a stream.
func foldPlace(name string) string {
	if !isASCII(name) {
		name = strings.Map(func(r rune) rune {
			if unicode.In(r, unicode.Cf, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) {
				return -1
			}
			return r
		}, name)
	}
	name = fold(name)
	if end := name[max(len(name)-1, 0):]; end != "." && end != " " && strings.IndexByte(name, ':') < 0 && !strings.Contains(name, "./") && !strings.Contains(name, " /") {
		return name // nearly every name
	}
	names := strings.Split(name, "/")
	for i, n := range names {
		n, _, _ = strings.Cut(n, ":")
		names[i] = strings.TrimRight(n, " .")
	}
	return strings.Join(names, "/")
}

// matches returns a predicate: whether a pattern matches the folded name, or the long name for which it may stand.
func matches(name string) func(pattern string) bool {
	short, isShort := parseShort(name)
	return func(pattern string) bool {
		if isShort && short.matches(pattern) {
			return true
		}
		before, after, star := strings.Cut(pattern, "*")
		if !star {
			return name == pattern
		}
		return namePattern{before, after}.matches(name)
	}
}

// instructionNames are files that agents read as instructions.
var instructionNames = strings.Fields(`claude.md claude.local.md agents.md agents.override.md gemini.md soul.md .cursorrules .windsurfrules
	.clinerules copilot-instructions.md semantic_memory.md episodic_memory.md agent.md qwen.md crush.md .goosehints guidelines.md`)

// instructionPlaces are directories with such files.
var instructionPlaces = strings.Fields(`.claude/rules .cursor/rules .clinerules .windsurf/rules .roo/rules .kiro/steering .amazonq/rules
	.github/instructions .github/agents .github/prompts .junie`)

// IsInstruction reports whether an agent that works in a directory will read a file as instructions
// to follow. name is the file's path relative to that directory.
func IsInstruction(name string) bool {
	folded := fold(name)
	return slices.Contains(instructionNames, path.Base(folded)) || slices.ContainsFunc(instructionPlaces, func(place string) bool {
		return strings.Contains("/"+folded, "/"+place+"/")
	})
}
