package ownership

import (
	"bytes"
	"encoding/json"
	"slices"
	"time"

	"github.com/dalsegno/segno"
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

// CanReplay reports whether the calls that name a path show in their inputs all their changes to
// it.
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

// maxReplay is the size in bytes of the largest file whose lines are examined.
const maxReplay = 1 << 20

// ShowsLines reports whether the calls show which lines of a file are the turn's, although another author may have
// changed the file, too. It returns the owner of the newest change. parts has the owners of all paths.
func (e *Evidence) ShowsLines(x segno.Change, touched time.Time, parts *Division) (owner Owner, ok bool) {
	isFile := x.To.Type == segno.EntityFile && (x.From.Type == segno.EntityFile || x.From.Type == segno.EntityNone)
	if !isFile || max(x.From.Size, x.To.Size) > maxReplay || !e.CanReplay(x.Path) || e.Wrote(x) {
		return Other, false
	}
	switch owner = e.Owner(x, Touch{At: touched}); owner {
	case Turn:
		return owner, slices.Contains(parts.Turn, x.Path)
	case Doubt:
		return owner, slices.Contains(parts.Doubt, x.Path)
	}
	return owner, false
}

// Replay applies the edits of the calls that name a path to the content before the turn. The result is the content
// after the turn if no other author wrote the file. Replay returns false if an edit does not fit.
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

// Wrote reports whether the newest call that names a path wrote the path's present content.
func (e *Evidence) Wrote(x segno.Change) bool {
	_, wrote := e.Since(x.Path, x.To.Hash)
	return wrote
}

// Since returns the beginning of the newest call that named a path. From then on, the path has the state that the
// turn's tools gave it. sure is set if that call wrote the content whose hash is present. Then no other author changed
// the path after the call.
func (e *Evidence) Since(path string, present segno.Hash) (since time.Time, sure bool) {
	for _, i := range e.naming(path) {
		c := &e.Calls[i]
		since, sure = c.From, !c.Content.IsZero() && c.Content == present
	}
	return since, sure
}
