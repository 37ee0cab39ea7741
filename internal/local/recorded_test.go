package local_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/internal/testing/recording"
	"github.com/dalsegno/segno/timeline"
	"github.com/dalsegno/segno/transcript/claude"
)

// recordedHome is a recorded session in the home of its agent, beside a store.
type recordedHome struct {
	testing.TB
	place local.Place
	agent string
}

func newRecordedHome(t testing.TB, s recording.Session) *recordedHome {
	t.Helper()
	dir := t.TempDir()
	h := &recordedHome{t, local.Place{Store: filepath.Join(dir, "store"), UserHome: dir, Homes: local.Homes{"claude": filepath.Join(dir, ".claude"), "codex": filepath.Join(dir, ".codex")}, Now: time.Now}, s.Agent}
	if err := s.Install(h.home()); err != nil {
		t.Fatal(err)
	}
	for path, text := range h.files() {
		old := time.Now().Add(-time.Hour)
		for _, at := range timestamps().FindAllStringSubmatch(text, -1) { // a fork is younger than its source
			if at, err := time.Parse(time.RFC3339Nano, at[1]); err == nil {
				old = at
			}
		}
		if err := os.Chtimes(path, old, old); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

func timestamps() *regexp.Regexp { return regexp.MustCompile(`"timestamp":"([^"]*)"`) }

func (h *recordedHome) home() string {
	if h.agent == claude.Agent {
		return h.place.Homes["claude"]
	}
	return h.place.Homes["codex"]
}

// files returns the bytes of each file of the agent, with the time of its last change.
func (h *recordedHome) files() map[string]string {
	h.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(h.home(), func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		data, err := os.ReadFile(path)
		out[path] = fi.ModTime().String() + "\n" + string(data)
		return err
	})
	if err != nil {
		h.Fatal(err)
	}
	return out
}

// wantFiles fails the test for files that changed or are missing. Other files may have been added.
func (h *recordedHome) wantFiles(before map[string]string) {
	h.Helper()
	now := h.files()
	for path, text := range before {
		if now[path] != text {
			h.Errorf("%s has changed from %d to %d bytes", path, len(text), len(now[path]))
		}
	}
}

// transcript returns the newest file of a session.
func (h *recordedHome) transcript(session segno.SessionID) string {
	h.Helper()
	if h.agent == claude.Agent {
		found, err := filepath.Glob(filepath.Join(h.home(), "projects", "*", string(session)+".jsonl"))
		if err != nil || len(found) != 1 {
			h.Fatalf("the files of %s are %v, %v", session, found, err)
		}
		return found[0]
	}
	found, err := recording.Rollouts(h.home(), string(session))
	if err != nil || len(found) == 0 {
		h.Fatalf("the rollouts of %s are %v, %v", session, found, err)
	}
	return found[len(found)-1]
}

// context returns the messages that the agent sends if it resumes a session from src.
func (h *recordedHome) context(src segno.Source) []string {
	h.Helper()
	if h.agent == claude.Agent {
		return recording.LoadClaude([]byte(h.read(src.Path))).Context("")
	}
	got, err := recording.CodexContext(h.home(), string(src.Session))
	if err != nil {
		h.Fatal(err)
	}
	return got
}

// sidecars returns the other files of a session of Claude Code by their names in its directories.
func (h *recordedHome) sidecars(src segno.Source) map[string]string {
	h.Helper()
	out := map[string]string{}
	dirs := map[string]string{"session": strings.TrimSuffix(src.Path, ".jsonl")}
	for _, name := range []string{"tasks", "file-history", "session-env", "todos"} {
		dirs[name] = filepath.Join(h.home(), name, string(src.Session))
	}
	for path, text := range h.files() {
		for name, dir := range dirs {
			if rel, ok := strings.CutPrefix(path, dir+"/"); ok {
				_, bytes, _ := strings.Cut(text, "\n") // the time may differ
				out[name+"/"+rel] = bytes
			}
		}
	}
	return out
}

func (h *recordedHome) read(path string) string {
	h.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		h.Fatal(err)
	}
	return string(data)
}

// rewind restores the files of a session from the end of a turn.
func (h *recordedHome) rewind(p *segno.Position) {
	h.Helper()
	if h.agent == claude.Agent {
		if err := os.Truncate(h.transcript(p.Session), p.Offset); err != nil {
			h.Fatal(err)
		}
		return
	}
	files, err := recording.Rollouts(h.home(), string(p.Session))
	if err != nil {
		h.Fatal(err)
	}
	isPast := false
	for _, path := range files {
		if isPast {
			if err := os.Remove(path); err != nil {
				h.Fatal(err)
			}
			continue
		}
		data := h.read(path)
		end := 0
		for line := range strings.Lines(data) {
			end += len(line)
			if strings.Contains(line, p.Leaf) && (strings.Contains(line, `"task_complete"`) || strings.Contains(line, `"turn_aborted"`)) {
				isPast = true
				break
			}
		}
		if err := os.Truncate(path, int64(end)); err != nil {
			h.Fatal(err)
		}
	}
	if !isPast {
		h.Fatalf("no rollout of %s has the end of turn %s", p.Session, p.Leaf)
	}
}

// open opens the store until the test ends.
func (h *recordedHome) open() *local.Store {
	h.Helper()
	store, err := h.place.Open(context.Background())
	if err != nil {
		h.Fatal(err)
	}
	h.Cleanup(func() { store.Close() })
	return store
}

// request names a session as the commands do.
func (h *recordedHome) request(session segno.SessionID) timeline.KeepRequest {
	r := timeline.KeepRequest{Agent: h.agent, Source: segno.Source{Session: session}}
	found, _ := h.place.FindSessions(context.Background())
	for _, f := range found {
		if f.Session == session {
			r.Source.Path = f.Path
		}
	}
	return r
}

// keep keeps a session and returns the position of each of its turns.
func (h *recordedHome) keep(store *local.Store, session segno.SessionID) (turns []*segno.Position) {
	h.Helper()
	ctx := context.Background()
	k, err := store.SessionTimeline().KeepSession(ctx, h.request(session))
	if err != nil {
		h.Fatal(err)
	}
	for c, err := range store.Checkpoints(ctx, segno.CheckpointQuery{Thread: k.Thread, Session: session}) {
		if err != nil {
			h.Fatal(err)
		}
		if c.Kind == segno.CheckpointTurn {
			turns = append(turns, c.Session)
		}
	}
	slices.Reverse(turns)
	return turns
}

// recordedTurns is the number of turns in the recorded sessions. For a fork, only its new turns
// count.
const recordedTurns = 83

// TestEveryTurnOfEveryRecordedSession cuts each recorded session at each of its turns. It also moves, keeps, purges and
// resumes each session in its state at that turn. The model gets the same context as from the original at that turn. At
// the newest turn, that is the context that the real agent sent.
func TestEveryTurnOfEveryRecordedSession(t *testing.T) {
	all, err := recording.All()
	if err != nil {
		t.Fatal(err)
	}
	if testing.Short() {
		all = all[:1]
	}
	var total atomic.Int64
	t.Run("all", func(t *testing.T) {
		for _, s := range all {
			t.Run(s.Agent+"/"+s.Name, func(t *testing.T) {
				t.Parallel()
				total.Add(int64(atEveryTurn(t, s)))
			})
		}
	})
	if n := total.Load(); n != recordedTurns && !testing.Short() {
		t.Errorf("the sessions have %d turns, not %d", n, recordedTurns)
	}
}

// atEveryTurn tests one recorded session. It returns the number of turns in the session and its
// sources.
func atEveryTurn(t *testing.T, s recording.Session) (total int) {
	h := newRecordedHome(t, s)
	before := h.files()
	store := h.open()
	found, skipped := h.place.FindSessions(t.Context())
	if len(skipped) > 0 || len(found) == 0 {
		t.Fatalf("found %v, skipped %v", found, skipped)
	}
	for _, f := range slices.Backward(found) {
		turns := h.keep(store, f.Session)
		total += len(turns)
		for i, p := range turns {
			then := newRecordedHome(t, s)
			if i < len(turns)-1 {
				then.rewind(p)
			}
			src := segno.Source{Session: f.Session, Path: then.transcript(f.Session)}
			want := then.context(src)
			if diff := cmp.Diff(s.Context, want); i == len(turns)-1 && string(f.Session) == s.ID && s.Context != nil && diff != "" {
				t.Errorf("the context of the original:\n%s", diff)
			}
			h.cutAt(store, p, i, want)
			then.moveAndPurge(src, want)
		}
	}
	h.wantFiles(before)
	return total
}

// wantSession compares the context and the sidecars of a session with those of the original.
func (h *recordedHome) wantSession(what string, src segno.Source, context []string, sidecars map[string]string) {
	h.Helper()
	if diff := cmp.Diff(context, h.context(src)); diff != "" {
		h.Errorf("%s: the context:\n%s", what, diff)
	}
	if diff := cmp.Diff(sidecars, h.sidecars(src)); diff != "" {
		h.Errorf("%s: the sidecars:\n%s", what, diff)
	}
}

// cutAt cuts a session at a turn, in another directory.
func (h *recordedHome) cutAt(store *local.Store, p *segno.Position, i int, want []string) {
	h.Helper()
	what := fmt.Sprintf("cut %s at turn %d", p.Session, i+1)
	to := segno.Target{Session: segno.SessionID(fmt.Sprintf("%08x%s", i+1, string(p.Session)[8:])), Dir: "/elsewhere"}
	src, err := store.Transcripts()[h.agent].Cut(context.Background(), *p, to, store.Objects())
	if err != nil {
		h.Errorf("%s: %v", what, err)
		return
	}
	h.wantSession(what, src, want, h.sidecars(segno.Source{Session: p.Session, Path: h.transcript(p.Session)}))
}

// moveAndPurge moves a session, removes all files of the agent, and resumes the session.
func (h *recordedHome) moveAndPurge(src segno.Source, want []string) {
	h.Helper()
	ctx := context.Background()
	store := h.open()
	before, sidecars, bytes := h.files(), h.sidecars(src), h.read(src.Path)
	dir := h.TempDir()
	m, err := store.SessionTimeline().MoveSession(ctx, h.request(src.Session), dir)
	if err != nil {
		h.Errorf("move %s: %v", src.Session, err)
		return
	}
	h.wantSession(fmt.Sprintf("move %s", src.Session), m.To, want, sidecars)
	h.wantFiles(before)

	if err := os.RemoveAll(h.home()); err != nil {
		h.Fatal(err)
	}
	m, err = store.SessionTimeline().ResumeSession(ctx, h.request(src.Session), dir)
	if err != nil {
		h.Errorf("resume %s: %v", src.Session, err)
		return
	}
	h.wantSession(fmt.Sprintf("resume %s", src.Session), m.To, want, sidecars)
	if got := h.read(m.To.Path); h.agent == claude.Agent && got != bytes[:strings.LastIndexByte(bytes, '\n')+1] || m.To.Session != src.Session {
		h.Errorf("resume %s: %d bytes came back of %d, as %s", src.Session, len(got), len(bytes), m.To.Session)
	}
}
