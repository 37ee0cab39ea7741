package workspace

import (
	"errors"
	"path"
	"path/filepath"
	"strings"
)

// linkCheck decides about the symlinks in one git directory that is copied. A link
// that leads out of the tree would let the fork's git write into the source or into
// another repository.
type linkCheck struct {
	fork *fork
	from *rootDir // where the links are
	base string   // its absolute path
	git  string   // the git directory in from; "" is all of from
	at   string   // what from is in the fork
}

// ownLinks decides about the symlinks of a copied tree that lie in a .git directory,
// and returns those to make.
func (f *fork) ownLinks(from *rootDir, links []piece) (out []piece, err error) {
	for _, l := range links {
		dir, ok := gitAbove(l.path)
		if ok {
			check := linkCheck{fork: f, from: from, base: f.from.root, git: dir}
			if l, ok, err = check.one(l); err != nil {
				return nil, err
			}
			if !ok {
				continue
			}
		}
		out = append(out, l)
	}
	return out, nil
}

// gitAbove returns the outermost .git directory that a path lies in.
func gitAbove(p string) (string, bool) {
	at := strings.Index("/"+p, "/.git/")
	if at < 0 {
		return "", false
	}
	return p[:at+len(".git")], true
}

// all decides about links, whose paths are relative to from.
func (c *linkCheck) all(links []piece) (out []piece, err error) {
	for _, l := range links {
		l, ok, err := c.one(l)
		if err != nil {
			return nil, err
		}
		if ok {
			out = append(out, l)
		}
	}
	return out, nil
}

// one returns what a link becomes in the fork; ok is false if it is left out. One that
// leads to another place in the tree, with no further symlink on the way, is kept, and
// so is a hook, which git only runs. A repository that needs any other is refused.
func (c *linkCheck) one(l piece) (_ piece, ok bool, err error) {
	in := l.path
	if c.git != "" {
		in = strings.TrimPrefix(l.path, c.git+"/")
	}
	to := resolve(filepath.Join(c.base, dirOf(l.path)), l.note)
	rel, within := inside(c.base, to)
	if within && c.from.isPlain(rel) && (!isNeeded(in) || c.git == "" || hasGit(rel)) {
		if l.note, err = filepath.Rel(filepath.Join(c.base, dirOf(l.path)), to); err != nil {
			return l, false, err
		}
		return l, true, nil
	}
	if first, _, _ := strings.Cut(in, "/"); first == "hooks" {
		return l, true, nil
	}
	if isNeeded(in) {
		return l, false, refuseGit(filepath.Join(c.base, l.path), errors.New("it is a symlink, and git would write through it into another repository"),
			"make it a copy of what it leads to, or clone the repository, then fork again")
	}
	c.fork.leave(path.Join(c.at, l.path))
	return l, false, nil
}

// isPlain reports whether no component of a path is a symlink. The last one may be
// missing.
func (r *rootDir) isPlain(rel string) bool {
	if rel == "" {
		return true
	}
	st, err := r.lstat(rel)
	return isGone(err) || err == nil && !st.is(typeSymlink)
}

// hasGit reports whether a path leads into a .git directory.
func hasGit(p string) bool {
	_, ok := gitAbove(p + "/")
	return ok
}

// isNeeded reports whether a repository needs the path p in its git directory: without p
// it is not a repository, or it is another one.
func isNeeded(p string) bool {
	for name := range strings.SplitSeq(p, "/") {
		switch name {
		case "hooks", "logs":
			return false
		case "HEAD", "objects", "refs", "packed-refs", "reftable", "config", "config.worktree", "index", "shallow", "commondir", "gitdir":
			return true
		}
	}
	return false
}
