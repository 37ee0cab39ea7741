package spool

import (
	"fmt"
	"path/filepath"

	"github.com/dalsegno/segno"
)

// FindStore returns the absolute path of the store's directory. This is store if it is not empty, else the directory
// "segno" in the user's data directory, which the environment names.
func FindStore(getenv func(string) string, store string) (string, error) {
	home, data := getenv("HOME"), getenv("XDG_DATA_HOME")
	switch {
	case store != "":
	case filepath.IsAbs(data): // the XDG specification ignores a relative path
		store = filepath.Join(data, "segno")
	case home != "":
		store = filepath.Join(home, ".local", "share", "segno")
	default:
		return "", segno.Errorf(segno.KindInvalid, "find store", "", "neither HOME nor an absolute XDG_DATA_HOME is set").
			WithHint("use --store PATH")
	}
	dir, err := filepath.Abs(store)
	if err != nil {
		return "", fmt.Errorf("find store: %w", err)
	}
	return dir, nil
}
