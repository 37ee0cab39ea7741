package archive

import (
	"errors"
	"fmt"
	"path"
	"strings"
)

// maxHops is how many links a path may lead through, as in the kernel.
const maxHops = 40

// checkLinks checks that no link leads out of its agent's workspace, not even through
// another link.
func checkLinks(links []Link) error {
	targets := targetsOf(links)
	for _, l := range links {
		if err := checkLink(targets, l); err != nil {
			return fmt.Errorf("link %q: %w", l.Path, err)
		}
	}
	return nil
}

func targetsOf(links []Link) map[string]string {
	targets := make(map[string]string, len(links))
	for _, l := range links {
		targets[l.Path] = l.Target
	}
	return targets
}

func checkLink(targets map[string]string, l Link) error {
	if l.Target == "" || path.IsAbs(l.Target) || len(l.Target) > maxNameBytes || strings.ContainsAny(l.Target, "\\:\x00") {
		return errors.New("its target is not relative")
	}
	agent, _, _, _ := splitPath(l.Path)
	return resolve(targets, "agents/"+agent+"/workspace", l.Path)
}

// splitLinks returns the links of a workspace that an archive can have, and the others. A
// path leads elsewhere once one of its links is gone, so the rest is checked again. A
// workspace whose links depend on each other in many steps loses all of them.
func splitLinks(links []Link) (kept, unsafe []Link) {
	const rounds = 16
	kept = links
	for range rounds {
		targets, safe := targetsOf(kept), make([]Link, 0, len(kept))
		for _, l := range kept {
			if checkLink(targets, l) == nil {
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

// resolve follows a path as the kernel does, and returns an error if it leaves root. A path
// that goes in a circle or does not exist leads nowhere and is allowed.
func resolve(targets map[string]string, root, name string) error {
	todo := strings.Split(strings.TrimPrefix(name, root+"/"), "/")
	at := root
	for hops := 0; len(todo) > 0; {
		e := todo[0]
		todo = todo[1:]
		switch e {
		case "", ".":
			continue
		case "..":
			if at == root {
				return errors.New("it leads out of its workspace")
			}
			at = path.Dir(at)
			continue
		}
		at += "/" + e
		if target, ok := targets[at]; ok {
			if hops++; hops > maxHops {
				return nil
			}
			at = path.Dir(at)
			todo = append(strings.Split(target, "/"), todo...)
		}
	}
	return nil
}
