package claude

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/dalsegno/segno/transcript"

	"github.com/dalsegno/segno"
)

// FuzzCheckSession checks that a repair of any transcript leaves no damage.
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
		f.Add(data, false)
		f.Add(data[:len(data)*2/3], true)
	}
	record := func(kind, uuid, parent, time, message string) string {
		return `{"parentUuid":` + parent + `,"type":"` + kind + `","uuid":"` + uuid + `","timestamp":"2026-11-20T11:00:` + time + `Z","message":` + message + `,"sessionId":"s"}`
	}
	user, call := `{"role":"user","content":"hi"}`, `{"id":"m1","role":"assistant","content":[{"type":"tool_use","id":"c1","name":"x","input":{}}]}`
	result := `{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":[{"type":"text","text":""},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}}]}]}`
	thought := `{"id":"m2","role":"assistant","content":[{"type":"thinking","thinking":"x"}]}`
	for _, seed := range []string{
		record("user", "a", "null", "00", user) + record("assistant", "b", `"a"`, "01", call) + "\n" + record("user", "c", `"x"`, "20", result),
		record("user", "a", "null", "00", user) + "\n" + record("assistant", "b", `"a"`, "01", call) + "\n" + record("assistant", "c", `"b"`, "02", thought) + "\n" + record("user", "d", `"c"`, "03", user) + "\n",
		record("user", "a", "null", "00", user) + "\n" + record("user", "r", `"a"`, "01", result) + "\x00\x00\n" + record("user", "r2", `"r"`, "01", result) + "\n",
		record("assistant", "a", `"b"`, "00", call) + "\n" + record("assistant", "b", `"a"`, "09", call) + "\n",
		`{"type":"user","uuid":""}` + "\n" + `{"parentUuid":"0","uuid":"c"}` + "\n" + `{"parentUuid":"c","type":"user","uuid":"0"}` + "\n",
		`{"type":"user","uuid":"0"}` + "\n" + `{"parentUuid":"1","type":"user","uuid":""}`,
		record("assistant", "a", "null", "00", `{"id":"m1","role":"assistant","content":[{"type":"tool_use","id":"&\\u00e9"}]}`),
		`{"type":"assistant","uuid":"Z","message":{"content":[]}}` + "\n" + `{"uuid":"","timestamp":"2026-11-20T11:00:02Z"}` + "\n" + record("user", "a", `"c"`, "03", user) + "\n",
		"\xef\xbb\xbf" + record("user", "a", `"a"`, "00", user) + "\r\n" + record("user", "b", `"a"`, "00", user) + "\n" + record("user", "c", `"a"`, "00", user),
	} {
		f.Add([]byte(seed), true)
	}
	f.Fuzz(func(t *testing.T, data []byte, join bool) {
		src := segno.Source{Session: "c1a0de00-0000-4000-8000-000000000001", Path: "/p/x.jsonl"}
		mended, d, err := mendAll(context.Background(), src, transcript.LintOptions{Join: join}, io.NewSectionReader(bytes.NewReader(data), 0, int64(len(data))))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(mended)
		if err != nil || len(d.Findings) == 0 && !bytes.Equal(text, data) {
			t.Fatalf("without findings %q became %q, %v", data, text, err)
		}
	})
}
