// Package acp frames messages of the Agent Client Protocol, looks into them
// without decoding them, and changes a part of one without touching the rest. It
// has no policy.
//
// A message is one line of JSON-RPC 2.0, ended by LF or CRLF; see
// https://agentclientprotocol.com/protocol/transports. What is forwarded is the
// line as it came: a decoder and an encoder between two programs reorder keys,
// round numbers and drop what they do not know.
package acp

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
)

// MaxMessage is the longest message that is taken: twice what the protocol's own
// TypeScript library takes.
const MaxMessage = 64 << 20

// Version is the version of the protocol that is spoken here.
const Version = 1

// Message is one line and what a shallow look found in it. Spans are places in
// Line; of keys that come twice the last counts, as in JavaScript.
type Message struct {
	Line []byte // with its end of line, as it came
	ID, Method, Params, Result, Error,
	// Session is the sessionId of Params, or else of Result, with its quotes.
	Session Span
}

// Span is a part of a line, from the first byte to the one behind the last. The
// zero Span is of what is not there.
type Span struct{ From, To int }

// IsZero reports whether s is of nothing.
func (s Span) IsZero() bool { return s.To == 0 }

// Of returns the bytes of line that s spans; nil if it is of nothing.
func (s Span) Of(line []byte) []byte {
	if s.IsZero() {
		return nil
	}
	return line[s.From:s.To]
}

// Parse looks at a line. The line is the message's from now on. The error is an
// [*Error] as JSON-RPC wants it: what is no JSON, a batch, or no object.
func Parse(line []byte) (Message, error) {
	m := Message{Line: line}
	trimmed := bytes.TrimLeft(line, " \t\r\n")
	if !valid(trimmed) {
		return m, &Error{Code: CodeParse, Message: "Parse error"}
	}
	switch trimmed[0] {
	case '[':
		return m, &Error{Code: CodeInvalidRequest, Message: "Invalid request: JSON-RPC batches are not supported"}
	case '{':
	default:
		return m, &Error{Code: CodeInvalidRequest, Message: "Invalid request: not an object"}
	}
	at := len(line) - len(trimmed)
	eachKey(line, at, func(key []byte, value Span) {
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
	})
	if m.Session = m.Find(m.Params, "sessionId"); m.Session.IsZero() {
		m.Session = m.Find(m.Result, "sessionId")
	}
	if len(m.Session.Of(line)) < 2 || line[m.Session.From] != '"' {
		m.Session = Span{}
	}
	return m, nil
}

// IsRequest reports whether the message asks for an answer.
func (m Message) IsRequest() bool { return !m.Method.IsZero() && !m.ID.IsZero() }

// IsResponse reports whether the message is an answer.
func (m Message) IsResponse() bool { return m.Method.IsZero() && !m.ID.IsZero() }

// IsNotification reports whether the message wants no answer.
func (m Message) IsNotification() bool { return !m.Method.IsZero() && m.ID.IsZero() }

// IDText is the id as it is written, "" if there is none: two ids are the same if
// their texts are.
func (m Message) IDText() string { return string(m.ID.Of(m.Line)) }

// CanonicalID is the id in the one spelling in which ids can be compared: who decodes and
// encodes a message may write a string or a number another way.
func (m Message) CanonicalID() string { return CanonicalID(m.IDText()) }

// CanonicalID is the key of an id as it is written.
func CanonicalID(id string) string {
	if len(id) > 1 && id[0] == '"' {
		return string(Encode(text([]byte(id))))
	}
	if n, err := strconv.ParseFloat(id, 64); err == nil && n == math.Trunc(n) && math.Abs(n) < 1<<53 {
		return strconv.FormatInt(int64(n), 10)
	}
	return id
}

// WithID is the message under an id that is written so.
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

// MethodName is the method's name, "" if there is none.
func (m Message) MethodName() string { return text(m.Method.Of(m.Line)) }

// SessionID is the session's id, "" if there is none.
func (m Message) SessionID() string { return text(m.Session.Of(m.Line)) }

// Find returns the place of a value inside an object of the message, by the keys
// that lead to it.
func (m Message) Find(in Span, path ...string) Span {
	for _, want := range path {
		if in.IsZero() || m.Line[in.From] != '{' {
			return Span{}
		}
		found := Span{}
		eachKey(m.Line, in.From, func(key []byte, value Span) {
			if string(key) == want {
				found = value
			}
		})
		in = found
	}
	return in
}

// Text returns the string at a place, "" if there is none.
func (m Message) Text(in Span) string { return text(in.Of(m.Line)) }

// Decode decodes the value at a place into v. Of nothing it leaves v as it is.
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

// Edit puts other bytes in a place.
type Edit struct {
	At   Span
	With []byte
}

// Splice returns the line with edits made: their places must not overlap. All
// other bytes stay as they are. Edits of nothing are left out. An edit of a place
// without length inserts. Without edits it is the message's line itself.
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
