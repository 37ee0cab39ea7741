package agent_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/saver"
)

func leaveAtDone(r *rig) {
	for e, err := range r.agent.Stream(r.ctx, agent.Input{Thread: thread, Prompt: "remember the colour is blue"}) {
		r.ok(err)
		if e.Kind == agent.EventDone {
			break
		}
	}
	r.restart()
	if m := r.messages(thread, ""); len(m) != 2 || m[1].Text() != "noted: the colour is blue" {
		r.Errorf("saved: %+v", m)
	}
	if done := r.one(r.prompt("recall the colour"), agent.EventDone); done.Text != "the colour is blue" {
		r.Errorf("it recalls %q", done.Text)
	}
}

func loadedCopies(r *rig) {
	r.prompt("write a.txt: hello")
	before := encode(r, r.messages(thread, ""))
	for _, m := range r.messages(thread, "") {
		for _, p := range m.Parts {
			if p.Call != nil {
				copy(p.Call.Args, `{"path":"OTHER"`)
				p.Call.Name = "other"
			}
			if p.Result != nil {
				p.Result.Text = "other"
			}
		}
	}
	saved, err := r.agent.Saver().Load(r.ctx, saver.ThreadKey{Thread: thread})
	r.ok(err)
	clear(saved.State["files/a.txt"])
	clear(saved.Messages[0])
	if after := encode(r, r.messages(thread, "")); after != before {
		r.Errorf("what was loaded was changed, and the store with it:\n%s\n%s", before, after)
	}
	r.prompt("read a.txt")
	if res := r.results(thread); !contains(res[1].Text, "hello") {
		r.Errorf("the file says %q", res[1].Text)
	}
}

func encode(r *rig, v any) string {
	r.Helper()
	text, err := json.Marshal(v)
	r.ok(err)
	return string(text)
}

func createdStays(r *rig) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	r.with(func(c *agent.Config) { c.Now = func() time.Time { return now } })
	r.prompt("say one")
	made := now
	now = now.Add(24 * time.Hour)
	r.restart()
	r.prompt("say two")
	saved, err := r.agent.Saver().Load(r.ctx, saver.ThreadKey{Thread: thread})
	r.ok(err)
	if !saved.Created.Equal(made) || !saved.Updated.Equal(now) {
		r.Errorf("created %s, updated %s; want %s and %s", saved.Created, saved.Updated, made, now)
	}
	for info, err := range r.agent.Saver().List(r.ctx, "") {
		r.ok(err)
		if !info.Created.Equal(made) || !info.Updated.Equal(now) || info.Thread != thread {
			r.Errorf("listed as %+v", info)
		}
	}
}

func callsAreSaved(r *rig) {
	r.prompt("write a.txt: hello ; read b.txt")
	saved, err := saver.New(r.store).Load(r.ctx, saver.ThreadKey{Thread: thread})
	r.ok(err)
	var calls, results []string
	for i, body := range saved.Messages {
		var m agent.Message
		r.ok(json.Unmarshal(body, &m))
		if !reflect.DeepEqual(m, r.messages(thread, "")[i]) {
			r.Errorf("message %d of the saver is not the agent's", i)
		}
		for _, p := range m.Parts {
			if p.Call != nil {
				calls = append(calls, p.Call.ID+" "+p.Call.Name+string(p.Call.Args))
			}
			if p.Result != nil {
				results = append(results, p.Result.Call+" "+p.Result.Name)
			}
		}
	}
	if want := []string{`call_1 write_file{"content":"hello","path":"a.txt"}`, `call_2 read_file{"path":"b.txt"}`}; !reflect.DeepEqual(calls, want) {
		r.Errorf("saved calls %q", calls)
	}
	if want := []string{"call_1 write_file", "call_2 read_file"}; !reflect.DeepEqual(results, want) {
		r.Errorf("saved results %q", results)
	}
}

func stepsGoOn(r *rig) {
	r.prompt("write a: 1\nwrite b: 2")
	r.restart()
	if at := r.one(r.prompt("say hi"), agent.EventLoaded).Loaded; at.Step != 3 || at.Messages != 6 {
		r.Errorf("the second run begins at %+v", at)
	}
	if saved, err := r.agent.Saver().Load(r.ctx, saver.ThreadKey{Thread: thread}); err != nil || saved.Step != 4 {
		r.Errorf("step %d (%v), want 4", saved.Step, err)
	}
}

func likeNames(r *rig) {
	ids := []string{"a/b", "a_b", "a:b", "user:42", "日本", "中国", "A/B", "../a", "a=b", "__proto__", "x\x00y", "x"}
	for _, id := range ids {
		r.run(agent.Input{Thread: id, Prompt: "remember the name is " + encode(r, id)})
	}
	r.restart()
	for _, id := range ids {
		if done := r.one(r.run(agent.Input{Thread: id, Prompt: "recall the name"}), agent.EventDone); done.Text != "the name is "+encode(r, id) {
			r.Errorf("%q says %q", id, done.Text)
		}
	}
	seen := map[string]bool{}
	for info, err := range r.agent.Saver().List(r.ctx, "") {
		r.ok(err)
		seen[info.Thread] = true
	}
	for _, id := range ids {
		if !seen[id] {
			r.Errorf("%q is not listed", id)
		}
	}
	if len(seen) != len(ids) {
		r.Errorf("%d threads, want %d", len(seen), len(ids))
	}
}

func unsavedRun(r *rig) {
	o, err := r.agent.Run(r.ctx, agent.Input{Prompt: "write a.txt: hello\nread a.txt"})
	r.ok(err)
	if !contains(o.Text, "hello") {
		r.Errorf("it answers %q", o.Text)
	}
	bare, err := agent.New(agent.Config{Model: r.config.Model}).Run(r.ctx, agent.Input{Thread: thread, Prompt: "say hi"})
	r.ok(err)
	if bare.Text != "hi" {
		r.Errorf("without a store it answers %q", bare.Text)
	}
	for x, err := range r.store.Threads(r.ctx, segno.ThreadQuery{}) {
		r.ok(err)
		r.Errorf("it left the thread %q", x.ID)
	}
}

func stateComesBack(r *rig) {
	r.prompt("todo buy milk ; todo walk the dog ; write a.txt: hello")
	r.prompt("todo sleep\ndone buy milk")
	r.restart()
	at := r.one(r.prompt("read a.txt"), agent.EventLoaded).Loaded
	if at.Todos != 3 || at.Files != 1 || at.Messages != len(r.messages(thread, ""))-4 {
		r.Errorf("the third run begins with %+v", at)
	}
	saved, err := r.agent.Saver().Load(r.ctx, saver.ThreadKey{Thread: thread})
	r.ok(err)
	var todos []agent.Todo
	r.ok(json.Unmarshal(saved.State["todos"], &todos))
	want := []agent.Todo{{ID: "1", Text: "buy milk", Status: "completed"}, {ID: "2", Text: "walk the dog", Status: "pending"}, {ID: "3", Text: "sleep", Status: "pending"}}
	if !reflect.DeepEqual(todos, want) {
		r.Errorf("todos are %+v", todos)
	}
	if res := r.results(thread); !contains(res[len(res)-1].Text, "hello") {
		r.Errorf("the file says %q", res[len(res)-1].Text)
	}
}

func repeatedIDs(r *rig) {
	model := replies(
		calls("call_0", "write_file", `{"path":"a.txt","content":"one"}`, "call_0", "write_file", `{"path":"b.txt","content":"two"}`),
		calls("call_0", "send_email", `{"to":"a"}`, "", "send_email", `{"to":"b"}`),
		calls("call_0", "send_email", `{"to":"c"}`),
		says("done"))
	r.asking().with(func(c *agent.Config) { c.Model = model })
	r.prompt("go")
	r.answers("wrote", "wrote")
	open := r.open(thread)
	if len(open) != 2 || open[0].Call == open[1].Call {
		r.Fatalf("waiting: %+v", open)
	}
	r.run(agent.Input{Decide: []segno.Decision{approve(open[0]), reject(open[1], "")}})
	r.sent("a")
	r.finish(approve(r.question()))
	r.sent("a", "c")
	seen := map[string]bool{}
	for _, res := range r.results(thread) {
		if seen[res.Call] {
			r.Errorf("two calls have the id %q", res.Call)
		}
		seen[res.Call] = true
	}
	asked := model.requests()
	for i, q := range asked {
		if err := paired(q); err != nil {
			r.Errorf("request %d: %v", i+1, err)
		}
	}
	var shown []string
	for _, m := range asked[len(asked)-1].Messages {
		for _, p := range m.Parts {
			if p.Result != nil {
				shown = append(shown, p.Result.Text)
			}
		}
	}
	want := []string{"wrote a.txt (3 bytes)", "wrote b.txt (3 bytes)", "sent to a", "rejected by the user", "sent to c"}
	if !slices.Equal(shown, want) {
		r.Errorf("in the order of its calls the model was told %q, want %q", shown, want)
	}
}

func TestDamagedThreadIsCorrupt(t *testing.T) {
	for _, damage := range []struct {
		name  string
		entry segno.Entry
	}{
		{"message", segno.Entry{Kind: segno.EntryMessage, Body: json.RawMessage(`["not a message"]`)}},
		{"interrupt", segno.Entry{Kind: segno.EntryInterrupt, ID: "x", Body: json.RawMessage(`7`)}},
		{"keep", segno.Entry{Kind: segno.EntryKeep, Body: json.RawMessage(`1000`)}},
	} {
		t.Run(damage.name, func(t *testing.T) {
			eachStore(t, func(r *rig) {
				r.prompt("say one")
				head, err := r.store.Head(r.ctx, thread)
				r.ok(err)
				_, err = r.store.Commit(r.ctx, segno.Commit{ID: segno.CommitID(segno.NewID()), Thread: thread, Parent: head.Head, Expect: head.Head,
					Epoch: head.Epoch, Entries: []segno.Entry{damage.entry}})
				r.ok(err)
				r.restart()
				r.refused(agent.Input{Prompt: "say two"}, segno.KindCorrupt)
				_, err = r.agent.Status(r.ctx, thread)
				r.wants(err, segno.KindCorrupt)
				_, err = r.agent.Messages(r.ctx, thread, "")
				r.wants(err, segno.KindCorrupt)
				if m := r.messages(thread, head.Head); len(m) != 2 {
					r.Errorf("before the damage there are %d messages, want 2", len(m))
				}
			})
		})
	}
}

func TestMissingThreadIsNotFound(t *testing.T) {
	eachStore(t, func(r *rig) {
		r.refused(agent.Input{}, segno.KindNotFound, thread)
		r.refused(decisions(segno.Decision{Interrupt: "x", Kind: segno.Approve}), segno.KindNotFound)
		_, err := r.agent.Status(r.ctx, thread)
		r.wants(err, segno.KindNotFound)
		_, err = r.agent.Messages(r.ctx, thread, "")
		r.wants(err, segno.KindNotFound)
		_, err = r.agent.Undo(r.ctx, thread, 1)
		r.wants(err, segno.KindNotFound)
		for e, err := range r.agent.Events(r.ctx, thread, 0) {
			r.wants(err, segno.KindNotFound)
			if e.Kind != "" {
				r.Errorf("an event: %+v", e)
			}
		}
		if len(r.heads(thread)) > 0 {
			r.Error("asking made a thread")
		}
	})
}

func TestAThreadNeedsAName(t *testing.T) {
	r := newRig(t)
	r.refused(agent.Input{Thread: "bad \xff id", Prompt: "say hi"}, segno.KindInvalid)
}

func TestAPromptMayBeAnImageAlone(t *testing.T) {
	r := newRig(t).with(func(c *agent.Config) { c.Model = replies(says("a cat")) })
	all := r.run(agent.Input{Parts: []agent.Part{{Image: &agent.Blob{Type: "image/png", Data: []byte{1, 2}}}}})
	if done := r.one(all, agent.EventDone); done.Text != "a cat" {
		t.Errorf("it says %q", done.Text)
	}
}

func TestADeletedThreadIsGone(t *testing.T) {
	eachStore(t, func(r *rig) {
		r.helped().prompt("remember x is 1\ntask scout: say hi")
		r.fork(r.heads(thread)[0].ID, "fork")
		r.ok(r.agent.Saver().Delete(r.ctx, saver.ThreadKey{Thread: thread}))
		_, err := r.agent.Status(r.ctx, thread)
		r.wants(err, segno.KindNotFound)
		r.refused(agent.Input{}, segno.KindNotFound)
		o, err := r.agent.Run(r.ctx, agent.Input{Thread: "fork", Prompt: "recall x"})
		r.ok(err)
		if o.Text != "x is 1" {
			r.Errorf("its fork says %q", o.Text)
		}
		for x, err := range r.agent.Saver().List(r.ctx, "") {
			r.ok(err)
			if x.Thread != "fork" {
				r.Errorf("%q is listed", x.Thread)
			}
		}
	})
}
