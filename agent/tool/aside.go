package tool

import (
	"context"
	"io"
	"iter"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
)

// resultsDir is where the agent puts aside results that are too big to be read at
// once.
const resultsDir = "large_tool_results"

// aside is a file system with what the agent put aside mounted into it, for
// reading. Walks go there only if they begin there: a search must not find its own
// old results.
type aside struct {
	FileSystem
	state FileSystem
}

func isAside(name string) bool {
	return name == resultsDir || strings.HasPrefix(name, resultsDir+"/")
}

func (a aside) at(name string) FileSystem {
	if isAside(name) {
		return a.state
	}
	return a.FileSystem
}

func (a aside) List(ctx context.Context, state *agent.Values, name string) ([]File, error) {
	files, err := a.at(name).List(ctx, state, name)
	if name != "." || err != nil {
		return files, err
	}
	all := make([]File, 0, len(files)+1)
	for _, f := range files {
		if !isAside(f.Name) {
			all = append(all, f)
		}
	}
	if len(state.Keys(fileKey(resultsDir)+"/")) > 0 {
		all = append(all, File{Name: resultsDir, Dir: true})
	}
	sortFiles(all)
	return all, nil
}

func (a aside) Walk(ctx context.Context, state *agent.Values, name string) iter.Seq2[string, error] {
	files := a.at(name).Walk(ctx, state, name)
	if isAside(name) {
		return files
	}
	return func(yield func(string, error) bool) {
		for file, err := range files {
			if !isAside(file) && !yield(file, err) {
				return
			}
		}
	}
}

func (a aside) Open(ctx context.Context, state *agent.Values, name string) (io.ReadCloser, error) {
	return a.at(name).Open(ctx, state, name)
}

func (a aside) Write(ctx context.Context, state *agent.Values, name string, data []byte) error {
	if isAside(name) {
		return refuse(name, segno.KindRefused, "what was put aside is for reading only: write elsewhere")
	}
	return a.FileSystem.Write(ctx, state, name, data)
}

func (a aside) Edit(ctx context.Context, state *agent.Values, name string, change func([]byte) ([]byte, error)) error {
	if isAside(name) {
		return refuse(name, segno.KindRefused, "what was put aside is for reading only: write elsewhere")
	}
	return a.FileSystem.Edit(ctx, state, name, change)
}
