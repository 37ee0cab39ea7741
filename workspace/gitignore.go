package workspace

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"github.com/dalsegno/segno/internal/gitignore"
)

// The most bytes that are read of a file of git's. A larger file counts as absent,
// or, for the index, as one that cannot be understood.
const (
	maxIgnoreFile = 1 << 20
	maxGitFile    = 64 << 10
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
	ignored := make(map[string]bool)
	for at, paths := range byRepo {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		repo := v.openRepo(at)
		if repo == nil {
			continue
		}
		for _, path := range repo.ignores(paths, v.dir.config.GitIgnore) {
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
	self, err := os.Lstat(v.dir.root)
	if err != nil {
		return nil
	}
	for dir := filepath.Dir(v.dir.root); ; dir = filepath.Dir(dir) {
		fi, err := os.Lstat(filepath.Join(dir, ".git"))
		if err == nil {
			// git refuses a repository of another user, and so does segno.
			if uid, _ := ownerOf(fi); uid != uidOf(self) {
				return nil
			}
			root, err := openRootDir(dir)
			if err != nil {
				return nil
			}
			tree, _ := inside(dir, v.dir.root)
			return &gitRepo{root: root, real: dir, tree: tree}
		}
		if dir == filepath.Dir(dir) {
			return nil
		}
	}
}

func uidOf(fi os.FileInfo) uint32 {
	uid, _ := ownerOf(fi)
	return uid
}

func (g *gitRepo) close() {
	if !g.shared {
		g.root.close()
	}
}

// ignores returns which paths of the tree are ignored and not tracked. user is the
// path of the user's own ignore file, or "".
func (g *gitRepo) ignores(paths []string, user string) (ignored []string) {
	git := g.openGit()
	if git == nil {
		return nil
	}
	defer git.close()
	rules := gitignore.Rules{In: g.lists(), Shared: []*gitignore.List{git.list("info", "exclude"), userList(user)}}
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
	if len(candidates) == 0 || !git.dropTracked(candidates) {
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
	real, err := filepath.EvalSymlinks(path)
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

// gitDirs are the directories in which git keeps a work tree's index and what all
// work trees of a repository share.
type gitDirs struct {
	own, common *rootDir
	ownAt       string // below own
	commonAt    string
	opened      []*rootDir
}

// openGit finds the git directories of g, or returns nil. A .git file, as worktrees
// and submodules have, may name any directory. Two files of that directory are read,
// bounded and as data: at worst it makes a large file count as ignored or not.
func (g *gitRepo) openGit() *gitDirs {
	at := join(g.top, ".git")
	if dir, err := g.root.open(at); err == nil {
		dir.close()
		return &gitDirs{own: g.root, ownAt: at, common: g.root, commonAt: at}
	}
	text, err := readGitFile(g.root, g.top, ".git")
	to, ok := strings.CutPrefix(text, "gitdir: ")
	if err != nil || !ok {
		return nil
	}
	path := resolve(filepath.Join(g.real, g.top), to)
	own, err := openRootDir(path)
	if err != nil {
		return nil
	}
	d := &gitDirs{own: own, common: own, opened: []*rootDir{own}}
	if text, err := readGitFile(own, "", "commondir"); err == nil {
		if d.common, err = openRootDir(resolve(path, text)); err != nil {
			d.close()
			return nil
		}
		d.opened = append(d.opened, d.common)
	}
	return d
}

func (d *gitDirs) close() {
	for _, root := range d.opened {
		root.close()
	}
}

func (d *gitDirs) list(dir, name string) *gitignore.List {
	return readList(d.common, join(d.commonAt, dir), name)
}

// readGitFile reads a file of one line.
func readGitFile(root *rootDir, dir, name string) (string, error) {
	at, err := root.open(dir)
	if err != nil {
		return "", err
	}
	defer at.close()
	text, err := at.readAll(name, maxGitFile)
	return strings.TrimRight(string(text), "\r\n"), err
}

// dropTracked removes from candidates what the index tracks. It reports false if the
// index cannot be understood.
func (d *gitDirs) dropTracked(candidates map[string]string) bool {
	at, err := d.own.open(d.ownAt)
	if err != nil {
		return false
	}
	defer at.close()
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
