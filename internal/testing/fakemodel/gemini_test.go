package fakemodel_test

import (
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dalsegno/segno/internal/testing/fakemodel"
)

func TestGemini(t *testing.T) {
	c := newClient(t)
	contents := []any{block{"role": "user", "parts": []any{block{"text": `<<fake [{"thinking":"hm","tool":"run_shell_command","input":{"command":"ls"}},"done",{"error":503}]>>`}}}}
	ask := func(method string) (status int, body string) {
		t.Helper()
		res, err := c.open(t.Context(), "POST", "/v1beta/models/gemini-x:"+method, block{"contents": contents, "tools": []any{block{}}})
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		data, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, string(data)
	}
	_, streamed := ask("streamGenerateContent")
	data, isEvent := strings.CutPrefix(streamed, "data: ")
	var answer struct {
		Candidates []struct {
			Content struct{ Parts []any }
		}
	}
	if err := json.Unmarshal([]byte(data), &answer); !isEvent || err != nil {
		t.Fatalf("%v: %s", err, streamed)
	}
	parts := answer.Candidates[0].Content.Parts
	call := parts[1].(map[string]any)["functionCall"].(map[string]any)
	contents = append(contents, block{"role": "model", "parts": parts}, block{"role": "user", "parts": []any{
		block{"functionResponse": block{"id": call["id"], "name": call["name"], "response": block{"output": "a.txt"}}}}})
	if _, second := ask("generateContent"); !strings.Contains(second, `"done"`) {
		t.Errorf("second step: %s", second)
	}
	want := []fakemodel.Message{
		{Role: "user", Blocks: c.Calls()[0].Messages()[0].Blocks},
		{Role: "assistant", Blocks: []fakemodel.Block{{Type: "thinking", Text: "hm"},
			{Type: "tool_use", ID: call["id"].(string), Name: "run_shell_command", Input: `{"command":"ls"}`}}},
		{Role: "user", Blocks: []fakemodel.Block{{Type: "tool_result", ID: call["id"].(string), Text: `{"output":"a.txt"}`}}},
	}
	if diff := cmp.Diff(want, c.Calls()[1].Messages()); diff != "" {
		t.Errorf("the conversation (-want +got):\n%s", diff)
	}
	contents = append(contents, block{"role": "model", "parts": []any{block{"text": "done"}}})
	if status, _ := ask("generateContent"); status != 503 {
		t.Errorf("scripted error: %d", status)
	}
	if status, body := ask("countTokens"); status != 200 || !strings.Contains(body, "totalTokens") {
		t.Errorf("count: %d %s", status, body)
	}
}
