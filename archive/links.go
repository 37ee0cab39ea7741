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
	targets := make(map[string]string, len(links))
	for _, l := range links {
		if l.Target == "" || path.IsAbs(l.Target) || len(l.Target) > maxNameBytes || strings.ContainsAny(l.Target, "\\:\x00") {
			return fmt.Errorf("link %q has a target that is not relative", l.Path)
		}
		targets[l.Path] = l.Target
	}
	for _, l := range links {
		agent, _, _, _ := splitPath(l.Path)
		if err := resolve(targets, "agents/"+agent+"/workspace", l.Path); err != nil {
			return fmt.Errorf("link %q: %w", l.Path, err)
		}
	}
	return nil
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
