package codex_test

import (
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/transcript/codex"
)

// TestUnreportedResults reads the results of calls from sessions of old and new versions. A command that still runs is a background
// task. If it has ended since, its result has that time.
func TestUnreportedResults(t *testing.T) {
	for name, begin := range map[string]func(testing.TB, string, string) *session{
		"new": func(t testing.TB, home, thread string) *session { return newSession(t, home, thread, nil) }, "old": newOldSession,
	} {
		t.Run(name, func(t *testing.T) {
			home := t.TempDir()
			s := begin(t, home, firstID)
			s.prompt("one", "prompt")
			result := func(typ, id string, output any) {
				s.add("response_item", map[string]any{"type": typ, "call_id": id, "output": output})
			}
			result("function_call_output", "call_ok", "done")
			result("custom_tool_call_output", "call_patch", "apply_patch verification failed: x")
			result("function_call_output", "call_applied", "Wall time: 0.0000 seconds\nOutput:\nExit code: 0\nWall time: 0 seconds\nOutput:\nSuccess. Updated the following files:\nM a.txt\n")
			result("function_call_output", "call_done", "Wall time: 1.0 seconds\nProcess exited with code 0\nOutput:\nfailed")
			result("function_call_output", "call_runs", "Wall time: 10.0 seconds\nProcess running with session ID 7\nOutput:\n")
			result("function_call_output", "call_says", "Wall time: 1.0 seconds\nOutput:\nProcess running with session ID 7")
			result("function_call_output", "call_parts", []any{map[string]any{"type": "input_text", "text": "failed"}})
			result("function_call_output", "call_ended", "Wall time: 10.0 seconds\nProcess running with session ID 8\nOutput:\n")
			end := map[string]any{"type": "exec_command_end", "call_id": "call_ended", "process_id": "8", "aggregated_output": "late", "exit_code": 1}
			if name == "new" {
				end = map[string]any{"type": "item_completed", "item": map[string]any{"type": "CommandExecution", "id": "call_ended", "process_id": "8", "aggregated_output": "late", "exit_code": 1}}
			}
			s.add("event_msg", end)
			last := began.Add(time.Duration(len(s.lines)) * time.Millisecond) // a millisecond after the newest line
			s.flush()
			got, err := codex.New(home, codex.Options{}).UnreportedResults(t.Context(), segno.Source{Session: firstID},
				map[string]bool{"call_patch": true, "call_applied": true, "call_done": true, "call_runs": true, "call_says": true, "call_parts": true, "call_ended": true, "call_other": true})
			if err != nil {
				t.Fatal(err)
			}
			want := []struct{ id, body string }{{"call_patch", `{"error":"apply_patch verification failed: x"}`},
				{"call_applied", `{"response":"Wall time: 0.0000 seconds\nOutput:\nExit code: 0\nWall time: 0 seconds\nOutput:\nSuccess. Updated the following files:\nM a.txt\n"}`},
				{"call_done", `{"response":"Wall time: 1.0 seconds\nProcess exited with code 0\nOutput:\nfailed"}`},
				{"call_runs", `{"response":{"backgroundTaskId":"7"}}`},
				{"call_says", `{"error":"Wall time: 1.0 seconds\nOutput:\nProcess running with session ID 7"}`},
				{"call_parts", `{"error":[{"text":"failed","type":"input_text"}]}`},
				{"call_ended", `{"error":"late"}`}}
			if len(got) != len(want) {
				t.Fatalf("the results are %+v", got)
			}
			for i, e := range got {
				if e.Kind != segno.EntryResult || e.Session != firstID || e.ID != want[i].id || string(e.Body) != want[i].body {
					t.Errorf("result %d is %+v: %s", i, e, e.Body)
				}
			}
			if at := got[len(got)-1].Time; !at.Equal(last) {
				t.Errorf("the newest call ended at %s, want %s", at, last)
			}
		})
	}
}

// TestCallsThatTypeIntoACommand starts a command in one turn, and types into it and waits for it in another one.
func TestCallsThatTypeIntoACommand(t *testing.T) {
	home := t.TempDir()
	s := newSession(t, home, firstID, nil)
	call := func(id, tool, arguments, output string) {
		s.add("response_item", map[string]any{"type": "function_call", "name": tool, "call_id": id, "arguments": arguments})
		s.add("response_item", map[string]any{"type": "function_call_output", "call_id": id, "output": output})
	}
	s.prompt("one", "start")
	call("call_start", "exec_command", `{"cmd":"sh"}`, "Process running with session ID 7\nOutput:\n")
	s.prompt("two", "type")
	typed := began.Add(time.Duration(len(s.lines)-2) * time.Millisecond) // the time of the newest context of a turn
	call("call_type", "write_stdin", `{"session_id":7,"chars":"ls\n"}`, "Process running with session ID 7\nOutput:\na\n")
	call("call_wait", "write_stdin", `{"session_id":7,"chars":""}`, "Process exited with code 0\nOutput:\n")
	s.flush()
	transcripts, src := codex.New(home, codex.Options{}), segno.Source{Session: firstID}
	for key, want := range map[segno.TurnKey]int{"one": 0, "two": 1, "": 0} {
		calls, err := transcripts.UnreportedCalls(t.Context(), src, key)
		if err != nil || len(calls) != want {
			t.Fatalf("the calls of turn %q are %+v, %v", key, calls, err)
		}
		if want > 0 && (calls[0].Kind != segno.EntryIntent || calls[0].ID != "call_type" || calls[0].Name != "write_stdin" || !calls[0].Time.Equal(typed)) {
			t.Errorf("the call is %+v, want one at %s", calls[0], typed)
		}
	}
	results, err := transcripts.UnreportedResults(t.Context(), src, map[string]bool{"call_start": true})
	if err != nil || len(results) != 1 || !results[0].Time.Equal(typed) {
		t.Errorf("the results of the first call are %+v, %v; want one at %s", results, err, typed)
	}
	for key, want := range map[segno.TurnKey]bool{"one": false, "two": true} {
		earlier, err := transcripts.EarlierCalls(t.Context(), src, key, map[string]bool{"call_start": true, "call_other": true})
		if err != nil || earlier["call_start"] != want || earlier["call_other"] {
			t.Errorf("the calls of earlier turns than %s are %v, %v", key, earlier, err)
		}
	}
}
