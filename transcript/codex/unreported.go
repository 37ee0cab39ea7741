package codex

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/jsonscan"
)

// UnreportedResults returns the results of calls for which Codex ran no hook after the call, oldest first: those that failed, those that
// the user refused or interrupted, and commands that are patches, which Codex applies itself. calls has the ids of the calls. The result
// of a call whose command still runs names the command as a background task, because Codex runs the hook only if the model waits for the
// end. If a later call types into the command, that call continues it: the earlier one ends then.
func (c *Transcripts) UnreportedResults(ctx context.Context, src segno.Source, calls map[string]bool) (results []segno.Entry, err error) {
	running := map[string]string{} // the calls that left a command running, by the id of the command
	add := func(e segno.Entry) {
		results = append(slices.DeleteFunc(results, func(old segno.Entry) bool { return old.ID == e.ID }), e)
	}
	err = c.readCalls(ctx, src, func(r *record, at, since time.Time) {
		e := segno.Entry{Kind: segno.EntryResult, Session: src.Session, Time: at}
		if r.isResult() && calls[r.text("call_id")] {
			e.ID, e.Body = r.text("call_id"), r.result()
			if task := r.task(); task != "" {
				running[task] = e.ID
			}
			add(e)
			return
		}
		task, body := r.endOfCommand()
		if typed := r.typed(); typed != "" {
			task, body, e.Time = typed, json.RawMessage(`{"response":"continued by a later call"}`), since
		}
		if e.ID, e.Body = running[task], body; e.ID != "" {
			delete(running, task)
			add(e)
		}
	})
	return results, err
}

// UnreportedCalls returns the calls of a turn that typed into a command which an earlier call left running, oldest first. Codex runs no
// hooks for such calls. The time of a call is the time from which the model may have made it, because Codex records a call after a delay.
func (c *Transcripts) UnreportedCalls(ctx context.Context, src segno.Source, key segno.TurnKey) (calls []segno.Entry, err error) {
	turn := ""
	err = c.readCalls(ctx, src, func(r *record, _, since time.Time) {
		if id := r.turn(); id != "" {
			turn = id
		}
		if turn != "" && turn == string(key) && r.typed() != "" {
			calls = append(calls, segno.Entry{Kind: segno.EntryIntent, Session: src.Session, Time: since, ID: r.text("call_id"), Name: typing,
				Body: segno.Clip(json.RawMessage(r.text("arguments")))})
		}
	})
	return calls, err
}

// EarlierCalls returns those of the calls with these ids that other turns than the one with the key made. Codex runs the hook after such a
// call when a later turn waits for the end of its command. It returns none if the session lacks the turn.
func (c *Transcripts) EarlierCalls(ctx context.Context, src segno.Source, key segno.TurnKey, calls map[string]bool) (earlier map[string]bool, err error) {
	earlier = map[string]bool{}
	turn, isKnown := "", false
	err = c.readCalls(ctx, src, func(r *record, _, _ time.Time) {
		if id := r.turn(); id != "" {
			turn = id
			isKnown = isKnown || id == string(key)
		}
		if id := r.text("call_id"); string(r.event) == "function_call" && calls[id] && turn != "" && turn != string(key) {
			earlier[id] = true
		}
	})
	if !isKnown {
		return nil, err
	}
	return earlier, err
}

// readCalls calls do with each line about a turn, a call or a command, and with the time of the line, rounded up to the next millisecond. since
// is the time of the newest line before it from which the model continued.
func (c *Transcripts) readCalls(ctx context.Context, src segno.Source, do func(r *record, at, since time.Time)) error {
	var since time.Time
	return c.readRecords(ctx, "find results of calls", src, isCallLine, func(r *record) {
		if at, err := time.Parse(time.RFC3339Nano, jsonscan.Unescape(r.timestamp)); err == nil {
			do(r, at.Add(time.Millisecond), cmp.Or(since, at))
			if r.isResult() || r.turn() != "" {
				since = at
			}
		}
	})
}

// isCallLine reports whether readCalls needs a line. It also returns true for some other lines.
func isCallLine(line []byte) bool {
	for _, part := range [][]byte{[]byte(`_output"`), []byte(`"function_call"`), []byte(`"exec_command_end"`), []byte(`"CommandExecution"`),
		[]byte(`_started"`), []byte(`"turn_context"`)} {
		if bytes.Contains(line, part) {
			return true
		}
	}
	return false
}

// isResult reports whether the line is the result of a call, as the model sees it.
func (r *record) isResult() bool {
	return string(r.typ) == "response_item" && (string(r.event) == "function_call_output" || string(r.event) == "custom_tool_call_output")
}

// runningID matches the id of a command in the header of a result.
var runningID = regexp.MustCompile(`Process running with session ID (\d+)`)

// task returns the id of the command of a call if it still ran at the time of the result, else "". The header of the result says so.
func (r *record) task() string {
	if m := runningID.FindStringSubmatch(r.header()); m != nil {
		return m[1]
	}
	return ""
}

// result returns the body of the entry of a result.
func (r *record) result() json.RawMessage {
	if task := r.task(); task != "" {
		return fmt.Appendf(nil, `{"response":{"backgroundTaskId":%q}}`, task)
	}
	return fmt.Appendf(nil, `{"%s":%s}`, r.outcome(), segno.Clip(r.outputText()))
}

// typing is the tool with which the model types into a command, or waits for it.
const typing = "write_stdin"

// typed returns the id of the command into which a call types, or "".
func (r *record) typed() string {
	if string(r.typ) != "response_item" || string(r.event) != "function_call" || r.text("name") != typing {
		return ""
	}
	var in struct {
		Session json.Number `json:"session_id"`
		Chars   string      `json:"chars"`
	}
	if json.Unmarshal([]byte(r.text("arguments")), &in) != nil || in.Chars == "" {
		return ""
	}
	return in.Session.String()
}

// endOfCommand returns the id of the command whose end a line records, and the body of the entry of its result. The id is "" in other lines.
func (r *record) endOfCommand() (id string, body json.RawMessage) {
	var in []string
	switch {
	case string(r.typ) == "event_msg" && string(r.event) == "exec_command_end":
	case string(r.typ) == "event_msg" && string(r.event) == "item_completed" && r.text("item", "type") == "CommandExecution":
		in = []string{"item"}
	default:
		return "", nil
	}
	outcome, output := "error", r.value(append(in, "aggregated_output")...)
	if string(r.value(append(in, "exit_code")...)) == "0" {
		outcome = "response"
	}
	if len(output) == 0 {
		output = []byte(`""`)
	}
	return r.text(append(in, "process_id")...), fmt.Appendf(nil, `{"%s":%s}`, outcome, segno.Clip(output))
}

// header returns the lines of a result before the output of the command, or all lines if the result has no such parts.
func (r *record) header() string {
	header, _, _ := strings.Cut(r.text("output"), "\nOutput:")
	return header
}

// outcome returns the key of a result's output in the body of its entry.
func (r *record) outcome() string {
	if strings.Contains(r.header(), "Process exited with code 0") || strings.Contains(r.text("output"), "Success. Updated the following files:") {
		return "response"
	}
	return "error"
}

// outputText returns the output of a result as JSON.
func (r *record) outputText() json.RawMessage {
	if output := r.value("output"); len(output) > 0 {
		return output
	}
	return json.RawMessage(`"the call failed"`)
}
