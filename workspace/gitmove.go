package workspace

import (
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/dalsegno/segno"
)

// GitCommand returns the shell command that moves git's HEAD to its position at an earlier snapshot, or "" if
// there is nothing to move or no command is safe. It starts no git: it reads the repository. written holds
// the entities that a move of files writes, by path; content returns the content of one of them.
//
// The command never makes a commit unreachable from the references of the repository. If a commit would
// become unreachable, the command first makes a branch for it. GitCommand returns no command:
//
//   - if the files after the move equal those of HEAD wherever the two commits differ: then the user
//     already has HEAD at the place that belongs to the files;
//   - while git merges, rebases, reverts, bisects or picks a commit;
//   - if the commit is not in the repository, or the repository cannot be read.
//
// The command does not change files. It sets the index to the earlier commit.
func (d *Dir) GitCommand(ctx context.Context, then segno.Git, written map[string]segno.Entity, content func(segno.Hash) ([]byte, error)) string {
	w := findWorkTree(d.Root())
	if w == nil {
		return ""
	}
	defer w.close()
	now := readGit(d.Root())
	if now == nil || now.Operation != "" || now.Head == "" || now.Head == then.Head {
		return ""
	}
	m := &gitMove{workTree: w, objects: &gitObjects{dir: w.common}, now: *now, then: then}
	defer m.objects.close()
	m.writesBelow = func(p string) bool {
		rel, ok := inside(d.Root(), filepath.Join(w.path, p))
		for name := range written {
			if ok && strings.HasPrefix(name, rel+"/") {
				return true
			}
		}
		return false
	}
	m.after = func(p string) (segno.Entity, []byte, bool, error) {
		rel, ok := inside(d.Root(), filepath.Join(w.path, p))
		e, isWritten := written[rel]
		if !ok || !isWritten || !e.HasContent() {
			return e, nil, ok && isWritten, nil
		}
		data, err := content(e.Hash)
		return e, data, true, err
	}
	command, err := m.command(ctx)
	if err != nil {
		return ""
	}
	return command
}

// gitMove determines the command that moves HEAD.
type gitMove struct {
	*workTree
	objects   *gitObjects
	now, then segno.Git
	// after returns the entity that the move of files writes at a path of the work tree, and its content.
	after func(path string) (e segno.Entity, content []byte, isWritten bool, err error)
	// writesBelow reports whether the move of files writes a path below one of the work tree.
	writesBelow func(path string) bool
}

// gitBranch matches branch names that are safe in a command for users to paste. git allows almost any name.
var gitBranch = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._/-]*$`) })

func (m *gitMove) command(ctx context.Context) (string, error) {
	if equal, err := m.filesEqualHead(ctx); equal || err != nil {
		return "", err
	}
	refs, err := m.refs()
	if err != nil {
		return "", err
	}
	to, here := m.then.Head, "refs/heads/"+m.now.Branch
	there := "refs/heads/" + m.then.Branch
	var left []string // commits from which a reference moves away
	command := ""
	switch {
	case m.then.Branch != "" && m.then.Branch == m.now.Branch:
		left, command = append(left, m.now.Head), "git reset "+to
		if delete(refs, here); to == "" { // HEAD was before the first commit
			command = "git update-ref -d HEAD"
		}
	case to == "":
		return "", nil
	case gitBranch().MatchString(m.then.Branch):
		command = "git symbolic-ref HEAD " + there + " && git reset " + to
		if tip, exists := refs[there]; exists {
			left = append(left, tip)
		}
		if delete(refs, there); m.now.Branch == "" {
			left = append(left, m.now.Head)
		}
	case m.now.Branch == "":
		left, command = append(left, m.now.Head), "git reset "+to
	default: // HEAD leaves a branch, which stays
		command = "git update-ref --no-deref HEAD " + to + " && git reset"
	}
	return m.keep(ctx, left, refs) + command, nil
}

// keep returns the commands that make a branch for each commit that no reference reaches once HEAD has moved.
func (m *gitMove) keep(ctx context.Context, left []string, refs map[string]string) (commands string) {
	from := []string{m.then.Head}
	for _, tip := range refs {
		from = append(from, tip)
	}
	var kept []string
	for _, id := range left {
		if !slices.Contains(kept, id) && !m.isReachable(ctx, id, append(slices.Clone(from), kept...)) {
			commands += fmt.Sprintf("git branch segno-kept-%.12s %s && ", id, id)
			kept = append(kept, id)
		}
	}
	return commands
}

// maxGitWalk is the largest number of commits that isReachable reads. An unnecessary branch does no harm.
const maxGitWalk = 20_000

// isReachable reports whether a commit is in a list of commits or an ancestor of one. It returns false if
// that is uncertain.
func (m *gitMove) isReachable(ctx context.Context, id string, from []string) bool {
	seen := map[string]bool{"": true}
	for n := 0; len(from) > 0 && n < maxGitWalk && ctx.Err() == nil; n++ {
		at := from[0]
		if from = from[1:]; seen[at] {
			continue
		}
		if seen[at] = true; at == id {
			return true
		}
		_, parents, err := m.objects.commit(at)
		if err == nil { // a tag, or the end of a shallow repository
			from = append(from, parents...)
		}
	}
	return false
}

// refs returns all references of the repository that keep commits reachable, except HEAD, with their commits.
func (m *gitMove) refs() (map[string]string, error) {
	refs := m.common.packedRefs()
	var walk func(at string, depth int) error
	walk = func(at string, depth int) error {
		names, err := m.common.names(at)
		if err != nil || depth > 32 {
			return err
		}
		for _, name := range names {
			ref := path.Join(at, name)
			if m.common.isDir(ref) {
				err = errors.Join(err, walk(ref, depth+1))
			} else if id := m.common.resolveRef(ref); id != "" {
				refs[ref] = id
			}
		}
		return err
	}
	return refs, walk("refs", 0)
}

// filesEqualHead reports whether, after the move, the files equal those of HEAD at each path at which the
// earlier commit differs from HEAD.
func (m *gitMove) filesEqualHead(ctx context.Context) (bool, error) {
	head, _, err := m.objects.commit(m.now.Head)
	if err != nil {
		return false, err
	}
	then := ""
	if m.then.Head != "" {
		if then, _, err = m.objects.commit(m.then.Head); err != nil {
			return false, err
		}
	}
	err = m.objects.diff(head, then, "", func(p string, head, _ gitEntry) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		equal, err := m.isAt(p, head)
		if err == nil && !equal {
			err = errFilesDiffer
		}
		return err
	})
	if errors.Is(err, errFilesDiffer) {
		return false, nil
	}
	return err == nil, err
}

var errFilesDiffer = errors.New("a file differs from the commit")

// maxGitFile is the largest size of a file that is compared with a commit.
const maxGitFile = 64 << 20

// isAt reports whether a path will have the content of a tree's entry after the move. The zero entry stands
// for a missing file.
func (m *gitMove) isAt(p string, want gitEntry) (bool, error) {
	const symlink, submodule = "120000", "160000"
	if want.mode == submodule {
		return !m.writesBelow(p), nil // if it wrote a file there, the submodule no longer has the files of its commit
	}
	e, data, isWritten, err := m.after(p)
	if !isWritten && err == nil {
		e, data, err = m.present(p)
	}
	switch {
	case err != nil:
		return false, err
	case want == gitEntry{}:
		return !e.HasContent() && e.Type != segno.EntitySymlink, nil
	case e.Type == segno.EntitySymlink:
		return want.mode == symlink && gitBlobName(want.id, []byte(e.Target)) == want.id, nil
	}
	return e.HasContent() && want.mode != symlink && gitBlobName(want.id, data) == want.id, nil
}

// present returns the file or the symlink at a path of the work tree.
func (m *gitMove) present(p string) (e segno.Entity, data []byte, err error) {
	st, err := m.top.lstat(p)
	switch {
	case errors.Is(err, fs.ErrNotExist) || isAbsent(err):
		return e, nil, nil
	case err != nil:
		return e, nil, err
	case st.is(typeSymlink):
		e.Type = segno.EntitySymlink
		dir, err := m.top.openDir(path.Dir(p))
		if err != nil {
			return e, nil, err
		}
		defer dir.close()
		e.Target, err = dir.readlink(path.Base(p))
		return e, nil, err
	case st.is(typeFile) && st.size <= maxGitFile:
		e.Type = segno.EntityFile
		data, err = m.top.readFile(p, maxGitFile)
	}
	return e, data, err
}

// gitBlobName returns git's name for a content, with the hash algorithm of the name like.
func gitBlobName(like string, data []byte) string {
	h := hash.Hash(sha1.New())
	if len(like) == 2*sha256.Size {
		h = sha256.New()
	}
	fmt.Fprintf(h, "blob %d\x00", len(data))
	h.Write(data)
	return fmt.Sprintf("%x", h.Sum(nil))
}

// packedRefs returns the commits and tags in packed-refs, by reference.
func (g *gitDir) packedRefs() map[string]string {
	refs := map[string]string{}
	data, err := g.readFile("packed-refs", maxPackedRefs)
	if err != nil {
		return refs
	}
	for line := range strings.SplitSeq(string(data), "\n") {
		if id, name, ok := strings.Cut(line, " "); ok && commitName(id) != "" {
			refs[name] = id
		}
	}
	return refs
}
