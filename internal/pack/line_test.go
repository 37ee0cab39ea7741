package pack_test

import (
	"context"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/agent/model/offline"
	"github.com/dalsegno/segno/archive"
	"github.com/dalsegno/segno/internal/chat"
	"github.com/dalsegno/segno/internal/pack"
)

// askedModel records the requests to the offline model.
type askedModel struct {
	agent.Model
	asked []agent.Request
}

func (m *askedModel) Generate(ctx context.Context, r agent.Request) iter.Seq2[agent.Chunk, error] {
	m.asked = append(m.asked, r)
	return m.Model.Generate(ctx, r)
}

// say runs a turn of segno's own agent, and returns the first request to its model.
func (m *machine) say(dir, session, prompt string) agent.Request {
	m.Helper()
	rec, err := m.store.Register(m.Context(), dir)
	must(m, err)
	tl, err := m.store.Timeline(rec, nil)
	must(m, err)
	model := &askedModel{Model: offline.New()}
	c, err := chat.Open(m.Context(), chat.Config{Model: model, Store: m.store, Timeline: tl, Dir: dir, Session: session, Actor: "ann", SkipApproval: true})
	must(m, err)
	defer c.Close()
	for _, err := range c.Stream(m.Context(), agent.Input{Prompt: prompt}) {
		must(m, err)
	}
	asked := model.asked[0]
	last := &asked.Messages[len(asked.Messages)-1]
	if last.ID == "" || last.Time.IsZero() {
		m.Errorf("the prompt is %+v", last)
	}
	last.ID, last.Time = "", time.Time{} // of the new prompt
	return asked
}

// TestAChatContinuesElsewhere moves a session of segno's own agent to another machine. The model
// gets exactly the same context there, and earlier turns can be undone.
func TestAChatContinuesElsewhere(t *testing.T) {
	from, to := newMachine(t), newMachine(t)
	project, elsewhere := filepath.Join(from.dir, "project"), filepath.Join(to.dir, "elsewhere")
	must(t, os.Mkdir(project, 0o755))
	from.say(project, "work", `write a.txt: one <two> & "three"`)
	from.say(project, "work", "remember the colour is blue")
	head, err := from.store.Head(t.Context(), "work")
	must(t, err)
	f := &fixture{T: t, store: from.store}
	name, manifest := f.pack(head.Head, pack.Options{})
	if a := manifest.Agents[0]; a.SessionFormat != "segno-v1" || a.SessionID != "work" || len(manifest.Tree("segno", archive.Session)) != 2 {
		t.Errorf("agent %+v", a)
	}
	r := f.open(name)
	into := pack.Into{Dir: elsewhere, TrustSession: true}
	done, err := pack.Unpack(t.Context(), r, into)
	must(t, err)
	must(t, to.importer().Sessions(t.Context(), r, into, done))
	want := []string{"segno", "chat", "--session", "work"}
	if diff := cmp.Diff(want, done.Agents[0].Command); diff != "" || len(done.Skipped) > 0 {
		t.Errorf("unpacked %+v", done)
	}
	here := from.say(project, "work", "recall the colour")
	there := to.say(elsewhere, "work", "recall the colour")
	there.System = strings.ReplaceAll(there.System, elsewhere, project)
	if diff := cmp.Diff(here, there); diff != "" {
		t.Errorf("the request (-here +there):\n%s", diff)
	}
	if n := len(there.Messages); n != 7 {
		t.Errorf("%d messages", n)
	}
	must(t, check(t, to))

	// The conversation of an untrusted archive is not loaded.
	other := newMachine(t)
	into = pack.Into{Dir: filepath.Join(other.dir, "elsewhere")}
	done, err = pack.Unpack(t.Context(), r, into)
	must(t, err)
	must(t, other.importer().Sessions(t.Context(), r, into, done))
	if done.Agents[0].Command != nil || len(done.Skipped) != 2 {
		t.Errorf("unpacked %+v", done)
	}
	// The first machine already has a thread with this id.
	into = pack.Into{Dir: filepath.Join(from.dir, "copy"), TrustSession: true}
	done, err = pack.Unpack(t.Context(), r, into)
	must(t, err)
	must(t, from.importer().Sessions(t.Context(), r, into, done))
	session := string(done.Agents[0].Session)
	if !strings.HasPrefix(session, "work-") {
		t.Fatalf("session %q", session)
	}
	again := from.say(filepath.Join(from.dir, "copy"), session, "recall the colour")
	if diff := cmp.Diff(here.Messages, again.Messages); diff != "" {
		t.Errorf("the request (-here +copy):\n%s", diff)
	}
	// A whole thread of this agent can also be moved.
	name, _ = packThread(t, from.store, "work", pack.Options{})
	last := newMachine(t)
	got, err := last.importer().Thread(t.Context(), f.open(name), pack.Into{Dir: filepath.Join(last.dir, "all"), TrustSession: true})
	must(t, err)
	here = from.say(project, "work", "count")
	there = last.say(got.Dir, "work", "count")
	if diff := cmp.Diff(here.Messages, there.Messages); diff != "" {
		t.Errorf("the request (-here +there):\n%s", diff)
	}
}
