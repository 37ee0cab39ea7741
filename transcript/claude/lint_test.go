package claude_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/testing/faultfs"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/transcript"
	"github.com/dalsegno/segno/transcript/claude"
)

// TestCheckOfRecordedSessions checks the damage of sessions that the agent wrote, and the messages that
// it sends after the repair. Sound sessions have no damage, in whatever order the agent wrote their lines.
func TestCheckOfRecordedSessions(t *testing.T) {
	for name, want := range map[string]struct {
		codes []string
		join  bool
		after []string // parts of the repaired conversation's text, in order
	}{
		"compacted": {}, "tui-out-of-order": {}, "resumed-after-interrupt": {}, "tui-rewound-and-branched": {},
		"two-writers":          {codes: []string{transcript.CodeTwoWriters}, after: []string{`"content":"W1 `, `"text":"W1 answer"`, `"content":"W2 `, `"text":"W2 answer"`}},
		"torn-tail":            {codes: []string{transcript.CodeTorn}, after: []string{"T1 make", "A1", "T2 talk"}},
		"interrupted-mid-tool": {codes: []string{transcript.CodeNoResult}, after: []string{"T2 slow", "toolu_b40db0af1575458c9af1e2ab", "result of this call was lost"}},
		"tui-rewound-and-branched with join": {codes: []string{transcript.CodeTwoWriters}, join: true,
			after: []string{"first", "A1", `"content":"second`, `"text":"A2"`, `"content":"third`, `"text":"A3"`, `"content":"alt second`, `"text":"B2"`}},
	} {
		t.Run(name, func(t *testing.T) {
			home := t.TempDir()
			file, _, _ := strings.Cut(name, " ")
			data, err := os.ReadFile("testdata/heal/" + file + ".jsonl")
			if err != nil {
				t.Fatal(err)
			}
			src := segno.Source{Session: firstSession, Path: filepath.Join(home, firstSession+".jsonl"), Dir: "/srv/p"}
			if err := os.WriteFile(src.Path, data, 0o600); err != nil {
				t.Fatal(err)
			}
			c, o := claude.New(home, claude.Options{FS: noSync{vfs.OS}}), transcript.LintOptions{Join: want.join}
			found, err := c.Check(t.Context(), src, o)
			if err != nil || !slices.Equal(codesOf(found.Findings), want.codes) {
				t.Fatalf("found %+v, %v, want %v", found, err, want.codes)
			}
			to, repaired, err := c.Repair(t.Context(), src, segno.Target{Session: secondSession, Dir: "/srv/p"}, o)
			if err != nil || !slices.Equal(codesOf(repaired.Findings), want.codes) || (to.Session == "") != (len(want.codes) == 0) {
				t.Fatalf("wrote %+v for %+v, %v", to, repaired, err)
			}
			if to.Session == "" {
				return
			}
			copied, err := os.ReadFile(to.Path)
			if err != nil {
				t.Fatal(err)
			}
			for _, uuid := range regexp.MustCompile(`"uuid":"([^"]*)"`).FindAllStringSubmatch(string(copied), -1) {
				if !regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`).MatchString(uuid[1]) {
					t.Errorf("a record has the uuid %q, which is none", uuid[1])
				}
			}
			checkInOrder(t, strings.Join(conversation(copied), "\n"), want.after)
			if left, err := c.Check(t.Context(), to, o); err != nil || len(left.Findings) > 0 {
				t.Errorf("the copy has %+v, %v", left, err)
			}
		})
	}
}

func codesOf(found []transcript.Finding) (codes []string) {
	for _, f := range found {
		codes = append(codes, f.Code)
	}
	return codes
}

// checkInOrder checks that a text contains words in this order.
func checkInOrder(t *testing.T, text string, words []string) {
	t.Helper()
	rest := text
	for _, word := range words {
		_, after, ok := strings.Cut(rest, word)
		if !ok {
			t.Errorf("%q is missing or out of order in\n%s", word, text)
			return
		}
		rest = after
	}
}

// TestRepairKeepsSoundLines damages each line of a session in turn. The copy has all other lines byte
// for byte, apart from the id of the session and at most one parent.
func TestRepairKeepsSoundLines(t *testing.T) {
	d := newFixture(t, 3)
	lines := strings.SplitAfter(strings.TrimSuffix(string(d.bytes(t)), "\n"), "\n")
	for n := range lines {
		damaged := slices.Clone(lines)
		damaged[n] = damaged[n][:len(damaged[n])/2] + "\n"
		d.replaceFile(t, []byte(strings.Join(damaged, "")))
		to := segno.Target{Session: segno.SessionID(fmt.Sprintf("55555555-0000-4000-8000-%012d", n)), Dir: d.dir}
		src, found, err := d.c.Repair(t.Context(), d.source(), to, transcript.LintOptions{})
		if err != nil || len(found.Findings) == 0 {
			t.Fatalf("line %d: found %+v, %v", n, found, err)
		}
		copied, err := os.ReadFile(src.Path)
		if err != nil {
			t.Fatal(err)
		}
		text := strings.ReplaceAll(string(copied), string(to.Session), firstSession)
		missing := 0
		for i, line := range lines {
			if i != n && !strings.Contains(text, strings.TrimSuffix(line, "\n")) {
				missing++
			}
		}
		if missing > 1 {
			t.Errorf("without line %d, %d other lines were changed:\n%s", n, missing, text)
		}
	}
}

// TestRepairFailsWhole fails operations of a repair. The copy is complete or absent, the source is
// unchanged, and a second attempt succeeds.
func TestRepairFailsWhole(t *testing.T) {
	d := newFixture(t, 2)
	d.sidecar(t, "tasks", "1.json", "one")
	d.sidecar(t, "session", "subagents/a.jsonl", "{}\n")
	damaged := string(d.bytes(t)) + `{"torn`
	d.replaceFile(t, []byte(damaged))
	run := func(fs vfs.FS, n int) (segno.Target, error) {
		to := segno.Target{Session: segno.SessionID(fmt.Sprintf("55555555-0000-4000-8000-%012d", n)), Dir: d.dir}
		c := claude.New(d.home, claude.Options{FS: fs})
		_, _, err := c.Repair(context.Background(), d.source(), to, transcript.LintOptions{})
		return to, err
	}
	whole := faultfs.FailAt(-1)
	if _, err := run(whole.Wrap(noSync{vfs.OS}), 999); err != nil {
		t.Fatal(err)
	}
	for _, n := range faultfs.Sample(t, whole.Trace()) {
		faults := faultfs.FailAt(n)
		to, err := run(faults.Wrap(noSync{vfs.OS}), n)
		if !faults.Fired() || err == nil {
			t.Errorf("the failure of operation %d was not reported: %v", n, err)
		}
		p := segno.Position{Offset: int64(len(damaged) - len(`{"torn`))}
		checkWhole(t, d, p, to)
		if _, err := run(noSync{vfs.OS}, n); err != nil {
			t.Errorf("after operation %d failed it cannot be repeated: %v", n, err)
		}
		checkWhole(t, d, p, to)
	}
	if data, err := os.ReadFile(d.path); err != nil || string(data) != damaged {
		t.Errorf("the source changed, %v", err)
	}
}
