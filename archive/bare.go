package archive

import (
	"path"
	"slices"
	"strings"
)

// A directory with the files of a repository is one for git, whatever its name is, and git runs
// the programs that its config names: see safe.bareRepository in
// https://git-scm.com/docs/git-config. Without HEAD it is no repository. A HEAD that is not beside
// the other parts of a repository is a file like any other.

// IsBareHead says whether a file or link is the HEAD of a repository that has no .git above it.
// siblings returns the names in its directory; if it is nil, these are not known, and the answer
// is true for each HEAD.
func IsBareHead(name string, siblings func() []string) bool {
	return isHead(foldPlace(name)) && (siblings == nil || slices.ContainsFunc(siblings(), func(s string) bool { return isPartOfGit(foldPlace(s)) }))
}

func isHead(folded string) bool { return path.Base(folded) == "head" }

// isPartOfGit says whether each repository has one of these names.
func isPartOfGit(folded string) bool { return folded == "refs" || folded == "commondir" }

// A gitDirs has the directories in which a HEAD makes a repository, by their folded paths.
type gitDirs map[string]bool

// add adds the directories that a path has a part of a repository in.
func (g gitDirs) add(name string) {
	folded := foldPlace(name)
	if !strings.Contains(folded, "refs") && !strings.Contains(folded, "commondir") {
		return // nearly every path
	}
	for start := 0; start < len(folded); {
		end := len(folded)
		if n := strings.IndexByte(folded[start:], '/'); n >= 0 {
			end = start + n
		}
		if isPartOfGit(folded[start:end]) {
			g[path.Clean(folded[:start])] = true
		}
		start = end + 1
	}
}

// hasHead says whether a path is the HEAD of such a directory.
func (g gitDirs) hasHead(name string) bool {
	if len(g) == 0 {
		return false
	}
	folded := foldPlace(name)
	return isHead(folded) && g[path.Dir(folded)]
}

// gitDirs returns those of a manifest.
func (m *Manifest) gitDirs() gitDirs {
	g := gitDirs{}
	for _, e := range m.Entries {
		if e.Tier == Workspace {
			g.add(e.Path)
		}
	}
	for _, d := range m.Dirs {
		g.add(d)
	}
	for _, l := range m.Links {
		g.add(l.Path)
	}
	return g
}

// gitDirs returns those of the workspace of an agent.
func (a *AgentState) gitDirs() gitDirs {
	g := gitDirs{}
	for _, f := range a.Workspace {
		g.add(f.Path)
	}
	for _, d := range a.Dirs {
		g.add(d)
	}
	for _, l := range a.Links {
		g.add(l.Path)
	}
	return g
}
