package jsonscan_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/dalsegno/segno/internal/jsonscan"
)

// texts returns valid values, texts that are almost values, and values with nesting at the limit.
func texts() []string {
	out := []string{"", " ", "null", "nul", "true ", "falsey", `"a"`, `"a`, `"\u00e9\n\/"`, `"\u00g9"`, `"\x"`, "\"\x01\"", "\"\xff\"", `"\`,
		"0", "-0", "01", "-", "1.", "1.5e+3", "1e", "1E-", ".5", "+1", "1 2", "{}", "[ ]", "[1,]", "[,1]", `{"a":1,}`, `{"a" : [ {"b":null} ] }`,
		`{"a"}`, `{a:1}`, `{"a":1 "b":2}`, "[1 2]", "}", "]", "[}", "{]", "\v1", "\u00a01",
		`{"a":[],"b":{}}`, `{"a":[[]],"b":{"c":{}}}`, `{"a":-0.5e+7}`, `{"a":"12345678\\90123456"}`, `{"\u0061":1,"a":{"b":"x","b":"\ud83d\ude00"}}`, `["a,]",{"x":"}"}]`}
	for _, depth := range []int{200, 9999, 10000, 10001} {
		out = append(out, strings.Repeat("[", depth)+strings.Repeat("]", depth), strings.Repeat("[", depth-1)+"1"+strings.Repeat("]", depth-1),
			strings.Repeat(`{"a":`, depth)+"1"+strings.Repeat("}", depth))
	}
	return append(out, strings.Repeat("[", 1<<20))
}

// FuzzScan compares the package with encoding/json. Both must accept the same texts, and
// find the same members and elements in a document.
func FuzzScan(f *testing.F) {
	for _, text := range texts() {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		valid := json.Valid(data)
		if got := jsonscan.Valid(data); got != valid {
			t.Fatalf("%.99q: %v, encoding/json reports %v", data, got, valid)
		}
		at := jsonscan.SkipSpace(data, 0)
		members := map[string]json.RawMessage{}
		end, ok := jsonscan.Members(data, at, func(key []byte, value jsonscan.Span) {
			members[jsonscan.Unescape(key)] = value.Of(data)
			if jsonscan.KeyIs(key, "a") != (jsonscan.Unescape(key) == "a") {
				t.Fatalf("KeyIs of %q", key)
			}
		})
		if object := valid && data[at] == '{'; object != (ok && jsonscan.SkipSpace(data, end) == len(data)) || !valid && end > len(data) {
			t.Fatalf("%.99q: an object: %v, %v until %d", data, object, ok, end)
		}
		// FindInValid must not read beyond the data, even if they are invalid.
		trusted := jsonscan.FindInValid(data, jsonscan.Span{From: at, To: len(data)}, "a", "b")
		if !valid {
			return
		}
		if found := jsonscan.Find(data, jsonscan.Span{From: at, To: len(data)}, "a", "b"); found != trusted {
			t.Fatalf("FindInValid: %v; Find: %v in %q", trusted, found, data)
		}
		var all, known []jsonscan.Span
		jsonscan.Elements(data, at, func(s jsonscan.Span) { all = append(all, s) })
		jsonscan.ElementsOfValid(data, at, func(s jsonscan.Span) { known = append(known, s) })
		if !slices.Equal(all, known) {
			t.Fatalf("ElementsOfValid: %v; Elements: %v in %q", known, all, data)
		}
		var object map[string]json.RawMessage
		if json.Unmarshal(data, &object) == nil && object != nil {
			same(t, data, members, object)
			b := jsonscan.Find(data, jsonscan.Span{From: at, To: end}, "a", "b").Of(data)
			var inner map[string]json.RawMessage
			if json.Unmarshal(object["a"], &inner) == nil && !bytes.Equal(bytes.TrimSpace(b), bytes.TrimSpace(inner["b"])) {
				t.Fatalf("Find of a.b is %q in %q", b, data)
			}
		}
		var array []json.RawMessage
		n := 0
		_ = json.Unmarshal(data, &array)
		jsonscan.Elements(data, at, func(value jsonscan.Span) {
			if !bytes.Equal(value.Of(data), array[n]) {
				t.Fatalf("element %d of %q is %q", n, data, value.Of(data))
			}
			n++
		})
		if n != len(array) {
			t.Fatalf("%d elements of %q", n, data)
		}
		var text string
		if json.Unmarshal(data, &text) == nil && jsonscan.Text(data[at:bytes.LastIndexAny(data, "\"l")+1]) != text {
			t.Fatalf("the text of %q", data)
		}
	})
}

func same(t *testing.T, data []byte, got, want map[string]json.RawMessage) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%.99q: members %q, want %q", data, got, want)
	}
	for key, value := range want {
		if !bytes.Equal(bytes.TrimSpace(got[key]), value) {
			t.Fatalf("%.99q: %q is %q, want %q", data, key, got[key], value)
		}
	}
}

func TestScanAllocatesNothing(t *testing.T) {
	line := []byte(`{"id":1,"params":{"sessionId":"s","list":[1,{"a":"b\n"}]}}`)
	n := testing.AllocsPerRun(100, func() {
		jsonscan.Members(line, 0, func([]byte, jsonscan.Span) {})
		jsonscan.Find(line, jsonscan.Span{To: len(line)}, "params", "sessionId")
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkValid(b *testing.B) {
	for name, text := range map[string]string{"small": `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}`, "text": `{"a":"` + strings.Repeat("word ", 20000) + `"}`} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				jsonscan.Valid([]byte(text))
			}
		})
	}
}
