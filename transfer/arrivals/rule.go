package arrivals

import (
	"path"
	"slices"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/pack"
	"github.com/dalsegno/segno/timeline"
)

// A Rule decides which files of one tree need trust, because another machine wrote them and 'segno unpack' would not write
// them here as they are: they run programs when an agent, git or an editor starts in the directory, they run with the rights of
// their owner, they may contain credentials, or they are links that leave the directory.
type Rule struct {
	places []placeLink
	names  func(dir string) []string // of the files in a directory of the tree; nil if they are not known
}

// A placeLink is a symbolic link through which a program reads the file or the directory target as one that needs trust.
type placeLink struct{ link, target string }

// NewRule returns the rule for a tree with these symbolic links, by path with their targets.
func NewRule(links map[string]string, names func(dir string) []string) *Rule {
	r := &Rule{names: names}
	for link, target := range links {
		if pack.WhyDropped(link, segno.Entity{Type: segno.EntitySymlink, Target: target}, nil) == "" {
			continue
		}
		if at, ok := resolve(links, link); ok {
			r.places = append(r.places, placeLink{link, at})
		}
	}
	return r
}

// resolve follows a symbolic link of a tree through the other links. ok is false if it leaves the tree.
func resolve(links map[string]string, link string) (at string, ok bool) {
	const maxHops = 40 // the limit of the kernel
	todo := strings.Split(link, "/")
	for hops := 0; len(todo) > 0; {
		next := path.Join(at, todo[0])
		todo = todo[1:]
		if next == ".." || strings.HasPrefix(next, "../") {
			return "", false
		}
		target, isLink := links[next]
		if !isLink {
			if at = next; at == "." {
				at = ""
			}
			continue
		}
		if hops++; hops > maxHops || path.IsAbs(target) {
			return "", false
		}
		todo = append(strings.Split(target, "/"), todo...)
	}
	return at, true
}

// Needs reports whether an entity at a path needs trust. isSetID is set if it needs trust only because of its bits setuid and
// setgid.
func (r *Rule) Needs(name string, e segno.Entity) (needs, isSetID bool) {
	if e.Type == segno.EntityNone || e.Type == segno.EntityProtected {
		return false, false // it is not written
	}
	var siblings func() []string
	if r.names != nil {
		dir, _ := path.Split(name)
		siblings = func() []string { return r.names(dir) }
	}
	isOtherName := e.Type == segno.EntityHardLink && pack.WhyDropped(e.Target, e, nil) != ""
	if isOtherName || pack.WhyDropped(name, e, siblings) != "" || r.needsBehindLink(name, e) {
		return true, false
	}
	isSetID = e.HasContent() && e.Mode&timeline.SetIDs != 0
	return isSetID, isSetID
}

// needsBehindLink reports whether a path needs trust under another name, which a symbolic link gives it.
func (r *Rule) needsBehindLink(name string, e segno.Entity) bool {
	e.Target = "" // it is relative to the path itself
	return slices.ContainsFunc(r.places, func(p placeLink) bool {
		rest, isBelow := strings.CutPrefix(name, p.target)
		if p.target == "" {
			rest = "/" + name
		}
		return isBelow && (rest == "" || rest[0] == '/') && pack.WhyDropped(p.link+rest, e, nil) != ""
	})
}

// LinksOf returns the symbolic links among the entities of a tree, by path with their targets.
func LinksOf(tree []segno.Change) map[string]string {
	links := map[string]string{}
	for _, c := range tree {
		if c.To.Type == segno.EntitySymlink {
			links[c.Path] = c.To.Target
		}
	}
	return links
}

// NamesOf returns the function that lists the names in a directory of a tree, which ends with a slash or is "".
func NamesOf(tree []segno.Change) func(dir string) []string {
	names := map[string][]string{}
	for _, c := range tree {
		dir, name := path.Split(c.Path)
		names[dir] = append(names[dir], name)
	}
	return func(dir string) []string { return names[dir] }
}
