package workspace

import (
	"context"
	"path/filepath"
	"strings"
	"sync"

	"github.com/dalsegno/segno/workspace/internal/gitignore"
)

// The largest sizes of git's files that are read. A larger file counts as missing or, if it is the
// index, as one of unknown format.
const (
	maxIgnoreFile = 1 << 20
	maxGitIndex   = 64 << 20
)

// protectIgnored protects the large files that git ignores and defers the others. git ignores a
// file if a rule matches it and git does not track it. protectIgnored starts no program and reads
// no configuration of the repository, because both belong to the workspace, which may be hostile.
// If it cannot decide, the file counts as not ignored and is saved. The index keeps the result
// until the file changes.
//
// The rules are in the .gitignore files of the work tree, from the top of the file's repository
// down, in .git/info/exclude, and in the user's own file, whose path is in [Options.GitIgnore]. A
// .gitignore that is only in the repository, because a sparse checkout leaves it out, does not
// count.
func (v *view) protectIgnored(ctx context.Context) error {
	byRepo := make(map[string]*workTree)
	defer func() {
		for _, w := range byRepo {
			if w != nil {
				w.close()
			}
		}
	}()
	for _, t := range v.scan.large {
		if err := ctx.Err(); err != nil {
			return err
		}
		repo := v.repository(t.n.path)
		w, known := byRepo[repo]
		if !known {
			w = v.openWorkTree(repo)
			byRepo[repo] = w
		}
		var files []int32
		for _, i := range t.files {
			e := &t.n.entries[i]
			at := join(t.n.path, e.name)
			if w != nil && w.ignores(join(v.dir.root, at)) {
				if e.held = v.scan.rules.cover.holds(at, false, whyLargeIgnore); !e.held {
					e.protect(whyLargeIgnore)
					continue
				}
			}
			files = append(files, i)
		}
		v.scan.markChanged(t.n)
		v.scan.deferFiles(&v.scan.deferred, t.n, files)
	}
	return nil
}

// repository returns the deepest directory in the tree, at or above path, that has a .git, or the
// root.
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

// openWorkTree opens the repository of the directory at, which [view.repository] returned. It
// returns nil if there is no repository or if it may not be read.
func (v *view) openWorkTree(at string) (w *workTree) {
	if at == "" && v.top.find(gitName) == nil {
		w = findWorkTree(v.dir.root)
	} else if top, err := v.root.openDir(at); err == nil { // otherwise it was removed or replaced meanwhile
		w, _ = openGitIn(top, filepath.Join(v.dir.root, at), v.self.uid)
	}
	if w != nil {
		w.ignores = w.ignoreCheck(v.dir.options.GitIgnore)
	}
	return w
}

// ignoreCheck returns a function that reports whether git ignores a file of w, given its absolute
// path. user is the path of the user's own ignore file, or "".
func (w *workTree) ignoreCheck(user string) func(path string) bool {
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
	tracks := sync.OnceValue(w.readTracked)
	return func(path string) bool {
		rel, _ := inside(w.path, path)
		return rules.Decide(rel, false) == gitignore.Ignored && !tracks()(rel)
	}
}

// readList reads an ignore file below root, or returns nil. Like git, it does not follow a
// .gitignore that is a symlink.
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

// readTracked returns a function that reports whether the index tracks a path. If the format of
// the index is unknown, every path counts as tracked.
func (w *workTree) readTracked() func(rel string) bool {
	data, err := w.git.readFile("index", maxGitIndex)
	if isGone(err) {
		return func(string) bool { return false } // no file was ever added to the index
	}
	names, ok := readGitIndex(data)
	if err != nil || !ok {
		return func(string) bool { return true }
	}
	tracked := make(map[string]bool, len(names))
	for _, name := range names {
		tracked[name] = true
	}
	return func(rel string) bool {
		for end, c := range rel { // "a/" is a directory of a sparse index
			if c == '/' && tracked[rel[:end+1]] {
				return true
			}
		}
		return tracked[rel]
	}
}
