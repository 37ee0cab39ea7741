package hook

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/hook/event"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/internal/local/spool"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/timeline"
)

// TestBothCommandsRecordTheSame sends the same events of an open turn to segno and segno-hook, in two stores, and
// compares every file.
func TestBothCommandsRecordTheSame(t *testing.T) {
	now := func() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC) }
	none := func(string) string { return "" }
	a, b := t.TempDir(), t.TempDir()
	place, err := local.FindPlace(none, a)
	if err != nil {
		t.Fatal(err)
	}
	place.Now = now
	for _, store := range []string{a, b} {
		if err := spool.New(store, vfs.OS).SaveTurn(t.Context(), timeline.OpenTurn{Key: "p", Source: segno.Source{Session: "s"}}); err != nil {
			t.Fatal(err)
		}
	}
	for _, text := range []string{
		`{"hook_event_name":"PreToolUse","session_id":"s","prompt_id":"p","tool_name":"Bash","tool_use_id":"t1","tool_input":{"command":"a <&> b"}}`,
		`{"hook_event_name":"PostToolUse","session_id":"s","prompt_id":"p","tool_name":"Bash","tool_use_id":"t1","tool_response":{"stdout":"` + strings.Repeat("long ", 100_000) + `"},"duration_ms":1.5}`,
		`{"hook_event_name":"PostToolUseFailure","session_id":"s","prompt_id":"p","tool_name":"Bash","tool_use_id":"t2","error":"Exit code 7\nno"}`,
		`{"hook_event_name":"PreToolUse","session_id":"unknown","agent_id":"a"}`,
	} {
		var said, saidToo bytes.Buffer
		Run(t.Context(), "claude", Event{Place: place, Stdin: strings.NewReader(text), Stdout: &said, Getenv: none})
		event.ToolHook{Stdin: strings.NewReader(text), Stdout: &saidToo, Getenv: none, Now: now,
			Delegate: func(context.Context, io.Reader) error { t.Error("handed on:", text); return nil },
		}.Run(t.Context(), []string{"--store", b, "hook", "claude"})
		if said.Len()+saidToo.Len() > 0 {
			t.Errorf("they said %q and %q", &said, &saidToo)
		}
	}
	want := files(t, a)
	if len(want) != 1 {
		t.Fatalf("%d files were written, want one turn's", len(want))
	}
	if diff := cmp.Diff(want, files(t, b)); diff != "" {
		t.Errorf("segno-hook notes something else (-segno +segno-hook):\n%s", diff)
	}
}

func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, de os.DirEntry, err error) error {
		if err != nil || de.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		all[strings.TrimPrefix(path, dir)] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
