package codex

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/jsonscan"
	"github.com/dalsegno/segno/transcript/internal/sessionfile"
)

// UnreportedResults returns the results of calls for which Codex ran no hook after the call, oldest first: those that failed, those that
// the user refused or interrupted, and commands that are patches, which Codex applies itself. calls has the ids of the calls. A call
// whose command still ran when Codex answered the model has no result: Codex runs the hook when it sees the end of the command.
func (c *Transcripts) UnreportedResults(ctx context.Context, src segno.Source, calls map[string]bool) (results []segno.Entry, err error) {
	const op = "find results of calls"
	s, err := c.open(ctx, op, src)
	if err != nil {
		return nil, err
	}
	defer s.close()
	l := sessionfile.NewLineReader(s.section(0, s.size), 0)
	var r record
	for at := range l.All() {
		if at.Number%1024 == 0 && ctx.Err() != nil {
			return nil, fmt.Errorf("%s: %w", op, ctx.Err())
		}
		if !bytes.Contains(at.Bytes, []byte(`_output"`)) || r.parse(at.Bytes) != nil || !r.isResult() || !calls[r.text("call_id")] {
			continue
		}
		ended, err := time.Parse(time.RFC3339Nano, jsonscan.Unescape(r.timestamp))
		if err != nil || r.isRunning() {
			continue
		}
		// The time has whole milliseconds.
		results = append(results, segno.Entry{Kind: segno.EntryResult, Session: s.src.Session, ID: r.text("call_id"), Time: ended.Add(time.Millisecond),
			Body: fmt.Appendf(nil, `{"%s":%s}`, r.outcome(), segno.Clip(r.outputText()))})
	}
	_, err = l.End()
	return results, sessionfile.IOError(op, s.src.Path, err)
}

// isResult reports whether the line is the result of a call, as the model sees it.
func (r *record) isResult() bool {
	return string(r.typ) == "response_item" && (string(r.event) == "function_call_output" || string(r.event) == "custom_tool_call_output")
}

// isRunning reports whether the command of a call still ran at the time of its result. The header of the result says so.
func (r *record) isRunning() bool {
	return strings.Contains(r.header(), "Process running with session ID")
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
