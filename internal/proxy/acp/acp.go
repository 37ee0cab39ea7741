// Package acp reads, writes and edits messages of the Agent Client Protocol without
// decoding all of them. It has no policy.
//
// A message is one line of JSON-RPC 2.0 that ends in LF or CRLF; see
// https://agentclientprotocol.com/protocol/transports. A proxy forwards the line unchanged,
// because decoding and encoding it would reorder keys, round numbers and drop unknown
// fields. To change a message, a caller finds the span of a value with [Message.Find] and
// replaces its bytes with [Message.Splice].
package acp

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/jsonscan"
)

// MaxMessage is the length of the longest message that a [Reader] returns: twice the limit
// of the protocol's own TypeScript library.
const MaxMessage = 64 << 20

// Version is the version of the protocol that this package implements.
const Version = 1

// Span is a part of a line. The zero Span stands for a value that is absent.
type Span = jsonscan.Span

// Message is one line and the spans of its top-level values. If several members have the
// same key, the last one counts, as in JavaScript.
type Message struct {
	Line []byte // unchanged, with its end of line
	ID, Method, Params, Result, Error,
	// Session is the sessionId of Params, or else of Result, with its quotes.
	Session Span
}

// Parse finds the values of a line. The message refers to the line and does not copy it.
// The error is the [*Error] that JSON-RPC defines for a line that is not JSON, a batch, or
// not an object.
func Parse(line []byte) (Message, error) {
	m := Message{Line: line}
	at := jsonscan.SkipSpace(line, 0)
	if at == len(line) || line[at] != '{' {
		switch {
		case !jsonscan.Valid(line):
			return m, &Error{Code: CodeParse, Message: "Parse error"}
		case line[at] == '[':
			return m, &Error{Code: CodeInvalidRequest, Message: "Invalid request: JSON-RPC batches are not supported"}
		}
		return m, &Error{Code: CodeInvalidRequest, Message: "Invalid request: not an object"}
	}
	end, ok := jsonscan.Members(line, at, m.set)
	if !ok || jsonscan.SkipSpace(line, end) < len(line) {
		return Message{Line: line}, &Error{Code: CodeParse, Message: "Parse error"}
	}
	if m.Session = m.Find(m.Params, "sessionId"); m.Session.IsZero() {
		m.Session = m.Find(m.Result, "sessionId")
	}
	if !m.Session.IsZero() && line[m.Session.From] != '"' {
		m.Session = Span{}
	}
	return m, nil
}

// set stores the span of a top-level value, if the key is one of JSON-RPC.
func (m *Message) set(key []byte, value Span) {
	if bytes.IndexByte(key, '\\') >= 0 {
		key = []byte(jsonscan.Unescape(key))
	}
	switch string(key) {
	case "id":
		m.ID = value
	case "method":
		m.Method = value
	case "params":
		m.Params = value
	case "result":
		m.Result = value
	case "error":
		m.Error = value
	}
}

// IsRequest reports whether the message asks for an answer.
func (m Message) IsRequest() bool { return !m.Method.IsZero() && !m.ID.IsZero() }

// IsResponse reports whether the message is an answer.
func (m Message) IsResponse() bool { return m.Method.IsZero() && !m.ID.IsZero() }

// IsNotification reports whether the message has a method and asks for no answer.
func (m Message) IsNotification() bool { return !m.Method.IsZero() && m.ID.IsZero() }

// IDText returns the id as JSON, byte for byte, or "" if there is none.
func (m Message) IDText() string { return string(m.ID.Of(m.Line)) }

// CanonicalID returns the message's id in the spelling of [CanonicalID].
func (m Message) CanonicalID() string { return CanonicalID(m.IDText()) }

// CanonicalID returns the spelling in which ids can be compared: a program that decodes and
// encodes a message may write the same string or number in another way.
func CanonicalID(id string) string {
	if len(id) > 1 && id[0] == '"' {
		return string(Encode(jsonscan.Text([]byte(id))))
	}
	if n, err := strconv.ParseFloat(id, 64); err == nil && n == math.Trunc(n) && math.Abs(n) < 1<<53 {
		return strconv.FormatInt(int64(n), 10)
	}
	return id
}

// IsID reports whether JSON-RPC allows an id, given as JSON: a string, a number or null.
func IsID(id string) bool {
	return id == "null" || len(id) > 0 && (id[0] == '"' || id[0] == '-' || '0' <= id[0] && id[0] <= '9')
}

// WithID returns the message with another id, given as JSON.
func (m Message) WithID(id string) Message {
	if m.ID.IsZero() || m.IDText() == id {
		return m
	}
	out, err := Parse(m.Splice(Edit{At: m.ID, With: []byte(id)}))
	if err != nil {
		return m
	}
	return out
}

// MethodName returns the method's name, or "" for an answer.
func (m Message) MethodName() string { return m.Text(m.Method) }

// SessionID returns the decoded [Message.Session], or "" if there is none.
func (m Message) SessionID() string { return m.Text(m.Session) }

// Find returns the span of the value at a path of keys inside an object of the message. It
// is the zero Span if the value is absent.
func (m Message) Find(in Span, path ...string) Span { return jsonscan.Find(m.Line, in, path...) }

// Elements calls visit for each element of an array, in order.
func (m Message) Elements(in Span, visit func(Span)) {
	jsonscan.Elements(m.Line[:in.To], in.From, visit)
}

// Text returns the decoded string at a span, or "" if the value is not a string.
func (m Message) Text(in Span) string { return jsonscan.Text(in.Of(m.Line)) }

// Decode decodes the value at a span into v. It does not change v if the span is zero.
func (m Message) Decode(in Span, v any) error {
	if in.IsZero() {
		return nil
	}
	return json.Unmarshal(in.Of(m.Line), v)
}

// Err returns the message's error, nil if it has none.
func (m Message) Err() *Error {
	if m.Error.IsZero() {
		return nil
	}
	e := new(Error)
	if err := m.Decode(m.Error, e); err != nil {
		return &Error{Code: CodeInternal, Message: string(m.Error.Of(m.Line))}
	}
	return e
}

// Edit replaces the bytes of a span.
type Edit struct {
	At   Span
	With []byte
}

// Splice returns the line with the edits applied and all other bytes unchanged. The spans
// of the edits must not overlap. Splice ignores an edit of the zero Span. An edit of an
// empty span inserts. Without edits, Splice returns the message's line itself.
func (m Message) Splice(edits ...Edit) []byte {
	if len(edits) == 0 {
		return m.Line
	}
	edits = slices.DeleteFunc(slices.Clone(edits), func(e Edit) bool { return e.At.IsZero() })
	slices.SortStableFunc(edits, func(a, b Edit) int {
		return cmp.Or(cmp.Compare(a.At.From, b.At.From), cmp.Compare(a.At.To, b.At.To))
	})
	out := make([]byte, 0, len(m.Line)+64)
	at := 0
	for _, e := range edits {
		out = append(append(out, m.Line[at:e.At.From]...), e.With...)
		at = e.At.To
	}
	return append(out, m.Line[at:]...)
}

// IDOfPrefix returns the id in the known beginning of a message, as JSON, or "" if the
// beginning has no id. hasMethod reports whether the beginning has a method.
func IDOfPrefix(prefix []byte) (id string, hasMethod bool) {
	m := Message{Line: prefix}
	jsonscan.Members(prefix, jsonscan.SkipSpace(prefix, 0), m.set)
	return m.IDText(), !m.Method.IsZero()
}

// ExtractMessages returns the messages in a line that is not JSON. A program may have
// written other text before or after a message without an end of line. Before the first
// clean messages there are only messages and no other text.
func ExtractMessages(line []byte) (found []Message, clean int) {
	const maxTries = 64 // the line may be 64 MiB of arbitrary bytes
	isClean := true
	for at, tries := 0, 0; tries < maxTries; tries++ {
		next := bytes.IndexByte(line[at:], '{')
		if next < 0 {
			break
		}
		isClean = isClean && len(bytes.TrimSpace(line[at:at+next])) == 0
		at += next
		end, ok := jsonscan.Members(line, at, func([]byte, Span) {})
		if !ok {
			isClean = false
			at++
			continue
		}
		m, err := Parse(append(bytes.Clone(line[at:end]), '\n'))
		at = end
		if err != nil || m.ID.IsZero() && m.Method.IsZero() {
			isClean = false
			continue
		}
		if found = append(found, m); isClean {
			clean = len(found)
		}
	}
	return found, clean
}

// Error is a JSON-RPC error.
type Error struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

func (e *Error) Error() string { return fmt.Sprintf("%s (%d)", e.Message, e.Code) }

// The codes of JSON-RPC 2.0 and of the protocol.
const (
	CodeParse          = -32700
	CodeInvalidRequest = -32600
	CodeMethodNotFound = -32601
	CodeInvalidParams  = -32602
	CodeInternal       = -32603
	CodeCancelled      = -32800
	CodeAuthRequired   = -32000
	CodeNotFound       = -32002
)

// CodeOf returns the code for an answer that reports an error of segno of this kind.
func CodeOf(kind segno.Kind) int {
	switch kind {
	case segno.KindNotFound:
		return CodeNotFound
	case segno.KindInvalid:
		return CodeInvalidParams
	case segno.KindCancelled:
		return CodeCancelled
	}
	return CodeInternal
}
