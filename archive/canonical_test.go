package archive

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// manyFields returns a manifest with all fields and difficult strings.
func manyFields() *Manifest {
	return &Manifest{
		Schema: Schema, Digest: "sha256:00", World: &WorldInfo{Format: "a \"b\" \\ \b\t\n\f\r\x00\x1f\x7f \u2028 <&> 😀", SimTime: "1.5"},
		Agents:  []AgentInfo{{Name: "ä", Backend: "claude"}, {}},
		Entries: []Entry{{Path: "agents/ä/workspace/\u00e4", Tier: Workspace, Size: 1 << 53, Mode: modeFile, SHA256: "ab"}, {Size: -1}},
		Dirs:    []string{"", "a"}, Links: []Link{{"a", "b"}},
		Omitted: []Omission{{Path: "x", Why: OmittedName, Files: 3, Findings: []string{"f"}}},
		Cut:     &Cut{Consistency: Crash, WorldSeq: []uint64{0, 4711}, ElapsedSeconds: 1}, Parent: &ParentInfo{"d", "k"},
		Scan: &SecretReport{Rules: "r"},
	}
}

func TestCanonicalFormHasTheContentOfEncodingJSON(t *testing.T) {
	created := time.Date(2026, 5, 1, 12, 0, 0, 123, time.UTC)
	for _, v := range []any{manyFields(), &Manifest{}, &Metadata{}, &Metadata{Schema: Schema, Created: created, Agents: []string{}, Caller: map[string]any{
		"float": 1.5e10, "small": 1e-7, "int": 3, "uint": uint8(3), "list": []any{nil, true, "x", map[string]any{"b": 1, "a": nil}}, "typed": []int{1},
		"struct": struct{ B, A int }{1, 2}, "any": map[string]int{"b": 1, "a": 2}, "time": created, "number": json.Number("1.50"), "bytes": []byte("hello"), "\u20ac": 1, "\U0001F600": 2, "\ufb33": 3, "": 4,
	}}} {
		got, err := canonical(v)
		if err != nil {
			t.Fatal(err)
		}
		data, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		d := json.NewDecoder(bytes.NewReader(data))
		d.UseNumber()
		var plain any
		if err := d.Decode(&plain); err != nil {
			t.Fatal(err)
		}
		want, err := canonical(plain)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%T: %s", v, diff)
		}
		if !json.Valid(got) {
			t.Errorf("%T: not JSON: %s", v, got)
		}
	}
	// RFC 8785 sorts by UTF-16: an emoji is before U+FB33.
	if got, err := canonical(map[string]any{"\ufb33": 1, "\U0001F600": 2, "\u20ac": 3}); err != nil || string(got) != "{\"\u20ac\":3,\"\U0001F600\":2,\"\ufb33\":1}" {
		t.Errorf("%s, %v", got, err)
	}
	for _, v := range []any{"\xff", 1<<53 + 1, -(1<<53 + 1), []string{"\xff"}, map[string]any{"\xff": 1}, json.Number("1e400"), func() {}} {
		if got, err := canonical(v); err == nil {
			t.Errorf("%v is written as %s", v, got)
		}
	}
}

func TestParseCanonicalReadsWhatCanonicalWrites(t *testing.T) {
	for _, want := range []*Manifest{manyFields(), {Agents: []AgentInfo{}, Entries: []Entry{}}} {
		data, err := canonical(want)
		if err != nil {
			t.Fatal(err)
		}
		got := new(Manifest)
		if err := parseCanonical(data, got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		for n := range data {
			if err := parseCanonical(data[:n], new(Manifest)); err == nil {
				t.Fatalf("%d of %d bytes are accepted", n, len(data))
			}
		}
	}
}

func TestParseCanonicalRefusesOtherForms(t *testing.T) {
	const whole = `{"agents":[{"name":"a"}],"cut":{"consistency":"quiet","world_seq":[1,2]},"entries":[],"schema":"ckpt/1"}`
	if err := parseCanonical([]byte(whole), new(Manifest)); err != nil {
		t.Fatal(err)
	}
	for what, text := range map[string]string{
		"a space": strings.Replace(whole, ":", ": ", 1), "a line end": whole + "\n", "a second document": whole + whole,
		"an unknown key": strings.Replace(whole, `"schema"`, `"scheme"`, 1), "a key of other case": strings.Replace(whole, `"schema"`, `"Schema"`, 1),
		"a key twice": strings.Replace(whole, `"schema"`, `"schema":"ckpt/1","schema"`, 1), "keys in another order": `{"schema":"ckpt/1","agents":[],"entries":[]}`,
		"an empty field": strings.Replace(whole, `"schema"`, `"dirs":[],"schema"`, 1), "an escape that is not needed": strings.Replace(whole, `"quiet"`, `"qui\u0065t"`, 1),
		"a number with an exponent": strings.Replace(whole, `[1,2]`, `[1e0,2]`, 1), "a leading zero": strings.Replace(whole, `[1,2]`, `[01,2]`, 1), "minus zero": strings.Replace(whole, `[1,2]`, `[-0,2]`, 1),
		"null": "null", "nothing": "", "a list": "[]", "null for a list": strings.Replace(whole, `[{"name":"a"}]`, "nul", 1),
		"no list": strings.Replace(whole, `"agents":[{"name":"a"}],`, "", 1), "a comma at the end": strings.Replace(whole, `[1,2]`, `[1,2,]`, 1),
		"an open string": whole[:len(whole)-3], "a raw line end in a string": strings.Replace(whole, "quiet", "qui\net", 1), "bytes that are not UTF-8": strings.Replace(whole, "quiet", "\xff", 1),
		"an element for a list": strings.Replace(whole, `[{"name":"a"}]`, `{"name":"a"}`, 1), "many elements": `{"agents":[` + strings.Repeat("{},", maxElements+1) + `{}],"entries":[],"schema":"ckpt/1"}`,
	} {
		if err := parseCanonical([]byte(text), new(Manifest)); err == nil {
			t.Errorf("%s is accepted", what)
		}
	}
}

// FuzzParseCanonical compares the parser with encoding/json: both accept the same documents and
// read the same content from them. The parser is stricter only for null, which canonical writes for no
// value of this package.
func FuzzParseCanonical(f *testing.F) {
	for _, m := range []*Manifest{manyFields(), {Agents: []AgentInfo{}, Entries: []Entry{}}} {
		data, err := canonical(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, want := new(Manifest), new(Manifest)
		err := parseCanonical(data, got)
		d := json.NewDecoder(bytes.NewReader(data))
		d.DisallowUnknownFields()
		plain := d.Decode(want) == nil
		again, canonicalErr := canonical(want)
		plain = plain && canonicalErr == nil && bytes.Equal(again, data)
		if plain != (err == nil) && !bytes.Contains(data, []byte("null")) {
			t.Fatalf("the parser says %v, encoding/json accepts it: %v", err, plain)
		}
		if diff := cmp.Diff(want, got); err == nil && diff != "" {
			t.Error(diff)
		}
	})
}
