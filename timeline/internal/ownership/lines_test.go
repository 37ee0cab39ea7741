package ownership

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history/turns"
)

// seen adds to a call when its file changed last before it.
func seen(call []segno.Entry, changed time.Time) []segno.Entry {
	call[0].Body = turns.WithChanged(call[0].Body, []*time.Time{&changed})
	return call
}

// TestVerdict is the table of the authors of the lines in the file a. Each turn works from 0 to 100. Its tools edit the file,
// and the file then differs from their results.
func TestVerdict(t *testing.T) {
	edit := func(id string, from float64) []segno.Entry {
		return call(id, "Edit", from, from+1, map[string]any{"file_path": "/p/a", "old_string": "x", "new_string": "y"})
	}
	format := call("f", "edit", 30, 32, map[string]any{"filePath": "/p/a", "oldString": "x", "newString": "y"})
	write := call("w", "Write", 30, 31, map[string]any{"file_path": "/p/a", "content": "all"})
	run := func(from float64, text string) []segno.Entry { return call("c", "Bash", from, from+2, command(text)) }
	look := call("r", "Read", 60, 61, file("a"))
	apart, here, misfit := Comparison{Fits: true, Apart: true}, Comparison{Fits: true}, Comparison{}
	same := Comparison{Fits: true, Same: true}
	old := at(-50)
	for name, tc := range map[string]struct {
		calls   [][]segno.Entry
		touched float64
		got     Comparison
		want    Verdict
	}{
		"nothing but the tool":                     {[][]segno.Entry{seen(edit("1", 30), old)}, 30.5, same, Unchanged},
		"after the tool, apart":                    {[][]segno.Entry{seen(edit("1", 30), old)}, 40, apart, Split},
		"after the tool, in the same place":        {[][]segno.Entry{seen(edit("1", 30), old)}, 40, here, Unchanged},
		"after the next call":                      {[][]segno.Entry{seen(edit("1", 30), old), look}, 70, apart, Split},
		"after the next call, in the same place":   {[][]segno.Entry{seen(edit("1", 30), old), look}, 70, here, Split},
		"after the next call, and no edit fits":    {[][]segno.Entry{seen(edit("1", 30), old), look}, 70, misfit, Unchanged},
		"before the tool, apart":                   {[][]segno.Entry{seen(edit("1", 30), at(20))}, 30.5, apart, Split},
		"before the tool, in the same place":       {[][]segno.Entry{seen(edit("1", 30), at(20))}, 30.5, here, InDoubt},
		"before the tool, and no edit fits":        {[][]segno.Entry{seen(edit("1", 30), at(20))}, 30.5, misfit, InDoubt},
		"before the tool, overwritten":             {[][]segno.Entry{seen(edit("1", 30), at(20))}, 30.5, same, Unchanged},
		"a whole file over it":                     {[][]segno.Entry{seen(slices.Clone(write), at(20))}, 30.5, same, InDoubt},
		"a whole file over the turn's":             {[][]segno.Entry{seen(edit("1", 20), old), seen(slices.Clone(write), at(21))}, 30.5, same, Unchanged},
		"a whole file after it was removed":        {[][]segno.Entry{seen(edit("1", 20), at(10)), seen(slices.Clone(write), time.Time{})}, 30.5, same, Unchanged},
		"after a command, before the tool":         {[][]segno.Entry{run(10, "true"), seen(edit("1", 30), at(20))}, 30.5, apart, Split},
		"after a command that reads it":            {[][]segno.Entry{run(10, "cat a"), seen(edit("1", 30), at(20))}, 30.5, apart, Split},
		"after a command that writes it":           {[][]segno.Entry{run(10, "sed -i s/x/y/ a"), seen(edit("1", 30), at(20))}, 30.5, apart, InDoubt},
		"the same, and then by a command":          {[][]segno.Entry{seen(slices.Clone(write), time.Time{}), run(40, "make")}, 41, apart, Unchanged},
		"while a command ran, before the tool":     {[][]segno.Entry{run(10, "make"), seen(edit("1", 30), at(11))}, 30.5, apart, Unchanged},
		"while a command ran, and no edit fits":    {[][]segno.Entry{run(10, "make"), seen(edit("1", 30), at(11))}, 30.5, misfit, Unchanged},
		"by a command, and later by another":       {[][]segno.Entry{run(10, "make"), seen(edit("1", 30), at(11)), seen(edit("2", 50), at(40)), look}, 70, apart, Unchanged},
		"by another, and later by a command":       {[][]segno.Entry{seen(edit("1", 30), at(20)), run(40, "make")}, 41, apart, InDoubt},
		"by a command after the tool":              {[][]segno.Entry{seen(edit("1", 30), old), run(40, "make")}, 41, apart, Unchanged},
		"by a command, and after the tool, apart":  {[][]segno.Entry{run(10, "make"), seen(edit("1", 30), at(11))}, 40, apart, InDoubt},
		"by a command, and a clock that is behind": {[][]segno.Entry{run(10, "make"), seen(edit("1", 30), at(11)), seen(edit("2", 50), at(30.5))}, 49.996, apart, Unchanged},
		"the same, in the same place":              {[][]segno.Entry{run(10, "make"), seen(edit("1", 30), at(11))}, 40, here, Unchanged},
		"a formatter, and no edit fits":            {[][]segno.Entry{seen(edit("1", 30), old), seen(edit("2", 50), at(40))}, 50.5, misfit, Unchanged},
		"the time is not known, apart":             {[][]segno.Entry{edit("1", 30)}, 30.5, apart, Split},
		"not known, in the same place":             {[][]segno.Entry{edit("1", 30)}, 30.5, here, Unchanged},
		"not known, and no edit fits":              {[][]segno.Entry{edit("1", 30)}, 30.5, misfit, InDoubt},
		"not known, and the second does not fit":   {[][]segno.Entry{edit("1", 30), edit("2", 50)}, 50.5, misfit, Unchanged},
		"not known, after a command, apart":        {[][]segno.Entry{run(10, "make"), edit("1", 30)}, 30.5, apart, InDoubt},
		"not known, a command, in the same place":  {[][]segno.Entry{run(10, "make"), edit("1", 30)}, 30.5, here, Unchanged},
		"not known, a command, no edit fits":       {[][]segno.Entry{run(10, "make"), edit("1", 30)}, 30.5, misfit, Unchanged},
		"not known, while a command ran":           {[][]segno.Entry{edit("1", 30), run(40, "make fmt")}, 41, apart, Unchanged},
		"OpenCode formats what it wrote":           {[][]segno.Entry{seen(slices.Clone(format), old)}, 31.5, apart, Unchanged},
		"the same, after another author":           {[][]segno.Entry{seen(slices.Clone(format), at(20))}, 31.5, apart, Split},
		"the same, and another author after it":    {[][]segno.Entry{seen(slices.Clone(format), old), look}, 70, apart, Split},
		"the same, and a formatter of the user":    {[][]segno.Entry{seen(slices.Clone(format), old)}, 40, apart, Split},
		"not known, a whole file":                  {[][]segno.Entry{slices.Clone(write)}, 30.5, same, Unchanged},
	} {
		t.Run(name, func(t *testing.T) {
			e := turn(tc.calls...)
			e.Calls = Calls(slices.Concat(tc.calls...), Context{End: at(100), Left: at(100)})
			x := changed("a", "present")
			parts := Divide([]segno.Change{x}, Times{"a": at(tc.touched), ".": at(-90)}, e.Start, e.Owner)
			l, ok := e.LinesOf(x, at(tc.touched), &parts)
			if !ok {
				t.Fatalf("no lines are examined: %+v", parts)
			}
			if got := l.Verdict(tc.got); got != tc.want {
				t.Errorf("the verdict is %d, want %d: %+v", got, tc.want, l)
			}
		})
	}
}

// TestUnnamed checks that a command that names the file does not make it one that no tool named, also if the clock of the file
// system is behind that of the process that recorded the beginning of the command.
func TestUnnamed(t *testing.T) {
	for _, tc := range []struct {
		command string
		touched float64
		want    bool
	}{{"echo more >> a", 41, false}, {"echo more >> a", 39.996, false}, {"make", 41, true}, {"make", 39.996, true}} {
		write := seen(call("w", "Write", 30, 31, map[string]any{"file_path": "/p/a", "content": "all"}), time.Time{})
		l, ok := turn(write, call("c", "Bash", 40, 42, command(tc.command))).LinesOf(changed("a", "present"), at(tc.touched), &Division{Turn: []string{"a"}})
		if got := l.IsUnnamed(Comparison{Fits: true}); !ok || got != tc.want {
			t.Errorf("%s, changed at %v: %v, %v", tc.command, tc.touched, got, ok)
		}
	}
}

// TestLinesOfAPatch checks that a patch of two files leaves the one in doubt that another author changed before.
func TestLinesOfAPatch(t *testing.T) {
	patch := call("1", "apply_patch", 30, 31, command("*** Begin Patch\n*** Update File: a\n*** Update File: b\n*** End Patch"))
	before, between := at(-50), at(20)
	patch[0].Body = turns.WithChanged(patch[0].Body, []*time.Time{&before, &between})
	for path, want := range map[string]Verdict{"a": Unchanged, "b": InDoubt} {
		x := changed(path, "present")
		e := turn()
		e.Calls = Calls(patch, Context{End: at(100), Left: at(100), Dir: "/p"})
		if l, ok := e.LinesOf(x, at(30.5), &Division{Turn: []string{path}}); !ok || l.Verdict(Comparison{}) != want {
			t.Errorf("%s: %v, %+v", path, ok, l)
		}
	}
}

// TestLinesOfALargeFile checks that a file that another author changed before a tool did is in doubt if it is too large
// to examine, or if the input of the tool was not recorded whole.
func TestLinesOfALargeFile(t *testing.T) {
	long := call("1", "Edit", 30, 31, map[string]any{"file_path": "/p/a", "clipped": json.RawMessage(`{}`)})
	short := call("1", "Edit", 30, 31, map[string]any{"file_path": "/p/a", "old_string": "x", "new_string": "y"})
	for _, tc := range []struct {
		call []segno.Entry
		size int64
	}{{long, 10}, {short, maxReplay + 1}} {
		x := changed("a", "present")
		x.To.Size = tc.size
		l, ok := turn(seen(tc.call, at(20))).LinesOf(x, at(30.5), &Division{Turn: []string{"a"}})
		if !ok || l.Replays || l.Verdict(Comparison{}) != InDoubt {
			t.Errorf("%d bytes: %v, %+v", tc.size, ok, l)
		}
	}
}
