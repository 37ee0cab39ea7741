package workspace

import (
	"context"
	"path/filepath"
	"strings"

	"github.com/dalsegno/segno/internal/gitignore"
)

// The most bytes that are read of a file of git's. A larger file counts as absent,
// or, for the index, as one that cannot be understood.
const (
	maxIgnoreFile = 1 << 20
	maxGitIndex   = 64 << 20
)

// gitIgnored returns which of the large files git ignores: a rule matches them and
// git does not track them. It starts no program and reads no configuration of the
// repository, because both belong to the workspace, which may be hostile. Where it
// cannot tell, a file is not ignored and is saved. The index keeps the answer until
// the file changes.
//
// Counted are the .gitignore files in the work tree from the top of the file's
// repository down, .git/info/exclude, and the user's own file, which
// [Config.GitIgnore] names. A .gitignore that is only in the repository, because a
// sparse checkout leaves it out, does not count.
func (v *view) gitIgnored(ctx context.Context) (map[string]bool, error) {
	byRepo := make(map[string][]string)
	for _, t := range v.scan.large {
		repo := v.repository(t.n.path)
		for _, i := range t.files {
			byRepo[repo] = append(byRepo[repo], join(t.n.path, t.n.entries[i].name))
		}
	}
	owner, err := v.root.dir().owner(".")
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
		for _, path := range repo.ignores(paths, v.dir.config.GitIgnore, owner) {
			ignored[path] = true
		}
		repo.close()
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
		if n = e.child; n.find(".git") != nil {
			repo = n.path
		}
	}
	return repo
}

// gitRepo is a repository in, or around, a tree.
type gitRepo struct {
	root   *rootDir // the tree, or the work tree around it
	shared bool     // root belongs to a view
	real   string   // the path of root
	top    string   // the top of the work tree, seen from root
	tree   string   // the tree's root, seen from top; "" unless the repository is around it
	below  string   // top, seen from the tree's root; "" unless it is in the tree
}

// openRepo returns the repository of the directory at, which is one that
// [view.repository] returned, or nil.
func (v *view) openRepo(at string) *gitRepo {
	if at != "" || v.top.find(".git") != nil {
		return &gitRepo{root: v.root, shared: true, real: v.dir.root, top: at, below: at}
	}
	for _, dir := range upwards(v.dir.root)[1:] {
		root, err := openRealDir(dir)
		if err != nil {
			continue // it may be entered and not be listed
		}
		if _, err := root.lstat(".git"); err == nil {
			tree, _ := inside(dir, v.dir.root)
			return &gitRepo{root: root, real: dir, tree: tree}
		}
		root.close()
	}
	return nil
}

func (g *gitRepo) close() {
	if !g.shared {
		g.root.close()
	}
}

// ignores returns which paths of the tree are ignored and not tracked. user is the
// path of the user's own ignore file, or "".
func (g *gitRepo) ignores(paths []string, user string, owner uint32) (ignored []string) {
	git := g.openGit(owner)
	if git == nil {
		return nil
	}
	defer git.close()
	rules := gitignore.Rules{In: g.lists(), Shared: []*gitignore.List{readList(git.common.root, "info", "exclude"), userList(user)}}
	candidates := make(map[string]string) // seen from top → seen from the tree
	for _, path := range paths {
		rel := strings.TrimPrefix(path[len(g.below):], "/")
		if g.tree != "" {
			rel = join(g.tree, rel)
		}
		if rules.Decide(rel, false).Verdict == gitignore.Ignored {
			candidates[rel] = path
		}
	}
	if len(candidates) == 0 || !dropTracked(git.git.root.dir(), candidates) {
		return nil
	}
	for _, path := range candidates {
		ignored = append(ignored, path)
	}
	return ignored
}

// lists returns a function that reads the .gitignore of a directory, once each.
func (g *gitRepo) lists() func(dir string) *gitignore.List {
	known := make(map[string]*gitignore.List)
	return func(dir string) *gitignore.List {
		l, ok := known[dir]
		if !ok {
			l = readList(g.root, join(g.top, dir), ".gitignore")
			known[dir] = l
		}
		return l
	}
}

// readList reads an ignore file below root, or returns nil. git does not follow a
// .gitignore that is a symlink either.
func readList(root *rootDir, dir, name string) *gitignore.List {
	at, err := root.open(strings.Trim(dir, "/"))
	if err != nil {
		return nil
	}
	defer at.close()
	text, err := at.readAll(name, maxIgnoreFile)
	if err != nil {
		return nil
	}
	return gitignore.Parse(text)
}

// userList reads the user's own ignore file, which may be a symlink, or returns nil.
func userList(path string) *gitignore.List {
	if path == "" {
		return nil
	}
	real, err := realDir(path)
	if err != nil {
		return nil
	}
	root, err := openRootDir(filepath.Dir(real))
	if err != nil {
		return nil
	}
	defer root.close()
	return readList(root, "", filepath.Base(real))
}

// openGit finds the git directories of g, or returns nil. It belongs to this user or to
// the owner of the tree's root, or it is not read; see [follow] for a .git file.
func (g *gitRepo) openGit(owner uint32) *repository {
	dir, err := g.root.open(g.top)
	if err != nil {
		return nil
	}
	defer dir.close()
	r, _ := gitIn(dir.asRoot(g.root), filepath.Join(g.real, g.top), owner)
	return r
}

// dropTracked removes from candidates what the index tracks. It reports false if the
// index cannot be understood.
func dropTracked(at *openDir, candidates map[string]string) bool {
	data, err := at.readAll("index", maxGitIndex)
	if isGone(err) {
		return true // nothing was ever added
	}
	return err == nil && eachTracked(data, func(name string) { delete(candidates, name) }, func(dir string) {
		for rel := range candidates {
			if strings.HasPrefix(rel, dir) {
				delete(candidates, rel)
			}
		}
	})
}
