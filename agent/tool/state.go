package tool

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"io/fs"
	"iter"
	"slices"
	"strings"
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

// filesBelow returns the names of the files below a directory, in the order of a walk.
func filesBelow(state *agent.Values, dir string) (names []string) {
	prefix := fileKey(dir) + "/"
	if dir == "." {
		prefix = fileKey("")
	}
	for _, key := range state.Keys(prefix) {
		names = append(names, strings.TrimPrefix(key, fileKey("")))
	}
	slices.SortFunc(names, byPath)
	return names
}

// byPath orders names as a walk does: "a/b" before "a-b".
func byPath(a, b string) int {
	return strings.Compare(strings.ReplaceAll(a, "/", "\x00"), strings.ReplaceAll(b, "/", "\x00"))
}

func sortFiles(files []File) {
	slices.SortFunc(files, func(a, b File) int { return byPath(a.Name, b.Name) })
}

func (inState) file(state *agent.Values, name string) (data []byte, ok bool, err error) {
	var s stored
	ok, err = state.Get(fileKey(name), &s)
	return s.bytes(), ok, err
}

func (inState) has(state *agent.Values, name string) bool {
	ok, _ := state.Get(fileKey(name), new(json.RawMessage))
	return ok
}

func (f inState) List(_ context.Context, state *agent.Values, dir string) ([]File, error) {
	if data, ok, err := f.file(state, dir); ok {
		return []File{{Name: dir, Size: int64(len(data))}}, err
	}
	names := filesBelow(state, dir)
	if len(names) == 0 && dir != "." {
		return nil, fs.ErrNotExist
	}
	var files []File
	for _, name := range names {
		rest := name
		if dir != "." {
			rest = strings.TrimPrefix(name, dir+"/")
		}
		if first, _, deeper := strings.Cut(rest, "/"); deeper {
			sub := File{Name: strings.TrimSuffix(name, rest) + first, Dir: true}
			if len(files) == 0 || files[len(files)-1] != sub {
				files = append(files, sub)
			}
			continue
		}
		data, _, err := f.file(state, name)
		if err != nil {
			return nil, err
		}
		files = append(files, File{Name: name, Size: int64(len(data))})
	}
	sortFiles(files)
	return files, nil
}

func (f inState) Walk(_ context.Context, state *agent.Values, dir string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		names := filesBelow(state, dir)
		if f.has(state, dir) {
			names = append([]string{dir}, names...)
		}
		if len(names) == 0 && dir != "." {
			yield("", fs.ErrNotExist)
			return
		}
		for _, name := range names {
			if !yield(name, nil) {
				return
			}
		}
	}
}

func (f inState) Open(_ context.Context, state *agent.Values, name string) (io.ReadCloser, error) {
	data, ok, err := f.file(state, name)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, f.missing(state, name)
	}
	return io.NopCloser(bytes.NewReader(data)), nil
}

func (inState) missing(state *agent.Values, name string) error {
	if len(filesBelow(state, name)) > 0 {
		return errIsDir(name)
	}
	return fs.ErrNotExist
}

func (f inState) Write(_ context.Context, state *agent.Values, name string, data []byte) error {
	if len(filesBelow(state, name)) > 0 {
		return errIsDir(name)
	}
	for at, c := range name {
		if c == '/' && f.has(state, name[:at]) {
			return errFile(name, segno.KindInvalid, "%s is a file, not a directory: choose another path", display(name[:at]))
		}
	}
	return state.Set(fileKey(name), encodeFile(data))
}

func (f inState) Edit(_ context.Context, state *agent.Values, name string, change func([]byte) ([]byte, error)) error {
	if !f.has(state, name) {
		return f.missing(state, name)
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

func errIsDir(name string) error {
	return errFile(name, segno.KindInvalid, "the path is a directory: list it with ls")
}
