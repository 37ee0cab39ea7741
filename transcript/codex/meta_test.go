package codex

import (
	"encoding/json"
	"maps"
	"reflect"
	"testing"
)

const newID = "55555555-0000-4000-8000-000000000001"

// FuzzMeta checks that a first line with another id and directory is otherwise the same
// document, and that a flattened one differs only in the reference.
func FuzzMeta(f *testing.F) {
	f.Add([]byte(`{"timestamp":"2026","ordinal":3,"type":"session_meta","payload":{"id":"a","session_id":"a","cwd":"/x","runtime_workspace_roots":["/x","/y",1]}}`), "/z")
	f.Add([]byte(` {"type":"session_meta","payload":{"id":"a","session_id":"b","history_base":{"thread_id":"01a20562-62f8-7731-83e7-000000000001","end_byte_offset":9},"forked_from_id":"c"}} `), "/é\"\xff<")
	f.Add([]byte(`{"type":"session_meta","type":"session_meta","payload":{"i\u0064":"a","id":"b","cwd":[]}}`), "")
	f.Fuzz(func(t *testing.T, line []byte, dir string) {
		m, err := parseMeta(line)
		if err != nil {
			return
		}
		decode := func(data []byte) (top, payload map[string]any) {
			if err := json.Unmarshal(data, &top); err != nil {
				t.Fatalf("%q: %v", data, err)
			}
			payload, _ = top["payload"].(map[string]any)
			delete(top, "payload")
			return top, payload
		}
		drop := func(all map[string]any, keys ...string) map[string]any {
			for _, key := range keys {
				delete(all, key)
			}
			return all
		}
		top, payload := decode(m.line)
		movedTop, moved := decode(m.movedTo(newID, dir))
		if moved["id"] != newID || moved["session_id"] == m.id {
			t.Fatalf("%q was moved to %v", line, moved)
		}
		mine := []string{"id", "session_id", "cwd", "runtime_workspace_roots"}
		if again, err := parseMeta(m.movedTo(newID, dir)); err != nil || again.id != newID || dir == "" && again.dir != m.dir {
			t.Fatalf("%q was moved to %+v, %v", line, again, err)
		}
		flatTop, flat := decode(m.flattened())
		if again, err := parseMeta(m.flattened()); err != nil || again.base != nil || again.id != m.id {
			t.Fatalf("%q was flattened to %+v, %v", line, again, err)
		}
		bases := []string{"history_base", "forked_from_id", "forked_from_ordinal_exclusive"}
		if !reflect.DeepEqual(drop(top, "ordinal"), drop(flatTop, "ordinal")) || !reflect.DeepEqual(top, drop(movedTop, "ordinal")) ||
			!reflect.DeepEqual(drop(moved, mine...), drop(maps.Clone(payload), mine...)) || !reflect.DeepEqual(drop(maps.Clone(payload), bases...), flat) {
			t.Fatalf("%q became %q and %q", line, m.movedTo(newID, dir), m.flattened())
		}
	})
}
