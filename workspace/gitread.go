package workspace

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"path"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"

	"github.com/dalsegno/segno"
)

// GitRepository reads commits of a git repository from git's own files. It starts no git, because a query can make git run a
// program that the repository names. It does not read objects that the repository borrows from others, objects over 8 MiB, or
// more than 256 MiB of objects.
type GitRepository struct {
	tree    *workTree
	objects *gitObjects
}

// OpenGit opens the repository whose work tree contains a directory, given by its real path. It returns nil if there is none
// that this user may read; see [Dir.GitCommand].
func OpenGit(dir string) *GitRepository {
	w := findWorkTree(dir)
	if w == nil {
		return nil
	}
	return &GitRepository{w, &gitObjects{dir: w.common}}
}

// Close closes the files.
func (r *GitRepository) Close() {
	r.objects.close()
	r.tree.close()
}

// Top returns the top directory of the work tree.
func (r *GitRepository) Top() string { return r.tree.path }

// GitCommit is a commit of a git repository.
type GitCommit struct {
	ID      string
	Tree    string
	Parents []string
	Message string
}

// Commit returns the commit of a revision: a reference, a tag, a commit or the beginning of its name, with suffixes as in
// HEAD~2 and HEAD^. The error has [segno.KindNotFound] if there is none.
func (r *GitRepository) Commit(rev string) (c GitCommit, err error) {
	m := gitRevision().FindStringSubmatch(rev)
	if m == nil {
		return c, noRevision(rev)
	}
	id, err := r.resolve(m[1])
	if err == nil {
		c, err = r.commit(id)
	}
	for _, step := range gitStep().FindAllString(m[2], -1) {
		n, numErr := strconv.Atoi(step[1:])
		if step[1:] == "" {
			n, numErr = 1, nil
		}
		for err == nil && numErr == nil && n > 0 {
			parent := n - 1
			if n--; step[0] == '~' {
				parent = 0
			} else {
				n = 0
			}
			if parent >= len(c.Parents) {
				return c, noRevision(rev)
			}
			c, err = r.commit(c.Parents[parent])
		}
	}
	return c, err
}

var (
	gitRevision = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^([^~^:@{}\x00-\x20]+)((?:[~^][0-9]{0,4})*)$`) })
	gitStep     = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`[~^][0-9]*`) })
)

func noRevision(rev string) error {
	return segno.NewError(segno.KindNotFound, "find git revision", rev, nil)
}

// resolve returns the object that a name without suffixes means, in git's order.
func (r *GitRepository) resolve(name string) (string, error) {
	if strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_") == "" && r.tree.git.exists(name) { // HEAD, ORIG_HEAD
		data, err := r.tree.git.readFile(name, maxGitText)
		text, _, _ := strings.Cut(string(data), "\n")
		ref, isRef := strings.CutPrefix(text, "ref: ")
		if err != nil {
			ref, isRef = r.tree.git.linkedHead(), true
		}
		if !isRef {
			return commitName(text), nil
		}
		name = ref
	}
	for _, prefix := range []string{"refs/", "refs/tags/", "refs/heads/", "refs/remotes/"} {
		if id := r.tree.common.resolveRef(prefix + strings.TrimPrefix(name, "refs/")); id != "" {
			return id, nil
		}
	}
	if commitName(name) != "" {
		return name, nil
	}
	var found []string
	for _, id := range r.objects.withPrefix(name) {
		if _, err := r.commit(id); err == nil {
			found = append(found, id)
		}
	}
	switch len(found) {
	case 0:
		return "", noRevision(name)
	case 1:
		return found[0], nil
	}
	return "", segno.Errorf(segno.KindInvalid, "find git revision", name, "ambiguous: it begins the names of %d commits", len(found))
}

// commit reads a commit, or the commit of a tag.
func (r *GitRepository) commit(id string) (GitCommit, error) {
	kind, data, err := r.objects.read(id)
	for depth := 0; err == nil && kind == "tag" && depth < 5; depth++ {
		line, _, _ := strings.Cut(string(data), "\n")
		id = strings.TrimPrefix(line, "object ")
		kind, data, err = r.objects.read(id)
	}
	if err != nil || kind != "commit" {
		return GitCommit{}, gitError(id, err)
	}
	c := GitCommit{ID: id}
	c.Tree, c.Parents = parseGitCommit(data)
	_, message, _ := bytes.Cut(data, []byte("\n\n"))
	c.Message = string(message)
	return c, nil
}

// gitError is the error for an object that cannot be read: [segno.KindRefused] if it is too large.
func gitError(id string, err error) error {
	kind := segno.KindCorrupt
	if errors.Is(err, errGitLarge) {
		kind = segno.KindRefused
	}
	return segno.NewError(kind, "read git object", id, cmp.Or(err, errGitObject))
}

// GitChange is a file that a commit changed. From and To name its content before and after, or are "" if it is not a regular
// file there.
type GitChange struct{ Path, From, To string }

// Changes returns the files that a commit changed since its first parent, sorted by path.
func (r *GitRepository) Changes(ctx context.Context, c GitCommit) (all []GitChange, err error) {
	before := ""
	if len(c.Parents) > 0 {
		parent, err := r.commit(c.Parents[0])
		if err != nil {
			return nil, err
		}
		before = parent.Tree
	}
	content := func(e gitEntry) string {
		if strings.HasPrefix(e.mode, "100") {
			return e.id
		}
		return ""
	}
	err = r.objects.diff(before, c.Tree, "", func(p string, a, b gitEntry) error {
		all = append(all, GitChange{p, content(a), content(b)})
		return ctx.Err()
	})
	if err != nil {
		return nil, gitError(c.Tree, err)
	}
	slices.SortFunc(all, func(a, b GitChange) int { return strings.Compare(a.Path, b.Path) })
	return all, nil
}

// Content returns the content that a [GitChange] names.
func (r *GitRepository) Content(id string) ([]byte, error) {
	kind, data, err := r.objects.read(id)
	if err != nil || kind != "blob" {
		return nil, gitError(id, err)
	}
	return data, nil
}

// Note returns the note of a commit in a reference such as refs/notes/ai, or nil if there is none.
func (r *GitRepository) Note(ref, commit string) ([]byte, error) {
	id := r.tree.common.resolveRef(ref)
	if id == "" {
		return nil, nil
	}
	c, err := r.commit(id)
	if err != nil {
		return nil, err
	}
	for tree, rest := c.Tree, commit; len(rest) >= 2; rest = rest[2:] {
		entries, err := r.objects.tree(tree)
		if err != nil {
			return nil, gitError(tree, err)
		}
		if e, ok := entries[rest]; ok {
			return r.Content(e.id)
		}
		e := entries[rest[:2]]
		if tree = e.id; e.mode != gitTreeMode {
			break
		}
	}
	return nil, nil
}

// Trailer returns the value of the last trailer of a commit's message with a key, or "".
func (c *GitCommit) Trailer(key string) (value string) {
	message := strings.TrimRight(c.Message, "\n ")
	if i := strings.LastIndex(message, "\n\n"); i >= 0 {
		message = message[i+2:]
	}
	for line := range strings.SplitSeq(message, "\n") {
		if name, text, ok := strings.Cut(line, ":"); ok && strings.EqualFold(strings.TrimSpace(name), key) {
			value = strings.TrimSpace(text)
		}
	}
	return value
}

// withPrefix returns the names of objects that begin with at least four hexadecimal digits.
func (g *gitObjects) withPrefix(prefix string) (ids []string) {
	const least, sha1, sha256 = 4, 20, 32
	if len(prefix) < least || strings.Trim(prefix, "0123456789abcdef") != "" {
		return nil
	}
	names, _ := g.dir.names(path.Join("objects", prefix[:2])) // without the directory, there is no such object
	for _, name := range names {
		if id := prefix[:2] + name; strings.HasPrefix(id, prefix) && commitName(id) != "" {
			ids = append(ids, id)
		}
	}
	size := int64(sha1)
	if len(ids) > 0 {
		size = int64(len(ids[0]) / 2)
	} else if config, err := g.dir.readFile("config", maxGitConfig); err == nil && bytes.Contains(config, []byte("sha256")) {
		size = sha256
	}
	if g.openPacks(size) != nil {
		return ids
	}
	for _, p := range g.packs {
		ids = append(ids, p.withPrefix(prefix)...)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// withPrefix returns the first names in the pack that begin with hexadecimal digits.
func (p *gitPack) withPrefix(prefix string) (ids []string) {
	const names, most = 8 + 256*4, 16
	name := make([]byte, p.hashSize)
	read := func(i int64) string {
		if _, err := p.index.ReadAt(name, names+i*p.hashSize); err != nil {
			return ""
		}
		return hex.EncodeToString(name)
	}
	i := int64(sort.Search(int(p.count), func(n int) bool { return read(int64(n)) >= prefix }))
	for ; i < p.count && len(ids) < most; i++ {
		id := read(i)
		if !strings.HasPrefix(id, prefix) {
			break
		}
		ids = append(ids, id)
	}
	return ids
}
