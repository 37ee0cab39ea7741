package workspace

import (
	"context"
	"maps"
	"path/filepath"
	"strings"

	"github.com/dalsegno/segno/internal/gitignore"
)

// The size up to which a file of git's is read. A larger file counts as absent, or, if it
// is the index, as one of an unknown format.
const (
	maxIgnoreFile = 1 << 20
	maxGitIndex   = 64 << 20
)

// gitIgnored returns which of the large files git ignores: a rule matches them and
// git does not track them. It starts no program and reads no configuration of the
// repository, because both belong to the workspace, which may be hostile. If gitIgnored
// cannot decide, the file counts as not ignored and is saved. The index keeps the answer
// until the file changes.
//
// gitIgnored reads the .gitignore files in the work tree from the top of the file's
// repository down, .git/info/exclude, and the user's own file, whose path is in
// [Options.GitIgnore]. A .gitignore that is only in the repository, because a
// sparse checkout leaves it out, does not count.
func (v *view) gitIgnored(ctx context.Context) (map[string]bool, error) {
	byRepo := make(map[string][]string)
	for _, t := range v.scan.large {
		repo := v.repository(t.n.path)
		for _, i := range t.files {
			byRepo[repo] = append(byRepo[repo], join(t.n.path, t.n.entries[i].name))
		}
	}
	ignored := make(map[string]bool)
	for at, paths := range byRepo {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		w, err := v.openWorkTree(at)
		if err != nil {
			return nil, err
		}
		if w == nil {
			continue
		}
		relative := make(map[string]string, len(paths)) // path in the work tree → in the tree
		for _, p := range paths {
			rel, _ := inside(w.path, join(v.dir.root, p))
			relative[rel] = p
		}
		w.keepIgnored(relative, v.dir.options.GitIgnore)
		for _, p := range relative {
			ignored[p] = true
		}
		w.close()
	}
	return ignored, nil
}

// repository returns the deepest directory at or above path, in the tree, that has
// a .git, or the root.
func (v *view) repository(path string) string {
	repo, n := "", v.top
	for name := range strings.SplitSeq(path, "/") {
		e := n.find(name)
		if e == nil || e.kind != kindDir {
			break
		}
		if n = e.child; n.find(gitName) != nil {
			repo = n.path
		}
	}
	return repo
}

// openWorkTree opens the repository of the directory at, which is one that
// [view.repository] returned. It returns nil if there is none, or none that may be read.
func (v *view) openWorkTree(at string) (*workTree, error) {
	if at == "" && v.top.find(gitName) == nil {
		return findWorkTree(v.dir.root), nil
	}
	top, err := v.root.openDir(at)
	if err != nil {
		return nil, nil // it was removed or replaced meanwhile
	}
	path := filepath.Join(v.dir.root, at)
	if r, _ := openGitIn(top, path, v.self.uid); r != nil {
		return &workTree{top, path, r}, nil
	}
	top.close()
	return nil, nil
}

// keepIgnored removes the paths that are not ignored, or are tracked. The keys of paths are
// relative to w. user is the path of the user's own ignore file, or "".
func (w *workTree) keepIgnored(paths map[string]string, user string) {
	lists := make(map[string]*gitignore.List)
	rules := gitignore.Rules{Shared: []*gitignore.List{readList(w.common.dirHandle, "info/exclude"), readUserList(user)}}
	rules.In = func(dir string) *gitignore.List {
		l, ok := lists[dir]
		if !ok {
			l = readList(w.top, join(dir, ".gitignore"))
			lists[dir] = l
		}
		return l
	}
	maps.DeleteFunc(paths, func(rel, _ string) bool { return rules.Decide(rel, false) != gitignore.Ignored })
	if len(paths) > 0 && !dropTracked(w.git.dirHandle, paths) {
		clear(paths)
	}
}

// readList reads an ignore file below root, or returns nil. git does not follow a
// .gitignore that is a symlink either.
func readList(root *dirHandle, rel string) *gitignore.List {
	text, err := root.readFile(rel, maxIgnoreFile)
	if err != nil {
		return nil
	}
	return gitignore.Parse(text)
}

// readUserList reads the user's own ignore file, which may be a symlink, or returns nil.
func readUserList(path string) *gitignore.List {
	if path == "" {
		return nil
	}
	real, err := realDir(path)
	if err != nil {
		return nil
	}
	text, err := readStateFile(real, maxIgnoreFile)
	if err != nil {
		return nil
	}
	return gitignore.Parse(text)
}

// dropTracked removes the paths that the index tracks from candidates. It returns false if
// the format of the index is unknown.
func dropTracked(git *dirHandle, candidates map[string]string) bool {
	data, err := git.readFile("index", maxGitIndex)
	if isGone(err) {
		return true // no file was ever added
	}
	tracked, ok := readGitIndex(data)
	if err != nil || !ok {
		return false
	}
	for _, name := range tracked {
		delete(candidates, name)
		if strings.HasSuffix(name, "/") {
			maps.DeleteFunc(candidates, func(rel, _ string) bool { return strings.HasPrefix(rel, name) })
		}
	}
	return true
}
