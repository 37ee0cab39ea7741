package failure

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// recorded has the meanings of the answers of each recorded conversation, without
// successes: the method, then name, session and turn.
var recorded = map[string]map[string][]string{
	"claude-0.49.0": {
		"adapter_kill":    {"prompt: agent gone, dead, seen"},
		"child_kill":      {"prompt: child gone, lost, seen", "prompt: missing session, lost, not started"},
		"child_int":       {"prompt: unknown error, kept, failed", "prompt: session ended, lost, not started"},
		"child_kill_idle": {"prompt: missing session, lost, not started"},
		"child_term_idle": {"prompt: missing session, lost, not started", "prompt: missing session, lost, not started"},
		"cancel_text":     {"prompt: cancelled, kept, fine"},
		"cancel_request":  {"prompt: cancelled, kept, fine"},
		"deleted": {"resume: missing session, lost, fine", "prompt: missing session, lost, not started",
			"load: missing session, lost, fine", "prompt: missing session, lost, not started"},
		"drop":   {"prompt: connection, kept, failed"},
		"empty":  {"prompt: empty, kept, fine"},
		"err400": {"prompt: unknown error, kept, failed"},
		"err401": {"prompt: auth, kept, failed"},
		"err429": {"prompt: rate limit, kept, failed"},
		"err500": {"prompt: overload, kept, failed"},
		"err529": {"prompt: overload, kept, failed"},
		"moved_cwd": {"resume: no directory, kept, failed", "prompt: missing session, lost, not started",
			"resume: missing session, lost, fine", "prompt: missing session, lost, not started"},
		"other_cwd":     {"resume: missing session, lost, fine", "prompt: missing session, lost, not started"},
		"tool_then_429": {"prompt: rate limit, kept, failed"},
		"tool_then_529": {"prompt: overload, kept, failed"},
		"unknown": {"prompt: missing session, lost, not started",
			"resume: missing session, lost, fine", "load: missing session, lost, fine", "fork: missing session, lost, fine",
			"set_mode: missing session, lost, fine", "close: missing session, lost, fine", "delete: missing session, lost, fine",
			"prompt: missing session, lost, not started",
			"resume: missing session, lost, fine", "load: missing session, lost, fine", "fork: missing session, lost, fine",
			"set_mode: missing session, lost, fine", "close: missing session, lost, fine", "delete: missing session, lost, fine",
			"nonsense: unknown error, kept, failed", "prompt: unknown error, kept, failed",
			"new: no directory, kept, failed", "new: no directory, kept, failed"},
		"unprompted":     {"resume: missing session, lost, fine", "load: missing session, lost, fine"},
		"stops":          {"prompt: refused, kept, failed", "prompt: output cut, kept, failed"},
		"air_errors":     {"prompt: rate limit, kept, failed", "prompt: overload, kept, failed", "prompt: auth, kept, failed"},
		"air_child_kill": {"prompt: child gone, lost, seen", "prompt: missing session, lost, not started"},
		"too_long":       {"prompt: too long, kept, failed"},
		"bad_mode":       {"new: no start, kept, failed"},
		"busy":           {"prompt: missing session, lost, not started"},
		"fresh_empty":    {"prompt: empty, kept, fine"},
	},
	"claude-0.100.0": {
		"adapter_kill":    {"prompt: agent gone, dead, seen"},
		"child_kill":      {"prompt: child gone, lost, seen", "prompt: missing session, lost, not started"},
		"child_term_idle": {"prompt: missing session, lost, not started", "prompt: missing session, lost, not started"},
		"cancel_text":     {"prompt: cancelled, kept, fine"},
		"cancel_request":  {"prompt: cancelled, kept, fine"},
		"deleted": {"resume: missing session, lost, fine", "prompt: missing session, lost, not started",
			"load: missing session, lost, fine", "prompt: missing session, lost, not started"},
		"drop":          {"prompt: connection, kept, failed"},
		"empty":         {"prompt: empty, kept, fine"},
		"err401":        {"prompt: auth, kept, failed"},
		"err429":        {"prompt: rate limit, kept, failed"},
		"err500":        {"prompt: overload, kept, failed"},
		"err529":        {"prompt: overload, kept, failed"},
		"fork":          {"fork: no fork point, kept, failed"},
		"moved_cwd":     {"resume: no directory, kept, failed", "prompt: missing session, lost, not started"},
		"tool_then_429": {"prompt: rate limit, kept, failed"},
		"tool_then_529": {"prompt: overload, kept, failed"},
		"unknown": {"prompt: missing session, lost, not started",
			"resume: missing session, lost, fine", "load: missing session, lost, fine", "fork: missing session, lost, fine",
			"set_mode: missing session, lost, fine", "prompt: missing session, lost, not started",
			"resume: missing session, lost, fine", "load: missing session, lost, fine", "fork: missing session, lost, fine",
			"set_mode: missing session, lost, fine",
			"nonsense: unknown error, kept, failed", "prompt: unknown error, kept, failed",
			"new: no directory, kept, failed", "new: no directory, kept, failed"},
		"unprompted":     {"resume: missing session, lost, fine", "load: missing session, lost, fine"},
		"stops":          {"prompt: output cut, kept, failed"},
		"air_errors":     {"prompt: rate limit, kept, failed", "prompt: overload, kept, failed", "prompt: auth, kept, failed"},
		"air_child_kill": {"prompt: child gone, lost, seen", "prompt: missing session, lost, not started"},
		"too_long":       {"prompt: too long, kept, failed"},
		"no_start":       {"new: no start, kept, failed"},
		"bad_mode":       {"new: no start, kept, failed"},
		"local":          {"prompt: empty, kept, fine"}, // /clear has no output
		"fresh_local":    {"prompt: empty, kept, fine"},
		"fresh_empty":    {"prompt: empty, kept, fine"},
	},
	"codex-2.6.0": {
		"adapter_kill":   {"prompt: agent gone, dead, seen"},
		"child_kill":     {"prompt: child gone, kept, seen"},
		"cancel_text":    {"prompt: cancelled, kept, fine"},
		"cancel_request": {"prompt: cancelled, kept, fine"},
		"deleted":        {"prompt: missing session, lost, not started", "prompt: missing session, lost, not started"},
		"drop":           {"prompt: connection, kept, failed"},
		"empty":          {"prompt: empty, kept, fine"},
		"err400":         {"prompt: rejected, kept, failed"},
		"err401":         {"prompt: auth, kept, failed"},
		"err429":         {"prompt: rate limit, kept, failed"},
		"err500":         {"prompt: overload, kept, failed"},
		"err529":         {"prompt: overload, kept, failed"},
		"fork":           {"fork: no fork point, kept, failed"},
		"tool_then_429":  {"prompt: rate limit, kept, failed"},
		"tool_then_529":  {"prompt: overload, kept, failed"},
		"unknown": {"prompt: missing session, lost, not started",
			"resume: missing session, lost, fine", "load: missing session, lost, fine", "fork: missing session, lost, fine",
			"set_mode: missing session, lost, fine", "prompt: missing session, lost, not started",
			"resume: missing session, lost, fine", "load: missing session, lost, fine", "fork: missing session, lost, fine",
			"set_mode: missing session, lost, fine", "close: missing session, lost, fine", "delete: missing session, lost, fine",
			"nonsense: unknown error, kept, failed", "prompt: unknown error, kept, failed", "new: unknown error, kept, failed"},
		"unprompted":     {"resume: missing session, lost, fine", "load: missing session, lost, fine"},
		"air_errors":     {"prompt: rate limit, kept, failed", "prompt: overload, kept, failed", "prompt: auth, kept, failed"},
		"air_child_kill": {"prompt: child gone, kept, seen"},
		"too_long":       {"prompt: too long, kept, failed"},
		"busy":           {"resume: busy session, kept, failed", "prompt: missing session, lost, not started", "load: busy session, kept, failed"},
		"fresh_empty":    {"prompt: empty, kept, fine"},
	},
}

func TestRecordedAnswers(t *testing.T) {
	for agent, cases := range recorded {
		got := map[string][]string{}
		for _, a := range replay(t, agent) {
			got[a.Case] = append(got[a.Case], verdict(a.Outcome)...)
		}
		for name := range cases {
			if got[name] == nil {
				t.Errorf("%s: nothing is recorded of %s", agent, name)
			}
		}
		for name := range got {
			t.Run(agent+"/"+name, func(t *testing.T) {
				if !slices.Equal(got[name], cases[name]) {
					t.Errorf("got\n%q\nwant\n%q", got[name], cases[name])
				}
			})
		}
	}
}

// verdict returns the meaning of o as one line, or no line for success.
func verdict(o Outcome) []string {
	m := Classify(o)
	if m == (Meaning{}) {
		return []string{}
	}
	return []string{fmt.Sprintf("%s: %s, %s, %s", strings.TrimPrefix(o.Method, "session/"), m.Name, m.Session, m.Turn)}
}
