package cli

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/dalsegno/segno"
)

// quotePath writes a path for a person.
func quotePath(path string) string { return segno.QuotePath(path) }

// pathsBytes returns the bytes of all paths if one of them is not valid UTF-8, else
// nil.
func pathsBytes(paths []string) (all [][]byte) {
	if !slices.ContainsFunc(paths, func(p string) bool { return !utf8.ValidString(p) }) {
		return nil
	}
	for _, p := range paths {
		all = append(all, []byte(p))
	}
	return all
}

// The characters that have an escape of one letter, and the letters.
const (
	escapes = "\a\b\t\n\v\f\r\"\\"
	letters = `abtnvfr"\`
)

// unquotePath reads what quotePath writes between quotes.
func unquotePath(s string) (string, bool) {
	if len(s) < 2 || s[0] != '"' || s[len(s)-1] != '"' {
		return "", false
	}
	s = s[1 : len(s)-1]
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '"':
			return "", false
		case s[i] != '\\':
			b.WriteByte(s[i])
			continue
		}
		i++
		if i == len(s) {
			return "", false
		}
		if at := strings.IndexByte(letters, s[i]); at >= 0 {
			b.WriteByte(escapes[at])
			continue
		}
		if i+3 > len(s) || strings.Trim(s[i:i+3], "01234567") != "" || s[i] > '3' {
			return "", false
		}
		b.WriteByte((s[i]-'0')<<6 | (s[i+1]-'0')<<3 | (s[i+2] - '0'))
		i += 2
	}
	return b.String(), true
}

// resolvePath returns the path inside the workspace that an argument names: as it is, or
// in the form that quotePath prints, with or without the quotes, which a shell may
// have removed; relative to where the user is, or to the root as it is printed. The
// first of these that exists at a checkpoint or now is meant.
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
		if name, ok := unquotePath(s); ok && name != arg {
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

// resolvePaths is meant for several arguments.
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

// relativeToRoot returns a path a person typed in dir relative to the workspace's root.
func relativeToRoot(d *openWorkspace, dir, path string) (string, error) {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	rel, err := filepath.Rel(d.rec.Path, absolute(dir, path))
	if err != nil || rel == ".." || strings.HasPrefix(rel, ".."+string(filepath.Separator)) {
		return "", segno.Errorf(segno.KindInvalid, "find path", path, "%s", "it is outside the workspace "+d.rec.Path).WithHint("name paths inside the workspace, relative to where you are")
	}
	return filepath.ToSlash(rel), nil
}
