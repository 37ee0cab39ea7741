package event

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history/turns"
	"github.com/dalsegno/segno/internal/local/spool"
	"github.com/dalsegno/segno/internal/vfs"
)

// TestNamesAreBounded records a tool call whose names and ids are huge.
func TestNamesAreBounded(t *testing.T) {
	huge := strings.Repeat("n", 6<<20)
	s := spool.New(t.TempDir(), vfs.OS)
	recorder := Recorder{Spool: s, Now: time.Now}
	for _, end := range []string{"a", "b"} {
		for _, name := range []string{"PreToolUse", "PostToolUse"} {
			p := Payload{Event: name, Session: "s", PromptID: "p", ToolCall: ToolCall{ToolName: huge, ToolUseID: huge + end}, AgentID: huge}
			if err := recorder.RecordTool(t.Context(), p); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := recorder.RecordText(t.Context(), Payload{PromptID: "p"}, huge); err != nil {
		t.Fatal(err)
	}
	entries, bad, err := s.Entries(t.Context(), "p")
	if err != nil || bad > 0 || len(entries) != 5 {
		t.Fatalf("%d entries, %d bad, %v", len(entries), bad, err)
	}
	for _, e := range entries {
		if size := len(e.Name) + len(e.ID) + len(e.Body); size > 16<<10 {
			t.Errorf("an entry %s has %d bytes", e.Kind, size)
		}
	}
	if entries[0].ID != entries[1].ID || entries[0].ID == entries[2].ID || entries[2].ID != entries[3].ID {
		t.Error("a result has another id than its intent, or the same as another's")
	}
}

// TestAnInputThatAHookChanged records calls before and after which the agent reports an input. If the inputs differ, the call is recorded
// with the second one, too.
func TestAnInputThatAHookChanged(t *testing.T) {
	for name, tc := range map[string]struct {
		tool, before, after string
		want                int // entries
	}{
		"the same":             {"Bash", `{"command":"ls","timeout":1}`, `{"timeout":1,"command":"ls"}`, 2},
		"another command":      {"Bash", `{"command":"ls"}`, `{"command":"ls -l"}`, 3},
		"another file":         {"Write", `{"file_path":"/a","content":"x"}`, `{"file_path":"/b","content":"x"}`, 3},
		"another content":      {"Write", `{"file_path":"/a","content":"x"}`, `{"file_path":"/a","content":"y"}`, 3},
		"a tool that reads":    {"Read", `{"file_path":"/a"}`, `{"file_path":"/b"}`, 2},
		"no input in the end":  {"Write", `{"file_path":"/a","content":"x"}`, ``, 2},
		"a large input":        {"Write", `{"file_path":"/a","content":"` + strings.Repeat("x", 600<<10) + `"}`, `{"file_path":"/b","content":"x"}`, 3},
		"a title in the input": {"mcp__x__put", `{"title":"x"}`, `{"title":"x"}`, 2},
	} {
		s := spool.New(t.TempDir(), vfs.OS)
		recorder := Recorder{Spool: s, Now: time.Now}
		for i, input := range []string{tc.before, tc.after} {
			p := Payload{Event: []string{"PreToolUse", "PostToolUse"}[i], Session: "s", PromptID: "p", ToolCall: ToolCall{ToolName: tc.tool, ToolUseID: "c", ToolInput: []byte(input)}}
			if err := recorder.RecordTool(t.Context(), p); err != nil {
				t.Fatal(err)
			}
		}
		entries, bad, err := s.Entries(t.Context(), "p")
		if err != nil || bad > 0 || len(entries) != tc.want {
			t.Errorf("%s: %d entries, want %d, %d bad, %v", name, len(entries), tc.want, bad, err)
			continue
		}
		var turn turns.Turn
		turn.Add(entries...)
		calls := turn.Calls()
		if len(calls) != 1 || !calls[0].Done {
			t.Errorf("%s: the calls are %+v", name, calls)
		} else if got := string(calls[0].Input); tc.want == 3 && got != tc.after {
			t.Errorf("%s: the input is %s, want %s", name, got, tc.after)
		}
	}
}

// TestCheckRefusesInvalidSessions refuses ids that would be options, hidden files or paths.
func TestCheckRefusesInvalidSessions(t *testing.T) {
	for _, p := range []Payload{
		{Session: "-x"}, {Session: "--dangerously-skip-permissions"}, {Session: "."}, {Session: ".."}, {Session: ".hidden"}, {Session: "a/b"},
		{Session: segno.SessionID(strings.Repeat("a", 200))},
		{Session: "s", PromptID: strings.Repeat("p", 300)}, {Session: "s", Cwd: "/" + strings.Repeat("d", 5000)},
		{Session: "s", Transcript: "/" + strings.Repeat("d", 5000)}, {Session: "s", WorktreePath: "/" + strings.Repeat("d", 5000)},
	} {
		if err := p.Check(); segno.KindOf(err) != segno.KindInvalid {
			t.Errorf("%.40q: %v", p.Session, err)
		}
	}
	for _, id := range []segno.SessionID{"", "11111111-0000-4000-8000-000000000001", "a.b_c-d"} {
		if err := (Payload{Session: id}).Check(); err != nil {
			t.Errorf("%q: %v", id, err)
		}
	}
}

// TestLogFollowsNoLink puts a symlink and a FIFO in the log's place.
func TestLogFollowsNoLink(t *testing.T) {
	dir := t.TempDir()
	target := filepath.Join(dir, "target")
	if err := os.WriteFile(target, []byte("mine\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	log := Log{Store: filepath.Join(dir, "store")}
	if err := os.Mkdir(log.Store, 0o700); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(log.Store, "hook.log")
	if err := os.Symlink(target, name); err != nil {
		t.Fatal(err)
	}
	log.Append("Stop", "s", errors.New("something"))
	if data, err := os.ReadFile(target); err != nil || string(data) != "mine\n" {
		t.Errorf("the target has %q, %v", data, err)
	}
	if lines, err := log.Failures(10); err == nil {
		t.Errorf("the log was read through the link: %v", lines)
	}
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	log.Append("Stop", "s", errors.New("something"))
	if lines, err := log.Failures(10); err == nil {
		t.Errorf("the FIFO was read: %v", lines)
	}
}

// TestTheTimeOfAFileBeforeACall records calls of tools that write one file, several files, or any.
func TestTheTimeOfAFileBeforeACall(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	fi, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	changed := fi.ModTime() // the ctime of a new file is the same
	many := []string{""}
	for i := range maxFiles + 1 {
		many = append(many, fmt.Sprint("f", i))
	}
	for name, tc := range map[string]struct {
		tool, input string
		want        []*time.Time
	}{
		"a file":                    {"Write", `{"file_path":"` + file + `","content":"x"}`, []*time.Time{&changed}},
		"one relative to the agent": {"Edit", `{"file_path":"a","old_string":"","new_string":"x"}`, []*time.Time{&changed}},
		"a new file":                {"Write", `{"file_path":"` + file + `.new","content":"x"}`, []*time.Time{{}}},
		"a long input":              {"Write", `{"file_path":"a","content":"` + strings.Repeat("x", 2*segno.MaxUnclipped) + `"}`, []*time.Time{&changed}},
		"a file below a file":       {"Write", `{"file_path":"a/b","content":"x"}`, []*time.Time{nil}},
		"a patch of two files":      {"apply_patch", `{"command":"*** Begin Patch\n*** Delete File: a\n*** Delete File: b\n*** End Patch"}`, []*time.Time{&changed, {}}},
		"a patch of many files":     {"apply_patch", `{"command":"*** Begin Patch` + strings.Join(many, `\n*** Delete File: `) + `\n*** End Patch"}`, nil},
		"a command":                 {"Bash", `{"command":"cat a"}`, nil},
		"a tool that reads":         {"Read", `{"file_path":"a"}`, nil},
		"a tool without a file":     {"Write", `{"content":"x"}`, nil},
	} {
		p := Payload{Event: "PreToolUse", Cwd: dir, ToolCall: ToolCall{ToolName: tc.tool, ToolInput: []byte(tc.input)}}
		same := func(a, b *time.Time) bool { return a == nil && b == nil || a != nil && b != nil && a.Equal(*b) }
		if got := turns.ReadIntent(p.intent()).Changed; !slices.EqualFunc(got, tc.want, same) {
			t.Errorf("%s: changed at %v, want %v", name, got, tc.want)
		}
	}
}
