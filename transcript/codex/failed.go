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

// FailedCalls returns the results of calls for which Codex ran no hook after the call, oldest first: those that failed, and those
// that the user refused or interrupted. calls has the ids of the calls. A call whose command still ran when Codex answered the
// model has no result: Codex runs the hook when it sees the end of the command.
func (c *Transcripts) FailedCalls(ctx context.Context, src segno.Source, calls map[string]bool) (failed []segno.Entry, err error) {
	const op = "find failed calls"
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
		failed = append(failed, segno.Entry{Kind: segno.EntryResult, Session: s.src.Session, ID: r.text("call_id"), Time: ended.Add(time.Millisecond),
			Body: fmt.Appendf(nil, `{"error":%s}`, segno.Clip(r.outputText()))})
	}
	_, err = l.End()
	return failed, sessionfile.IOError(op, s.src.Path, err)
}

// isResult reports whether the line is the result of a call, as the model sees it.
func (r *record) isResult() bool {
	return string(r.typ) == "response_item" && (string(r.event) == "function_call_output" || string(r.event) == "custom_tool_call_output")
}

// isRunning reports whether the command of a call still ran at the time of its result. The header of the result says so.
func (r *record) isRunning() bool {
	header, _, _ := strings.Cut(r.text("output"), "\nOutput:")
	return strings.Contains(header, "Process running with session ID")
}

// outputText returns the output of a result as JSON.
func (r *record) outputText() json.RawMessage {
	if output := r.value("output"); len(output) > 0 {
		return output
	}
	return json.RawMessage(`"the call failed"`)
}
