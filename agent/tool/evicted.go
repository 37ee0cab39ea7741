package tool

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
)

// resultsDir is the directory of the state with the results that the agent evicted.
const resultsDir = "large_tool_results"

// evictedFiles is a file system with the evicted results as a read-only directory.
type evictedFiles struct{ FileSystem }

func isEvicted(name string) bool {
	return name == resultsDir || strings.HasPrefix(name, resultsDir+"/")
}

func (a evictedFiles) FS(state *agent.Values) fs.FS {
	return evictedFS{files: a.FileSystem.FS(state), state: stateFS{state}}
}

func (a evictedFiles) Write(ctx context.Context, state *agent.Values, name string, data []byte) error {
	if isEvicted(name) {
		return errFile(name, segno.KindRefused, "evicted results are read-only: write elsewhere")
	}
	return a.FileSystem.Write(ctx, state, name, data)
}

func (a evictedFiles) Edit(ctx context.Context, state *agent.Values, name string, change func([]byte) ([]byte, error)) error {
	if isEvicted(name) {
		return errFile(name, segno.KindRefused, "evicted results are read-only: write elsewhere")
	}
	return a.FileSystem.Edit(ctx, state, name, change)
}

// evictedFS is evictedFiles for reading.
type evictedFS struct{ files, state fs.FS }

func (a evictedFS) at(name string) fs.FS {
	if isEvicted(name) {
		return a.state
	}
	return a.files
}

func (a evictedFS) Open(name string) (fs.File, error)     { return a.at(name).Open(name) }
func (a evictedFS) Stat(name string) (fs.FileInfo, error) { return fs.Stat(a.at(name), name) }

func (a evictedFS) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(a.at(name), name)
	if name != "." || err != nil {
		return entries, err
	}
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return e.Name() == resultsDir })
	switch info, err := fs.Stat(a.state, resultsDir); {
	case err == nil:
		entries = append(entries, fs.FileInfoToDirEntry(info))
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, nil
}
