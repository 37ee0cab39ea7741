package archive

import (
	"path"
	"slices"
	"strings"
)

// Git treats a directory with the files of a repository as a repository, whatever its name is, and runs
// the programs that its config names: see safe.bareRepository in
// https://git-scm.com/docs/git-config. A directory without HEAD is not a repository. A HEAD that is not
// beside the other parts of a repository is a file like any other.

// IsBareHead reports whether a file or link is the HEAD of a repository that has no .git above it.
// siblings returns the names in its directory. If siblings is nil, these are not known, and the result
// is true for each HEAD.
func IsBareHead(name string, siblings func() []string) bool {
	return isHead(foldPlace(name)) && (siblings == nil || slices.ContainsFunc(siblings(), func(s string) bool { return isPartOfGit(foldPlace(s)) }))
}

func isHead(folded string) bool { return path.Base(folded) == "head" }

// isPartOfGit reports whether a name is one of those that every repository has, apart from HEAD.
func isPartOfGit(folded string) bool { return folded == "refs" || folded == "commondir" }

// gitDirs contains the directories in which a HEAD makes a repository, by their folded paths.
type gitDirs map[string]bool

// add adds each directory of a path that has a part of a repository in it.
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

// hasHead reports whether a path is the HEAD of one of the directories.
func (g gitDirs) hasHead(name string) bool {
	if len(g) == 0 {
		return false
	}
	folded := foldPlace(name)
	return isHead(folded) && g[path.Dir(folded)]
}

// gitDirs returns the git directories in a manifest.
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

// gitDirs returns the git directories in the workspace of an agent.
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
