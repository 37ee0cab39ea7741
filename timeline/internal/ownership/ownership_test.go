package ownership

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/dalsegno/segno"
)

// at converts seconds to a time. Every time has a fraction of a second, as those of most file systems.
func at(seconds float64) time.Time {
	return time.Unix(1e9, int64(seconds*float64(time.Second))+1)
}

func hash(text string) segno.Hash { return segno.HashOf([]byte(text)) }

// changed returns a change of a file to a content. removed returns its deletion.
func changed(path, content string) segno.Change {
	c := segno.Change{Path: path}
	c.From.Type, c.From.Hash = segno.EntityFile, hash("before")
	c.To.Type, c.To.Hash = segno.EntityFile, hash(content)
	return c
}

func removed(path string) segno.Change {
	c := changed(path, "")
	c.To = segno.Entity{}
	return c
}

// replaced returns a change of a file to another type of entity.
func replaced(path string, by segno.EntityType) segno.Change {
	c := changed(path, "")
	c.To = segno.Entity{Type: by}
	return c
}

// call returns the entries of a call that ran between two times.
func call(id, tool string, from, to float64, input map[string]any) []segno.Entry {
	body, err := json.Marshal(input)
	if err != nil {
		panic(err)
	}
	return []segno.Entry{
		{Kind: segno.EntryIntent, ID: id, Name: tool, Time: at(from), Body: body},
		{Kind: segno.EntryResult, ID: id, Name: tool, Time: at(to), Body: json.RawMessage(`{"response":"ok"}`)},
	}
}

func file(name string) map[string]any { return map[string]any{"file_path": "/p/" + name} }

func command(text string) map[string]any { return map[string]any{"command": text} }

// TestOwnerOfAChange is the table of the ownership rule. Each turn works from 0 to 100.
func TestOwnerOfAChange(t *testing.T) {
	written := map[string]any{"file_path": "/p/a", "content": "by the tool"}
	patch := command("cd sub && apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: x\n+1\n*** End Patch\nEOF")
	for name, tc := range map[string]struct {
		entries []segno.Entry
		in      Context
		change  segno.Change
		touched float64
		moved   bool
		want    Owner
	}{
		"no calls":                              {change: changed("a", "x"), touched: 50, want: Other},
		"no time":                               {change: changed("a", "x"), touched: -1e9, want: Doubt},
		"named, during the call":                {entries: call("1", "Edit", 10, 12, file("a")), change: changed("a", "x"), touched: 11, want: Turn},
		"named, at the kernel's tick before":    {entries: call("1", "Edit", 10, 12, file("a")), change: changed("a", "x"), touched: 9.995, want: Turn},
		"named, before the call":                {entries: call("1", "Edit", 10, 12, file("a")), change: changed("a", "x"), touched: 9, want: Other},
		"named, in a late message":              {entries: call("1", "Edit", 10, 12, file("a")), in: Context{Delay: 2 * time.Second}, change: changed("a", "x"), touched: 5, want: Doubt},
		"written, in a late message":            {entries: call("1", "Write", 10, 12, written), in: Context{Delay: 2 * time.Second}, change: changed("a", "by the tool"), touched: 5, want: Turn},
		"written, before the hook":              {entries: call("1", "Write", 10, 12, written), change: changed("a", "by the tool"), touched: 5, want: Other},
		"another file, in a late message":       {entries: call("1", "Edit", 10, 12, file("a")), in: Context{Delay: 2 * time.Second}, change: changed("b", "x"), touched: 5, want: Other},
		"named, after the call":                 {entries: append(call("1", "Edit", 10, 12, file("a")), call("2", "Read", 20, 21, file("b"))...), change: changed("a", "x"), touched: 30, want: Doubt},
		"named, until the turn goes on":         {entries: append(call("1", "Edit", 10, 12, file("a")), call("2", "Read", 20, 21, file("b"))...), change: changed("a", "x"), touched: 15, want: Turn},
		"named, after its turn was recorded":    {entries: append(call("1", "Edit", 10, 12, file("a")), call("2", "Read", 20, 21, file("b"))...), in: Context{Recorded: at(12)}, change: changed("a", "x"), touched: 15, want: Doubt},
		"named, by a call after the recorded":   {entries: append(call("1", "Edit", 10, 14, file("a")), call("2", "Read", 20, 21, file("b"))...), in: Context{Recorded: at(12)}, change: changed("a", "x"), touched: 15, want: Turn},
		"named, until another turn goes on":     {entries: append(call("1", "Edit", 10, 12, file("a")), call("2", "Read", 20, 21, file("b"))...), in: Context{Beside: call("3", "Bash", 13, 16, command("make"))}, change: changed("a", "x"), touched: 15, want: Doubt},
		"named, with the content of the tool":   {entries: append(call("1", "Write", 10, 12, written), call("2", "Read", 20, 21, file("b"))...), change: changed("a", "by the tool"), touched: 30, want: Turn},
		"another file, during the call":         {entries: call("1", "Edit", 10, 12, file("a")), change: changed("b", "x"), touched: 11, want: Other},
		"a file of the same name elsewhere":     {entries: call("1", "Edit", 10, 12, file("sub/a")), change: changed("a", "x"), touched: 11, want: Other},
		"content that mentions another file":    {entries: call("1", "Write", 10, 12, map[string]any{"file_path": "/p/a", "content": "see b"}), change: changed("b", "x"), touched: 50, want: Other},
		"below a file that a tool wrote":        {entries: call("1", "Write", 10, 12, written), change: changed("a/b", "x"), touched: 15, want: Other},
		"a directory in place of the file":      {entries: call("1", "Write", 10, 12, written), change: replaced("a", segno.EntityDir), touched: 15, want: Other},
		"a symlink in place of the file":        {entries: call("1", "Edit", 10, 12, file("a")), change: replaced("a", segno.EntitySymlink), touched: 15, want: Other},
		"a symlink by a command":                {entries: call("1", "Bash", 10, 12, command("ln -sf b a")), change: replaced("a", segno.EntitySymlink), touched: 11, want: Turn},
		"read, during the call":                 {entries: call("1", "Read", 10, 12, file("a")), change: changed("a", "x"), touched: 11, want: Other},
		"listed by OpenCode":                    {entries: call("1", "list", 10, 12, map[string]any{"path": "/p"}), change: changed("a", "x"), touched: 11, want: Other},
		"searched by OpenCode":                  {entries: call("1", "grep", 10, 12, map[string]any{"path": "/p/a"}), change: changed("a", "x"), touched: 50, want: Other},
		"read by Gemini CLI":                    {entries: call("1", "read_file", 10, 12, file("a")), change: changed("a", "x"), touched: 11, want: Other},
		"a command, during it":                  {entries: call("1", "Bash", 10, 12, command("make")), change: changed("a", "x"), touched: 11, want: Ran},
		"a command, before it":                  {entries: call("1", "Bash", 10, 12, command("make")), change: changed("a", "x"), touched: 9, want: Other},
		"a command, after it":                   {entries: call("1", "Bash", 10, 12, command("make")), change: changed("a", "x"), touched: 13, want: Other},
		"a command that names it, after it":     {entries: append(call("1", "Bash", 10, 12, command("sed -i s/x/y/ a")), call("2", "Read", 20, 21, file("b"))...), change: changed("a", "x"), touched: 30, want: Doubt},
		"the same, in the session's directory":  {entries: call("1", "Bash", 10, 12, command("sed -i s/x/y/ a")), in: Context{Dir: "/p/sub"}, change: changed("sub/a", "x"), touched: 30, want: Doubt},
		"the same, in another directory":        {entries: call("1", "Bash", 10, 12, command("sed -i s/x/y/ a")), in: Context{Dir: "/p"}, change: changed("sub/a", "x"), touched: 30, want: Other},
		"the same, in the directory of Gemini":  {entries: call("", "run_shell_command", 10, 12, map[string]any{"command": "sed -i s/x/y/ a", "dir_path": "sub"}), in: Context{Dir: "/p"}, change: changed("sub/a", "x"), touched: 30, want: Doubt},
		"the same, in that of OpenCode":         {entries: call("1", "bash", 10, 12, map[string]any{"command": "sed -i s/x/y/ a", "workdir": "/p/sub"}), in: Context{Dir: "/p"}, change: changed("sub/a", "x"), touched: 30, want: Doubt},
		"the same, after cd":                    {entries: call("1", "Bash", 10, 12, command("cd sub && sed -i s/x/y/ a")), in: Context{Dir: "/p"}, change: changed("sub/a", "x"), touched: 30, want: Doubt},
		"an MCP call, during it":                {entries: call("1", "mcp__files__get", 10, 12, nil), change: changed("a", "x"), touched: 11, want: Ran},
		"an unknown tool, during it":            {entries: call("1", "frobnicate", 10, 12, nil), change: changed("a", "x"), touched: 11, want: Ran},
		"a tool that names no file":             {entries: call("1", "edit", 10, 12, map[string]any{"title": "Edit"}), change: changed("a", "x"), touched: 11, want: Ran},
		"gone, with tools that keep files":      {entries: call("1", "Edit", 10, 12, file("a")), change: removed("a"), touched: 11, want: Other},
		"gone, during a command":                {entries: call("1", "Bash", 10, 12, command("make clean")), change: removed("a"), touched: 11, want: Ran},
		"gone, after a command":                 {entries: call("1", "Bash", 10, 12, command("make")), change: removed("a"), touched: 50, want: Doubt},
		"gone, before a command":                {entries: call("1", "Bash", 10, 12, command("make")), change: removed("a"), touched: 5, want: Other},
		"gone, named by a command that deletes": {entries: call("1", "Bash", 10, 12, command("rm a")), change: removed("a"), touched: 50, want: Turn},
		"gone, by a patch":                      {entries: call("1", "apply_patch", 10, 12, command("*** Begin Patch\n*** Delete File: a\n*** End Patch")), change: removed("a"), touched: 50, want: Turn},
		"a killed command, before the end":      {entries: call("1", "Bash", 10, 12, command("make"))[:1], in: Context{}, change: changed("a", "x"), touched: 50, want: Ran},
		"a killed command, after the end":       {entries: call("1", "Bash", 10, 12, command("make"))[:1], in: Context{}, change: changed("a", "x"), touched: 101, want: Doubt},
		"a denied command":                      {entries: call("1", "Bash", 10, 12, command("make"))[:1], in: Context{Resolved: true}, change: changed("a", "x"), touched: 11, want: Other},
		"a refused command":                     {entries: call("1", "Bash", 10, 12, command("make")), in: Context{Refused: map[string]bool{"1": true}}, change: changed("a", "x"), touched: 11, want: Other},
		"before the user permitted it":          {entries: call("1", "Bash", 10, 60, command("make")), in: Context{Permitted: map[string]time.Time{"1": at(50)}}, change: changed("a", "x"), touched: 30, want: Other},
		"after the user permitted it":           {entries: call("1", "Bash", 10, 60, command("make")), in: Context{Permitted: map[string]time.Time{"1": at(50)}}, change: changed("a", "x"), touched: 55, want: Ran},
		"announced after it, while it ran":      {entries: call("1", "execute", 59, 60, command("make")), in: Context{Permitted: map[string]time.Time{"1": at(10)}, Delay: 2 * time.Second}, change: changed("a", "x"), touched: 20, want: Ran},
		"announced after it, before it":         {entries: call("1", "execute", 59, 60, command("make")), in: Context{Permitted: map[string]time.Time{"1": at(10)}, Delay: 2 * time.Second}, change: changed("a", "x"), touched: 9, want: Other},
		"a message on its way":                  {entries: call("1", "execute", 10, 12, command("make")), in: Context{Delay: 2 * time.Second}, change: changed("a", "x"), touched: 9, want: Ran},
		"a process that goes on":                {entries: call("1", "Bash", 10, 12, command("npm start &")), in: Context{Left: at(100)}, change: changed("a", "x"), touched: 50, want: Ran},
		"the newest call, until the end":        {entries: call("1", "Edit", 10, 12, file("a")), in: Context{Left: at(100)}, change: changed("a", "x"), touched: 50, want: Turn},
		"the newest call, after the end":        {entries: call("1", "Edit", 10, 12, file("a")), in: Context{Left: at(100)}, change: changed("a", "x"), touched: 101, want: Doubt},
		"gone, after a command that names it":   {entries: call("1", "Bash", 10, 12, command("cat a")), in: Context{Left: at(100)}, change: removed("a"), touched: 50, want: Doubt},
		"without an id, during it":              {entries: call("", "run_shell_command", 10, 12, command("make")), change: changed("a", "x"), touched: 11, want: Ran},
		"without an id, after it":               {entries: call("", "run_shell_command", 10, 12, command("make")), change: changed("a", "x"), touched: 13, want: Other},
		"without ids, the first of two ended":   {entries: twoAtOnce(), change: changed("a", "x"), touched: 15, want: Ran},
		"without ids, both ended":               {entries: twoAtOnce(), change: changed("a", "x"), touched: 25, want: Other},
		"without an id, in the background":      {entries: call("", "run_shell_command", 10, 12, map[string]any{"command": "make", "is_background": true}), in: Context{Left: at(100)}, change: changed("a", "x"), touched: 50, want: Ran},
		"in the background, without a task":     {entries: call("1", "Bash", 10, 12, map[string]any{"command": "make", "run_in_background": true}), in: Context{Left: at(100)}, change: changed("a", "x"), touched: 50, want: Ran},
		"in the background, its task ended":     {entries: started(call("1", "Bash", 10, 12, map[string]any{"command": "make", "run_in_background": true})), in: Context{Left: at(100), Tasks: map[string]time.Time{"b1": at(40)}}, change: changed("a", "x"), touched: 50, want: Other},
		"a patch that Codex applied, soon":      {entries: append(call("1", "Bash", 10, 12, patch)[:1], call("2", "Read", 20, 21, file("b"))...), change: changed("a", "x"), touched: 11, want: Ran},
		"the same, long after it":               {entries: append(call("1", "Bash", 10, 12, patch)[:1], call("2", "Read", 20, 21, file("b"))...), change: changed("a", "x"), touched: 40, want: Other},
		"the same, beside another call":         {entries: append(call("1", "Bash", 10, 12, patch)[:1], call("2", "Read", 10.5, 21, file("b"))...), change: changed("a", "x"), touched: 11, want: Ran},
		"the same, as the newest call":          {entries: call("1", "Bash", 10, 12, patch)[:1], in: Context{End: at(100)}, change: changed("a", "x"), touched: 40, want: Ran},
		"a patch that failed, long after it":    {entries: append(call("1", "apply_patch", 10, 12, command("*** Begin Patch\n*** Update File: a\n*** End Patch"))[:1], call("2", "Read", 20, 21, file("b"))...), change: changed("a", "x"), touched: 40, want: Doubt},
		"a patch that runs behind the proxy":    {entries: call("1", "apply_patch", 10, 12, command("*** Begin Patch\n*** Update File: a\n*** End Patch"))[:1], in: Context{Delay: 2 * time.Second, End: at(100)}, change: changed("a", "x"), touched: 40, want: Turn},
		"two commands in a row":                 {entries: call("1", "Bash", 10, 12, command("cd x && make 2>&1")), in: Context{Left: at(100)}, change: changed("a", "x"), touched: 50, want: Other},
		"in a directory that was renamed":       {entries: call("1", "Write", 10, 12, file("d/a")), change: changed("e/a", "x"), touched: 11, moved: true, want: Turn},
		"a failed edit, before the next call":   {entries: failed(call("1", "Edit", 10, 12, file("a")), call("2", "Read", 20, 21, file("b"))), change: changed("a", "x"), touched: 15, want: Other},
		"a directory that a command names":      {entries: call("1", "Bash", 10, 12, command("ls src")), in: Context{Left: at(100)}, change: changed("src/a", "x"), touched: 50, want: Other},
		"the same, during it":                   {entries: call("1", "Bash", 10, 12, command("make -C src")), change: changed("src/a", "x"), touched: 11, want: Turn},
		"the same, gone after it":               {entries: call("1", "Bash", 10, 12, command("ls src")), change: removed("src/a"), touched: 50, want: Doubt},
		"the same, removed by it":               {entries: call("1", "Bash", 10, 12, command("rm -rf src")), change: removed("src/a"), touched: 50, want: Turn},
		"a path that a command names, at once":  {entries: call("1", "Bash", 10, 12, command("cat a")), in: Context{Left: at(100)}, change: changed("a", "x"), touched: 15, want: Doubt},
		"a failed edit, after it":               {entries: failed(call("1", "Edit", 10, 12, file("a")), call("2", "Read", 20, 21, file("b"))), change: changed("a", "x"), touched: 30, want: Other},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.in.End.IsZero() && (len(tc.entries) != 1 || tc.in.Resolved) {
				tc.in.End = at(100)
			}
			e := Evidence{Calls: Calls(tc.entries, tc.in), Start: at(0), End: at(100), Root: "/p"}
			touch := Touch{At: at(tc.touched), Moved: tc.moved}
			if tc.touched == -1e9 {
				touch.At = time.Time{}
			}
			if got := e.Owner(tc.change, touch); got != tc.want {
				t.Errorf("the owner is %s, want %s", ownerName(got), ownerName(tc.want))
			}
		})
	}
}

// started returns a call with a result that names the background task b1.
func started(call []segno.Entry) []segno.Entry {
	call[1].Body = json.RawMessage(`{"response":{"backgroundTaskId":"b1"}}`)
	return call
}

// twoAtOnce returns two calls without ids, which run from 10 to 12 and from 11 to 20.
func twoAtOnce() []segno.Entry {
	one, two := call("", "run_shell_command", 10, 12, command("make")), call("", "run_shell_command", 11, 20, command("make x"))
	return []segno.Entry{one[0], two[0], one[1], two[1]}
}

func failed(call []segno.Entry, rest []segno.Entry) []segno.Entry {
	call[1].Body = json.RawMessage(`{"error":"File has been modified since read"}`)
	return append(call, rest...)
}

func ownerName(o Owner) string {
	return []string{"the turn", "the turn, while a command ran", "in doubt", "another author"}[o]
}

// TestWithoutCalls checks that all changes until the end belong to a turn whose calls are not
// known.
func TestWithoutCalls(t *testing.T) {
	e := Evidence{Whole: true, Start: at(0), End: at(100), Root: "/p"}
	for touched, want := range map[float64]Owner{1: Turn, 99.999: Turn, 101: Doubt} {
		if got := e.Owner(changed("a", "x"), Touch{At: at(touched)}); got != want {
			t.Errorf("touched at %v: %s, want %s", touched, ownerName(got), ownerName(want))
		}
	}
	e.Exact = true
	if got := e.Owner(changed("a", "x"), Touch{At: at(99.999)}); got != Doubt {
		t.Errorf("at the end: %s", ownerName(got))
	}
}

// TestNamesChange is the table of the changes that are named, and so not marked as made while a command ran.
func TestNamesChange(t *testing.T) {
	for _, tc := range []struct {
		tool   string
		input  map[string]any
		change segno.Change
		want   bool
	}{
		{"Bash", command("go test ./src"), changed("src/a", "x"), false},
		{"Bash", command("touch src/a"), changed("src/a", "x"), true},
		{"Bash", command("rm -rf src"), removed("src/a"), true},
		{"Bash", command("rm -rf src"), changed("src/a", "x"), false},
		{"Bash", command("ls src"), removed("src/a"), false},
		{"delete", map[string]any{"path": "/p/src"}, removed("src/a"), true},
		{"Edit", file("src/a"), changed("src/a", "x"), true},
	} {
		if got := turn(call("1", tc.tool, 10, 12, tc.input)).NamesChange(tc.change); got != tc.want {
			t.Errorf("%s %v: %v, want %v", tc.tool, tc.input, got, tc.want)
		}
	}
}

// TestWholeSeconds checks that the writes of a command are the turn's on a file system that stores times in whole
// seconds, or in every other one. They look older than the command, or than the turn.
func TestWholeSeconds(t *testing.T) {
	stored := func(seconds int64) time.Time { return time.Unix(1e9+seconds, 0) }
	e := Evidence{Calls: Calls(call("1", "Bash", 11.5, 11.7, command("make")), Context{End: at(100)}), Start: at(10.5), End: at(100), Root: "/p"}
	for touched, want := range map[time.Time]Owner{stored(8): Other, stored(10): Ran, stored(11): Ran, stored(12): Other} {
		x := changed("a", "x")
		if got := e.Owner(x, Touch{At: touched}); got != want {
			t.Errorf("touched at %v: %s, want %s", touched, ownerName(got), ownerName(want))
		}
		times := Times{"a": touched, ".": at(-5)}
		if d := Divide([]segno.Change{x}, times, e.Start, e.Owner); want == Ran && (len(d.Turn) != 1 || e.ClocksDiffer([]segno.Change{x}, times, at(100))) {
			t.Errorf("touched at %v: %+v", touched, d)
		}
	}
}

// TestPermissionIsNoWork checks that a hooked call begins at its end minus its duration. Before that, the user may have
// thought about the permission for a long time.
func TestPermissionIsNoWork(t *testing.T) {
	entries := call("1", "Bash", 10, 60, command("make"))
	entries[1].Body = json.RawMessage(`{"response":"ok","duration_ms":2000}`)
	e := Evidence{Calls: Calls(entries, Context{End: at(100)}), End: at(100), Root: "/p"}
	for touched, want := range map[float64]Owner{20: Other, 58: Ran, 60: Ran} {
		if got := e.Owner(changed("a", "x"), Touch{At: at(touched)}); got != want {
			t.Errorf("touched at %v: %s, want %s", touched, ownerName(got), ownerName(want))
		}
	}
}

// TestReplay applies the inputs of calls to a file.
func TestReplay(t *testing.T) {
	edit := func(old, text string, more ...any) map[string]any {
		in := map[string]any{"file_path": "/p/a", "old_string": old, "new_string": text}
		for i := 0; i < len(more); i += 2 {
			in[more[i].(string)] = more[i+1]
		}
		return in
	}
	patch := func(text string) map[string]any {
		return map[string]any{"command": "*** Begin Patch\n" + text + "*** End Patch"}
	}
	for name, tc := range map[string]struct {
		tools []string
		input []map[string]any
		want  string // "" if the inputs do not show it
	}{
		"an edit":                    {[]string{"Edit"}, []map[string]any{edit("one", "1")}, "1 two two\n"},
		"two edits":                  {[]string{"Edit", "Edit"}, []map[string]any{edit("one", "1"), edit("1 two", "2")}, "2 two\n"},
		"an edit at two places":      {[]string{"Edit"}, []map[string]any{edit("two", "2")}, ""},
		"an edit at all places":      {[]string{"Edit"}, []map[string]any{edit("two", "2", "replace_all", true)}, "one 2 2\n"},
		"an edit that does not fit":  {[]string{"Edit"}, []map[string]any{edit("three", "3")}, ""},
		"a write, and an edit":       {[]string{"Write", "Edit"}, []map[string]any{{"file_path": "/p/a", "content": "new one"}, edit("one", "1")}, "new 1"},
		"several edits":              {[]string{"MultiEdit"}, []map[string]any{{"file_path": "/p/a", "edits": []any{edit("one", "1"), edit("1 two", "x")}}}, "x two\n"},
		"of OpenCode":                {[]string{"edit"}, []map[string]any{{"filePath": "/p/a", "oldString": "one", "newString": "1"}}, "1 two two\n"},
		"of Gemini CLI":              {[]string{"replace"}, []map[string]any{edit("two", "2", "expected_replacements", 2)}, "one 2 2\n"},
		"of the protocol":            {[]string{"Edit"}, []map[string]any{{"title": "Edit a", "kind": "edit", "input": edit("one", "1")}}, "1 two two\n"},
		"a command that names it":    {[]string{"Edit", "Bash"}, []map[string]any{edit("one", "1"), command("gofmt -w a")}, "1 two two\n"},
		"a patch":                    {[]string{"apply_patch"}, []map[string]any{patch("*** Update File: /p/a\n@@\n-one two two\n+1\n")}, "1\n"},
		"a patch of several files":   {[]string{"apply_patch"}, []map[string]any{patch("*** Delete File: /p/b\n*** Update File: /p/a\n@@ x\n one two two\n+3\n*** Add File: /p/c\n+c\n")}, "one two two\n3\n"},
		"two hunks":                  {[]string{"apply_patch"}, []map[string]any{patch("*** Update File: /p/a\n@@\n-one two two\n+1\n+2\n@@\n 1\n-2\n+3\n")}, "1\n3\n"},
		"a patch, and an edit":       {[]string{"apply_patch", "Edit"}, []map[string]any{patch("*** Add File: /p/a\n+new one\n"), edit("one", "1")}, "new 1\n"},
		"a patch of a part of lines": {[]string{"apply_patch"}, []map[string]any{patch("*** Update File: /p/a\n@@\n-two two\n+2\n")}, ""},
		"a patch that moves it":      {[]string{"apply_patch"}, []map[string]any{patch("*** Update File: /p/b\n*** Move to: /p/a\n@@\n-one two two\n+1\n")}, ""},
		"a patch without context":    {[]string{"apply_patch"}, []map[string]any{patch("*** Update File: /p/a\n@@\n+1\n")}, ""},
		"a patch of repeated lines":  {[]string{"apply_patch"}, []map[string]any{patch("*** Update File: /p/a\n@@\n one two two\n+one two two\n@@\n-one two two\n+1\n")}, ""},
		"a patch that was too long":  {[]string{"apply_patch", "Edit"}, []map[string]any{{"command": "*** Begin Patch\n*** Add File: /p/a\n"}, edit("", "x")}, ""},
		"a notebook":                 {[]string{"NotebookEdit"}, []map[string]any{{"notebook_path": "/p/a", "new_source": "x"}}, ""},
		"an input that was too long": {[]string{"Write"}, []map[string]any{{"file_path": "/p/a", "clipped": map[string]any{"head": "x"}}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var entries []segno.Entry
			for i, tool := range tc.tools {
				entries = append(entries, call(fmt.Sprint(i), tool, float64(10*i), float64(10*i+1), tc.input[i])...)
			}
			e := Evidence{Calls: Calls(entries, Context{End: at(100)}), Root: "/p"}
			got, end := "", at(float64(10*len(tc.tools)-9))
			if l, ok := e.LinesOf(changed("a", "x"), end, &Division{Turn: []string{"a"}}); ok && l.Replays {
				if after, ok := e.Replay("a", []byte("one two two\n")); ok {
					got = string(after)
				}
			}
			if got != tc.want {
				t.Errorf("the file is %q, want %q", got, tc.want)
			}
		})
	}
}

// TestClocks compares times of the file system with those of a turn.
func TestClocks(t *testing.T) {
	e := Evidence{Calls: Calls(call("1", "Write", 10, 12, map[string]any{"file_path": "/p/a", "content": "x"}), Context{End: at(100)}), Start: at(0), Root: "/p"}
	for name, tc := range map[string]struct {
		path, content string
		times         Times
		want          bool
	}{
		"in time":              {"a", "x", Times{"a": at(11), ".": at(11)}, false},
		"behind":               {"b", "x", Times{"b": at(-5), ".": at(-5)}, true},
		"ahead":                {"b", "x", Times{"b": at(101), ".": at(101)}, true},
		"written before":       {"a", "x", Times{"a": at(5), ".": at(5)}, true},
		"moved here":           {"d/b", "x", Times{"d/b": at(-50), "d": at(20), ".": at(-5)}, false},
		"without a time":       {"b", "x", Times{"b": {}, ".": at(-5)}, false},
		"a tick before begins": {"b", "x", Times{"b": at(-0.005), ".": at(-5)}, false},
	} {
		if got := e.ClocksDiffer([]segno.Change{changed(tc.path, tc.content)}, tc.times, at(100)); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestNextOfCallsOutOfOrder reads entries that arrived late. A turn continues after a call at the first later time in the order of the entries.
func TestNextOfCallsOutOfOrder(t *testing.T) {
	entries := slices.Concat(call("1", "Write", 10, 12, map[string]any{"file_path": "/p/a"}), call("2", "Write", 30, 31, map[string]any{"file_path": "/p/b"}),
		call("3", "Write", 20, 21, map[string]any{"file_path": "/p/c"}))
	var got []time.Time
	for _, c := range Calls(entries, Context{End: at(100), Left: at(90)}) {
		got = append(got, c.Next)
	}
	if want := []time.Time{at(30), at(90), at(30)}; !slices.EqualFunc(got, want, time.Time.Equal) {
		t.Errorf("the turn continued at %v, want %v", got, want)
	}
}

// TestATurnOfManyCalls reads the calls of a very long turn, and removes many paths from many. If the time of either grew with the square
// of the number, the test would take seconds.
func TestATurnOfManyCalls(t *testing.T) {
	const n = 40_000
	var entries []segno.Entry
	var paths []string
	var changes []segno.Change
	for i := range n {
		id, name := fmt.Sprint(i), fmt.Sprint("directory/of/files/", i)
		entries = append(entries, segno.Entry{Kind: segno.EntryIntent, ID: id, Name: "Write", Time: at(float64(2 * i))},
			segno.Entry{Kind: segno.EntryResult, ID: id, Name: "Write", Time: at(float64(2*i + 1))})
		paths, changes = append(paths, name), append(changes, segno.Change{Path: name, To: segno.Entity{Type: segno.EntityFile}})
	}
	calls := Calls(entries, Context{End: at(2 * n)})
	if len(calls) != n || !calls[n-2].Next.Equal(at(2*n-2)) || !calls[n-1].Next.IsZero() {
		t.Errorf("%d calls, the last are %+v", len(calls), calls[max(0, len(calls)-2):])
	}
	changes[0].To.Type = segno.EntityDir
	if got := WithoutChanged(append(paths, "other"), changes); !slices.Equal(got, []string{paths[0], "other"}) {
		t.Errorf("%d paths remain", len(got))
	}
}
