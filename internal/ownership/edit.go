package ownership

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/agenttool"
)

// edit is one replacement that a tool made in a file.
type edit struct {
	before, after string
	all           bool // every place that has before, not the only one
	whole         bool // after is the whole file
}

// editsOf returns what a call does to the file that it names, or nil if the input does not show it: for
// example, if the recorded input is not whole.
func editsOf(tool agenttool.Tool, input json.RawMessage) (edits []edit) {
	type replacement struct {
		Old       *string `json:"old_string"`
		New       *string `json:"new_string"`
		All       bool    `json:"replace_all"`
		OldString *string `json:"oldString"` // of OpenCode
		NewString *string `json:"newString"`
		AllOf     bool    `json:"replaceAll"`
		Expected  int     `json:"expected_replacements"` // of Gemini CLI
		Multiple  bool    `json:"allow_multiple"`
	}
	var in struct {
		replacement
		Content *string         `json:"content"`
		Edits   []replacement   `json:"edits"`
		Clipped json.RawMessage `json:"clipped"`
	}
	if json.Unmarshal(input, &in) != nil || in.Clipped != nil {
		return nil
	}
	if tool.Kind == "write" {
		if in.Content == nil {
			return nil
		}
		return []edit{{after: *in.Content, whole: true}}
	}
	if in.Edits == nil {
		in.Edits = []replacement{in.replacement}
	}
	for _, r := range in.Edits {
		if r.Old == nil && r.New == nil {
			r.Old, r.New = r.OldString, r.NewString
		}
		if r.Old == nil || r.New == nil {
			return nil
		}
		edits = append(edits, edit{before: *r.Old, after: *r.New, all: r.All || r.AllOf || r.Multiple || r.Expected > 1})
	}
	return edits
}

// apply returns a file after an edit. It returns false if the edit does not fit: then another author
// changed the file before.
func (e *edit) apply(file []byte) ([]byte, bool) {
	switch n := bytes.Count(file, []byte(e.before)); {
	case e.whole, e.before == "" && len(file) == 0:
		return []byte(e.after), true
	case e.before == "", n == 0, n > 1 && !e.all:
		return nil, false
	}
	return bytes.ReplaceAll(file, []byte(e.before), []byte(e.after)), true
}

// CanReplay reports whether the inputs of the calls that name a path show all that these did to it.
func (e *Evidence) CanReplay(path string) bool {
	named := false
	for _, i := range e.naming(path) {
		c := &e.Calls[i]
		if c.Failed && c.Confined {
			continue
		}
		if named = true; c.Lost || len(c.edits) == 0 {
			return false
		}
	}
	return named
}

// Replay returns a file as the calls that name its path left it, if no other author wrote it: before is
// the file before the turn. It returns false if a call does not fit.
func (e *Evidence) Replay(path string, before []byte) (after []byte, ok bool) {
	after = before
	for _, i := range e.naming(path) {
		if e.Calls[i].Failed {
			continue
		}
		for _, edit := range e.Calls[i].edits {
			if after, ok = edit.apply(after); !ok {
				return nil, false
			}
		}
	}
	return after, true
}

// Wrote reports whether the newest call that names a path wrote the content that the path has.
func (e *Evidence) Wrote(x segno.Change) bool {
	_, wrote := e.Since(x.Path, x.To.Hash)
	return wrote
}

// Since returns since when a path has the state that the turn's tools gave it: the beginning of the
// newest call that named it. It is sure that no other author changed the path since if that call wrote
// the content that the path has.
func (e *Evidence) Since(path string, has segno.Hash) (since time.Time, sure bool) {
	for _, i := range e.naming(path) {
		c := &e.Calls[i]
		since, sure = c.From, !c.Content.IsZero() && c.Content == has
	}
	return since, sure
}
