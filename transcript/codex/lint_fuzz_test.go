package codex

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// FuzzCheckSession checks that a repair of any rollout leaves no damage.
func FuzzCheckSession(f *testing.F) {
	names, err := filepath.Glob("testdata/heal/*.jsonl")
	if err != nil || len(names) == 0 {
		f.Fatal("no recorded sessions", err)
	}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
		f.Add(data[bytes.IndexByte(data, '\n')+1:])
	}
	for _, seed := range []string{
		`{"timestamp":"t","ordinal":5,"type":"response_item","payload":{"type":"function_call","call_id":"a"}}{"ordinal":5,"type":"response_item","payload":{"type":"function_call_output","call_id":"b","output":{"x":1}}}`,
		`{"type":"session_meta","payload":{"id":"i","history_mode":"paginated"}}` + "\n\x00\x00\n" + `{"type":"event_msg","ordinal":0,"payload":{"type":"task_started","turn_id":"t"}}` + "\xff\n",
		`{"ordinal":9223372036854775807,"type":"event_msg","payload":{}}` + "\n" + `{"ordinal":-1,"type":"event_msg","payload":{}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		file := rollout{path: "/h/sessions/x", thread: "01a20562-62f8-7731-83e7-000000000001"}
		mended, d, err := mendAll(context.Background(), file, io.NewSectionReader(bytes.NewReader(data), 0, int64(len(data))))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(mended)
		if err != nil || len(d.Findings) == 0 && !bytes.Equal(text, data) {
			t.Fatalf("without findings %q became %q, %v", data, text, err)
		}
	})
}
