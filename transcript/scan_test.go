package transcript

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/dalsegno/segno"
)

// FuzzParse compares with encoding/json: the same lines are JSON objects, and the
// keys that matter have the same values.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		`{}`, ` { } `, `{"a":1}`, `{"a":[],"b":{}}`, `{"a":[[]],"b":{"c":{}}}`, `{"a":-0.5e+7}`, `{"a":01}`, `{"a":1.}`, `{"a":-}`, `{"a":1e}`,
		`{"a":"\u00e9\ud83d\ude00\n\""}`, `{"a":"\x"}`, `{"a":"\u12"}`, `{"a":"` + "\t" + `"}`, `{"a":tru}`, `{"a":true,}`, `{,}`, `{"a"}`, `{"a":1 "b":2}`,
		`{"uuid":"u","parentUuid":null,"sessionId":"s","type":"user","message":{"sessionId":"no"}}`, `{"uuid":"\u0075","uuid":"2"}`,
		`{"a":[1,]}`, `{"a":{"b":1,}}`, `[]`, `1`, `{"a":nul}`, `{"a":[}`, `{"a":{]}`, `{"a":"12345678\\90123456"}`, "{\"a\":\"\xff\"}", "\ufeff{}", "{}x", "",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var s scanner
		var r record
		err := s.parse(data, &r)
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
		if json.Unmarshal(want["uuid"], &uuid) == nil && bytes.Count(clean, []byte("uuid")) == 1 && plain(r.uuid) != uuid {
			t.Fatalf("uuid %q, want %q", plain(r.uuid), uuid)
		}
		at := 0
		var spliced []byte
		for _, id := range r.sessions {
			spliced = append(append(spliced, data[at:id.from]...), "NEW"...)
			at = id.to
		}
		spliced = append(spliced, data[at:]...)
		checkSplice(t, clean, bytes.TrimPrefix(spliced, []byte("\xef\xbb\xbf")))
	})
}

// checkSplice checks that nothing but top-level session ids differs.
func checkSplice(t *testing.T, before, after []byte) {
	t.Helper()
	var was, is map[string]any
	if err := json.Unmarshal(after, &is); err != nil {
		t.Fatalf("no JSON after the splice: %v", err)
	}
	if json.Unmarshal(before, &was) != nil {
		t.Fatal("no JSON before the splice")
	}
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

func TestDepthIsBounded(t *testing.T) {
	var s scanner
	var r record
	for _, depth := range []int{10, maxDepth - 1, maxDepth + 1, 1 << 20} {
		line := `{"a":` + strings.Repeat("[", depth) + strings.Repeat("]", depth) + `}`
		if err := s.parse([]byte(line), &r); (err == nil) != (depth < maxDepth) {
			t.Errorf("depth %d: %v", depth, err)
		}
	}
}

// FuzzLines checks that lines partition the input whatever the reads were.
func FuzzLines(f *testing.F) {
	f.Add([]byte("a\nbb\n\nccc"), 1)
	f.Add([]byte("\n\n"), 3)
	f.Fuzz(func(t *testing.T, data []byte, piece int) {
		l := &lines{blocks: &pieces{data, 1 + piece&7}, offset: 100}
		var got []byte
		n := 0
		for {
			at, ok := l.next()
			if !ok {
				break
			}
			if n++; at.number != n || at.offset != int64(100+len(got)) || bytes.IndexByte(at.bytes, '\n') != len(at.bytes)-1 {
				t.Fatalf("line %d at %d is %q", at.number, at.offset, at.bytes)
			}
			got = append(got, at.bytes...)
		}
		torn, err := l.close()
		if err != nil || torn != len(data)-len(got) || !bytes.HasPrefix(data, got) || bytes.IndexByte(data[len(got):], '\n') >= 0 {
			t.Fatalf("%q of %q, %d torn, %v", got, data, torn, err)
		}
	})
}

// pieces hands out data n bytes at a time, in memory that is used again.
type pieces struct {
	data []byte
	n    int
}

func (p *pieces) next() ([]byte, error) {
	r := blocks{r: bytes.NewReader(p.data), buf: make([]byte, p.n)}
	out, err := r.next()
	p.data = p.data[len(out):]
	return out, err
}

// FuzzLog checks that only canonical bytes are a log.
func FuzzLog(f *testing.F) {
	n := logNode{size: 5, chunks: []chunk{{[32]byte{1}, 5}}}
	f.Add(n.encode())
	n = logNode{prev: [32]byte{2}, size: 7, chunks: n.chunks}
	f.Add(n.encode())
	n = logNode{prev: [32]byte{2}, session: fuzzSession, size: 7, chunks: n.chunks}
	f.Add(n.encode())
	n = logNode{prev: [32]byte{2}, session: fuzzSession, keep: []run{{1, 1}, {3, 9}}, size: 7}
	f.Add(n.encode())
	n.keep[1].from = 2
	f.Add(n.encode())
	f.Add([]byte("segno-log 2\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		n, err := decodeLog(data)
		if err != nil {
			return
		}
		if !bytes.Equal(n.encode(), data) {
			t.Fatalf("%q is not what %+v encodes to", data, n)
		}
		if n.own() > n.size || n.own() <= 0 && n.session == "" || n.keep != nil && n.session == "" {
			t.Fatalf("%+v cannot be", n)
		}
	})
}

const fuzzSession = "22222222-0000-4000-8000-000000000002"

// FuzzSieve compares with what it says on the tin: split, choose, replace. And the
// session that comes last is the only one that matters.
func FuzzSieve(f *testing.F) {
	f.Add([]byte(`{"sessionId":"a","type":"user"}`+"\nno record\n\n"+`{"x":{"sessionId":"b"},"sessionId":"c"}`+"\n"), uint64(5))
	f.Add([]byte("\xef\xbb\xbf{\"sessionId\":\"\"}\r\n{\"sessionId\":1}\n"), ^uint64(0))
	f.Fuzz(func(t *testing.T, data []byte, mask uint64) {
		data = data[:bytes.LastIndexByte(data, '\n')+1]
		var keep []run
		var want, spliced bytes.Buffer
		var s scanner
		var r record
		for i, l := range bytes.SplitAfter(data, []byte("\n")) {
			if len(l) == 0 {
				break
			}
			r.sessions = nil
			if s.parse(l, &r) != nil {
				r.sessions = nil
			}
			splice(&spliced, l, &r, fuzzSession)
			if mask>>(i%64)&1 == 0 {
				continue
			}
			splice(&want, l, &r, fuzzSession)
			if n := len(keep); n > 0 && keep[n-1].to == i {
				keep[n-1].to++
			} else {
				keep = append(keep, run{i + 1, i + 1})
			}
		}
		if keep == nil {
			return
		}
		read := func(data []byte, keep []run, session segno.SessionID) []byte {
			out, err := io.ReadAll(iotest.OneByteReader(newSieve(bytes.NewReader(data), keep, session)))
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

// FuzzSidecars checks that only canonical bytes are a listing, and that no path of
// one leads out of its place.
func FuzzSidecars(f *testing.F) {
	f.Add(encodeSidecars([]sidecar{{path: "tasks/1.json", mode: 0o600, size: 3, mtime: 4, name: [32]byte{1}}}))
	f.Add(encodeSidecars([]sidecar{{path: "session/../../x", name: [32]byte{1}}}))
	f.Add(encodeSidecars([]sidecar{{path: "session/a\xff\n", long: true, name: [32]byte{1}}, {path: "tasks/a", name: [32]byte{2}}}))
	c := NewClaude(ClaudeConfig{Home: "/home/x"})
	f.Fuzz(func(t *testing.T, data []byte) {
		list, err := decodeSidecars(data)
		if err != nil {
			return
		}
		if !bytes.Equal(encodeSidecars(list), data) {
			t.Fatalf("%q is not what it encodes to", data)
		}
		for _, s := range list {
			at := c.file("sid", "/home/x/projects/p/sid.jsonl", s.path)
			inside := false
			for _, root := range c.roots("sid", "/home/x/projects/p/sid.jsonl") {
				inside = inside || strings.HasPrefix(at, root+"/") && !strings.Contains(at+"/", "/../")
			}
			if !inside {
				t.Fatalf("%q leads to %s", s.path, at)
			}
		}
	})
}
