package tool

import (
	"context"
	"encoding/json"
	"io/fs"
	"strings"
	"testing/fstest"
	"unicode/utf8"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
)

// InState returns the file system in the agent's state. Its files are in every checkpoint, and
// undo and fork move them. A write has no effect outside the state.
func InState() FileSystem { return inState{} }

type inState struct{}

// stored is the value of a file, with one of the fields set.
type stored struct {
	Text *string `json:"text,omitempty"`
	Data []byte  `json:"data,omitempty"`
}

func fileKey(name string) string { return "files/" + name }

func encodeFile(data []byte) stored {
	if utf8.Valid(data) {
		text := string(data)
		return stored{Text: &text}
	}
	return stored{Data: data}
}

func (s stored) bytes() []byte {
	if s.Text != nil {
		return []byte(*s.Text)
	}
	return s.Data
}

func (inState) Name(path string) (string, error) { return Clean(path) }

func (inState) Effects() (write, edit agent.OnLost) { return agent.LostRerun, agent.LostRerun }

func (inState) FS(state *agent.Values) fs.FS { return stateFS{state} }

// stateFS is the files in a state for reading.
type stateFS struct{ state *agent.Values }

// Open reads only the file, or the files of the directory.
func (s stateFS) Open(name string) (fs.File, error) {
	names := []string{name}
	if !s.has(name) {
		names = s.below(name)
	}
	files := fstest.MapFS{}
	for _, name := range names {
		var file stored
		if _, err := s.state.Get(fileKey(name), &file); err != nil {
			return nil, err
		}
		files[name] = &fstest.MapFile{Data: file.bytes()}
	}
	return files.Open(name)
}

func (s stateFS) has(name string) bool {
	ok, _ := s.state.Get(fileKey(name), new(json.RawMessage))
	return ok
}

// below returns the names of the files below a directory.
func (s stateFS) below(dir string) (names []string) {
	prefix := fileKey(dir) + "/"
	if dir == "." {
		prefix = fileKey("")
	}
	for _, key := range s.state.Keys(prefix) {
		names = append(names, strings.TrimPrefix(key, fileKey("")))
	}
	return names
}

func (inState) Write(_ context.Context, state *agent.Values, name string, data []byte) error {
	files := stateFS{state}
	if len(files.below(name)) > 0 {
		return errIsDir(name)
	}
	for at, c := range name {
		if c == '/' && files.has(name[:at]) {
			return errFile(name, segno.KindInvalid, "%s is a file, not a directory: choose another path", display(name[:at]))
		}
	}
	return state.Set(fileKey(name), encodeFile(data))
}

func (inState) Edit(_ context.Context, state *agent.Values, name string, change func([]byte) ([]byte, error)) error {
	if _, _, err := openFile(stateFS{state}, name); err != nil {
		return err
	}
	return state.Update(fileKey(name), func(old json.RawMessage) (any, error) {
		if old == nil {
			return nil, fs.ErrNotExist
		}
		var s stored
		if err := json.Unmarshal(old, &s); err != nil {
			return nil, segno.NewError(segno.KindCorrupt, "read state", fileKey(name), err)
		}
		now, err := change(s.bytes())
		if err != nil {
			return nil, err
		}
		return encodeFile(now), nil
	})
}
