package workspace

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/dalsegno/segno/internal/vfs"
)

// ownGit sees to it that no .git of the fork leads back into the source's:
//
//   - A .git directory was copied whole. Its registered worktrees inside the tree
//     now name the fork's; those outside are dropped, since they are the source's.
//   - A .git file or symlink that leads into the tree leads into the fork.
//   - One that leads out of the tree, as a linked worktree's does, becomes a
//     repository of its own: what the worktrees share, with this one's HEAD, index
//     and operation in progress. Registering another worktree would write into the
//     user's .git.
//
// Nothing of the source is written.
func (f *fork) ownGit(ctx context.Context, from *rootDir, gits []string) error {
	for _, at := range gits {
		st, err := os.Lstat(filepath.Join(f.from.root, at))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if st.IsDir() {
			err = f.adjust(at, filepath.Join(f.from.root, at))
		} else {
			err = f.repoint(ctx, at, st.Mode()&fs.ModeSymlink != 0)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// moved returns where a path of the source is in the fork; false if it is outside.
func (f *fork) moved(p string) (string, bool) {
	rel, ok := inside(f.from.root, p)
	if !ok {
		return "", false
	}
	return filepath.Join(f.target, rel), true
}

// repoint makes the fork's version of a .git that is no directory.
func (f *fork) repoint(ctx context.Context, at string, symlink bool) error {
	source := filepath.Join(f.from.root, at)
	text, to := "", ""
	if symlink {
		link, err := os.Readlink(source)
		if err != nil {
			return err
		}
		text, to = link, resolve(filepath.Dir(source), link)
	} else {
		to = gitPointer(source)
		if data, err := os.ReadFile(source); err == nil {
			text = strings.TrimRight(strings.TrimPrefix(string(data), "gitdir: "), "\r\n")
		}
	}
	if real, err := realDir(to); err == nil {
		to = real
	} else {
		f.leave(at) // it leads nowhere
		return nil
	}
	if there, ok := f.moved(to); ok {
		if filepath.IsAbs(text) {
			text = there
		}
		if symlink {
			return f.from.config.FS.Symlink(text, filepath.Join(f.temp, at))
		}
		return f.write(at, []byte("gitdir: "+text+"\n"), 0o644)
	}
	return f.standAlone(ctx, at, to)
}

// standAlone makes at a repository of its own out of the git directory gitdir.
func (f *fork) standAlone(ctx context.Context, at, gitdir string) error {
	common := commonGit(gitdir)
	if err := f.from.config.FS.Mkdir(filepath.Join(f.temp, at), 0o755); err != nil {
		return err
	}
	var err error
	if gitdir == common {
		err = f.copyGit(ctx, common, at, func(p string) bool { return p == "worktrees" })
	} else {
		err = f.copyGit(ctx, common, at, perWorktree)
	}
	if err == nil && gitdir != common {
		err = f.copyGit(ctx, gitdir, at, func(p string) bool { return p == "commondir" || p == "gitdir" || p == "locked" })
	}
	if err != nil {
		return err
	}
	if err := f.adjust(at, common); err != nil {
		return err
	}
	return f.rewrite(path.Join(at, "config"), mainConfig)
}

// perWorktree reports whether a path in a repository belongs to its main worktree
// alone, or to other worktrees: HEAD and its like, the index, what is in progress.
func perWorktree(p string) bool {
	switch p {
	case "worktrees", "config.worktree", "index", "logs/HEAD", "info/sparse-checkout", "rebase-merge", "rebase-apply",
		"sequencer", "refs/bisect", "refs/worktree", "refs/rewritten":
		return true
	}
	return strings.Trim(p, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_") == ""
}

// copyGit copies a git directory, but for what skip names, over what is there.
func (f *fork) copyGit(ctx context.Context, gitdir, at string, skip func(string) bool) error {
	from, err := openRootDir(gitdir)
	if err != nil {
		return err
	}
	defer from.close()
	to, err := f.from.config.FS.OpenRoot(filepath.Join(f.temp, at))
	if err != nil {
		return err
	}
	defer to.Close()
	all := newFreight()
	keep := func(p string, _ *stat) bool {
		return !skip(p) && !strings.HasSuffix(p, ".lock")
	}
	if err := all.load(from, "", keep, func(string) {}); err != nil {
		return err
	}
	c := &copier{from: from, to: to, over: true, left: func(p string) { f.leave(path.Join(at, p)) }}
	if err := c.probe(all.files); err != nil {
		return err
	}
	return c.carry(ctx, all)
}

// adjust changes the paths in a copied .git that lead to the source. was is the
// directory it was copied from.
func (f *fork) adjust(at, was string) error {
	trees, err := os.ReadDir(filepath.Join(f.temp, at, "worktrees"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, t := range trees {
		if err := f.worktree(path.Join(at, "worktrees", t.Name())); err != nil {
			return err
		}
	}
	if err := f.rewrite(path.Join(at, "objects/info/alternates"), func(text []byte) []byte {
		return f.alternates(text, filepath.Join(was, "objects"))
	}); err != nil {
		return err
	}
	return f.rewrite(path.Join(at, "config"), func(text []byte) []byte {
		return bytes.ReplaceAll(text, []byte("worktree = "+f.from.root+"/"), []byte("worktree = "+f.target+"/"))
	})
}

// worktree makes a registered worktree the fork's, or forgets it.
func (f *fork) worktree(at string) error {
	data, err := os.ReadFile(filepath.Join(f.temp, at, "gitdir"))
	if err == nil {
		p := strings.TrimRight(string(data), "\r\n")
		if !filepath.IsAbs(p) {
			return nil // relative, and moved with the tree
		}
		if there, ok := f.moved(p); ok {
			return f.write(path.Join(at, "gitdir"), []byte(there+"\n"), 0o644)
		}
	}
	return os.RemoveAll(filepath.Join(f.temp, at))
}

// alternates makes relative paths to other object directories absolute, since the
// fork may stand elsewhere.
func (f *fork) alternates(text []byte, objects string) []byte {
	var out bytes.Buffer
	for line := range strings.Lines(string(text)) {
		p := strings.TrimRight(line, "\n")
		if p != "" && p[0] != '#' {
			p = resolve(objects, p)
			if there, ok := f.moved(p); ok {
				p = there
			}
		}
		out.WriteString(p + "\n")
	}
	return out.Bytes()
}

// mainConfig takes out of a repository's config what makes it another's, or bare.
func mainConfig(text []byte) []byte {
	var out bytes.Buffer
	section := ""
	for line := range strings.Lines(string(text)) {
		trimmed := strings.TrimSpace(line)
		if strings.HasPrefix(trimmed, "[") {
			section = strings.ToLower(trimmed)
		}
		key, _, _ := strings.Cut(strings.ToLower(trimmed), "=")
		if key = strings.TrimSpace(key); section == "[core]" && (key == "worktree" || key == "bare") {
			continue
		}
		out.WriteString(line)
	}
	return out.Bytes()
}

// rewrite changes a file of the fork, if there is one.
func (f *fork) rewrite(at string, change func([]byte) []byte) error {
	text, err := os.ReadFile(filepath.Join(f.temp, at))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if next := change(text); !bytes.Equal(next, text) {
		return f.write(at, next, 0o644)
	}
	return nil
}

func (f *fork) write(at string, data []byte, perm fs.FileMode) error {
	return vfs.Replace(f.from.config.FS, filepath.Join(f.temp, at), data, perm)
}
