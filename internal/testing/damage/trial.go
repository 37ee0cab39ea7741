package damage

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Agent is an agent that reads damaged copies of one session, and the segno command that heals them.
type Agent struct {
	Base    *File
	Session string // the id in Base
	Path    string // the path of the session
	ID      func(seed uint64) string
	// Heal runs segno sessions heal --json.
	Heal func(path string) (out string, exitCode int)
	// Resume runs the command that heal prints, with another prompt, and returns the facts that the model
	// receives.
	Resume func(dir string, command []string) Reading
	// Command returns the command that continues a session.
	Command func(session string) []string
	// Model runs segno's model of the agent's loader. It returns the lines that the agent sends, and why the
	// agent refuses the session, or "".
	Model func(session, path string) (lines []int, refusal string)
	// IsLenient is set if the agent reads more than the model of its loader, because its version accepts some
	// values that the model refuses.
	IsLenient bool
}

// Reading is the part of a session that an agent read.
type Reading struct {
	Facts []string
	// Problem is why the agent, or the API of its model, did not accept the session, or "".
	Problem string
}

// healing is the output of segno sessions heal --json.
type healing struct {
	Findings []struct{ Code string }
	Healed   *struct {
		Session, Path, Dir string
		Command            []string
	}
}

// exitCorrupt is the exit code of heal if no conversation is left in the session.
const exitCorrupt = 6

// Try damages the session in the way that a seed chooses, heals it, and has the agent read both the damaged session and
// the repaired copy. It returns a row for a table: the damage, what the agent reads before the repair, what heal finds,
// and what the agent reads of the copy.
func (a *Agent) Try(t testing.TB, kinds []Kind, seed uint64) string {
	t.Helper()
	name, f := a.Base.Damaged(kinds, seed)
	id, left := a.ID(seed), f.Left()
	path := filepath.Join(filepath.Dir(a.Path), strings.ReplaceAll(filepath.Base(a.Path), a.Session, id))
	data := bytes.ReplaceAll(f.Bytes(), []byte(a.Session), []byte(id))
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	fail := func(format string, args ...any) {
		t.Helper()
		t.Errorf("SEGNO_SEED=%d SEGNO_COUNT=1: %s: %s", seed, name, fmt.Sprintf(format, args...))
	}
	out, code := a.Heal(path)
	var h healing
	if code == 0 && json.Unmarshal([]byte(out), &h) != nil {
		fail("heal printed %s", out)
	}
	original := "untouched"
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(after, data) {
		original = "CHANGED"
		fail("the original changed: %v", err)
	}
	found := h.codes()
	if code != 0 {
		found = "exit " + strconv.Itoa(code)
	}
	predicted, refusal := a.predict(t, id, path)
	before := a.Resume("", a.Command(id)) // the agent appends to the file
	// Claude Code sends a result beside the conversation although it has no id. The model of its loader leaves it out, so
	// heal offers a copy that the agent does not need.
	if refusal == "" && (before.Problem != "" || !reads(before, predicted, a.IsLenient || f.IsUnnamed)) || refusal != "" && before.Problem == "" && !a.IsLenient {
		fail("the model of the agent reads %q, refuses because %q; the agent reads %q, refuses because %q", predicted, refusal, before.Facts, before.Problem)
	}
	row := func(healed string) string {
		return fmt.Sprintf("%-50s | %-40s | %-40s | %-8s | %s", name, before.compare(left), found, healed, original)
	}
	switch {
	case code == exitCorrupt && len(left) == 0 && before.Problem != "":
		return row("none")
	case code != 0:
		fail("heal ended with %d: %s", code, out)
		return row("none")
	case h.Healed == nil:
		if f.IsSpoiled || before.compare(left) != whole {
			fail("heal found nothing, but of the session is read: %s", before.compare(left))
		}
		return row("-")
	}
	if !slices.Equal(h.Healed.Command, a.Command(h.Healed.Session)) {
		fail("heal printed the command %q", h.Healed.Command)
	}
	predicted, refusal = a.predict(t, h.Healed.Session, h.Healed.Path)
	after := a.Resume(h.Healed.Dir, h.Healed.Command)
	if got := after.compare(left); got != whole {
		fail("of the copy is read: %s", got)
	}
	if refusal != "" || !sameFacts(after.Facts, predicted) {
		fail("of the copy, the model of the agent reads %q, refuses because %q; the agent reads %q", predicted, refusal, after.Facts)
	}
	return row(after.compare(left))
}

// predict returns the facts that an agent reads according to segno's model of its loader.
func (a *Agent) predict(t testing.TB, session, path string) (facts []string, refusal string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines, refusal := a.Model(session, path)
	all := bytes.SplitAfter(data, []byte{'\n'})
	for _, n := range lines {
		facts = append(facts, Facts(told(all[n-1]))...)
	}
	return facts, refusal
}

// told returns the part of a line that the model receives: of its first record, because an agent that reads a line with two
// records reads that one. Beside that part, Claude Code writes a result in a second form.
func told(line []byte) []byte {
	var record struct{ Message, Payload json.RawMessage }
	if json.NewDecoder(bytes.NewReader(line)).Decode(&record) != nil {
		return line // a part of a record
	}
	return slices.Concat(record.Message, record.Payload)
}

// reads reports whether an agent read the facts that the model of its loader predicted. isMore means that it may read others, too.
func reads(r Reading, predicted []string, isMore bool) bool {
	if isMore {
		return !slices.ContainsFunc(predicted, func(word string) bool { return !slices.Contains(r.Facts, word) })
	}
	return sameFacts(r.Facts, predicted)
}

// sameFacts reports whether two lists have the same facts. A line may have a fact in two forms.
func sameFacts(a, b []string) bool {
	set := func(facts []string) []string { return slices.Compact(slices.Sorted(slices.Values(facts))) }
	return slices.Equal(set(a), set(b))
}

func (h healing) codes() string {
	var out []string
	for _, f := range h.Findings {
		if !slices.Contains(out, f.Code) {
			out = append(out, f.Code)
		}
	}
	return strings.Join(out, ",")
}

const whole = "whole"

// compare describes a reading of a session that has some facts left.
func (r Reading) compare(left []string) string {
	if r.Problem != "" {
		return "refused"
	}
	if Equal(r.Facts, left) {
		return whole
	}
	lost := 0
	for _, word := range left {
		if !slices.Contains(r.Facts, word) {
			lost++
		}
	}
	if lost == 0 {
		return fmt.Sprintf("other order: %v", r.Facts)
	}
	return fmt.Sprintf("%d of %d lost", lost, len(left))
}
