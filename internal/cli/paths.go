package cli

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/dalsegno/segno"
)

// QuotePath formats a path for text output.
func QuotePath(path string) string { return segno.QuotePath(path) }

// UnquotePath parses a path that QuotePath wrote in quotes. It accepts all escapes of Go.
func UnquotePath(s string) (string, bool) {
	if !strings.HasPrefix(s, `"`) {
		return "", false
	}
	path, err := strconv.Unquote(s)
	return path, err == nil
}

// resolvePath returns the path inside the workspace that an argument names. The argument is a plain
// path, or a path as QuotePath prints it, with or without the quotes, which a shell may have
// removed. It is relative to the current directory or, like printed paths, to the root.
//
// resolvePath returns the first of these paths that exists on disk or at the checkpoint c: the plain path, then the
// unquoted ones. It tries each relative to the current directory first, and then relative to the root. If none exists,
// it returns the plain path relative to the current directory, and the caller reports that. It returns an error only if
// that path is outside the workspace, or the checkpoint cannot be read.
func resolvePath(ctx context.Context, d *Workspace, c *segno.Checkpoint, arg string) (string, error) {
	literal, err := relativeToRoot(d, d.Dir, arg)
	if err == nil && existsOnDisk(d, literal) {
		return literal, nil
	}
	changes, listErr := d.Timeline.Workspace.Diff(ctx, segno.Hash{}, c.Tree())
	if listErr != nil {
		return "", listErr
	}
	known := map[string]bool{}
	for _, x := range changes {
		known[x.Path] = true
	}
	for _, rel := range possiblePaths(d, arg) {
		if known[rel] || existsOnDisk(d, rel) {
			return rel, nil
		}
	}
	return literal, err
}

// possiblePaths returns the paths inside the workspace that an argument can mean, in the order in which resolvePath
// tries them.
func possiblePaths(d *Workspace, arg string) (paths []string) {
	names := []string{arg}
	for _, s := range []string{arg, `"` + arg + `"`} {
		if name, ok := UnquotePath(s); ok {
			names = append(names, name)
		}
	}
	for _, name := range names {
		for _, dir := range []string{d.Dir, d.Rec.Path} {
			if rel, err := relativeToRoot(d, dir, name); err == nil {
				paths = append(paths, rel)
			}
		}
	}
	return paths
}

// NamedPaths returns the paths inside the workspace that an argument means in the whole history, "" for the root. If
// the plain path exists, it is the only one. A path that does not exist may be a deleted one, in any form that
// resolvePath accepts.
func NamedPaths(d *Workspace, arg string) ([]string, error) {
	literal, err := relativeToRoot(d, d.Dir, arg)
	if err == nil && existsOnDisk(d, literal) {
		if literal == "." {
			literal = ""
		}
		return []string{literal}, nil
	}
	if paths := possiblePaths(d, arg); len(paths) > 0 {
		return paths, nil
	}
	return nil, err
}

// ResolvePaths calls resolvePath for several arguments.
func ResolvePaths(ctx context.Context, d *Workspace, c *segno.Checkpoint, args []string) ([]string, error) {
	var paths []string
	for _, arg := range args {
		rel, err := resolvePath(ctx, d, c, arg)
		if err != nil {
			return nil, err
		}
		paths = append(paths, rel)
	}
	return paths, nil
}

func existsOnDisk(d *Workspace, rel string) bool {
	_, err := os.Lstat(filepath.Join(d.Rec.Path, filepath.FromSlash(rel)))
	return err == nil
}

// relativeToRoot makes a path that is relative to dir relative to the root of the workspace.
func relativeToRoot(d *Workspace, dir, path string) (string, error) {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	rel, err := filepath.Rel(d.Rec.Path, Absolute(dir, path))
	if err != nil || rel == ".." || strings.HasPrefix(rel, ".."+string(filepath.Separator)) {
		return "", segno.Errorf(segno.KindInvalid, "find path", path, "%s", "it is outside the workspace "+d.Rec.Path).
			WithHint("name paths inside the workspace, relative to where you are")
	}
	return filepath.ToSlash(rel), nil
}

// IsBelow reports whether dir is root or below root.
func IsBelow(root, dir string) bool {
	rel, err := filepath.Rel(root, dir)
	return err == nil && filepath.IsLocal(rel)
}

// RelativePath returns a path relative to the current directory, if that is shorter.
func (a *App) RelativePath(path string) string {
	wd, err := a.Getwd()
	if err != nil {
		return path
	}
	if rel, err := filepath.Rel(wd, path); err == nil && len(rel) < len(path) {
		return rel
	}
	return path
}

// RealPath resolves the symlinks of a directory that may not exist.
func RealPath(dir string) (string, error) {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		return real, nil
	}
	parent, err := filepath.EvalSymlinks(filepath.Dir(dir))
	if err != nil {
		return "", segno.NewError(segno.KindNotFound, "find directory", filepath.Dir(dir), err).WithHint("make it, or give another one with --out")
	}
	return filepath.Join(parent, filepath.Base(dir)), nil
}

// IsArchiveName reports whether an argument means an archive and not a checkpoint.
func IsArchiveName(arg string) bool { return strings.HasSuffix(arg, ".ckpt") }

// QuotePaths quotes each of the paths as QuotePath does.
func QuotePaths(paths []string) []string {
	quoted := slices.Clone(paths)
	for i, p := range quoted {
		quoted[i] = QuotePath(p)
	}
	return quoted
}

// Lookup is the function Lookup or LookupFile of package workspace.
type Lookup = func(ctx context.Context, objects segno.Objects, tree segno.Hash, path string) (segno.Entity, error)

// FileAt returns the file, directory or link at the first of several paths that a checkpoint has, and that path.
func FileAt(ctx context.Context, d *Workspace, c *segno.Checkpoint, paths []string, find Lookup) (e segno.Entity, path string, err error) {
	err = segno.Errorf(segno.KindNotFound, "find file", Label(c), "the checkpoint has no files")
	for _, path = range paths {
		if c.Tree().IsZero() {
			break
		}
		if e, err = find(ctx, d.Store.Objects(), c.Tree(), path); segno.KindOf(err) != segno.KindNotFound {
			break
		}
	}
	return e, path, err
}
