package codex_test

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"slices"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/testing/faultfs"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/transcript"
	"github.com/dalsegno/segno/transcript/codex"
)

// TestRepairOfRollouts damages a rollout and repairs it. The copy has no damage, and has all undamaged
// lines of the rollout.
func TestRepairOfRollouts(t *testing.T) {
	ordinal := regexp.MustCompile(`"ordinal":\d+,`)
	for code, damage := range map[string]func(lines [][]byte) [][]byte{
		transcript.CodeNoMeta:  func(lines [][]byte) [][]byte { return lines[1:] },
		transcript.CodeTorn:    func(lines [][]byte) [][]byte { return append(lines, []byte("{\"x\":\"\xe6\x97")) },
		transcript.CodeNotJSON: func(lines [][]byte) [][]byte { return slices.Insert(lines, 5, []byte("no record\n")) },
		transcript.CodeNUL:     func(lines [][]byte) [][]byte { return slices.Insert(lines, 5, append(make([]byte, 512), '\n')) },
		transcript.CodeGlued:   func(lines [][]byte) [][]byte { lines[6] = bytes.TrimSpace(lines[6]); return lines },
		transcript.CodeOrdinal: func(lines [][]byte) [][]byte {
			n := len(lines) - 1
			lines[n] = ordinal.ReplaceAll(lines[n], nil)
			return lines
		},
		transcript.CodeNoResult: func(lines [][]byte) [][]byte { return without(lines, `"function_call_output"`) },
		transcript.CodeNoCall:   func(lines [][]byte) [][]byte { return without(lines, `"function_call"`) },
		transcript.CodeNotUTF8: func(lines [][]byte) [][]byte {
			lines[8] = bytes.Replace(lines[8], []byte(`"type":`), []byte("\"x\":\"\xff\",\"type\":"), 1)
			return lines
		},
	} {
		t.Run(code, func(t *testing.T) {
			e := newEnv(t)
			s := e.session(2)
			sound := slices.Clone(s.lines)
			s.lines = damage(slices.Clone(s.lines))
			s.flush()
			src := segno.Source{Session: firstID}
			found, err := e.c.Check(t.Context(), src, transcript.LintOptions{})
			if err != nil || !slices.ContainsFunc(found.Findings, func(f transcript.Finding) bool { return f.Code == code }) {
				t.Fatalf("found %+v, %v", found, err)
			}
			to, repaired, err := e.c.Repair(t.Context(), src, segno.Target{Session: secondID, Dir: "/srv/other"}, transcript.LintOptions{})
			if err != nil || len(repaired.Findings) != len(found.Findings) {
				t.Fatalf("repaired %+v, %v", repaired, err)
			}
			if left, err := e.c.Check(t.Context(), to, transcript.LintOptions{}); err != nil || len(left.Findings) > 0 {
				t.Errorf("the copy has %+v, %v", left, err)
			}
			copied := ordinal.ReplaceAll(read(t, to.Path), nil)
			for i, line := range sound[1:] {
				line = bytes.TrimSpace(ordinal.ReplaceAll(line, nil))
				isDamaged := code == transcript.CodeNotUTF8 && i+1 == 8 || bytes.Contains(line, []byte(`"function_call`))
				if !isDamaged && !bytes.Contains(copied, line) {
					t.Errorf("line %d is not in the copy: %s", i+2, line)
				}
			}
			if got := e.capture(secondID, nil); len(got.Damage) > 0 || got.Position.Leaf != "t2" {
				t.Errorf("captured %+v", got)
			}
			if !bytes.Equal(read(t, s.path()), s.data()) {
				t.Error("the session itself changed")
			}
		})
	}
}

// without leaves out the lines with a text.
func without(lines [][]byte, text string) [][]byte {
	return slices.DeleteFunc(lines, func(l []byte) bool { return bytes.Contains(l, []byte(text)) })
}

// TestRepairOfSound repairs a session without damage and one with a lineage. Repair writes nothing.
func TestRepairOfSound(t *testing.T) {
	e := newEnv(t)
	parent := e.session(2)
	child := newSession(t, e.home, secondID, parent.base())
	child.turn("t3", "prompt 3")
	child.flush()
	before := snapshot(t, e.home)
	for _, session := range []segno.SessionID{firstID, secondID} {
		to, found, err := e.c.Repair(t.Context(), segno.Source{Session: session}, segno.Target{Session: thirdID, Dir: "/srv/p"}, transcript.LintOptions{})
		if err != nil || len(found.Findings) > 0 || to.Session != "" {
			t.Errorf("%s: wrote %+v for %+v, %v", session, to, found, err)
		}
	}
	if after := snapshot(t, e.home); len(after) != len(before) {
		t.Errorf("%d files became %d", len(before), len(after))
	}
}

// TestRepairFailsWhole fails operations of a repair. The copy is complete or absent, and a second
// attempt succeeds.
func TestRepairFailsWhole(t *testing.T) {
	e := newEnv(t)
	s := e.session(2)
	s.lines = append(s.lines, []byte(`{"torn`))
	s.flush()
	run := func(fs vfs.FS, n int) (segno.Source, error) {
		to := segno.Target{Session: segno.SessionID(fmt.Sprintf("01a20562-62f8-7731-83e7-%012d", 1000+n)), Dir: "/srv/proj"}
		src, _, err := codex.New(e.home, codex.Options{FS: fs}).Repair(context.Background(), segno.Source{Session: firstID}, to, transcript.LintOptions{})
		return src, err
	}
	whole := faultfs.FailAt(-1)
	if _, err := run(whole.Wrap(noSync{vfs.OS}), 999); err != nil {
		t.Fatal(err)
	}
	for _, n := range faultfs.Sample(t, whole.Trace()) {
		faults := faultfs.FailAt(n)
		if _, err := run(faults.Wrap(noSync{vfs.OS}), n); faults.Fired() && err == nil {
			t.Errorf("the failure of operation %d was not reported", n)
		}
		src, err := run(noSync{vfs.OS}, n)
		if err != nil {
			t.Errorf("after operation %d failed it cannot be repeated: %v", n, err)
			continue
		}
		if left, err := e.c.Check(t.Context(), src, transcript.LintOptions{}); err != nil || len(left.Findings) > 0 {
			t.Errorf("the copy has %+v, %v", left, err)
		}
	}
	if !bytes.Equal(read(t, s.path()), s.data()) {
		t.Error("the session itself changed")
	}
}
