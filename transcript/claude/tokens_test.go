package claude_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/transcript"
	"github.com/dalsegno/segno/transcript/claude"
)

// TestTokens counts each call once, with its last numbers, and the calls of subagents.
func TestTokens(t *testing.T) {
	home := t.TempDir()
	const session = "0c5ab1f2-6a6e-4f0e-9d0a-1b2c3d4e5f60"
	dir := filepath.Join(home, "projects", "-srv-proj")
	src := segno.Source{Session: session, Path: filepath.Join(dir, session+".jsonl")}
	write := func(path, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	prompt := `{"type":"user","uuid":"u1","message":{"role":"user","content":"what is the \"usage\"?"}}` + "\n"
	write(src.Path, prompt)
	c := claude.New(home, claude.Options{})
	if got, err := c.Tokens(t.Context(), src); got != nil || err != nil {
		t.Errorf("without a call: %v, %v", got, err)
	}
	write(src.Path, prompt+
		`{"type":"assistant","uuid":"a1","message":{"id":"msg_1","usage":{"input_tokens":3,"cache_creation_input_tokens":20,"cache_read_input_tokens":100,"output_tokens":1}}}`+"\n"+
		`{"type":"assistant","uuid":"a2","message":{"id":"msg_1","usage":{"input_tokens":3,"cache_creation_input_tokens":20,"cache_read_input_tokens":100,"output_tokens":8}}}`+"\n"+
		`{"type":"assistant","uuid":"a3","message":{"id":"msg_2","usage":{"input_tokens":10,"output_tokens":2}}}`+"\n"+
		`{"type":"progress","message":{"usage":{"input_tokens":99}}}`+"\nnot JSON with \"usage\"\n")
	write(filepath.Join(dir, session, "subagents/agent-1.jsonl"),
		`{"type":"assistant","uuid":"b1","message":{"id":"msg_3","usage":{"input_tokens":1000,"output_tokens":50}}}`+"\n")
	got, err := c.Tokens(t.Context(), src)
	read, written := int64(100), int64(20)
	if diff := cmp.Diff(&transcript.Tokens{Input: 1133, Output: 60, CacheRead: &read, CacheWrite: &written}, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
}
