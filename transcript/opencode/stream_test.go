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
			if id := m.Info.text("id"); id == "" || id != strings.ToUpper(id) || m.Info.text("sessionID") != "ses_x" {
				t.Fatalf("message %+v", m)
			}
		}
	})
}

// FuzzMessages builds a stream of any messages of OpenCode 2. The stream has one line for each that is JSON, which has its
// id and its type, and turns end in order.
func FuzzMessages(f *testing.F) {
	f.Add("user", `{"text":"hi"}`, "assistant", `{"content":[{"type":"text","text":"yes"}]}`)
	f.Add("idle", `{}`, "user", `{"text":7}`)
	f.Add("user", `null`, "teleport", "[\"\\ud800\xff\", 1e999]")
	f.Add("user", "", "", " ")
	f.Fuzz(func(t *testing.T, first, one, second, two string) {
		s := newStream(facts{Slug: "s", Version: "2", OpenCode: 2})
		var added []line
		for i := range 4 {
			l := line{ID: "m" + string(rune('1'+i)), Type: first, Data: json.RawMessage(one)}
			if i%2 == 1 {
				l.Type, l.Data = second, json.RawMessage(two)
			}
			if s.add(l) == nil {
				added = append(added, l)
			}
		}
		lines := bytes.Split(bytes.TrimSuffix(s.Lines, []byte("\n")), []byte("\n"))
		if len(lines) != 1+len(added) || !isVersion2(s.Lines) {
			t.Fatalf("%d messages became %s", len(added), s.Lines)
		}
		for i, want := range added {
			var l line
			if err := json.Unmarshal(lines[i+1], &l); err != nil || l.ID != want.ID || l.Type != string([]rune(want.Type)) {
				t.Fatalf("line %s of %+v: %v", lines[i+1], want, err)
			}
		}
		last := int64(0)
		for _, turn := range s.Turns {
			if turn.To <= last || turn.To > int64(len(s.Lines)) {
				t.Fatalf("turns %+v in %d bytes", s.Turns, len(s.Lines))
			}
			last = turn.To
		}
	})
}
