package archive

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dalsegno/segno"
)

// manyFields returns a manifest with all fields and difficult strings.
func manyFields() *Manifest {
	return &Manifest{
		Schema: Schema, World: &WorldInfo{Format: "a \"b\" \\ \b\t\n\f\r\x00\x1f\x7f \u2028 <&> 😀", SimTime: "1.5"},
		Agents:  []AgentInfo{{Name: "ä", Backend: "claude"}, {}},
		Entries: []Entry{{Path: "agents/ä/workspace/\u00e4", Tier: Workspace, Size: 1 << 53, Mode: modeFile, SHA256: "ab"}, {Size: -1}},
		Dirs:    []string{"", "a"}, Links: []Link{{"a", "b"}},
		Omitted: []Omission{{Path: "x", Why: OmittedName, Files: 3, Findings: []string{"f"}}},
		Cut:     &Cut{Consistency: Crash, WorldSeq: []uint64{0, 4711}, ElapsedSeconds: 1}, Parent: &ParentInfo{"d", "k"},
		Scan: &SecretReport{Rules: "r"},
	}
}

func TestDocumentsRoundTrip(t *testing.T) {
	for _, want := range []*Manifest{manyFields(), {Agents: []AgentInfo{}, Entries: []Entry{}}} {
		data, err := segno.Encode(want)
		if err != nil {
			t.Fatal(err)
		}
		got := new(Manifest)
		if err := got.parse(data); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		for n := range data {
			if err := new(Manifest).parse(data[:n]); err == nil {
				t.Fatalf("%d of %d bytes are accepted", n, len(data))
			}
		}
	}
}

// TestOneDocumentForEachManifest reads other documents that encoding/json would accept for a manifest, or
// that a reader in another language may understand differently.
func TestOneDocumentForEachManifest(t *testing.T) {
	const whole = `{"schema":"ckpt/1","agents":[{"name":"a"}],"entries":[{"path":"p","tier":"workspace","size":1,"mode":"0644","sha256":"0"}],"cut":{"consistency":"quiet","world_seq":[1,2]}}`
	if err := new(Manifest).parse([]byte(whole)); err != nil {
		t.Fatal(err)
	}
	for what, text := range map[string]string{
		"a space": strings.Replace(whole, ":", ": ", 1), "a line end": whole + "\n", "a second document": whole + whole,
		"an unknown key": strings.Replace(whole, `"schema"`, `"scheme"`, 1), "a key of other case": strings.Replace(whole, `"schema"`, `"Schema"`, 1),
		"a key twice": strings.Replace(whole, `"schema"`, `"schema":"ckpt/1","schema"`, 1), "keys in another order": `{"agents":[],"schema":"ckpt/1","entries":[]}`,
		"an unknown key of a file": strings.Replace(whole, `"sha256"`, `"sha255"`, 1), "a key of a file twice": strings.Replace(whole, `"path"`, `"path":"p","path"`, 1),
		"keys of a file in another order": strings.Replace(whole, `"path":"p","tier":"workspace"`, `"tier":"workspace","path":"p"`, 1), "a text for a size": strings.Replace(whole, `"size":1`, `"size":"1"`, 1),
		"a size with a zero": strings.Replace(whole, `"size":1`, `"size":01`, 1), "a huge size": strings.Replace(whole, `"size":1`, `"size":9223372036854775808`, 1), "a space in a file": strings.Replace(whole, `"size":1`, `"size": 1`, 1),
		"a number for a path": strings.Replace(whole, `"p"`, `0`, 1), "a file that is null": strings.Replace(whole, `"entries":[`, `"entries":[null,`, 1), "two lists of files": strings.Replace(whole, `"cut"`, `"entries":[],"cut"`, 1),
		"no list of files": `{"schema":"ckpt/1","agents":[]}`, "null for the files": `{"schema":"ckpt/1","agents":[],"entries":null}`, "a comma behind the files": strings.Replace(whole, `}],"cut"`, `},],"cut"`, 1),
		"an empty field": strings.Replace(whole, `"cut"`, `"dirs":[],"cut"`, 1), "an escape that is not needed": strings.Replace(whole, `"quiet"`, `"qui\u0065t"`, 1),
		"a number with an exponent": strings.Replace(whole, `[1,2]`, `[1e0,2]`, 1), "a leading zero": strings.Replace(whole, `[1,2]`, `[01,2]`, 1), "minus zero": strings.Replace(whole, `[1,2]`, `[-0,2]`, 1),
		"null": "null", "nothing": "", "a list": "[]", "null for a pointer": strings.Replace(whole, `{"consistency":"quiet","world_seq":[1,2]}`, "null", 1),
		"no list": strings.Replace(whole, `"agents":[{"name":"a"}],`, "", 1), "a comma at the end": strings.Replace(whole, `[1,2]`, `[1,2,]`, 1),
		"an open string": whole[:len(whole)-3], "a raw line end in a string": strings.Replace(whole, "quiet", "qui\net", 1), "bytes that are not UTF-8": strings.Replace(whole, "quiet", "\xff", 1),
		"an element for a list": strings.Replace(whole, `[{"name":"a"}]`, `{"name":"a"}`, 1), "many elements": `{"schema":"ckpt/1","agents":[` + strings.Repeat("{},", maxElements+1) + `{}],"entries":[]}`,
	} {
		if err := new(Manifest).parse([]byte(text)); err == nil {
			t.Errorf("%s is accepted", what)
		}
	}
}

// FuzzManifest compares the parser with encoding/json: it reads the same content from each document that it
// accepts, and accepts only what [segno.Encode] returns.
func FuzzManifest(f *testing.F) {
	for _, m := range []*Manifest{manyFields(), {Agents: []AgentInfo{}, Entries: []Entry{}}} {
		data, err := segno.Encode(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add([]byte(data))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, want := new(Manifest), new(Manifest)
		if got.parse(data) != nil {
			return
		}
		err := json.Unmarshal(data, want)
		again, encodeErr := segno.Encode(want)
		if diff := cmp.Diff(want, got); err != nil || encodeErr != nil || diff != "" || !bytes.Equal(again, data) {
			t.Fatalf("%v, %v\n%s", err, encodeErr, diff)
		}
	})
}

// TestElementsAreCounted counts elements below other lists, and not the commas in texts and objects.
func TestElementsAreCounted(t *testing.T) {
	many := strings.Repeat(`"",`, maxElements) + `""`
	for text, isAccepted := range map[string]bool{
		`{"a":"` + strings.Repeat(`[,\"`, maxElements) + `"}`:      true,
		`[{` + strings.Repeat(`"a":1,`, maxElements+1) + `"a":1}]`: true,
		`{"a":[` + many + `]}`:           true,
		`{"a":[` + many + `],"b":[1,2]}`: false,
		`[` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `,` + many + `]`: false,
	} {
		if err := checkElements([]byte(text)); (err == nil) != isAccepted {
			t.Errorf("%.20s…: %v", text, err)
		}
	}
}
