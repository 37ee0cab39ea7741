package claude_test

import (
	"io/fs"
	"path/filepath"
)

func walkFiles(root string, do func(path string) error) error {
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		return do(path)
	})
}
