//go:build !unix

package workspace

import (
	"errors"

	"github.com/dalsegno/segno/internal/vfs"
)

// listNames is not there yet.
func listNames(vfs.File) ([]string, error) { return nil, errors.ErrUnsupported }
