package tool

import (
	"context"
	"io"
	"iter"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
)

// resultsDir is the directory of the state with the results that the agent evicted.
const resultsDir = "large_tool_results"

// evictedFiles is a file system with the evicted results as a read-only directory. A walk visits
// it only if it begins there: a search must not find its old results.
type evictedFiles struct {
	FileSystem
	state FileSystem
}

func isEvicted(name string) bool {
	return name == resultsDir || strings.HasPrefix(name, resultsDir+"/")
}

func (a evictedFiles) at(name string) FileSystem {
	if isEvicted(name) {
		return a.state
	}
	return a.FileSystem
}

func (a evictedFiles) List(ctx context.Context, state *agent.Values, name string) ([]File, error) {
	files, err := a.at(name).List(ctx, state, name)
	if name != "." || err != nil {
		return files, err
	}
	all := make([]File, 0, len(files)+1)
	for _, f := range files {
		if !isEvicted(f.Name) {
			all = append(all, f)
		}
	}
	if len(state.Keys(fileKey(resultsDir)+"/")) > 0 {
		all = append(all, File{Name: resultsDir, Dir: true})
	}
	sortFiles(all)
	return all, nil
}

func (a evictedFiles) Walk(ctx context.Context, state *agent.Values, name string) iter.Seq2[string, error] {
	files := a.at(name).Walk(ctx, state, name)
	if isEvicted(name) {
		return files
	}
	return func(yield func(string, error) bool) {
		for file, err := range files {
			if !isEvicted(file) && !yield(file, err) {
				return
			}
		}
	}
}

func (a evictedFiles) Open(ctx context.Context, state *agent.Values, name string) (io.ReadCloser, error) {
	return a.at(name).Open(ctx, state, name)
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
