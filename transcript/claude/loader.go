package claude

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"maps"
	"slices"
	"strconv"

	"github.com/dalsegno/segno/internal/jsonscan"
	"github.com/dalsegno/segno/transcript"
	"github.com/dalsegno/segno/transcript/internal/sessionfile"
)

// This file and loaded.go are a model of how Claude Code loads a transcript. loaded.go models how it
// selects records, and this file models which values records must have. The agent does not check the
// values. If a value has another type, the agent ends with a JavaScript error or leaves out a message.
// The tests in internal/testing/e2e/sessions compare the model with versions 2.1.197 and 2.1.332.

// severity is the effect of a value of the wrong type.
type severity uint8

const (
	harmless severity = iota
	loses             // the message, or a part of it, does not reach the model
	rejected          // the API of the model rejects the message, and so every later request of the session
	refuses           // version 2.1.197 does not continue the session, if it would send the record
	breaks            // version 2.1.197 does not continue the session, whatever the place of the record
)

// fault is a value of the wrong type in a record.
type fault struct {
	severity
	why string
	// at is the value that a repair replaces by text. A repair leaves the record out if at is zero.
	at   jsonscan.Span
	text string
}

// whole returns a fault that a repair can only remove together with the record.
func whole(s severity, why string) fault { return fault{severity: s, why: why} }

// faults returns the values of a record that the agent cannot read. Spans count from the beginning of
// the line's object.
func (r *record) faults() []fault {
	line := r.line[skipBOM(r.line):]
	switch {
	case r.kind == kindAttachment && !isObject(r.field("attachment")):
		return []fault{whole(refuses, "the attachment has no content")}
	case !r.kind.isMessage():
		return nil
	case !isObject(r.message):
		return []fault{whole(breaks, "the record has no message")}
	}
	at := jsonscan.Find(line, jsonscan.Span{To: len(line)}, "message", "content")
	content := at.Of(line)
	switch {
	case isArray(content):
		return r.blockFaults(line, at)
	case !isText(content):
		return []fault{whole(refuses, "the message has no content")}
	case r.kind == kindUser:
		return nil
	}
	text := `[{"type":"text","text":` + string(content) + `}]`
	return []fault{{refuses, "the content of an answer is a text, not an array", at, text}}
}

// blockFaults returns the faults of the blocks in a message's content. If a repair must leave out a block, it
// replaces the whole content, or the record if no block remains.
func (r *record) blockFaults(line []byte, at jsonscan.Span) (out []fault) {
	var kept []byte
	var lost *fault
	jsonscan.Elements(line, at.From, func(span jsonscan.Span) {
		if f := r.blockFault(line, span); f.severity == harmless {
			kept = append(append(kept, ','), span.Of(line)...)
		} else if !f.at.IsZero() {
			out = append(out, f)
		} else if lost == nil || lost.severity < f.severity {
			lost = &f
		}
	})
	if lost == nil {
		return out
	}
	if len(kept) == 0 {
		return []fault{whole(lost.severity, lost.why)}
	}
	kept[0] = '['
	return []fault{{lost.severity, lost.why, at, string(kept) + "]"}}
}

// blockFault returns the fault of a content block. If the fault has no span, the repair leaves out the
// record.
func (r *record) blockFault(line []byte, span jsonscan.Span) fault {
	block := span.Of(line)
	if !isObject(block) {
		return whole(refuses, "a block of the message is not an object")
	}
	switch jsonscan.Text(field(block, "type")) {
	case "":
		return whole(rejected, "a block of the message has no type")
	case "text":
		if !isText(field(block, "text")) {
			return whole(loses, "a block of the message has no text")
		}
	case "tool_use":
		if at := jsonscan.Find(line, span, "input"); !isObject(at.Of(line)) {
			f := fault{rejected, "the call has no input", at, "{}"}
			if at.IsZero() {
				f.at, f.text = jsonscan.Span{From: span.From + 1, To: span.From + 1}, `"input":{},`
			}
			return f
		}
	case "tool_result":
		if at := jsonscan.Find(line, span, "content"); !at.IsZero() && !isText(at.Of(line)) && line[at.From] != '[' {
			return fault{loses, "the result of the call has no content", at, `"` + sessionfile.LostResult + `"`}
		}
	}
	return fault{}
}

// isMistyped reports whether a record has all properties of a message except its type.
func (r *record) isMistyped() bool {
	if r.kind != kindOther || r.uuid == nil || !isObject(r.message) || r.field("parentUuid") == nil {
		return false
	}
	content := field(r.message, "content")
	return r.messageKind() != "" && (isText(content) || isArray(content))
}

// messageKind returns the record type that fits the role of the record's message, or "".
func (r *record) messageKind() string {
	role := jsonscan.Text(field(r.message, "role"))
	if role == "user" || role == "assistant" {
		return role
	}
	return ""
}

// isNull reports whether a line is the value null. The agent reads fields of the value, which is an error
// in JavaScript if the value is null.
func isNull(line []byte) bool {
	from := jsonscan.SkipSpace(line, skipBOM(line))
	return string(line[from:min(from+4, len(line))]) == "null" && jsonscan.SkipSpace(line, from+4) == len(line)
}

// readingOf returns the part of a transcript that the agent reads.
func readingOf(ctx context.Context, in io.Reader) (out transcript.Reading, err error) {
	x := &loading{graph: newGraph(""), records: map[int]*loadedRecord{}, out: &out}
	x.graph.isWhole = true
	lines := sessionfile.Mend{BeginsOnly: true}
	if err := lines.Pieces(ctx, in, func(p sessionfile.Piece) error { x.add(p); return nil }); err != nil {
		return out, err
	}
	x.send()
	return out, nil
}

// loading is the state of one reading of a transcript.
type loading struct {
	graph   *graph
	records map[int]*loadedRecord
	out     *transcript.Reading
	record  record
}

// loadedRecord has the values of a record on which the agent's selection depends.
type loadedRecord struct {
	message
	lines   []int
	fault   fault // the worst one
	calls   []string
	results []string
	isOther bool // it has a block that is neither a call nor a result
}

func (x *loading) add(p sessionfile.Piece) {
	r := &x.record
	if isNull(p.Bytes) {
		x.out.Refusal = failsAt(p.Line)
	}
	if r.parse(p.Bytes) != nil {
		return
	}
	isMistyped := r.isMistyped()
	if isMistyped || r.kind.isMessage() && !r.isSidechain {
		x.out.Total++
	}
	if isMistyped {
		return
	}
	x.graph.add(r, sessionfile.Line{Bytes: p.Bytes, Offset: p.Offset, Number: p.Line})
	i := x.graph.index(string(r.uuid))
	if i == none {
		return
	}
	n := &loadedRecord{}
	x.records[i] = n
	for line := range bytes.Count(p.Bytes, []byte{'\n'}) + 1 {
		n.lines = append(n.lines, p.Line+line)
	}
	for _, f := range r.faults() {
		if f.severity > n.fault.severity {
			n.fault = f
		}
		if f.severity == breaks {
			x.out.Refusal = failsAt(p.Line)
		}
	}
	if r.kind == kindAssistant {
		n.id = jsonscan.Text(field(r.message, "id"))
	}
	n.readBlocks(r)
}

// readBlocks stores the ids of the calls and the results in a record.
func (n *loadedRecord) readBlocks(r *record) {
	content := field(r.message, "content")
	if !r.kind.isMessage() || !isArray(content) {
		n.isOther = true
		return
	}
	jsonscan.Elements(content, 0, func(at jsonscan.Span) {
		switch block := at.Of(content); jsonscan.Text(field(block, "type")) {
		case "tool_use":
			n.calls = append(n.calls, text(field(block, "id")))
		case "tool_result":
			n.results, n.hasToolResults = append(n.results, text(field(block, "tool_use_id"))), true
		default:
			n.isOther = true
		}
	})
}

// hasSentBlock reports whether a record has a block that the agent sends. It sends a call only with its result,
// and a result only with its call.
func (n *loadedRecord) hasSentBlock(calls, results map[string]bool) bool {
	return n.isOther || slices.ContainsFunc(n.results, func(id string) bool { return calls[id] }) ||
		slices.ContainsFunc(n.calls, func(id string) bool { return results[id] })
}

// ids returns the ids of the calls in some records, and those of the calls whose results they have.
func (x *loading) ids(records []int) (calls, results map[string]bool) {
	calls, results = map[string]bool{}, map[string]bool{}
	for _, i := range records {
		for _, id := range x.records[i].calls {
			calls[id] = true
		}
		for _, id := range x.records[i].results {
			results[id] = true
		}
	}
	return calls, results
}

// send selects the records that the agent sends.
func (x *loading) send() {
	links := map[int]message{}
	for i, n := range x.records {
		if n.id != "" || n.hasToolResults {
			links[i] = n.message
		}
	}
	sent := x.graph.load().sent(links)
	sent = slices.DeleteFunc(sent, func(i int) bool { return x.records[i] == nil }) // a record without a name
	calls, results := x.ids(sent)
	for _, i := range sent {
		n, at := x.records[i], &x.graph.nodes[i]
		switch n.fault.severity {
		case refuses:
			x.out.Refusal = failsAt(at.line)
		case rejected:
			x.out.Refusal = "the API of the model rejects line " + strconv.Itoa(at.line)
		}
		isLost := n.fault.severity != harmless && n.fault.severity != rejected && n.fault.at.IsZero()
		if at.kind.isMessage() && !isLost && n.hasSentBlock(calls, results) {
			x.out.Messages++
			x.out.Lines = append(x.out.Lines, n.lines...)
		}
	}
	slices.Sort(x.out.Lines)
	if x.out.Messages == 0 {
		x.out.Refusal = cmp.Or(x.out.Refusal, "it has no message")
	}
}

// failsAt describes the effect of a value of the wrong type on versions before 2.1.330.
func failsAt(line int) string {
	return "in some versions it ends with an error at line " + strconv.Itoa(line)
}

// sent returns the records that the agent sends: the conversation, and the parallel calls and results
// beside it.
func (v *loaded) sent(links map[int]message) []int {
	head := v.head()
	if head == none {
		return nil
	}
	chain, _, _ := v.chain(head)
	keep := map[int]bool{}
	for _, i := range chain {
		keep[i] = true
	}
	v.addSiblings(keep, links)
	return slices.Sorted(maps.Keys(keep))
}

func isObject(value []byte) bool { return len(value) > 0 && value[0] == '{' }
func isArray(value []byte) bool  { return len(value) > 0 && value[0] == '[' }
func isText(value []byte) bool   { return jsonscan.RawText(value) != nil }

// text returns the undecoded text between the quotes of a string value.
func text(value []byte) string { return string(jsonscan.RawText(value)) }
