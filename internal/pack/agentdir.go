package pack

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
)

// AgentDir is the path of a directory for one agent, separate from the user's files.
type AgentDir string

// Workspace is the working directory of the agent. It is made last, when the rest is complete.
func (d AgentDir) Workspace() string { return filepath.Join(string(d), "workspace") }

// Home is the home directory of the agent.
func (d AgentDir) Home() string { return filepath.Join(string(d), "home") }

// Run is for temporary files.
func (d AgentDir) Run() string { return filepath.Join(string(d), "run") }

// Prepare makes Home and an empty Run. Both may exist already, from an earlier call that was killed. The error has
// [segno.KindRefused] if there is a workspace, and [segno.KindConflict] if there are other files. fsys may be nil.
func (d AgentDir) Prepare(fsys vfs.FS) error {
	const op = "make agent directory"
	if fsys == nil {
		fsys = vfs.OS
	}
	fail := func(kind segno.Kind, err error) error {
		return segno.NewError(kind, op, string(d), err).WithHint("give a new directory with --to")
	}
	entries, err := os.ReadDir(string(d))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fail(segno.KindConflict, err)
	}
	for _, e := range entries {
		path := filepath.Join(string(d), e.Name())
		switch {
		case path == d.Workspace():
			return fail(segno.KindRefused, errors.New("an agent is awake there already"))
		case e.IsDir() && (slices.Contains([]string{d.Home(), d.Run()}, path) || strings.HasPrefix(e.Name(), tempPrefix)):
		default:
			return fail(segno.KindConflict, errors.New("the directory is not empty"))
		}
	}
	err = os.RemoveAll(d.Run())
	for _, path := range []string{d.Home(), d.Run()} {
		if err == nil {
			err = vfs.MkdirAllSynced(fsys, path)
		}
	}
	if err != nil {
		return segno.NewError(segno.KindIO, op, string(d), err)
	}
	return nil
}
