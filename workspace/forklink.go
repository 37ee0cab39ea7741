package workspace

import (
	"errors"
	"path"
	"path/filepath"
	"strings"
)

// linkCheck checks the symlinks in one git directory that is copied. A link
// out of the tree would let the fork's git write into the source or into
// another repository.
type linkCheck struct {
	fork *fork
	from *dirHandle // the directory with the links
	base string     // its absolute path
	git  string     // the git directory in from; "" is all of from
	at   string     // what from is in the fork
}

// checkGitLinks checks the symlinks of a copied tree that are in a .git directory, and
// returns all symlinks to make.
func (f *fork) checkGitLinks(from *dirHandle, links []copyItem) (out []copyItem, err error) {
	for _, l := range links {
		dir, ok := gitAbove(l.path)
		if ok {
			check := linkCheck{fork: f, from: from, base: f.from.root, git: dir}
			if l, ok, err = check.check(l); err != nil {
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

// checkAll checks links whose paths are relative to from, and returns those to make.
func (c *linkCheck) checkAll(links []copyItem) (out []copyItem, err error) {
	for _, l := range links {
		l, ok, err := c.check(l)
		if err != nil {
			return nil, err
		}
		if ok {
			out = append(out, l)
		}
	}
	return out, nil
}

// check returns the link to make in the fork; ok is false if it is left out. A link to
// another path in the tree, with no further symlink on the way, is kept, and so is a hook,
// which git only runs. A repository that needs any other link is refused.
func (c *linkCheck) check(l copyItem) (_ copyItem, ok bool, err error) {
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
			"replace it by a copy of its target, or clone the repository, then fork again")
	}
	c.fork.leaveOut(path.Join(c.at, l.path))
	return l, false, nil
}

// isPlain reports whether no component of a path is a symlink. The last one may be
// missing.
func (d *dirHandle) isPlain(rel string) bool {
	st, err := d.lstat(rel)
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
