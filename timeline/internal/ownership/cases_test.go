package ownership

import (
	"slices"
	"testing"
	"time"

	"github.com/dalsegno/segno"
)

// turn returns the evidence about a turn that worked from 0 to 100 and made some calls.
func turn(calls ...[]segno.Entry) *Evidence {
	return &Evidence{Calls: Calls(slices.Concat(calls...), Context{End: at(100)}), Start: at(0), End: at(100), Root: "/p"}
}

// made returns the creation of an entity.
func made(path string, kind segno.EntityType) segno.Change {
	return segno.Change{Path: path, To: segno.Entity{Type: kind}}
}

// TestDivide is the table of whose each path is at the end of a turn, whose command ran from 10 to 20, and whose tool
// edited the file named from 30 to 31.
func TestDivide(t *testing.T) {
	link := func(path, target string) segno.Change {
		return segno.Change{Path: path, To: segno.Entity{Type: segno.EntityHardLink, Target: target}}
	}
	for name, tc := range map[string]struct {
		changes []segno.Change
		times   map[string]float64 // the root and directories without one are old
		want    Division
	}{
		"a file while the command ran, and one after it": {
			[]segno.Change{changed("a", "x"), changed("b", "x")}, map[string]float64{"a": 15, "b": 25},
			Division{Turn: []string{"a"}, Others: []string{"b"}}},
		"the file that the tool named": {
			[]segno.Change{changed("named", "x")}, map[string]float64{"named": 30.5}, Division{Turn: []string{"named"}}},
		"a file without a time": {
			[]segno.Change{changed("a", "x")}, map[string]float64{}, Division{Doubt: []string{"a"}}},
		"a new directory with a file of each author": {
			[]segno.Change{made("d", segno.EntityDir), made("d/a", segno.EntityFile), made("d/b", segno.EntityFile)},
			map[string]float64{"d": 15, "d/a": 15, "d/b": 25}, Division{Turn: []string{"d", "d/a"}, Others: []string{"d/b"}}},
		"a new directory with files of others only": {
			[]segno.Change{made("d", segno.EntityDir), made("d/a", segno.EntityFile)},
			map[string]float64{"d": 25, "d/a": 25}, Division{Others: []string{"d", "d/a"}}},
		"a deletion, while the command ran": {
			[]segno.Change{removed("a")}, map[string]float64{"a": 15}, Division{Turn: []string{"a"}}},
		"a deletion, before the command": {
			[]segno.Change{removed("a")}, map[string]float64{"a": 5}, Division{Others: []string{"a"}}},
		"two names of a file, of two authors": {
			[]segno.Change{changed("a", "x"), link("b", "a")}, map[string]float64{"a": 15, "b": 25}, Division{Doubt: []string{"a", "b"}}},
		"a new name of a file that did not change": {
			[]segno.Change{link("b", "a")}, map[string]float64{"b": 25}, Division{Doubt: []string{"b"}}},
		"an old file below a directory that the command renamed": {
			[]segno.Change{made("d", segno.EntityDir), made("d/a", segno.EntityFile)},
			map[string]float64{"d": 15, ".": 15, "d/a": -50}, Division{Turn: []string{"d", "d/a"}}},
		"an old file, and nothing was renamed": {
			[]segno.Change{made("a", segno.EntityFile)}, map[string]float64{"a": -50}, Division{Doubt: []string{"a"}}},
	} {
		times := Times{".": at(-90)}
		for p, s := range tc.times {
			times[p] = at(s)
		}
		e := turn(call("1", "Bash", 10, 20, command("make")), call("2", "Edit", 30, 31, file("named")))
		got := Divide(tc.changes, times, e.Start, e.Owner)
		for i, pair := range [][2][]string{{got.Turn, tc.want.Turn}, {got.Others, tc.want.Others}, {got.Doubt, tc.want.Doubt}, {got.Dirs, tc.want.Dirs}} {
			if !slices.Equal(pair[0], pair[1]) {
				t.Errorf("%s: the paths of %s are %q, want %q", name, []string{"the turn", "others", "nobody known", "nobody known (directories)"}[i], pair[0], pair[1])
			}
		}
	}
}

// TestBeside is the table of whose a change is if a task of an earlier turn worked while another turn ran: the earlier
// turn, the running one (which others see as another author), or in doubt.
func TestBeside(t *testing.T) {
	always := func(o Owner) Func { return func(segno.Change, Touch) Owner { return o } }
	for _, tc := range []struct {
		running, task, want Owner
		unsure              bool
	}{
		{running: Turn, task: Turn, want: Doubt},
		{running: Turn, task: Ran, want: Other},
		{running: Turn, task: Doubt, want: Other},
		{running: Turn, task: Other, want: Other},
		{running: Ran, task: Turn, want: Turn},
		{running: Ran, task: Ran, want: Doubt},
		{running: Ran, task: Doubt, want: Doubt},
		{running: Ran, task: Other, want: Other},
		{running: Doubt, task: Turn, want: Turn},
		{running: Doubt, task: Ran, want: Doubt},
		{running: Other, task: Turn, want: Turn},
		{running: Other, task: Ran, want: Turn, unsure: true},
		{running: Other, task: Doubt, want: Turn, unsure: true},
		{running: Other, task: Other, want: Other},
	} {
		unsure := map[string]bool{}
		got := Beside(always(tc.running), always(tc.task), unsure)(changed("a", "x"), Touch{})
		if got != tc.want || unsure["a"] != tc.unsure {
			t.Errorf("running %s, task %s: %s, unsure %v, want %s, %v", ownerName(tc.running), ownerName(tc.task), ownerName(got), unsure["a"], ownerName(tc.want), tc.unsure)
		}
	}
}

// TestSince divides the changes after a turn's end: a is the turn's, b may be, and d is a directory.
func TestForBackground(t *testing.T) {
	d := Division{Turn: []string{"a", "b"}, Doubt: []string{"c"}, Dirs: []string{"d"}, Others: []string{"o"}}
	unsure := map[string]bool{"b": true}
	if certain, doubtful := d.ForBackground(true, unsure); !slices.Equal(certain, []string{"a", "b", "d"}) || !slices.Equal(doubtful, []string{"c"}) {
		t.Errorf("alone: %q, %q", certain, doubtful)
	}
	if certain, doubtful := d.ForBackground(false, unsure); !slices.Equal(certain, []string{"a"}) || !slices.Equal(doubtful, []string{"b"}) {
		t.Errorf("beside another turn: %q, %q", certain, doubtful)
	}
}

// TestWhyContested is the table of the reasons why a path of a turn that worked from 0 to 100 may have changes of a turn
// of another thread that worked from 50 to 150.
func TestWhyContested(t *testing.T) {
	edit := call("1", "Write", 60, 61, map[string]any{"file_path": "/p/a", "content": "x"})
	for name, tc := range map[string]struct {
		own, rival    []segno.Entry
		again         bool
		amended       bool
		changed       bool // while both were at work
		left          string
		want          string
		withoutRivals bool
	}{
		"no turn of another thread is known":                    {withoutRivals: true, want: whyOnlyShared},
		"it named the path, and no other turn is known":         {own: edit, withoutRivals: true},
		"the path did not change while both worked":             {},
		"it alone named the path":                               {own: edit, changed: true},
		"it did not name the path":                              {changed: true, want: whyOnlyShared},
		"both named it":                                         {own: edit, rival: call("2", "Edit", 70, 71, file("a")), changed: true, want: whyNamedToo},
		"the other turn named it, but it did not change":        {own: edit, rival: call("2", "Edit", 70, 71, file("a"))},
		"the other turn ran a command later":                    {own: edit, rival: call("2", "Bash", 70, 71, command("make")), changed: true, want: whyRanToo},
		"it ran one later, and the content is still the tool's": {own: edit, rival: call("2", "Bash", 70, 71, command("make")), changed: true, left: "x"},
		"it continued after its end, and named the path":        {own: edit, rival: call("2", "Edit", 70, 71, file("a")), again: true, want: whyNamedToo},
		"it was amended, and named the path afterwards":         {own: edit, rival: call("2", "Edit", 120, 121, file("a")), amended: true, changed: true},
	} {
		own := &Work{From: at(0), To: at(100), Evidence: *turn(tc.own)}
		rival := &Work{From: at(50), To: at(150), Evidence: *turn(tc.rival), Again: tc.again, Amended: tc.amended, Changed: map[string]bool{"a": tc.changed}}
		rivals := []*Work{rival}
		if tc.withoutRivals {
			rivals = nil
		}
		if got := own.WhyContested(rivals, "a", hash(tc.left)); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

// TestWhyWhole is the table of the reasons why every change while a turn ran is its own.
func TestWhyWhole(t *testing.T) {
	calls := call("1", "Bash", 10, 12, command("make"))
	for name, tc := range map[string]struct {
		entries      []segno.Entry
		start, now   time.Time
		reportsCalls bool
		want         string
	}{
		"its beginning was not reported":         {start: time.Time{}, now: at(100), reportsCalls: true, want: WhyUnseen},
		"the agent reports calls and made none":  {start: at(0), now: at(100), reportsCalls: true},
		"the agent reports no calls":             {start: at(0), now: at(100), want: WhyNoCalls},
		"the agent reported one all the same":    {entries: calls, start: at(0), now: at(100)},
		"the clock was set back before a call":   {entries: calls, start: at(50), now: at(100), reportsCalls: true, want: WhyClocks},
		"the clock was set back before the end":  {entries: calls, start: at(0), now: at(5), reportsCalls: true, want: WhyClocks},
		"hooks of parallel calls wrote in order": {entries: []segno.Entry{calls[1], {Kind: segno.EntryResult, Time: at(11.5)}}, start: at(0), now: at(100), reportsCalls: true},
	} {
		if got := WhyWhole(tc.entries, tc.start, tc.now, tc.reportsCalls); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

// TestLacksIntent finds calls whose beginning is not in the record.
func TestLacksIntent(t *testing.T) {
	make, read := call("1", "Bash", 10, 12, command("make")), call("2", "Read", 14, 15, file("a"))
	for name, tc := range map[string]struct {
		entries []segno.Entry
		want    bool
	}{
		"a whole call":                  {entries: make},
		"a call without an end":         {entries: make[:1]},
		"a command without a beginning": {entries: make[1:], want: true},
		"a tool that changes no files":  {entries: read[1:]},
		"hooks that wrote in any order": {entries: []segno.Entry{make[1], make[0]}},
	} {
		if got := LacksIntent(tc.entries); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}

// TestLateEnd is the table of the end of a turn without an event, whose last entry is a result at 12.
func TestLateEnd(t *testing.T) {
	calls := call("1", "Bash", 10, 12, command("make"))
	for name, tc := range map[string]struct {
		end     LateEnd
		entries []segno.Entry
		want    float64
		exact   bool
		whole   bool
	}{
		"nothing more is known":               {entries: calls, want: 12},
		"no entries":                          {want: 0, whole: true},
		"the transcript goes on":              {end: LateEnd{Last: at(30)}, entries: calls, want: 30},
		"the transcript ends before":          {end: LateEnd{Last: at(11)}, entries: calls, want: 12},
		"the transcript has the interruption": {end: LateEnd{Last: at(11), Marked: true}, entries: calls, want: 11, exact: true},
		"another turn began":                  {end: LateEnd{Latest: at(20)}, entries: calls, want: 20, exact: true},
	} {
		got := tc.end.Evidence(tc.entries, at(0), false)
		if !got.End.Equal(at(tc.want)) || got.Exact != tc.exact || got.Whole != tc.whole {
			t.Errorf("%s: it ended at %v, exact %v, whole %v", name, got.End, got.Exact, got.Whole)
		}
	}
}

// TestOverwritten finds changes that the newest state of a file no longer shows.
func TestOverwritten(t *testing.T) {
	o := NewOverwritten([]segno.Change{changed("a", "theirs"), changed("b", "theirs"), changed("c", "mine")}, []string{"a", "b"})
	o.Add([]segno.Change{changed("a", "theirs"), changed("b", "mine, later"), changed("c", "x")})
	o.Add([]segno.Change{changed("a", "mine"), changed("b", "mine, earlier")})
	if len(o.Own) != 2 || o.Own[0].To.Hash != hash("mine, later") || o.Own[1].To.Hash != hash("mine") {
		t.Errorf("the changes are %v", o.Own)
	}
}

// TestAgentEnded is the table of the owners of changes if the agent ended at 50, in the middle of a call that began at 40, and the agent's
// next process continued the turn, which ended at 100.
func TestAgentEnded(t *testing.T) {
	ended := segno.Entry{Kind: segno.EntryNote, Name: NoteAgentEnded, Time: at(50)}
	for name, tc := range map[string]struct {
		call []segno.Entry
		path string
		want map[float64]Owner
	}{
		"a command":                   {call("1", "Bash", 40, 41, command("make"))[:1], "a", map[float64]Owner{30: Other, 45: Ran, 60: Doubt}},
		"a command that names it":     {call("1", "Bash", 40, 41, command("sed -i s/x/y/ a"))[:1], "a", map[float64]Owner{45: Turn, 60: Doubt}},
		"a tool that names it":        {call("1", "Edit", 40, 41, file("a"))[:1], "a", map[float64]Owner{45: Turn, 60: Doubt}},
		"a tool that names another":   {call("1", "Edit", 40, 41, file("b"))[:1], "a", map[float64]Owner{45: Other, 60: Other}},
		"a command that had a result": {call("1", "Bash", 40, 45, command("make")), "a", map[float64]Owner{42: Ran, 60: Other}},
	} {
		e := Evidence{Calls: Calls(append(tc.call, ended), Context{End: at(100), Left: at(100)}), Start: at(0), End: at(100), Root: "/p"}
		for touched, want := range tc.want {
			if got := e.Owner(changed(tc.path, "x"), Touch{At: at(touched)}); got != want {
				t.Errorf("%s, at %v: %s, want %s", name, touched, ownerName(got), ownerName(want))
			}
		}
	}
}
