package claude

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/jsonscan"
	"github.com/dalsegno/segno/transcript/internal/sessionfile"
)

// FuzzParse compares the parser with encoding/json: the same lines are JSON objects, and the
// keys that matter have the same values.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		`{}`, ` { } `, `{"a":1}`, `{"a":[],"b":{}}`, `{"a":[[]],"b":{"c":{}}}`, `{"a":-0.5e+7}`, `{"a":01}`, `{"a":1.}`, `{"a":-}`, `{"a":1e}`,
		`{"a":"\u00e9\ud83d\ude00\n\""}`, `{"a":"\x"}`, `{"a":"\u12"}`, `{"a":"` + "\t" + `"}`, `{"a":tru}`, `{"a":true,}`, `{,}`, `{"a"}`, `{"a":1 "b":2}`,
		`{"uuid":"u","parentUuid":null,"sessionId":"s","type":"user","message":{"sessionId":"no"}}`, `{"uuid":"\u0075","uuid":"2"}`,
		`{"a":[1,]}`, `{"a":{"b":1,}}`, `[]`, `1`, `{"a":nul}`, `{"a":[}`, `{"a":{]}`, `{"a":"12345678\\90123456"}`, "{\"a\":\"\xff\"}", "\ufeff{}", "{}x", "", `{"a":1e700}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var r record
		err := r.parse(data)
		clean := bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
		var want map[string]json.RawMessage
		ok := json.Valid(clean) && json.Unmarshal(clean, &want) == nil && want != nil
		if (err == nil) != ok {
			t.Fatalf("parse says %v, encoding/json says %v", err, ok)
		}
		if !ok {
			return
		}
		var uuid string
		if json.Unmarshal(want["uuid"], &uuid) == nil && bytes.Count(clean, []byte("uuid")) == 1 && jsonscan.Unescape(r.uuid) != uuid {
			t.Fatalf("uuid %q, want %q", r.uuid, uuid)
		}
		var spliced bytes.Buffer
		r.writeAs(&spliced, "NEW")
		checkSplice(t, clean, bytes.TrimPrefix(spliced.Bytes(), []byte("\xef\xbb\xbf")))
	})
}

// checkSplice checks that only top-level session ids differ.
func checkSplice(t *testing.T, before, after []byte) {
	t.Helper()
	read := func(data []byte) (values map[string]any) {
		t.Helper()
		d := json.NewDecoder(bytes.NewReader(data))
		d.UseNumber() // a number may be too large for a float
		if err := d.Decode(&values); err != nil || !json.Valid(data) {
			t.Fatalf("no JSON: %v\n%s", err, data)
		}
		return values
	}
	was, is := read(before), read(after)
	if id, ok := was["sessionId"].(string); ok && is["sessionId"] != "NEW" && bytes.Contains(before, []byte(`"sessionId"`)) {
		t.Fatalf("session %q is still there", id)
	}
	delete(was, "sessionId")
	delete(is, "sessionId")
	a, _ := json.Marshal(was)
	b, _ := json.Marshal(is)
	if !bytes.Equal(a, b) {
		t.Fatalf("%s became %s", a, b)
	}
}

const fuzzSession = "22222222-0000-4000-8000-000000000002"

// FuzzLineFilter compares the filter with the obvious implementation: split, select, replace. Only the
// newest session id matters.
func FuzzLineFilter(f *testing.F) {
	f.Add([]byte(`{"sessionId":"a","type":"user"}`+"\nno record\n\n"+`{"x":{"sessionId":"b"},"sessionId":"c"}`+"\n"), uint64(5))
	f.Add([]byte("\xef\xbb\xbf{\"sessionId\":\"\"}\r\n{\"sessionId\":1}\n"), ^uint64(0))
	f.Fuzz(func(t *testing.T, data []byte, mask uint64) {
		data = data[:bytes.LastIndexByte(data, '\n')+1]
		var keep []sessionfile.LineRange
		var want, spliced bytes.Buffer
		var r record
		for i, l := range bytes.SplitAfter(data, []byte("\n")) {
			if len(l) == 0 {
				break
			}
			_ = r.parse(l)
			r.writeAs(&spliced, fuzzSession)
			if mask>>(i%64)&1 == 0 {
				continue
			}
			r.writeAs(&want, fuzzSession)
			keep = sessionfile.AppendLine(keep, i+1)
		}
		if keep == nil {
			return
		}
		read := func(data []byte, keep []sessionfile.LineRange, session segno.SessionID) []byte {
			f := &lineFilter{in: sessionfile.NewLineReader(bytes.NewReader(data), 0), all: keep == nil, keep: keep, session: session}
			out, err := io.ReadAll(iotest.OneByteReader(f))
			if err != nil {
				t.Fatal(err)
			}
			return out
		}
		if got := read(data, keep, fuzzSession); !bytes.Equal(got, want.Bytes()) {
			t.Fatalf("%q became %q, want %q", data, got, want.Bytes())
		}
		other := read(data, nil, "11111111-0000-4000-8000-000000000001")
		if got := read(other, nil, fuzzSession); !bytes.Equal(got, spliced.Bytes()) {
			t.Fatalf("%q became %q by way of another session, want %q", data, got, spliced.Bytes())
		}
		if got := read(read(data, keep, ""), nil, fuzzSession); !bytes.Equal(got, want.Bytes()) {
			t.Fatalf("%q became %q in two steps, want %q", data, got, want.Bytes())
		}
	})
}

// FuzzSidecars checks that only canonical bytes are a listing, and that none of its paths
// points outside its directory.
func FuzzSidecars(f *testing.F) {
	f.Add(encodeSidecars([]sidecar{{path: "tasks/1.json", mode: 0o600, size: 3, mtime: 4, name: [32]byte{1}}}))
	f.Add(encodeSidecars([]sidecar{{path: "session/../../x", name: [32]byte{1}}}))
	f.Add(encodeSidecars([]sidecar{{path: "session/a\xff\n", isLog: true, name: [32]byte{1}}, {path: "tasks/a", name: [32]byte{2}}}))
	c := New("/home/x", Options{})
	f.Fuzz(func(t *testing.T, data []byte) {
		list, err := decodeSidecars(data)
		if err != nil {
			return
		}
		if !bytes.Equal(encodeSidecars(list), data) {
			t.Fatalf("%q is not what it encodes to", data)
		}
		for _, s := range list {
			at := c.sidecarFile("sid", "/home/x/projects/p/sid.jsonl", s.path)
			inside := false
			for _, dir := range sidecarDirs() {
				root := c.sidecarFile("sid", "/home/x/projects/p/sid.jsonl", dir)
				inside = inside || strings.HasPrefix(at, root+"/") && !strings.Contains(at+"/", "/../")
			}
			if !inside {
				t.Fatalf("%q leads to %s", s.path, at)
			}
		}
	})
}
