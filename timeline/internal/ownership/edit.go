package ownership

import (
	"bytes"
	"encoding/json"

	"github.com/dalsegno/segno/agents/profile"
)

// edit is one replacement that a tool made in a file.
type edit struct {
	before, after string
	all           bool // replaces every occurrence of before, not a single one
	whole         bool // after is the whole file
}

// editsOf returns the edits that a call makes in the file that it names. It returns nil if the input does not show
// them, for example because the recorded input is truncated.
func editsOf(tool profile.Tool, input json.RawMessage) (edits []edit) {
	type replacement struct {
		Old       *string `json:"old_string"`
		New       *string `json:"new_string"`
		All       bool    `json:"replace_all"`
		OldString *string `json:"oldString"` // OpenCode
		NewString *string `json:"newString"`
		AllOf     bool    `json:"replaceAll"`
		Expected  int     `json:"expected_replacements"` // Gemini CLI
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

// apply returns a file after an edit. It returns false if the edit does not fit, which means that another author
// changed the file before the edit.
func (e *edit) apply(file []byte) ([]byte, bool) {
	switch n := bytes.Count(file, []byte(e.before)); {
	case e.whole, e.before == "" && len(file) == 0:
		return []byte(e.after), true
	case e.before == "", n == 0, n > 1 && !e.all:
		return nil, false
	}
	return bytes.ReplaceAll(file, []byte(e.before), []byte(e.after)), true
}
