package turns

import (
	"encoding/json"
	"testing"
	"time"
)

// TestChangedBeforeACall checks that a body keeps the input of a tool byte for byte beside the time of its file's last
// change, and that an input with similar fields stays as it is.
func TestChangedBeforeACall(t *testing.T) {
	at := time.Date(2026, 11, 26, 20, 57, 29, 123456789, time.UTC)
	for _, input := range []string{
		`{"file_path":"a"}`,
		`{ "file_path": "a", "content": "}" }`,
		`{"content":",\"segno.changed\":\"2026-11-26T20:57:29Z\"}","file_path":"a"}`,
		`{"clipped":{"head":"{","tail":"}","bytes":20000,"sha256":"x"},"file_path":"a"}`,
	} {
		for _, changed := range []time.Time{at, {}} {
			body := WithChanged(json.RawMessage(input), []*time.Time{&changed, nil})
			in := ReadIntent(body)
			if string(in.Input) != input || len(in.Changed) != 2 || !in.Changed[0].Equal(changed) || in.Changed[1] != nil {
				t.Errorf("the input is %s, changed at %v, want %s at %v", in.Input, in.Changed, input, changed)
			}
			if !json.Valid(body) {
				t.Errorf("the body of %s is not JSON", input)
			}
		}
		if in := ReadIntent(json.RawMessage(input)); string(in.Input) != input || in.Changed != nil {
			t.Errorf("without a time, the input is %s, changed at %v", in.Input, in.Changed)
		}
	}
	for _, input := range []string{`{"id":1,"changed":"2026-11-26T20:57:29Z"}`, `{"id":1,"segno.changed":"soon"}`, `{"id":{"n":1,"segno.changed":"2026-11-26T20:57:29Z"}}`} {
		if in := ReadIntent(json.RawMessage(input)); string(in.Input) != input || in.Changed != nil {
			t.Errorf("the input is %s, changed at %v, want %s", in.Input, in.Changed, input)
		}
	}
}
