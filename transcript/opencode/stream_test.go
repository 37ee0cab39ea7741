package opencode

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// FuzzStream builds a stream from arbitrary rows, and a document from the stream. The stream has one line
// for each row, turns end in order, and the document has each message once.
func FuzzStream(f *testing.F) {
	f.Add(`{"role":"user","summary":{}}`, `{"type":"text","text":"hi"}`, `{"role":"assistant","parentID":"m1"}`)
	f.Add(`{"role":7}`, `{"text":["x"]}`, `{"id":"x","sessionID":3}`)
	f.Add(`null`, `[]`, "{\"a\":\"\\ud800\xff\"}")
	f.Fuzz(func(t *testing.T, user, part, answer string) {
		s := newStream(facts{Slug: "s", Version: "1"})
		rows := 1
		for _, l := range []line{{ID: "m1", Data: json.RawMessage(user)}, {ID: "p1", Message: "m1", Data: json.RawMessage(part)}, {ID: "m2", Data: json.RawMessage(answer)}} {
			if s.add(l) == nil {
				rows++
			}
		}
		if n := bytes.Count(s.Lines, []byte("\n")); n != rows {
			t.Fatalf("%d rows became %d lines: %s", rows, n, s.Lines)
		}
		last := int64(0)
		for _, turn := range s.Turns {
			if turn.To <= last || turn.To > int64(len(s.Lines)) {
				t.Fatalf("turns %+v in %d bytes", s.Turns, len(s.Lines))
			}
			last = turn.To
		}
		data, err := documentOf(s.Lines, "ses_x", "/d", strings.ToUpper)
		if err != nil {
			return // a part without its message
		}
		var doc document
		if err := json.Unmarshal(data, &doc); err != nil || doc.Info["id"] != "ses_x" {
			t.Fatalf("%v: %s", err, data)
		}
		for _, m := range doc.Messages {
			if id, ok := m.Info["id"].(string); !ok || id != strings.ToUpper(id) || m.Info["sessionID"] != "ses_x" {
				t.Fatalf("message %+v", m)
			}
		}
	})
}
