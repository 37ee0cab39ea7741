package workspace

import (
	"context"
	"maps"
	"path"
	"path/filepath"
	"slices"
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
	owner, err := v.root.owner(".")
	if err != nil {
		return nil, err
	}
	ignored := make(map[string]bool)
	for at, paths := range byRepo {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		repo := v.openRepo(at)
		if repo == nil {
			continue
		}
		for _, p := range repo.ignores(paths, v.dir.options.GitIgnore, owner) {
			ignored[p] = true
		}
		if repo.root != v.root {
			repo.root.close()
		}
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

// gitRepo is a repository in, or around, a tree.
type gitRepo struct {
	root  *dirHandle // the tree, or the work tree around it
	real  string     // the path of root
	top   string     // the top of the work tree, relative to root
	tree  string     // the tree's root, relative to top; "" unless the repository is around it
	below string     // top, relative to the tree's root; "" unless it is in the tree
}

// openRepo returns the repository of the directory at, which is one that
// [view.repository] returned, or nil.
func (v *view) openRepo(at string) *gitRepo {
	if at != "" || v.top.find(gitName) != nil {
		return &gitRepo{root: v.root, real: v.dir.root, top: at, below: at}
	}
	for _, dir := range upwards(v.dir.root)[1:] {
		root, err := openRealDir(dir)
		if err != nil {
			continue // this user may enter it, but not list it
		}
		if root.exists(gitName) {
			tree, _ := inside(dir, v.dir.root)
			return &gitRepo{root: root, real: dir, tree: tree}
		}
		root.close()
	}
	return nil
}

// ignores returns which paths of the tree are ignored and not tracked. user is the
// path of the user's own ignore file, or "".
func (g *gitRepo) ignores(paths []string, user string, owner uint32) (ignored []string) {
	git := g.openGit(owner)
	if git == nil {
		return nil
	}
	defer git.close()
	lists := make(map[string]*gitignore.List)
	rules := gitignore.Rules{Shared: []*gitignore.List{readList(git.common.dirHandle, "info/exclude"), readUserList(user)}}
	rules.In = func(dir string) *gitignore.List {
		l, ok := lists[dir]
		if !ok {
			l = readList(g.root, path.Join(g.top, dir, ".gitignore"))
			lists[dir] = l
		}
		return l
	}
	candidates := make(map[string]string) // path relative to top → relative to the tree
	for _, p := range paths {
		rel := path.Join(g.tree, strings.TrimPrefix(p[len(g.below):], "/"))
		if rules.Decide(rel, false) == gitignore.Ignored {
			candidates[rel] = p
		}
	}
	if len(candidates) == 0 || !dropTracked(git.git.dirHandle, candidates) {
		return nil
	}
	return slices.Collect(maps.Values(candidates))
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

// openGit opens the git directories of g, or returns nil. It reads them only if they belong
// to this user or to the owner of the tree's root; see followGitPointer for a .git file.
func (g *gitRepo) openGit(owner uint32) *repository {
	dir, err := g.root.openDir(g.top)
	if err != nil {
		return nil
	}
	defer dir.close()
	r, _ := openGitIn(dir, filepath.Join(g.real, g.top), owner)
	return r
}

// dropTracked removes the paths that the index tracks from candidates. It returns false if
// the format of the index is unknown.
func dropTracked(at *dirHandle, candidates map[string]string) bool {
	data, err := at.readFile("index", maxGitIndex)
	if isGone(err) {
		return true // no file was ever added
	}
	return err == nil && eachTracked(data, func(name string) { delete(candidates, name) }, func(dir string) {
		for rel := range candidates {
			if strings.HasPrefix(rel, dir) {
				delete(candidates, rel)
			}
		}
	})
}
