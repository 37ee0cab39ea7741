package local_test

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/internal/testing/faultfs"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/timeline"
	"github.com/dalsegno/segno/transcript/claude"
)

// manySessions is large enough for the code paths that handle many sessions at once.
const manySessions = 70

// writeOldSessions is writeSessions for a place whose clock makes the sessions old enough for the index.
func writeOldSessions(t testing.TB, n, turns int) local.Place {
	p := writeSessions(t, n, turns)
	p.Now = func() time.Time { return time.Now().Add(time.Hour) }
	return p
}

// pathOf returns the path of the transcript of session i of writeSessions.
func pathOf(p local.Place, i int) string {
	return filepath.Join(p.Homes["claude"], "projects", claude.Slug(fmt.Sprintf("/srv/project-%d", i%100)), sessionID(i)+".jsonl")
}

// keepChanged keeps the sessions that have new records, as the command does, and returns a line for each. It calls done
// for a session before it adds the line.
func keepChanged(ctx context.Context, p local.Place, done func(r timeline.KeepRequest)) (lines []string, err error) {
	store, err := p.Open(ctx)
	if err != nil {
		return nil, err
	}
	defer store.Close()
	found, _ := p.FindSessions(ctx)
	details, err := p.BriefDetails(ctx, store, found)
	if err != nil {
		return nil, err
	}
	var requests []timeline.KeepRequest
	for _, d := range details {
		if d.Err != nil {
			return nil, d.Err
		}
		if (!d.Kept || d.IsChanged) && d.End > 0 {
			requests = append(requests, timeline.KeepRequest{Agent: d.Agent, Source: segno.Source{Session: d.Session, Path: d.Path}})
		}
	}
	err = store.KeepSessions(ctx, requests, func(r timeline.KeepRequest, k timeline.Kept, err error) {
		line := fmt.Sprintf("%s %d", string(r.Source.Session)[:8], k.Turns)
		if err != nil {
			line += " " + segno.KindOf(err).String()
		}
		if done(r); err == nil && k.Turns+int(k.Bytes) == 0 {
			return // the session has no new records
		}
		lines = append(lines, line)
	})
	slices.Sort(lines)
	return lines, err
}

func mustKeepChanged(t testing.TB, p local.Place) []string {
	t.Helper()
	lines, err := keepChanged(t.Context(), p, func(timeline.KeepRequest) {})
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

// wantAllKept checks that each session has one thread with all of its turns, and that the store is not damaged.
func wantAllKept(t testing.TB, p local.Place, sessions, turns int) {
	t.Helper()
	store, err := p.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	threads := 0
	for thread, err := range store.Threads(t.Context(), segno.ThreadQuery{}) {
		if err != nil {
			t.Fatal(err)
		}
		threads++
		if head, err := store.Head(t.Context(), thread.ID); err != nil || head.Turn != turns {
			t.Errorf("a session has %d turns, %v", head.Turn, err)
		}
	}
	if threads != sessions {
		t.Errorf("%d threads of %d sessions", threads, sessions)
	}
	if _, err := store.Check(t.Context(), segno.CheckPolicy{Trace: store.NewTrace()}, func(err error) bool { t.Error(err); return true }); err != nil {
		t.Error(err)
	}
}

// TestASecondKeepOfAllWritesNothing keeps many sessions twice. The second time, it changes no file of the store.
func TestASecondKeepOfAllWritesNothing(t *testing.T) {
	p := writeOldSessions(t, manySessions, 2)
	if got := mustKeepChanged(t, p); len(got) != manySessions {
		t.Fatalf("%d sessions were kept", len(got))
	}
	before := readAll(t, p.Store)
	if got := mustKeepChanged(t, p); len(got) > 0 {
		t.Errorf("kept again: %v", got)
	}
	after := readAll(t, p.Store)
	for _, name := range slices.Sorted(maps.Keys(after)) {
		if before[name] != after[name] {
			t.Errorf("%s has %d bytes; before, %d", name, len(after[name]), len(before[name]))
		}
	}
	if len(before) != len(after) {
		t.Errorf("%d files; before, %d", len(after), len(before))
	}
	wantAllKept(t, p, manySessions, 2)
}

// otherTurn returns session i with two turns, of which the last one has other text of the same size.
func otherTurn(i int) string {
	text := strings.ReplaceAll(transcriptOf(sessionID(i), fmt.Sprintf("/srv/project-%d", i), 2), "prompt 1", "PROMPT 1")
	return strings.NewReplacer("-u1", "-U1", "-a1", "-A1").Replace(text)
}

// TestAnotherTurnOfTheSameSizeIsKept replaces the last turn of sessions by another one of the same size. It does so
// soon after the sessions were kept, when the times of their files may not change, and after the index was lost.
func TestAnotherTurnOfTheSameSizeIsKept(t *testing.T) {
	for _, isYoung := range []bool{true, false} {
		p := writeOldSessions(t, manySessions, 2)
		if isYoung {
			p.Now = time.Now
		}
		mustKeepChanged(t, p)
		if !isYoung {
			if err := os.Remove(filepath.Join(p.Store, "index", "sessions")); err != nil {
				t.Fatal(err)
			}
		}
		path := pathOf(p, 1)
		fi, err := os.Stat(path)
		if err == nil {
			err = os.WriteFile(path, []byte(otherTurn(1)), 0o600)
		}
		if err == nil {
			err = os.Chtimes(path, fi.ModTime(), fi.ModTime())
		}
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"00000001 1"}, mustKeepChanged(t, p)); diff != "" {
			t.Errorf("young: %v\n%s", isYoung, diff)
		}
		if got := mustKeepChanged(t, p); len(got) > 0 {
			t.Errorf("young: %v; kept again: %v", isYoung, got)
		}
	}
}

// TestAChangedSessionIsRead changes sessions after they were kept, in each way that a program can.
func TestAChangedSessionIsRead(t *testing.T) {
	ctx := t.Context()
	p := writeOldSessions(t, manySessions, 2)
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	setTime := func(path string, at time.Time) {
		t.Helper()
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	textOf := func(i, turns int) string { return transcriptOf(sessionID(i), fmt.Sprintf("/srv/project-%d", i), turns) }
	other := otherTurn
	old := time.Now().Add(-time.Hour).Truncate(time.Second)
	for i := range manySessions {
		setTime(pathOf(p, i), old)
	}
	mustKeepChanged(t, p)

	write(pathOf(p, 0), textOf(0, 3)) // grows
	write(pathOf(p, 1), textOf(1, 3)) // grows, and gets its old time again
	setTime(pathOf(p, 1), old)
	write(pathOf(p, 2), other(2)) // gets other content of the same size
	write(pathOf(p, 3), other(3)) // the same, and gets its old time again
	setTime(pathOf(p, 3), old)
	write(pathOf(p, 4)+".new", other(4)) // the same, in a file with another inode
	setTime(pathOf(p, 4)+".new", old)
	if err := os.Rename(pathOf(p, 4)+".new", pathOf(p, 4)); err != nil {
		t.Fatal(err)
	}
	write(pathOf(p, 5), textOf(5, 2)) // is written again with the same content
	if err := os.Remove(pathOf(p, 6)); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Dir(pathOf(p, manySessions)), 0o700); err != nil {
		t.Fatal(err)
	}
	write(pathOf(p, manySessions), textOf(manySessions, 2)) // is new
	store, err := p.Open(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var deleted segno.ThreadID
	for thread, err := range store.Threads(ctx, segno.ThreadQuery{Session: segno.SessionID(sessionID(7))}) {
		if deleted = thread.ID; err != nil {
			t.Fatal(err)
		}
	}
	if err := store.Delete(ctx, deleted); err != nil {
		t.Fatal(err)
	}
	store.Close()

	want := []string{"00000000 1", "00000001 1", "00000002 1", "00000003 1", "00000004 1", "00000007 2", fmt.Sprintf("%08x 2", manySessions)}
	if diff := cmp.Diff(want, mustKeepChanged(t, p)); diff != "" {
		t.Error(diff)
	}
	if got := mustKeepChanged(t, p); len(got) > 0 {
		t.Errorf("kept again: %v", got)
	}
}

// TestADamagedIndexOfSessionsIsNotUsed damages the file of the index of sessions.
func TestADamagedIndexOfSessionsIsNotUsed(t *testing.T) {
	p := writeOldSessions(t, manySessions, 2)
	mustKeepChanged(t, p)
	name := filepath.Join(p.Store, "index", "sessions")
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for what, data := range map[string][]byte{"flipped": append(slices.Clone(whole[:len(whole)-1]), whole[len(whole)-1]^1), "short": whole[:20], "half": whole[:len(whole)/2], "empty": nil} {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if got := mustKeepChanged(t, p); len(got) > 0 {
			t.Errorf("%s: kept again: %v", what, got)
		}
		if now, err := os.ReadFile(name); err != nil || len(now) < len(whole)/2 {
			t.Errorf("%s: the index has %d bytes afterwards, %v", what, len(now), err)
		}
	}
	wantAllKept(t, p, manySessions, 2)
}

// TestTheIndexOfSessionsIsSealed seals a store with an index. The index then shows nothing about the sessions, and
// still works.
func TestTheIndexOfSessionsIsSealed(t *testing.T) {
	p := writeOldSessions(t, manySessions, 2)
	mustKeepChanged(t, p)
	g := &fixture{TB: t, place: p, project: filepath.Join(filepath.Dir(p.Store), "project")}
	g.seal(g.keyFile("key"))
	sealed, err := os.ReadFile(filepath.Join(p.Store, "index", "sessions"))
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{sessionID(0), "prompt 0", "/srv/project"} {
		if strings.Contains(string(sealed), text) {
			t.Errorf("the index contains %q", text)
		}
	}
	if got := mustKeepChanged(t, p); len(got) > 0 {
		t.Errorf("kept again: %v", got)
	}
	if after, err := os.ReadFile(filepath.Join(p.Store, "index", "sessions")); err != nil || string(after) != string(sealed) {
		t.Errorf("the index was written again, %v", err)
	}
}

// TestASessionGrowsWhileAllAreKept has an agent add a turn to sessions while segno keeps them, when some are stored
// already. The next call keeps the turn.
func TestASessionGrowsWhileAllAreKept(t *testing.T) {
	p := writeOldSessions(t, manySessions, 2)
	grown := false
	if _, err := keepChanged(t.Context(), p, func(timeline.KeepRequest) {
		if grown {
			return
		}
		grown = true
		for i := range manySessions {
			text := transcriptOf(sessionID(i), fmt.Sprintf("/srv/project-%d", i), 3)
			f, err := os.OpenFile(pathOf(p, i), os.O_WRONLY|os.O_APPEND, 0)
			if err != nil {
				t.Fatal(err)
			}
			if fi, err := f.Stat(); err != nil {
				t.Error(err)
			} else if _, err := f.WriteString(text[fi.Size():]); err != nil {
				t.Error(err)
			}
			if err := f.Close(); err != nil {
				t.Error(err)
			}
		}
	}); err != nil {
		t.Fatal(err)
	}
	if got := mustKeepChanged(t, p); len(got) != manySessions {
		t.Errorf("%d sessions had something new", len(got))
	}
	wantAllKept(t, p, manySessions, 3)
}

// TestAHookMakesAThreadWhileAllAreKept has a hook start the thread of a session that KeepSessions has not reached yet.
// The session is kept on that thread.
func TestAHookMakesAThreadWhileAllAreKept(t *testing.T) {
	const turns = 20 // several groups
	p := writeOldSessions(t, manySessions, turns)
	store, err := p.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var requests []timeline.KeepRequest
	for i := range manySessions {
		r := requestFor(i)
		r.Source.Path = pathOf(p, i)
		requests = append(requests, r)
	}
	last := requests[manySessions-1]
	session := last.Source.Session
	started := false
	if err := store.KeepSessions(t.Context(), requests, func(r timeline.KeepRequest, k timeline.Kept, err error) {
		if err != nil {
			t.Errorf("session %s: %v", r.Source.Session, err)
		}
		if started {
			return
		}
		started = true
		thread := segno.ThreadID(segno.DerivedID("thread", claude.Agent, string(session)))
		if _, err := store.Commit(t.Context(), segno.Commit{ID: "base of the hook", Thread: thread, Create: &segno.Thread{ID: thread, Agent: claude.Agent},
			Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointBase, Agent: claude.Agent, Session: &segno.Position{Agent: claude.Agent, Session: session}},
			Link:       &segno.Link{Agent: claude.Agent, Session: session, Start: p.Now(), Reason: "startup"}}); err != nil {
			t.Error(err)
		}
	}); err != nil {
		t.Fatal(err)
	}
	store.Close()
	wantAllKept(t, p, manySessions, turns)
	if got := mustKeepChanged(t, p); len(got) > 0 {
		t.Errorf("kept again: %v", got)
	}
}

// TestEveryFailureOfKeepingAll fails each disk operation of a first run. Each session that was reported as kept is in
// the store, and the next run keeps each of the others once.
func TestEveryFailureOfKeepingAll(t *testing.T) {
	run := func(faults *faultfs.Faults) {
		p := writeOldSessions(t, manySessions, 2)
		failing := p
		failing.FS = faults.Wrap(vfs.OS)
		reported, _ := keepChanged(t.Context(), failing, func(timeline.KeepRequest) {})
		reported = slices.DeleteFunc(reported, func(line string) bool { return !strings.HasSuffix(line, " 2") })
		rest := mustKeepChanged(t, p)
		if len(reported)+len(rest) < manySessions {
			t.Errorf("%d sessions were kept, then %d", len(reported), len(rest))
		}
		for _, line := range rest {
			if slices.Contains(reported, line) {
				t.Errorf("%s was reported as kept before", line)
			}
		}
		wantAllKept(t, p, manySessions, 2)
	}
	faults := faultfs.FailAt(-1)
	run(faults)
	for i, n := range faultfs.Sample(t, faults.Trace()) {
		faults := faultfs.FailAt(n)
		faults.Forever = i%2 == 0 // a full disk stays full
		run(faults)
	}
}

// keepAllUntilKilled keeps the sessions below home and prints the name of each, until the test kills the process.
func keepAllUntilKilled(home string) {
	if _, err := keepChanged(context.Background(), placeBelow(home), func(r timeline.KeepRequest) {
		os.Stdout.WriteString(string(r.Source.Session) + "\n")
	}); err != nil {
		os.Stdout.WriteString("error: " + err.Error() + "\n")
		os.Exit(1)
	}
	select {} // the test kills it
}

// TestKilledWhileKeepingAll kills a process that keeps many sessions after it has reported none, one, some or all of
// them. The next run keeps each of the others once.
func TestKilledWhileKeepingAll(t *testing.T) {
	const turns = 20 // several groups
	moments := []int{0, 1, 30, manySessions}
	if testing.Short() {
		moments = moments[1:3]
	}
	for _, moment := range moments {
		p := writeSessions(t, manySessions, turns)
		reported := killKeepAll(t, filepath.Dir(p.Homes["claude"]), moment)
		store, err := p.Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, session := range reported {
			found := 0
			for thread, err := range store.Threads(t.Context(), segno.ThreadQuery{Session: segno.SessionID(session)}) {
				if found++; err != nil {
					t.Fatal(err)
				}
				if head, err := store.Head(t.Context(), thread.ID); err != nil || head.Turn != turns {
					t.Errorf("session %s was reported as kept and has %d turns, %v", session, head.Turn, err)
				}
			}
			if found != 1 {
				t.Errorf("session %s has %d threads", session, found)
			}
		}
		store.Close()
		if rest := mustKeepChanged(t, p); len(rest) > manySessions-len(reported) {
			t.Errorf("%d sessions were kept after %d", len(rest), len(reported))
		}
		wantAllKept(t, p, manySessions, turns)
	}
}

// killKeepAll starts the process, kills it once it has reported a number of sessions, and returns them.
func killKeepAll(t *testing.T, home string, moment int) (reported []string) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "SEGNO_TEST_KEEPS_ALL="+home)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for len(reported) < moment && lines.Scan() {
		reported = append(reported, lines.Text())
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	for lines.Scan() { // the sessions that it reported before it ended
		reported = append(reported, lines.Text())
	}
	_ = cmd.Wait()
	if i := slices.IndexFunc(reported, func(s string) bool { return strings.HasPrefix(s, "error") }); i >= 0 {
		t.Fatal(reported[i])
	}
	return reported
}
