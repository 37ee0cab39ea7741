package codex_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agents/profile"
	"github.com/dalsegno/segno/transcript/codex"
)

// TestPatches reads the patches of calls from sessions of old and new versions, with the names of moved and deleted files.
func TestPatches(t *testing.T) {
	changes := map[string]any{
		"/p/a.txt": map[string]any{"type": "update", "unified_diff": "@@ -1,2 +1,2 @@\n one\n-two\n+2\n", "move_path": nil},
		"/p/b.txt": map[string]any{"type": "update", "unified_diff": "@@ -1 +1 @@\n-x\n+y\n", "move_path": "/p/c.txt"},
		"/p/d.txt": map[string]any{"type": "delete", "content": "gone\n"},
		"/p/e.txt": map[string]any{"type": "add", "content": "new\n"},
		"/p/f.txt": map[string]any{"type": "add", "content": "no line break"},
	}
	for name, tc := range map[string]struct {
		begin func(testing.TB, string, string) *session
		patch func(id string, changes any) map[string]any
	}{
		"new": {func(t testing.TB, home, thread string) *session { return newSession(t, home, thread, nil) }, func(id string, changes any) map[string]any {
			return map[string]any{"type": "item_completed", "item": map[string]any{"type": "FileChange", "id": id, "changes": changes}}
		}},
		"old": {newOldSession, func(id string, changes any) map[string]any {
			return map[string]any{"type": "patch_apply_end", "call_id": id, "changes": changes}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			home := t.TempDir()
			s := tc.begin(t, home, firstID)
			s.prompt("one", "prompt")
			s.add("event_msg", tc.patch("call_1", changes))
			s.add("event_msg", tc.patch("call_of_another_turn", changes))
			s.add("event_msg", tc.patch("call_unknown", map[string]any{"/p/a.txt": map[string]any{"type": "chmod"}}))
			s.flush()
			got, err := codex.New(home, codex.Options{}).Patches(t.Context(), segno.Source{Session: firstID}, map[string]bool{"call_1": true, "call_unknown": true})
			if err != nil || len(got) != 1 {
				t.Fatalf("the patches are %q, %v", got, err)
			}
			files := []string{"/p/a.txt", "/p/b.txt", "/p/c.txt", "/p/d.txt", "/p/e.txt", "/p/f.txt"}
			if diff := cmp.Diff(files, profile.PatchFiles(got["call_1"])); diff != "" {
				t.Errorf("the patch names other files (-want +got):\n%s", diff)
			}
			hunks := map[string][]profile.Hunk{"/p/a.txt": {{Before: "one\ntwo\n", After: "one\n2\n"}}, "/p/e.txt": {{After: "new\n", IsWhole: true}}}
			if diff := cmp.Diff(hunks, profile.PatchHunks(got["call_1"])); diff != "" {
				t.Errorf("the patch has other hunks (-want +got):\n%s", diff)
			}
		})
	}
}

// TestCutCalls finds the calls since a time that have no result, or one that Codex added when the session continued.
func TestCutCalls(t *testing.T) {
	home := t.TempDir()
	s := newSession(t, home, firstID, nil)
	call := func(id string) {
		s.add("response_item", map[string]any{"type": "function_call", "name": "exec_command", "call_id": id, "arguments": `{"cmd":"make"}`})
	}
	output := func(id, text string) {
		s.add("response_item", map[string]any{"type": "function_call_output", "call_id": id, "output": text})
	}
	s.prompt("old", "prompt")
	call("call_old")
	since := began.Add(time.Duration(len(s.lines)+1) * time.Millisecond) // a millisecond is the resolution of the times
	s.prompt("new", "prompt")
	call("call_done")
	output("call_done", "Process exited with code 0\nOutput:\n")
	call("call_aborted")
	call("call_cut")
	output("call_aborted", "aborted")
	s.flush()
	got, err := codex.New(home, codex.Options{}).CutCalls(t.Context(), segno.Source{Session: firstID}, since)
	if err != nil || len(got) != 2 || got[0].ID != "call_aborted" || got[1].ID != "call_cut" {
		t.Fatalf("the calls are %+v, %v", got, err)
	}
	if e := got[1]; e.Kind != segno.EntryIntent || e.Name != "exec_command" || string(e.Body) != `{"cmd":"make"}` || e.Session != firstID {
		t.Errorf("the call is %+v", e)
	}
}
