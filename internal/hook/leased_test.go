package hook

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/hook/event"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/timeline"
	"github.com/dalsegno/segno/transcript/claude"
)

const session = "11111111-0000-4000-8000-000000000001"

// leasedProject is a project whose agent runs hooks while another process may record it under a
// lease.
type leasedProject struct {
	*testing.T
	place   local.Place
	project string
	ids     int
	head    string // of the session's transcript
}

func newLeasedProject(t *testing.T) *leasedProject {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	tick := time.Unix(1_800_000_000, 0)
	s := &leasedProject{T: t, project: filepath.Join(dir, "project"), place: local.Place{Store: filepath.Join(dir, "store"), UserHome: filepath.Join(dir, "home"),
		Homes: local.Homes{"claude": filepath.Join(dir, "home", ".claude")}, Now: func() time.Time { tick = tick.Add(time.Second); return tick }}}
	if err := os.Mkdir(s.project, 0o755); err != nil {
		t.Fatal(err)
	}
	s.write("0")
	return s
}

func (s *leasedProject) write(content string) {
	s.Helper()
	if err := os.WriteFile(filepath.Join(s.project, "a"), []byte(content), 0o644); err != nil {
		s.Fatal(err)
	}
}

func (s *leasedProject) transcript() string {
	return filepath.Join(s.place.Homes["claude"], "projects", claude.Slug(s.project), session+".jsonl")
}

// exchange appends the agent's records of a turn to the transcript.
func (s *leasedProject) exchange(text string) {
	s.Helper()
	if err := os.MkdirAll(filepath.Dir(s.transcript()), 0o700); err != nil {
		s.Fatal(err)
	}
	f, err := os.OpenFile(s.transcript(), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		s.Fatal(err)
	}
	defer f.Close()
	for _, message := range []string{
		fmt.Sprintf(`"type":"user","promptId":"own-%s","permissionMode":"default","message":{"role":"user","content":%q}`, text, text),
		fmt.Sprintf(`"type":"assistant","message":{"model":"m","id":"msg-%d","type":"message","role":"assistant","content":[{"type":"text","text":"done"}],"stop_reason":"end_turn"}`, s.ids),
	} {
		parent := "null"
		if s.head != "" {
			parent = `"` + s.head + `"`
		}
		s.ids++
		s.head = fmt.Sprintf("%08x-aaaa-4bbb-8ccc-%012x", s.ids, s.ids)
		_, err := fmt.Fprintf(f, `{"parentUuid":%s,"isSidechain":false,%s,"uuid":"%s","timestamp":"2026-03-01T12:00:%02d.000Z","userType":"external","entrypoint":"sdk","cwd":%q,"sessionId":"%s","version":"2.1.197"}`+"\n",
			parent, message, s.head, s.ids, s.project, session)
		if err != nil {
			s.Fatal(err)
		}
	}
}

// payload returns an event of the session with additional members.
func (s *leasedProject) payload(name string, more ...any) string {
	s.Helper()
	p := map[string]any{"hook_event_name": name, "session_id": session, "cwd": s.project, "transcript_path": s.transcript()}
	for i := 0; i < len(more); i += 2 {
		p[more[i].(string)] = more[i+1]
	}
	data, err := json.Marshal(p)
	if err != nil {
		s.Fatal(err)
	}
	return string(data)
}

// sendEvent sends an event to the hook of segno.
func (s *leasedProject) sendEvent(name string, more ...any) {
	s.Helper()
	var out bytes.Buffer
	Run(s.Context(), "claude", Event{Place: s.place, Stdin: strings.NewReader(s.payload(name, more...)), Stdout: &out, Getenv: func(string) string { return "" }})
	if out.Len() > 0 {
		s.Errorf("%s: unexpected answer to the agent: %s", name, &out)
	}
}

// sendToolEvent sends an event to segno-hook.
func (s *leasedProject) sendToolEvent(name string, more ...any) {
	s.Helper()
	event.ToolHook{Stdin: strings.NewReader(s.payload(name, more...)), Stdout: io.Discard, Getenv: func(string) string { return "" }, Now: s.place.Now,
		Delegate: func(context.Context, io.Reader) error { s.Error("handed on:", name); return nil },
	}.Run(s.Context(), []string{"--store", s.place.Store, "hook", "claude"})
}

// wantNoFailures checks that the hooks logged no failure.
func (s *leasedProject) wantNoFailures() {
	s.Helper()
	fails, err := event.Log{Store: s.place.Store}.Failures(10)
	if err != nil || len(fails) > 0 {
		s.Errorf("the hooks' log: %v, %v", fails, err)
	}
}

// as calls do with a timeline that holds the lease.
func (s *leasedProject) as(l segno.Lease, do func(ctx context.Context, st *local.Store, r *timeline.Timeline) error) {
	s.Helper()
	ctx := s.Context()
	st, err := s.place.Open(ctx)
	if err != nil {
		s.Fatal(err)
	}
	defer st.Close()
	rec, err := st.Register(ctx, s.project)
	if err != nil {
		s.Fatal(err)
	}
	site, err := st.Timeline(rec, nil)
	if err != nil {
		s.Fatal(err)
	}
	site.Lease = l
	if err := do(ctx, st, site); err != nil {
		s.Fatal(err)
	}
}

func (s *leasedProject) source() segno.Source { return segno.Source{Session: session, Dir: s.project} }

// own opens the session's thread and acquires its lease.
func (s *leasedProject) own() (l segno.Lease) {
	s.Helper()
	s.as(l, func(ctx context.Context, st *local.Store, r *timeline.Timeline) error {
		thread, err := r.AdoptSession(ctx, timeline.Adoption{Agent: "claude", Source: s.source(), Title: "one"})
		if err != nil {
			return err
		}
		l, err = st.Acquire(ctx, segno.Lease{Thread: thread, Owner: "the proxy", Expires: s.place.Now().Add(time.Hour)})
		return err
	})
	return l
}

func (s *leasedProject) begin(l segno.Lease, key string) {
	s.Helper()
	s.as(l, func(ctx context.Context, _ *local.Store, r *timeline.Timeline) error {
		_, err := r.BeginTurn(ctx, timeline.Prompt{Key: segno.TurnKey(key), Agent: "claude", Source: s.source(), Text: key, Owner: l.Owner})
		return err
	})
}

func (s *leasedProject) end(l segno.Lease, key string) (c *segno.Checkpoint) {
	s.Helper()
	s.as(l, func(ctx context.Context, _ *local.Store, r *timeline.Timeline) (err error) {
		c, err = r.EndTurn(ctx, timeline.TurnEnd{Key: segno.TurnKey(key), Agent: "claude", Source: s.source()})
		return err
	})
	return c
}

func (s *leasedProject) release(l segno.Lease) {
	s.Helper()
	s.as(segno.Lease{}, func(ctx context.Context, st *local.Store, _ *timeline.Timeline) error { return st.Release(ctx, l) })
}

// recorded returns the prompts of all turns, oldest first.
func (s *leasedProject) recorded() (prompts []string) {
	s.Helper()
	s.as(segno.Lease{}, func(ctx context.Context, st *local.Store, _ *timeline.Timeline) error {
		for c, err := range st.Checkpoints(ctx, segno.CheckpointQuery{}) {
			if err != nil {
				return err
			}
			if c.Kind == segno.CheckpointTurn {
				prompts = append(prompts, c.Prompt)
			}
		}
		return nil
	})
	slices.Reverse(prompts)
	return prompts
}

func (s *leasedProject) wantRecorded(want ...string) {
	s.Helper()
	if got := s.recorded(); !slices.Equal(got, want) {
		s.Errorf("recorded are %q, want %q", got, want)
	}
}

// spoolEntries returns the entries of an open turn except for its prompt.
func (s *leasedProject) spoolEntries(key string) []segno.Entry {
	s.Helper()
	es, bad, err := s.place.Spool().Entries(s.Context(), segno.TurnKey(key))
	if err != nil || bad > 0 {
		s.Fatalf("%d entries cannot be read, %v", bad, err)
	}
	return es
}

func (s *leasedProject) open() (keys []segno.TurnKey) {
	s.Helper()
	turns, err := s.place.Spool().Turns(s.Context())
	if err != nil {
		s.Fatal(err)
	}
	for _, t := range turns {
		keys = append(keys, t.Key)
	}
	return keys
}

func (s *leasedProject) wantOpen(want ...segno.TurnKey) {
	s.Helper()
	if got := s.open(); !slices.Equal(got, want) {
		s.Errorf("open are %q, want %q", got, want)
	}
}

func (s *leasedProject) countDeferred() int {
	s.Helper()
	names, err := filepath.Glob(filepath.Join(s.place.Store, "turns", "*"))
	if err != nil {
		s.Fatal(err)
	}
	return len(names)
}

// TestHooksOfALeasedSession sends all events of a turn that a lease holder records to segno and
// segno-hook. The hooks record the tool calls on that turn and nothing else.
func TestHooksOfALeasedSession(t *testing.T) {
	for name, hears := range map[string]func(*leasedProject, string, ...any){"segno": (*leasedProject).sendEvent, "segno-hook": (*leasedProject).sendToolEvent} {
		t.Run(name, func(t *testing.T) {
			s := newLeasedProject(t)
			l := s.own()
			s.begin(l, "one")
			s.sendEvent("UserPromptSubmit", "prompt_id", "own-one", "prompt", "one")
			hears(s, "PreToolUse", "prompt_id", "own-one", "tool_name", "Write", "tool_use_id", "t1", "tool_input", map[string]string{"file_path": "a"})
			s.write("1")
			hears(s, "PostToolUse", "prompt_id", "own-one", "tool_name", "Write", "tool_use_id", "t1", "tool_response", "ok")
			hears(s, "PostToolUseFailure", "prompt_id", "own-one", "tool_name", "Bash", "tool_use_id", "t2", "error", "Exit code 3")
			s.exchange("one")
			s.sendEvent("Stop", "prompt_id", "own-one")
			s.sendEvent("SessionEnd", "reason", "other")
			s.wantRecorded()
			s.wantOpen("one")
			if n := s.countDeferred(); n != 1 {
				t.Errorf("%d turns are in the spool", n)
			}
			c := s.end(l, "one")
			s.wantRecorded("one")
			s.wantOpen()
			if c.Files != (segno.Counts{Modified: 1}) || c.Interrupted || c.Session.Leaf != s.head {
				t.Errorf("the turn is %+v", c)
			}
			s.wantCalls(c.ID, "intent t1", "result t1", "result t2")
			s.wantNoFailures()
		})
	}
}

// wantCalls checks the entries of a checkpoint that belong to tool calls.
func (s *leasedProject) wantCalls(id segno.CommitID, want ...string) (es []segno.Entry) {
	s.Helper()
	s.as(segno.Lease{}, func(ctx context.Context, st *local.Store, _ *timeline.Timeline) error {
		line, err := st.Load(ctx, id, segno.Window{Last: 1, Entries: true})
		if err != nil {
			return err
		}
		for _, e := range line.Commits[0].Entries {
			if e.ID != "" {
				es = append(es, e)
			}
		}
		return nil
	})
	var got []string
	for _, e := range es {
		got = append(got, string(e.Kind)+" "+e.ID)
	}
	if !slices.Equal(got, want) {
		s.Errorf("the calls are %q, want %q", got, want)
	}
	return es
}

// TestACallReportedTwice checks that a tool call that both the hook and the lease holder report is
// recorded once, with the more complete content at the position of the first report.
func TestACallReportedTwice(t *testing.T) {
	full := map[string]string{"file_path": "a", "content": strings.Repeat("x", 100)}
	for _, proxyKnowsMore := range []bool{false, true} {
		s := newLeasedProject(t)
		l := s.own()
		s.begin(l, "one")
		body, input := `{}`, full
		if proxyKnowsMore {
			data, err := json.Marshal(full)
			if err != nil {
				t.Fatal(err)
			}
			body, input = string(data), map[string]string{}
		}
		note := func(kind segno.EntryKind, id, body string) {
			t.Helper()
			err := s.place.Spool().AppendEntry(t.Context(), "one", segno.Entry{Kind: kind, ID: id, Name: "Write", Session: session, Time: s.place.Now(), Body: json.RawMessage(body)})
			if err != nil {
				t.Fatal(err)
			}
		}
		note(segno.EntryIntent, "t1", body)
		note(segno.EntryIntent, "t2", `{"file_path":"b"}`)
		s.sendEvent("PreToolUse", "prompt_id", "own-one", "tool_name", "Write", "tool_use_id", "t1", "tool_input", input)
		s.sendToolEvent("PreToolUse", "prompt_id", "own-one", "tool_name", "Write", "tool_use_id", "t1", "tool_input", input)
		note(segno.EntryResult, "t1", `{"response":"ok"}`)
		s.sendEvent("PostToolUse", "prompt_id", "own-one", "tool_name", "Write", "tool_use_id", "t1", "tool_response", "ok")
		s.exchange("one")
		es := s.wantCalls(s.end(l, "one").ID, "intent t1", "intent t2", "result t1")
		var said map[string]string
		if err := json.Unmarshal(es[0].Body, &said); err != nil || said["content"] != full["content"] {
			t.Errorf("the proxy knows more %v: of the call is kept %s, %v", proxyKnowsMore, es[0].Body, err)
		}
		if len(es) > 1 && es[1].Time.Before(es[0].Time) {
			t.Errorf("the first call is at %v, the second at %v", es[0].Time, es[1].Time)
		}
	}
}

// TestHooksAfterALease checks that hooks record again after the lease was released or has expired.
func TestHooksAfterALease(t *testing.T) {
	for name, over := range map[string]func(*leasedProject, segno.Lease){
		"released": (*leasedProject).release,
		"expired": func(s *leasedProject, _ segno.Lease) {
			now := s.place.Now
			s.place.Now = func() time.Time { return now().Add(2 * time.Hour) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newLeasedProject(t)
			l := s.own()
			s.begin(l, "one")
			s.write("1")
			s.exchange("one")
			one := s.end(l, "one")
			over(s, l)
			s.sendEvent("UserPromptSubmit", "prompt_id", "own-two", "prompt", "two")
			s.wantOpen("own-two")
			s.sendEvent("PreToolUse", "prompt_id", "own-two", "tool_name", "Write", "tool_use_id", "t1", "tool_input", map[string]string{})
			s.write("2")
			s.exchange("two")
			s.sendEvent("Stop", "prompt_id", "own-two")
			s.wantRecorded("one", "two")
			s.as(segno.Lease{}, func(ctx context.Context, st *local.Store, _ *timeline.Timeline) error {
				head, err := st.Head(ctx, one.Thread)
				if err == nil && head.Turn != 2 {
					t.Errorf("the thread stands at %+v", head)
				}
				return err
			})
			s.wantNoFailures()
		})
	}
}

// TestALateStop sends the Stop event of a turn that the lease holder has recorded. It
// creates no other turn.
func TestALateStop(t *testing.T) {
	for name, late := range map[string]func(*leasedProject){
		"Stop":        func(s *leasedProject) { s.sendEvent("Stop", "prompt_id", "own-one") },
		"StopFailure": func(s *leasedProject) { s.sendEvent("StopFailure", "prompt_id", "own-one", "error", "rate_limit") },
		"SessionEnd":  func(s *leasedProject) { s.sendEvent("SessionEnd") },
	} {
		t.Run(name, func(t *testing.T) {
			s := newLeasedProject(t)
			l := s.own()
			s.begin(l, "one")
			s.sendEvent("UserPromptSubmit", "prompt_id", "own-one", "prompt", "one")
			s.write("1")
			s.exchange("one")
			s.end(l, "one")
			s.release(l)
			late(s)
			s.wantRecorded("one")
			s.wantOpen()
		})
	}
}

// TestAnotherSessionBesideALease checks that the hooks of another session record its turns.
func TestAnotherSessionBesideALease(t *testing.T) {
	s := newLeasedProject(t)
	l := s.own()
	s.begin(l, "one")
	other := []any{"session_id", "22222222-0000-4000-8000-000000000002", "transcript_path", "", "prompt_id", "other"}
	var out bytes.Buffer // contains the warning that two agents work here
	Run(t.Context(), "claude", Event{Place: s.place, Stdin: strings.NewReader(s.payload("UserPromptSubmit", append(other, "prompt", "theirs")...)), Stdout: &out, Getenv: func(string) string { return "" }})
	if !strings.Contains(out.String(), "another agent is active") {
		t.Errorf("the agent received %q", &out)
	}
	s.sendEvent("PreToolUse", append(other, "tool_name", "Write", "tool_use_id", "t1", "tool_input", 1)...)
	if n := len(s.spoolEntries("one")); n != 0 {
		t.Errorf("%d calls of another session are noted on the owner's turn", n)
	}
	s.wantOpen("one", "other")
	s.write("1")
	s.sendEvent("Stop", other...)
	s.wantOpen("one")
	s.wantRecorded("theirs")
	s.exchange("one")
	s.end(l, "one")
	s.wantRecorded("theirs", "one")
	s.wantNoFailures()
}
