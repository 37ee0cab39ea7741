package codex

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agents/profile"
	"github.com/dalsegno/segno/internal/jsonscan"
)

// Patches returns the patches that calls applied, by the ids of the calls. calls has these ids. A patch has the form of a model's patch and
// names its files as Codex resolved them.
func (c *Transcripts) Patches(ctx context.Context, src segno.Source, calls map[string]bool) (map[string]string, error) {
	patches := map[string]string{}
	isNeeded := func(line []byte) bool { return bytes.Contains(line, []byte(`"changes"`)) }
	err := c.readRecords(ctx, "find patches", src, isNeeded, func(r *record) {
		if id, changes := r.patch(); calls[id] {
			if text := patchOf(changes); text != "" {
				patches[id] = text
			}
		}
	})
	return patches, err
}

// patch returns the id of the call that applied a patch, and the changes that it made. It returns "" for another line.
func (r *record) patch() (call string, changes json.RawMessage) {
	switch {
	case string(r.typ) != "event_msg":
	case string(r.event) == "patch_apply_end":
		return r.text("call_id"), r.value("changes")
	case string(r.event) == "item_completed" && r.text("item", "type") == "FileChange":
		return r.text("item", "id"), r.value("item", "changes")
	}
	return "", nil
}

// patchOf converts the changes that Codex recorded for a patch to the form of a model's patch. It returns "" if it cannot read them.
func patchOf(changes json.RawMessage) string {
	var files map[string]struct {
		Type    string
		Content string
		Diff    string `json:"unified_diff"`
		Move    string `json:"move_path"`
	}
	if json.Unmarshal(changes, &files) != nil || len(files) == 0 {
		return ""
	}
	var patch profile.PatchWriter
	for _, name := range slices.Sorted(maps.Keys(files)) {
		switch f := files[name]; {
		case strings.ContainsAny(name+f.Move, "\r\n"):
			return ""
		case f.Type == "add":
			patch.Add(name, f.Content)
		case f.Type == "delete":
			patch.Delete(name)
		case f.Type == "update":
			patch.Update(name, f.Move, f.Diff)
		default:
			return ""
		}
	}
	return patch.String()
}

// CutCalls returns the beginnings of the calls since a time that have no result, oldest first: Codex was killed while they ran. A result
// that Codex adds for such a call when the session continues does not count.
func (c *Transcripts) CutCalls(ctx context.Context, src segno.Source, since time.Time) (calls []segno.Entry, err error) {
	isNeeded := func(line []byte) bool { return bytes.Contains(line, []byte(`"call_id"`)) }
	err = c.readRecords(ctx, "find calls", src, isNeeded, func(r *record) {
		switch id := r.text("call_id"); {
		case r.isResult() && !strings.HasPrefix(r.text("output"), "aborted"):
			calls = slices.DeleteFunc(calls, func(e segno.Entry) bool { return e.ID == id })
		case r.isCall():
			began, err := time.Parse(time.RFC3339Nano, jsonscan.Unescape(r.timestamp))
			if err == nil && !began.Add(time.Millisecond).Before(since) { // the time has whole milliseconds
				calls = append(calls, segno.Entry{Kind: segno.EntryIntent, Session: src.Session, ID: id, Name: r.text("name"), Time: began,
					Body: segno.Clip(r.callInput())})
			}
		}
	})
	return calls, err
}

// isCall reports whether the line is a call, as the model made it.
func (r *record) isCall() bool {
	return string(r.typ) == "response_item" && (string(r.event) == "function_call" || string(r.event) == "custom_tool_call")
}

// callInput returns the input of a call as an object.
func (r *record) callInput() json.RawMessage {
	if input := r.text("arguments"); json.Valid([]byte(input)) {
		return json.RawMessage(input)
	}
	data, _ := json.Marshal(map[string]string{"input": r.text("input")}) // always encodes
	return data
}
