package workspace

import (
	"errors"
	"path"
	"path/filepath"
	"strings"
)

// linkCheck checks the symlinks in the git directories that are copied. A link
// out of the tree would let the fork's git write into the source or into
// another repository.
type linkCheck struct {
	fork *fork
	from *dirHandle // the directory with the links
	base string     // its absolute path
	at   string     // its path in the fork
	// isGit reports whether from is a git directory. If it is not set, from is a tree, and only
	// the links in its .git directories are checked.
	isGit bool
}

// gitAbove returns the outermost .git directory that contains a path.
func gitAbove(p string) (string, bool) {
	at := strings.Index("/"+p, "/.git/")
	if at < 0 {
		return "", false
	}
	return p[:at+len(".git")], true
}

// checkAll checks links and returns those that the fork gets.
func (c *linkCheck) checkAll(links []copyItem) (out []copyItem, err error) {
	for _, l := range links {
		ok := true
		if git, isIn := gitAbove(l.path); c.isGit {
			ok, err = c.check(&l, l.path)
		} else if isIn {
			ok, err = c.check(&l, strings.TrimPrefix(l.path, git+"/"))
		}
		if err != nil {
			return nil, err
		}
		if ok {
			out = append(out, l)
		}
	}
	return out, nil
}

// check sets l to the link that the fork gets. in is the path of l in its git directory. check
// returns false if the link is left out. It keeps a link to another path in the tree if there is
// no further symlink in that path, and a hook, which git only runs. It refuses a repository that
// needs any other link.
func (c *linkCheck) check(l *copyItem, in string) (ok bool, err error) {
	dir := filepath.Join(c.base, dirOf(l.path))
	to := resolve(dir, l.note)
	rel, within := inside(c.base, to)
	if within && c.from.isPlain(rel) && (!isNeeded(in) || c.isGit || strings.Contains("/"+rel+"/", "/.git/")) {
		l.note, err = filepath.Rel(dir, to)
		return err == nil, err
	}
	if first, _, _ := strings.Cut(in, "/"); first == "hooks" {
		return true, nil
	}
	if isNeeded(in) {
		return false, refuseGit(filepath.Join(c.base, l.path),
			errors.New("it is a symlink, and git would write through it into another repository"),
			"replace it by a copy of its target, or clone the repository, then fork again")
	}
	c.fork.leaveOut(path.Join(c.at, l.path))
	return false, nil
}

// isPlain reports whether no component of a path is a symlink. The last one may be
// missing.
func (d *dirHandle) isPlain(rel string) bool {
	st, err := d.lstat(rel)
	return isGone(err) || err == nil && !st.is(typeSymlink)
}

// isNeeded reports whether a repository needs the path p in its git directory: without p, it
// would be invalid or another repository.
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
