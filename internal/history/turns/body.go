package turns

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agents/profile"
)

// Intent is the beginning of a call, as the body of its entry records it. A hook records the input of the tool. The
// proxy records what the agent announced about the call.
type Intent struct {
	Title string
	Kind  string          // the kind of the call in the Agent Client Protocol
	Input json.RawMessage // the input of the tool; nil if it is not known
	Files []string        // the files that the agent announced for the call
	// IsClipped is set if the body was too long for its entry. An input that an agent announced is then not complete.
	IsClipped bool
	// Changed is when each file that the tool writes changed last before the call, in the order of [profile.Tool.Files]. A
	// time is zero if there was no such file, and nil if it is not known. Changed is nil if no hook recorded it. It is not nil if a hook recorded
	// the call again with another input.
	Changed []*time.Time
}

// changedField begins the last member of a hook's body if the hook recorded [Intent.Changed]. No tool has such a field.
const changedField = `,"segno.changed":"`

// unknownTime stands for a time that is not known.
const unknownTime = "-"

// WithChanged returns a hook's body, which is an object with at least one member, with [Intent.Changed].
func WithChanged(input json.RawMessage, changed []*time.Time) json.RawMessage {
	body := slices.Concat(bytes.TrimSuffix(bytes.TrimSpace(input), []byte("}")), []byte(changedField))
	for i, at := range changed {
		if i > 0 {
			body = append(body, ' ')
		}
		if at == nil {
			body = append(body, unknownTime...)
		} else {
			body = at.UTC().AppendFormat(body, time.RFC3339Nano)
		}
	}
	return append(body, `"}`...)
}

// withoutChanged reverses [WithChanged].
func withoutChanged(body json.RawMessage) (input json.RawMessage, changed []*time.Time) {
	i := bytes.LastIndex(body, []byte(changedField))
	if i < 0 {
		return body, nil
	}
	times, ok := strings.CutSuffix(string(body[i+len(changedField):]), `"}`)
	if !ok {
		return body, nil
	}
	for text := range strings.SplitSeq(times, " ") {
		at, err := time.Parse(time.RFC3339Nano, text)
		switch {
		case err == nil:
			changed = append(changed, &at)
		case text == unknownTime:
			changed = append(changed, nil)
		default:
			return body, nil
		}
	}
	return slices.Concat(body[:i], []byte("}")), changed
}

// ReadIntent decodes the body of the entry of a call's beginning.
func ReadIntent(body json.RawMessage) Intent {
	body, changed := withoutChanged(body)
	f := FieldsOf(body)
	in := Intent{Title: f.Text("title"), Kind: f.Text("kind"), Input: body, IsClipped: IsClipped(body), Changed: changed}
	var announced []struct {
		Path string `json:"path"`
	}
	_ = json.Unmarshal(f.Get("locations"), &announced) // the agent may announce none
	for _, x := range announced {
		if x.Path != "" {
			in.Files = append(in.Files, x.Path)
		}
	}
	if in.Title == "" && in.Kind == "" && len(in.Files) == 0 || !f.hasOnly("title", "kind", "input", "locations") {
		return Intent{Input: body, IsClipped: in.IsClipped, Changed: changed} // of a hook
	}
	if in.Input = f.Get("input"); string(in.Input) == "null" {
		in.Input = nil
	}
	return in
}

// IsOfHook reports whether a hook recorded the call with an input: an agent that announces a call describes it.
func (in *Intent) IsOfHook() bool {
	return in.Title == "" && in.Kind == "" && len(in.Files) == 0 && len(in.Input) > len("{}")
}

// WithPatch adds the patch that a call applied to the body of the entry of its beginning, which has no input. It returns the name of the
// tool, too. If the patch is too long for an entry, only its lines that name files are kept.
func WithPatch(body json.RawMessage, patch string) (tool string, with json.RawMessage) {
	in := ReadIntent(body)
	encode := func(patch string) json.RawMessage {
		data, _ := json.Marshal(map[string]any{"title": in.Title, "kind": in.Kind, "input": map[string]string{"input": patch}}) // always encodes
		return data
	}
	if with = encode(patch); len(with) > segno.MaxUnclipped {
		with = segno.Clip(encode(profile.PatchBegin + strings.Join(profile.PatchHeaders(patch), "")))
	}
	return profile.ApplyPatch, with
}

// Result is the end of a call, as the body of its entry records it.
type Result struct {
	Outcome
	Text        string // the tool's output or the error, for a reader
	Agent       string // the subagent that made the call, or ""
	HasError    bool   // the agent reported an error
	Interrupted bool
	IsRunning   bool // the call still runs
}

// Outcome has the fields of a result that agents have in common.
type Outcome struct {
	Exit       *int     `json:"exit,omitempty"`
	DurationMS *float64 `json:"duration_ms,omitempty"`
	Status     string   `json:"status,omitempty"` // "completed" or "failed", if the agent reports it
}

// Took returns how long the call took, or 0 if the agent did not report it.
func (o *Outcome) Took() time.Duration {
	const longest = 1 << 40
	if ms := o.DurationMS; ms != nil && *ms > 0 && *ms < longest {
		return time.Duration(*ms * float64(time.Millisecond))
	}
	return 0
}

// Failed reports whether the call failed.
func (r *Result) Failed() bool {
	return r.HasError || r.Status == "failed" || r.Exit != nil && *r.Exit != 0
}

// ReadResult decodes the body of the entry of a call's end.
func ReadResult(body json.RawMessage) Result {
	f := FieldsOf(body)
	r := Result{Outcome: Outcome{Status: f.Text("status")}, Agent: f.Text("agent")}
	_ = json.Unmarshal(f.Get("duration_ms"), &r.DurationMS) // a hook may not report it
	output := FieldsOf(f.Get("output"))
	for _, exit := range []json.RawMessage{f.Get("exit"), output.Get("exit_code"), output.Get("exitCode")} {
		if r.Exit == nil {
			_ = json.Unmarshal(exit, &r.Exit) // most tools have no exit status
		}
	}
	response := FieldsOf(f.Get("response"))
	r.HasError = isProblem(f.Get("error")) || isProblem(response.Get("error")) // Gemini CLI reports the error in the response
	r.Interrupted = f.Text("interrupt") == "true" || response.Text("interrupted") == "true" ||
		r.Status == "cancelled" || r.Status == "canceled"
	r.IsRunning = r.Status == "pending" || r.Status == "in_progress"
	for _, name := range []string{"error", "response", "content", "output"} {
		if strings.TrimSpace(r.Text) == "" && (name != "error" || r.HasError) {
			r.Text = f.Text(name)
		}
	}
	if !f.isResult() {
		r.Text = TextOf(body) // the output itself
	}
	r.Text = withoutFence(r.Text)
	return r
}

func isProblem(body json.RawMessage) bool {
	text := string(body)
	return text != "" && text != "null" && text != "false" && text != `""`
}

// isResult reports whether the fields are those of a result, and not those of a tool's output.
func (f Fields) isResult() bool {
	return len(f) > 0 && (f.Get("status") != nil || f.Get("response") != nil || f.Get("error") != nil ||
		f.hasOnly("exit", "interrupt", "duration_ms", "agent"))
}

// withoutFence removes the code fence in which some agents show a command's output.
func withoutFence(s string) string {
	trimmed := strings.TrimSpace(s)
	first, rest, more := strings.Cut(trimmed, "\n")
	body, isFenced := strings.CutSuffix(rest, "```")
	if more && isFenced && strings.HasPrefix(first, "```") && !strings.Contains(body, "```") {
		return body
	}
	return s
}
