package event

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

func FuzzPayload(f *testing.F) {
	f.Add([]byte(`{"hook_event_name":"PostToolUse","tool_name":"Bash","tool_response":{"exitCode":3},"duration_ms":1.5}`))
	f.Add([]byte(`{"hook_event_name":"PostToolUseFailure","tool_name":"Bash","error":"Exit code 7\nno"}`))
	f.Add([]byte(`{"hook_event_name":1}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := Read(bytes.NewReader(data))
		if err != nil {
			return
		}
		if _, err := json.Marshal(p.result()); err != nil {
			t.Error("a result that was read cannot be written:", err)
		}
	})
}

func TestExitStatus(t *testing.T) {
	for payload, want := range map[string]int{
		`{"hook_event_name":"PostToolUse","tool_name":"Bash","tool_response":{"stdout":"x"}}`:              0,
		`{"hook_event_name":"PostToolUseFailure","tool_name":"Bash","error":"Exit code 7\nno such thing"}`: 7,
		`{"hook_event_name":"PostToolUse","tool_name":"Bash","tool_response":{"exit_code":2}}`:             2,
		`{"hook_event_name":"PostToolUseFailure","tool_name":"Bash","error":"interrupted"}`:                -1,
		`{"hook_event_name":"PostToolUse","tool_name":"Read","tool_response":"text"}`:                      -1,
	} {
		p, err := Read(strings.NewReader(payload))
		if err != nil {
			t.Fatal(err)
		}
		got := -1
		if exit := p.result().Exit; exit != nil {
			got = *exit
		}
		if got != want {
			t.Errorf("%s: exit %d, want %d", payload, got, want)
		}
	}
}
