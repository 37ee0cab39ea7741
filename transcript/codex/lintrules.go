package codex

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/jsonscan"
	"github.com/dalsegno/segno/transcript"
	"github.com/dalsegno/segno/transcript/internal/sessionfile"
)

// checkMeta checks that the first line is a session_meta.
func (l *linter) checkMeta() {
	if len(l.lines) == 0 {
		return
	}
	first := l.lines[0]
	switch isMeta := first.typ == "session_meta"; {
	case isMeta && l.metaProblem == "" && !strings.EqualFold(l.metaID, string(l.file.thread)):
		l.mend.Add(transcript.CodeWrongID, first.piece.Line, first.piece.Offset, "the session_meta has the id of session "+l.metaID+", so Codex continues that one", "the copy has its own id")
		m, _ := parseMeta(l.meta) // it was parsed before
		l.mend.Replace(first.piece.Offset, first.end, bytes.TrimSuffix(m.movedTo(l.file.thread, ""), []byte{'\n'}))
		l.lines[0].isFixed = true
		return
	case isMeta && l.metaProblem == "":
		return
	case isMeta:
		l.mend.Add(transcript.CodeNoMeta, first.piece.Line, first.piece.Offset, l.metaProblem+", so Codex cannot resume the session", "made from the name of the file and the settings of the turns")
	default:
		l.mend.Add(transcript.CodeNoMeta, first.piece.Line, first.piece.Offset, "the session has no session_meta, so Codex cannot resume it", "made from the name of the file and the settings of the turns")
	}
	stamp := first.stamp
	if at, err := time.Parse(time.RFC3339Nano, stamp); err != nil || at.IsZero() {
		stamp = "1970-01-01T00:00:00.000Z"
	}
	id := string(l.file.thread)
	payload := map[string]any{"id": id, "session_id": id, "timestamp": stamp, "cwd": l.dir, "originator": "codex_exec", "cli_version": "0.0.0", "source": "cli"}
	line := map[string]any{"timestamp": stamp, "type": "session_meta", "payload": payload}
	if l.isPaged {
		line["ordinal"], payload["history_mode"] = 0, "paginated"
	}
	data, _ := json.Marshal(line) // strings always encode
	if first.typ == "session_meta" {
		l.mend.Replace(first.piece.Offset, first.end, data)
		l.lines[0].isFixed = true
		return
	}
	l.mend.Replace(0, 0, append(data, '\n'))
}

// checkCalls checks that each tool call has a result and each result has a call, in the part of the history
// that Codex sends to the model.
func (l *linter) checkCalls() {
	ended := map[string]bool{} // the turns that have ended
	newest := ""
	for _, x := range l.lines {
		switch x.kind {
		case kindStart:
			newest = x.turn
		case kindEnd:
			ended[x.turn] = true
		}
	}
	l.nameResults()
	for i := range l.lines {
		x := &l.lines[i]
		if x.call == "" || i < l.from {
			continue
		}
		_, isCalled := l.calls[x.call]
		switch typ := resultType(x.typ); {
		case typ != "" && !l.results[x.call] && (ended[x.turn] || x.turn == newest):
			// A turn that is neither ended nor the newest was cut off. Codex has told the model so and continued.
			l.mend.Add(transcript.CodeNoResult, x.piece.Line, x.piece.Offset,
				"the result of the call is missing, so Codex tells the model that the call was aborted, although the tool may have run", "a result that says so is added")
			l.mend.Findings[len(l.mend.Findings)-1].Turn = segno.TurnKey(x.turn)
			x.added = fmt.Appendf(nil, `"timestamp":"%s","type":"response_item","payload":{"type":"%s","call_id":%s,"output":%s}}`, x.stamp, typ, quote(x.call), quote(sessionfile.LostResult))
		case isResultType(x.typ) && !isCalled:
			l.mend.Add(transcript.CodeNoCall, x.piece.Line, x.piece.Offset,
				"the call of this result is missing, so Codex leaves out the result: the model does not get it", "the result becomes a message")
			l.makeMessage(x)
		}
	}
}

// nameResults finds results that name no call. It gives each the id of the oldest earlier call in the same
// turn that has no result. Codex would send the result without an id, and the API rejects that.
func (l *linter) nameResults() {
	for i := range l.lines {
		x := &l.lines[i]
		if x.raw == nil || x.isFixed {
			continue
		}
		at := slices.IndexFunc(l.lines[:i], func(call lintLine) bool {
			return call.call != "" && call.turn == x.turn && resultType(call.typ) == x.typ && !l.results[call.call]
		})
		x.isFixed = true
		if at < 0 {
			l.reportUnreadable(x.piece.Line, sessionfile.Place{From: x.piece.Offset, To: x.end}, "the result names no call", nil)
			continue
		}
		x.call = l.lines[at].call
		l.results[x.call] = true
		var r record
		_ = r.parse(x.raw) // it was parsed before
		l.reportUnreadable(x.piece.Line, sessionfile.Place{From: x.piece.Offset, To: x.end}, "the result names no call", set(x.raw, map[string][]byte{"payload": set(r.payload, map[string][]byte{"call_id": quote(x.call)})}))
	}
}

// makeMessage replaces a result by its words.
func (l *linter) makeMessage(x *lintLine) {
	ordinal := ""
	if x.ordinal >= 0 {
		ordinal = fmt.Sprintf(`"ordinal":%d,`, x.ordinal)
	}
	head := fmt.Sprintf(`{"timestamp":"%s",`, x.stamp)
	if ordinal != "" {
		x.at = jsonscan.Span{From: len(head) + len(`"ordinal":`), To: len(head) + len(ordinal) - 1}
	}
	text := quote(sessionfile.LostCall + "\n" + string(x.words))
	x.replaced = fmt.Appendf(nil, `%s%s"type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":%s}]}}`, head, ordinal, text)
}

func (r *record) resultText() []byte {
	output := r.value("output")
	if words := jsonscan.RawText(output); words != nil {
		return []byte(jsonscan.Unescape(words))
	}
	return append([]byte{}, output...)
}

// checkOrdinals checks that the ordinals of lines ascend. It also writes the lines that other rules changed
// or added, because they need ordinals, too. A line keeps its ordinal if that is larger than the one before.
func (l *linter) checkOrdinals() {
	last := int64(-1)
	if len(l.lines) > 0 && l.lines[0].typ != "session_meta" {
		last = 0 // the ordinal of the session_meta that the repair adds
	}
	for i := range l.lines {
		x := &l.lines[i]
		ordinal := x.ordinal
		if l.isPaged && ordinal <= last {
			ordinal = last + 1
			if before := l.lines[max(i-1, 0)].ordinal; x.ordinal < 0 || i > 0 && x.ordinal <= before {
				l.reportOrdinal(x, before)
			}
		}
		l.write(x, ordinal)
		last = ordinal
		if x.added == nil {
			continue
		}
		text := []byte("\n{")
		if l.isPaged {
			last++
			text = fmt.Appendf(text, `"ordinal":%d,`, last)
		}
		l.mend.Replace(x.end, x.end, append(text, x.added...))
	}
}

func (l *linter) reportOrdinal(x *lintLine, before int64) {
	why := fmt.Sprintf("ordinal %d follows %d: another process wrote to the session, too", x.ordinal, before)
	if x.ordinal < 0 {
		why = "the line has no ordinal; Codex does not resume a session whose last line has none"
	}
	l.mend.Add(transcript.CodeOrdinal, x.piece.Line, x.piece.Offset, why, "numbered in order")
}

// write adds the edits that give a line its ordinal and the text of a repair.
func (l *linter) write(x *lintLine, ordinal int64) {
	if x.isFixed {
		return
	}
	number := strconv.FormatInt(ordinal, 10)
	switch {
	case x.replaced != nil:
		text := x.replaced
		if ordinal != x.ordinal {
			text = append(append(append([]byte{}, text[:x.at.From]...), number...), text[x.at.To:]...)
		}
		l.mend.Replace(x.piece.Offset, x.end, text)
	case ordinal == x.ordinal:
	case x.at.IsZero():
		l.mend.Replace(x.brace+1, x.brace+1, []byte(`"ordinal":`+number+`,`))
	default:
		l.mend.Replace(x.piece.Offset+int64(x.at.From), x.piece.Offset+int64(x.at.To), []byte(number))
	}
}
