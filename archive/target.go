package archive

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/dalsegno/segno"
)

// CheckTarget returns a KindRefused if no archive may be extracted to a directory, which need not
// exist: it is a place for credentials or for the abilities of an agent, is inside one, or is
// on the way to one. There, files of the archive would be settings of a program, whatever their
// names are. CheckTarget also checks the path that results from resolving the links on the way.
func CheckTarget(op, dir string) error {
	for _, at := range spellings(dir) {
		if isInside, leads := placeTable().find(foldPlace(filepath.ToSlash(at))); isInside || leads {
			return segno.Errorf(segno.KindRefused, op, dir, "programs read their settings or credentials in a directory called %s", segno.QuotePath(at)).
				WithHint("name another directory with --to")
		}
	}
	return nil
}

// spellings returns the absolute form of a path, and each path that results from resolving one more of
// the links on the way. The last one has no links.
func spellings(dir string) []string {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil // nothing can be made there
	}
	list := []string{dir}
	at := filepath.VolumeName(dir) + string(filepath.Separator)
	todo := splitDir(dir[len(filepath.VolumeName(dir)):])
	for hops := 0; len(todo) > 0; {
		name := todo[0]
		todo = todo[1:]
		if name == ".." {
			at = filepath.Dir(at)
			continue
		}
		target, err := os.Readlink(filepath.Join(at, name))
		if err != nil {
			at = filepath.Join(at, name)
			continue
		}
		if hops++; hops > maxHops {
			break
		}
		if filepath.IsAbs(target) {
			at = filepath.VolumeName(target) + string(filepath.Separator)
		}
		todo = append(splitDir(target), todo...)
		list = append(list, filepath.Join(at, filepath.Join(todo...)))
	}
	return append(list, filepath.Join(at, filepath.Join(todo...)))
}

func splitDir(dir string) []string {
	return strings.FieldsFunc(dir, func(r rune) bool { return r == filepath.Separator })
}

// CheckNoLinks returns a KindConflict if the directory for an archive has a symbolic link
// that no archive may have: with it, files of the archive would be settings of a program.
func CheckNoLinks(op, dir string) error {
	return filepath.WalkDir(dir, func(at string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // the directory, or a path that another process removed
		}
		if err != nil {
			return segno.NewError(segno.KindIO, op, at, err)
		}
		rel, err := filepath.Rel(dir, at)
		if err == nil && d.Type()&fs.ModeSymlink != 0 && deniedLink(filepath.ToSlash(rel)) {
			return segno.Errorf(segno.KindConflict, op, at, "programs read their settings through this link").WithHint("remove the link")
		}
		return err
	})
}
