package archive

import (
	"errors"
	"fmt"
	"path"
	"strings"
	"unicode/utf8"
)

// maxHops is how many links a path may pass through; the kernel has the same limit.
const maxHops = 40

// checkLinks returns an error if a link resolves to a path outside its agent's workspace, even
// through another link.
func checkLinks(links []Link) error {
	all := newLinkResolvers(links)
	for _, l := range links {
		if err := all.check(l); err != nil {
			return fmt.Errorf("link %q: %w", l.Path, err)
		}
	}
	return nil
}

// maxLinkSteps bounds the work for all links of an archive. A link can pass through 40 others with
// hundreds of elements each. The limit is large enough to resolve some such links.
const maxLinkSteps = 1 << 24

// linkResolvers follow the links of an archive, as a system does that distinguishes all names, and as one that ignores case and
// the forms of characters. A link that the second one passes through may be a missing name on the first one.
type linkResolvers [2]*linkResolver

func newLinkResolvers(links []Link) linkResolvers {
	return linkResolvers{newLinkResolver(links, func(name string) string { return name }), newLinkResolver(links, foldElement)}
}

// foldElement is fold for one element of a path. The result is one element, too, and "." or ".." only if name is: some characters
// fold to a slash or to dots.
func foldElement(name string) string {
	switch folded := fold(name); {
	case name != folded && (folded == "" || folded == "." || folded == ".."), strings.Contains(folded, "/"):
		return "\x00" + name
	default:
		return folded
	}
}

// A linkResolver follows the links of an archive.
type linkResolver struct {
	same    func(element string) string // returns the same string for elements that name the same file
	targets map[string]string           // by path; same has changed the elements of both
	steps   int                         // that are left
}

func newLinkResolver(links []Link, same func(string) string) *linkResolver {
	r := &linkResolver{same: same, targets: make(map[string]string, len(links)), steps: maxLinkSteps}
	for _, l := range links {
		r.targets[r.key(l.Path)] = r.key(l.Target)
	}
	return r
}

// key returns a path with elements that same has changed.
func (r *linkResolver) key(name string) string {
	elements := strings.Split(name, "/")
	for i, e := range elements {
		elements[i] = r.same(e)
	}
	return strings.Join(elements, "/")
}

func (all linkResolvers) check(l Link) error {
	if l.Target == "" || path.IsAbs(l.Target) || len(l.Target) > maxNameBytes || strings.ContainsAny(l.Target, "\\:\x00") || !utf8.ValidString(l.Target) {
		return errors.New("its target is not relative, or other systems cannot have it")
	}
	agent, _, _, _ := splitPath(l.Path)
	root := "agents/" + agent + "/workspace"
	for _, r := range all {
		if err := r.resolve(r.key(root), r.key(strings.TrimPrefix(l.Path, root+"/"))); err != nil {
			return err
		}
	}
	return nil
}

// splitLinks returns the links of a workspace that an archive can have, and the others. Without one
// of its links a path resolves to another place, so splitLinks checks the rest again. If the links of a
// workspace depend on each other in many steps, it loses all of them.
func splitLinks(links []Link) (kept, unsafe []Link) {
	const rounds = 16
	kept = links
	for range rounds {
		all, safe := newLinkResolvers(kept), make([]Link, 0, len(kept))
		for _, l := range kept {
			if all.check(l) == nil {
				safe = append(safe, l)
			} else {
				unsafe = append(unsafe, l)
			}
		}
		if len(safe) == len(kept) {
			return kept, unsafe
		}
		kept = safe
	}
	return nil, append(unsafe, kept...)
}

// resolve follows a path below root as the kernel does, and returns an error if it leaves root. Both are keys. A path
// that goes in a circle or does not exist is allowed, because it resolves to no file.
func (r *linkResolver) resolve(root, name string) error {
	todo := strings.Split(name, "/")
	at, depth := root, 0
	for hops := 0; len(todo) > 0; {
		if r.steps--; r.steps < 0 {
			return errors.New("the links lead through too many others")
		}
		e := todo[0]
		todo = todo[1:]
		switch e {
		case "", ".":
			continue
		case "..":
			if depth == 0 {
				return errors.New("it leads out of its workspace")
			}
			at, depth = path.Dir(at), depth-1
			continue
		}
		if depth++; depth > maxDepth {
			return fmt.Errorf("it leads deeper than %d levels", maxDepth)
		}
		at += "/" + e
		if target, ok := r.targets[at]; ok {
			if hops++; hops > maxHops {
				return nil
			}
			at, depth = path.Dir(at), depth-1
			todo = append(strings.Split(target, "/"), todo...)
			r.steps -= len(todo)
		}
	}
	return nil
}
