package cli

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/dalsegno/segno"
)

// quotePath formats a path for text output.
func quotePath(path string) string { return segno.QuotePath(path) }

// unquotePath parses a path that quotePath wrote in quotes. It accepts all escapes of Go.
func unquotePath(s string) (string, bool) {
	if !strings.HasPrefix(s, `"`) {
		return "", false
	}
	path, err := strconv.Unquote(s)
	return path, err == nil
}

// resolvePath returns the path inside the workspace that an argument names. The argument is a plain
// path, or a path as quotePath prints it, with or without the quotes, which a shell may have
// removed. It is relative to the current directory or, like printed paths, to the root.
//
// resolvePath returns the first of these paths that exists on disk or at the checkpoint c: the plain path, then the
// unquoted ones. It tries each relative to the current directory first, and then relative to the root. If none exists,
// it returns the plain path relative to the current directory, and the caller reports that. It returns an error only if
// that path is outside the workspace, or the checkpoint cannot be read.
func resolvePath(ctx context.Context, d *openWorkspace, c *segno.Checkpoint, arg string) (string, error) {
	literal, err := relativeToRoot(d, d.dir, arg)
	if err == nil && existsOnDisk(d, literal) {
		return literal, nil
	}
	changes, listErr := d.timeline.Workspace.Diff(ctx, segno.Hash{}, c.Tree())
	if listErr != nil {
		return "", listErr
	}
	known := map[string]bool{}
	for _, x := range changes {
		known[x.Path] = true
	}
	names := []string{arg}
	for _, s := range []string{arg, `"` + arg + `"`} {
		if name, ok := unquotePath(s); ok {
			names = append(names, name)
		}
	}
	for _, name := range names {
		for _, dir := range []string{d.dir, d.rec.Path} {
			if rel, err := relativeToRoot(d, dir, name); err == nil && (known[rel] || existsOnDisk(d, rel)) {
				return rel, nil
			}
		}
	}
	return literal, err
}

// resolvePaths calls resolvePath for several arguments.
func resolvePaths(ctx context.Context, d *openWorkspace, c *segno.Checkpoint, args []string) ([]string, error) {
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

func existsOnDisk(d *openWorkspace, rel string) bool {
	_, err := os.Lstat(filepath.Join(d.rec.Path, filepath.FromSlash(rel)))
	return err == nil
}

// relativeToRoot makes a path that is relative to dir relative to the root of the workspace.
func relativeToRoot(d *openWorkspace, dir, path string) (string, error) {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	rel, err := filepath.Rel(d.rec.Path, absolute(dir, path))
	if err != nil || rel == ".." || strings.HasPrefix(rel, ".."+string(filepath.Separator)) {
		return "", segno.Errorf(segno.KindInvalid, "find path", path, "%s", "it is outside the workspace "+d.rec.Path).
			WithHint("name paths inside the workspace, relative to where you are")
	}
	return filepath.ToSlash(rel), nil
}
