package cli

import (
	"path/filepath"
	"strings"

	"github.com/dalsegno/segno"
)

// Self returns the command that runs this binary on the store in use.
func (a *App) Self() ([]string, error) {
	exe, err := a.Executable()
	if err != nil {
		return nil, segno.NewError(segno.KindIO, "find segno", "", err)
	}
	if real, err := filepath.EvalSymlinks(exe); err == nil && filepath.Base(real) == filepath.Base(exe) {
		exe = homebrewLink(real)
	}
	if a.StorePath == "" {
		return []string{exe}, nil
	}
	store, err := filepath.Abs(a.StorePath)
	return []string{exe, "--store", store}, err
}

// homebrewLink returns the path of a program that Homebrew installed through its link to the current version, or exe for
// another program. Homebrew removes the directory of a version after an upgrade, and hooks that name it would fail.
func homebrewLink(exe string) string {
	prefix, rest, _ := strings.Cut(exe, "/Cellar/")
	parts := strings.SplitN(rest, "/", 3) // the formula, the version, and the file in its directory
	if len(parts) < 3 {
		return exe
	}
	link := filepath.Join(prefix, "opt", parts[0], parts[2])
	if real, err := filepath.EvalSymlinks(link); err != nil || real != exe {
		return exe
	}
	return link
}
