package workspace

import (
	"context"
	"slices"
	"strings"

	"github.com/dalsegno/segno"
)

// Lookup returns the entity at a path of a tree. If the tree does not have the path, the error has
// [segno.KindNotFound]. If the store does not have the tree or a directory of it, the error has
// [segno.KindCorrupt].
func Lookup(ctx context.Context, objects segno.Objects, tree segno.Hash, path string) (segno.Entity, error) {
	e, at, err := find(ctx, objects, tree, path)
	if err == nil && at != path {
		return segno.Entity{}, segno.NewError(segno.KindNotFound, "find file", path, nil)
	}
	return e, err
}

// LookupFile is [Lookup] for a caller that reads the content. It returns a file, a hard link or a
// symlink. The error has [segno.KindInvalid] for a directory, and [segno.KindNotFound] for a path that
// is protected, or below a protected directory, because a tree records no content there.
func LookupFile(ctx context.Context, objects segno.Objects, tree segno.Hash, path string) (segno.Entity, error) {
	e, at, err := find(ctx, objects, tree, path)
	switch {
	case err != nil:
		return e, err
	case e.Type == segno.EntityProtected && at == path:
		err = segno.Errorf(segno.KindNotFound, "read file", path, "it is protected, so its content was not stored: %s", e.Why)
	case e.Type == segno.EntityProtected:
		err = segno.Errorf(segno.KindNotFound, "read file", path, "it is below %s, which is protected, so its content was not stored: %s",
			segno.QuotePath(at), e.Why)
	case e.Type == segno.EntityDir:
		err = segno.Errorf(segno.KindInvalid, "read file", path, "it is a directory").WithHint("name a file in it")
	}
	return e, err
}

// find returns the entity at a path of a tree. If a directory above the path is protected, find returns
// that directory, and at is its path.
func find(ctx context.Context, objects segno.Objects, tree segno.Hash, path string) (e segno.Entity, at string, err error) {
	for name := range strings.SplitSeq(path, "/") {
		records, err := loadTree(ctx, objects, tree)
		if err != nil {
			return segno.Entity{}, "", err
		}
		i, ok := slices.BinarySearchFunc(records, name, func(r record, name string) int { return strings.Compare(r.name, name) })
		if !ok {
			return segno.Entity{}, "", segno.NewError(segno.KindNotFound, "find file", path, nil)
		}
		e, at, tree = records[i].Entity, join(at, name), records[i].child
		if e.Type == segno.EntityProtected {
			break
		}
	}
	return e, at, nil
}
