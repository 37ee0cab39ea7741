package claude_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/transcript"
	"github.com/dalsegno/segno/transcript/claude"
)

// damagedSession writes the records of a session, a minute apart. A record consists of its author, its
// name, the name of its parent and its content.
type damagedSession struct {
	text strings.Builder
	at   time.Time
}

func (d *damagedSession) add(author, name, parent, content string) {
	uuid := func(name string) string {
		if name == "" {
			return "null"
		}
		return `"` + name + `"`
	}
	d.at = d.at.Add(time.Minute)
	fmt.Fprintf(&d.text, `{"parentUuid":%s,"type":"%s","uuid":%s,"promptId":"p-%s","timestamp":"%s","message":{"id":"m-%s","role":"%s","content":%s},"sessionId":"%s"}`+"\n",
		uuid(parent), author, uuid(name), name, d.at.UTC().Format("2006-01-02T15:04:05.000Z"), name, author, content, firstSession)
}

// repair repairs the session and returns the findings and the copy.
func (d *damagedSession) repair(t *testing.T, o transcript.LintOptions) ([]transcript.Finding, []byte) {
	t.Helper()
	home := t.TempDir()
	src := segno.Source{Session: firstSession, Path: filepath.Join(home, firstSession+".jsonl"), Dir: "/srv/p"}
	if err := os.WriteFile(src.Path, []byte(d.text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	c := claude.New(home, claude.Options{FS: noSync{vfs.OS}})
	to, found, err := c.Repair(t.Context(), src, segno.Target{Session: secondSession, Dir: "/srv/p"}, o)
	if err != nil || len(found.Findings) == 0 {
		t.Fatalf("found %d, %v", len(found.Findings), err)
	}
	copied, err := os.ReadFile(to.Path)
	if err != nil {
		t.Fatal(err)
	}
	return found.Findings, copied
}

// TestRepairJoinsAllWriters repairs a session with several turns that other processes wrote at the
// same time, and one to whose first prompt the user went back more than once.
func TestRepairJoinsAllWriters(t *testing.T) {
	concurrent, rewound := &damagedSession{}, &damagedSession{}
	for _, d := range []*damagedSession{concurrent, rewound} {
		d.add("user", "start", "", `"start"`)
		d.add("assistant", "a0", "start", `[{"type":"text","text":"begun"}]`)
	}
	concurrent.add("user", "p1", "a0", `"mine 1"`)
	concurrent.add("user", "q1", "a0", `"other 1"`)
	concurrent.add("assistant", "qa1", "q1", `[{"type":"text","text":"other answer 1"}]`)
	concurrent.add("assistant", "a1", "p1", `[{"type":"text","text":"my answer 1"}]`)
	concurrent.add("user", "p2", "a1", `"mine 2"`)
	concurrent.add("user", "q2", "a1", `"other 2"`)
	concurrent.add("assistant", "qa2", "q2", `[{"type":"text","text":"other answer 2"}]`)
	concurrent.add("assistant", "a2", "p2", `[{"type":"text","text":"my answer 2"}]`)
	for n := range 4 {
		rewound.add("user", fmt.Sprint("p", n), "a0", fmt.Sprintf(`"try %d"`, n))
		rewound.add("assistant", fmt.Sprint("pa", n), fmt.Sprint("p", n), fmt.Sprintf(`[{"type":"text","text":"answer %d"}]`, n))
	}
	for _, c := range []struct {
		session *damagedSession
		join    bool
		want    []string
	}{
		{concurrent, false, []string{"mine 1", "my answer 1", "mine 2", "my answer 2", "other 1", "other answer 1", "other 2", "other answer 2"}},
		{rewound, true, []string{"try 0", "answer 0", "try 1", "answer 1", "try 2", "answer 2", "try 3", "answer 3"}},
	} {
		found, copied := c.session.repair(t, transcript.LintOptions{Join: c.join})
		got := strings.Join(conversation(copied), "\n")
		for _, word := range c.want {
			if strings.Count(got, `"`+word+`"`) != 1 {
				t.Errorf("%q is not in the repaired conversation once:\n%s", word, got)
			}
		}
		if codes := codesOf(found); codes[0] != transcript.CodeTwoWriters {
			t.Errorf("found %v", codes)
		}
	}
}

// TestRepairManyCalls repairs a session in which the results of many calls were lost. There are so many
// that the test would take very long with a slow algorithm.
func TestRepairManyCalls(t *testing.T) {
	const calls = 5000
	d, parent := &damagedSession{}, ""
	for n := range calls {
		prompt, call := fmt.Sprint("p", n), fmt.Sprint("c", n)
		d.add("user", prompt, parent, `"go on"`)
		d.add("assistant", call, prompt, fmt.Sprintf(`[{"type":"tool_use","id":"toolu_%d","name":"Bash","input":{}}]`, n))
		parent = call
	}
	found, copied := d.repair(t, transcript.LintOptions{})
	if len(found) != calls || strings.Count(string(copied), "result of this call was lost") != calls {
		t.Errorf("found %d of %d", len(found), calls)
	}
	if turn := found[calls-1].Turn; turn != segno.TurnKey(fmt.Sprint("p-p", calls-1)) {
		t.Errorf("the last finding is of turn %q", turn)
	}
}

// TestRepairManyIslands repairs a session in which many records name no parent.
func TestRepairManyIslands(t *testing.T) {
	const turns = 1000
	d, parent := &damagedSession{}, ""
	for n := range turns {
		prompt, answer := fmt.Sprint("p", n), fmt.Sprint("a", n)
		if n%10 == 0 {
			parent = ""
		}
		d.add("user", prompt, parent, fmt.Sprintf(`"say %d"`, n))
		d.add("assistant", answer, prompt, fmt.Sprintf(`[{"type":"text","text":"said %d"}]`, n))
		parent = answer
	}
	found, copied := d.repair(t, transcript.LintOptions{})
	if len(found) != turns/10-1 {
		t.Errorf("found %d of %d", len(found), turns/10-1)
	}
	if got := len(conversation(copied)); got != 2*turns {
		t.Errorf("the agent reads %d of %d messages", got, 2*turns)
	}
}
