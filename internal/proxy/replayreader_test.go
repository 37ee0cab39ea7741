package proxy

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/proxy/acp"
)

// TestReplayOfManyTurns checks that the reader keeps the prompt and the answer of each
// turn, and, within a bound of memory, the agent's actions in the newest turns.
func TestReplayOfManyTurns(t *testing.T) {
	if testing.Short() {
		return // it takes seconds
	}
	const turns, calls = 600, 10
	r := new(replayReader)
	observe := func(format string, args ...any) {
		t.Helper()
		m, err := acp.Parse([]byte(`{"method":"session/update","params":{"sessionId":"s","update":` + fmt.Sprintf(format, args...) + "}}\n"))
		if err != nil {
			t.Fatal(err)
		}
		r.observe(m)
	}
	output := strings.Repeat("x", 15<<10)
	for i := range turns {
		observe(`{"sessionUpdate":"user_message_chunk","content":{"type":"text","text":"prompt %d"}}`, i)
		for n := range calls {
			observe(`{"sessionUpdate":"tool_call","toolCallId":"%d-%d","title":"make","rawInput":{},"status":"completed","rawOutput":%q}`, i, n, output)
		}
		observe(`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"answer %d"}}`, i)
	}
	r.endTurn()
	if len(r.turns) != turns {
		t.Fatalf("%d turns are kept", len(r.turns))
	}
	size, whole := 0, 0
	for i, turn := range r.turns {
		made := 0
		for _, e := range turn.Entries {
			size += len(e.Body)
			if e.Kind == segno.EntryResult {
				made++
			}
		}
		if made == calls {
			whole++
		}
		answered := slices.ContainsFunc(turn.Entries, func(e segno.Entry) bool {
			var text string
			return e.Name == "agent" && json.Unmarshal(e.Body, &text) == nil && text == fmt.Sprintf("answer %d", i)
		})
		if turn.Prompt != fmt.Sprintf("prompt %d", i) || !answered {
			t.Fatalf("turn %d is %q, answered %t", i, turn.Prompt, answered)
		}
	}
	if size > maxHistory || whole < turns/2 || len(r.turns[turns-1].Entries) < 2*calls {
		t.Errorf("%d bytes are kept, and %d turns whole", size, whole)
	}
}

// TestSearchOfPromptsIsLinear searches a replay for each prompt of a conversation. The work for one more search does not grow with the
// number of replayed prompts: each of them is normalized once.
func TestSearchOfPromptsIsLinear(t *testing.T) {
	const turns = 400
	r := new(replayReader)
	for i := range turns {
		m, err := acp.Parse(fmt.Appendf(nil, `{"method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"user_message_chunk",`+
			`"messageId":"m%d","content":{"type":"text","text":"prompt %d of   many"}}}}`, i, i))
		if err != nil {
			t.Fatal(err)
		}
		r.observe(m)
	}
	r.endTurn()
	allocs := testing.AllocsPerRun(1, func() {
		for i := range turns {
			if !r.hasPrompt(fmt.Sprintf("prompt %d  of many", i)) {
				t.Errorf("prompt %d is not found", i)
			}
		}
		if r.hasPrompt("another prompt") {
			t.Error("a prompt is found that was not replayed")
		}
	})
	if most := float64(100 * turns); allocs > most {
		t.Errorf("%d searches in %d prompts made %.0f allocations", turns, turns, allocs)
	}
}
