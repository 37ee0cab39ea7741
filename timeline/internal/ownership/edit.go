package ownership

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/dalsegno/segno/agents/profile"
)

// edit is one replacement that a tool made in a file.
type edit struct {
	before, after string
	all           bool // replaces every occurrence of before, not a single one
	whole         bool // after is the whole file
	lines         bool // before begins at the beginning of a line
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

// formats reports whether the input of a call is one of OpenCode. Its tools run the formatters that the user configured before they return.
func formats(input json.RawMessage) bool {
	var in struct {
		Path  *string `json:"filePath"`
		Patch *string `json:"patchText"`
	}
	return json.Unmarshal(input, &in) == nil && (in.Path != nil || in.Patch != nil)
}

// patchEdits returns the edits that a patch in the input of a call makes in each file, by the name in the patch. It returns nil if the
// input has no patch.
func patchEdits(tool profile.Tool, input json.RawMessage) map[string][]edit {
	text := tool.Command(input)
	if !strings.Contains(text, profile.PatchBegin) {
		return nil
	}
	all := map[string][]edit{}
	for file, hunks := range profile.PatchHunks(text) {
		for _, h := range hunks {
			all[file] = append(all[file], edit{before: h.Before, after: h.After, whole: h.IsWhole, lines: true})
		}
	}
	return all
}

// apply returns a file after an edit. It returns false if the edit does not fit, which means that another author
// changed the file before the edit.
func (e *edit) apply(file []byte) ([]byte, bool) {
	if e.lines && !e.whole {
		return e.applyLines(file)
	}
	switch n := bytes.Count(file, []byte(e.before)); {
	case e.whole, e.before == "" && len(file) == 0:
		return []byte(e.after), true
	case e.before == "", n == 0, n > 1 && !e.all:
		return nil, false
	}
	return bytes.ReplaceAll(file, []byte(e.before), []byte(e.after)), true
}

// applyLines replaces whole lines, which the file must have once.
func (e *edit) applyLines(file []byte) ([]byte, bool) {
	text, before := append([]byte("\n"), file...), []byte("\n"+e.before)
	i := bytes.Index(text, before)
	if i < 0 || bytes.Contains(text[i+1:], before) {
		return nil, false
	}
	return slices.Concat(file[:i], []byte(e.after), file[i+len(e.before):]), true
}
