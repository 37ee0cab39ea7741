//go:build !unix

package workspace

import (
	"errors"
	"io/fs"

	"github.com/dalsegno/segno/internal/vfs"
)

// ownerOf knows no users.
func ownerOf(fs.FileInfo) (uid, gid uint32) { return 0, 0 }

// listNames is not there yet.
func listNames(vfs.File) ([]string, error) { return nil, errors.ErrUnsupported }
