package agent_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/internal/testing/soak"
	"github.com/dalsegno/segno/saver"
	"pgregory.net/rapid"
)

// turn is a prompt that was carried out, with the expected contents of the thread after it.
type turn struct {
	prompt string
	files  map[string]string
	todos  int
}

// history is the expected line of a thread: its turns, and the turns that redo reaches. The newest turn
// has not ended if the thread waits.
type history struct {
	done, undone []turn
	waits        bool
	floor        int // undo does not go below this turn; a fork that began in the middle of a turn stops there, too
}

// moment is the contents of a checkpoint when it was saved, and its place in a history.
type moment struct {
	thread   string
	messages []string
	state    map[string]string
	before   []turn // the turns before its own
	own      *turn
	over     bool
	floor    int
}

// oracle knows the expected contents of each thread.
type oracle struct {
	*rig
	rt       *rapid.T
	saved    map[segno.CommitID]moment
	threads  map[string]*history
	prompts  int
	approved int // mails that were allowed
}

// TestAnyHistoryIsKept prompts, decides, undoes, redoes, restores, forks and crashes
// in any order. Each thread must contain what its turns made, and each checkpoint must have
// the same contents as when it was saved.
func TestAnyHistoryIsKept(t *testing.T) {
	rounds, dir := 0, t.TempDir()
	soak.Rapid(t, 40, 5000)
	rapid.Check(t, func(rt *rapid.T) {
		rounds++
		r := newRig(t)
		if rounds%20 == 0 {
			r = onDisk(t, filepath.Join(dir, fmt.Sprint(rounds)))
		}
		r.TB = rt
		o := &oracle{rig: r.helped(), rt: rt, saved: map[segno.CommitID]moment{}, threads: map[string]*history{thread: {}}}
		o.prompted(thread)
		for range rapid.IntRange(1, 12).Draw(rt, "actions") {
			id := rapid.SampledFrom(slices.Sorted(maps.Keys(o.threads))).Draw(rt, "thread")
			o.act(id)
			o.check(id)
		}
		o.checkAll()
	})
}

func (o *oracle) act(id string) {
	h := o.threads[id]
	switch action := rapid.SampledFrom([]string{"prompt", "prompt", "decide", "undo", "redo", "restore", "fork", "crash", "restart"}).Draw(o.rt, "action"); {
	case action == "prompt" && h.waits:
		_, err := o.try(agent.Input{Thread: id, Prompt: "say no"})
		o.wants(err, segno.KindRefused)
	case action == "prompt":
		o.prompted(id)
	case action == "decide" && h.waits:
		o.settle(id, rapid.SampledFrom([]segno.DecisionKind{segno.Approve, segno.Edit, segno.Reject, segno.Respond}).Draw(o.rt, "kind"))
	case action == "undo" && len(h.done) > h.floor:
		n := rapid.IntRange(1, len(h.done)-h.floor).Draw(o.rt, "turns")
		_, err := o.agent.Undo(o.ctx, id, n)
		o.ok(err)
		at := len(h.done) - n
		h.undone = append(slices.Clone(h.done[at:]), h.undone...)
		h.done, h.waits = slices.Clone(h.done[:at]), false
	case action == "redo" && len(h.undone) > 0:
		n := rapid.IntRange(1, len(h.undone)).Draw(o.rt, "turns")
		w, err := o.agent.Redo(o.ctx, id, n)
		o.ok(err)
		h.done, h.undone = append(h.done, h.undone[:n]...), slices.Clone(h.undone[n:])
		h.waits = len(w.Interrupts) > 0
	case action == "restore" || action == "fork":
		o.travelled(id, action)
	case action == "crash" && h.waits:
		o.crashedDeciding(id)
	case action == "crash":
		o.crashed(id)
	case action == "restart":
		o.restart()
	}
}

// draw makes up a turn: some files, some todos and some mails, each in a separate step.
func (o *oracle) draw(before []turn) turn {
	now := turn{files: map[string]string{}}
	if len(before) > 0 {
		now = before[len(before)-1]
		now.files = maps.Clone(now.files)
	}
	var lines []string
	for range rapid.IntRange(1, 3).Draw(o.rt, "steps") {
		o.prompts++
		switch rapid.SampledFrom([]string{"write", "todo", "mail", "mails", "task", "task mail", "tasks"}).Draw(o.rt, "step") {
		case "write":
			lines = append(lines, o.write(now.files))
		case "mails":
			lines = append(lines, fmt.Sprintf(`call send_email {"to":"%d"} ; call send_email {"to":"%d b"} ; todo %d`, o.prompts, o.prompts, o.prompts))
			now.todos++
		case "tasks":
			lines = append(lines, fmt.Sprintf(`call send_email {"to":"%d"} ; task scout: call send_email {"to":"%d b"} ; task helper: call send_email {"to":"%d c"}`,
				o.prompts, o.prompts, o.prompts))
		case "task":
			lines = append(lines, "task helper: "+o.write(now.files)+`\n`+o.write(now.files))
		case "task mail":
			lines = append(lines, fmt.Sprintf(`task scout: call send_email {"to":"%d"}\n%s`, o.prompts, o.write(now.files)))
		case "todo":
			now.todos++
			lines = append(lines, fmt.Sprint("todo ", o.prompts))
		case "mail":
			lines = append(lines, fmt.Sprintf(`call send_email {"to":"%d"}`, o.prompts))
		}
	}
	now.prompt = strings.Join(lines, "\n")
	return now
}

// write is a command that writes a file.
func (o *oracle) write(files map[string]string) string {
	name := rapid.SampledFrom([]string{"a", "b/c"}).Draw(o.rt, "file")
	o.prompts++
	files[name] = fmt.Sprint("text ", o.prompts)
	return "write " + name + ": " + files[name]
}

// watch runs the thread and remembers its checkpoints.
func (o *oracle) watch(id string, in agent.Input) (all eventList, err error) {
	h := o.threads[id]
	in.Thread = id
	before := o.newest(id)
	defer func() { o.retold(id, before, all) }()
	for e, problem := range o.agent.Stream(o.ctx, in) {
		all, err = append(all, e), problem
		if e.Kind == agent.EventSaved && e.Agent == "" {
			m := o.moment(id, e.Saved)
			m.floor = h.floor
			if n := len(h.done); n > 0 && e.Turn > 0 {
				m.before, m.own = slices.Clone(h.done[:n-1]), &h.done[n-1]
			}
			o.saved[e.Saved] = m
		}
		if e.Kind == agent.EventDone {
			m := o.saved[o.heads(id)[0].ID]
			m.over = true
			o.saved[o.heads(id)[0].ID] = m
		}
	}
	h.waits = len(all) > 0 && all[len(all)-1].Kind == agent.EventInterrupted
	return all, err
}

// newest returns the number of a thread's newest event.
func (o *oracle) newest(id string) (seq int64) {
	for e, err := range o.agent.Events(o.ctx, id, 0) {
		if segno.KindOf(err) != segno.KindNotFound {
			o.ok(err)
		}
		seq = e.Seq
	}
	return seq
}

// retold checks that the store yields the same events as a run did.
func (o *oracle) retold(id string, since int64, all eventList) {
	if again, live := o.replayed(id, since), all.own().numbered(); encode(o.rig, again) != encode(o.rig, live) {
		o.Fatalf("%s: since %d was told %v, and is told again %v", id, since, live.kinds(), again.kinds())
	}
}

// moment returns the present contents of a checkpoint; "" is the thread's head.
func (o *oracle) moment(id string, at segno.CommitID) moment {
	if at == "" {
		w, err := o.agent.Status(o.ctx, id)
		o.ok(err)
		at = w.Head
	}
	m := moment{thread: id, state: map[string]string{}}
	for _, x := range o.messages(id, at) {
		m.messages = append(m.messages, encode(o.rig, x))
	}
	s, err := o.agent.Saver().At(o.ctx, saver.ThreadKey{Thread: id}, at)
	o.ok(err)
	for key, value := range s.State {
		m.state[key] = string(value)
	}
	return m
}

func (o *oracle) prompted(id string) {
	h := o.threads[id]
	now := o.draw(h.done)
	h.done, h.undone = append(slices.Clone(h.done), now), nil
	_, err := o.watch(id, agent.Input{Prompt: now.prompt})
	o.ok(err)
}

// settle answers all questions of a turn until it is over.
func (o *oracle) settle(id string, kind segno.DecisionKind) {
	h := o.threads[id]
	for {
		in, open := agent.Input{}, o.open(id)
		if len(open) > 1 {
			open = open[:rapid.IntRange(1, len(open)).Draw(o.rt, "questions")]
		}
		for _, q := range open {
			d := segno.Decision{Interrupt: q.ID, Kind: kind}
			switch {
			case q.Reason == segno.ReasonUnknown:
				d = respond(q, "it was sent")
			case kind == segno.Edit:
				d = edit(q, `{"to":"edited"}`)
			}
			if d.Kind == segno.Approve || d.Kind == segno.Edit {
				o.approved++
			}
			in.Decide = append(in.Decide, d)
		}
		_, err := o.watch(id, in)
		o.ok(err)
		if !h.waits {
			h.undone = nil
			return
		}
	}
}

// travelled restores any checkpoint of a thread, or forks there. If a turn has not ended
// at that checkpoint, it is then completed.
func (o *oracle) travelled(id, action string) {
	var known []segno.CommitID
	for at, m := range o.saved {
		if m.thread == id {
			known = append(known, at)
		}
	}
	if len(known) == 0 {
		return
	}
	slices.SortFunc(known, func(a, b segno.CommitID) int { // by age, so that a failure is found again
		return slices.Index(o.ages(id), a) - slices.Index(o.ages(id), b)
	})
	at := known[rapid.IntRange(0, len(known)-1).Draw(o.rt, "checkpoint")]
	m, n := o.saved[at], 0
	if rapid.Bool().Draw(o.rt, "crash") {
		n = o.failsAt()
	}
	var err error
	if action == "fork" {
		id = fmt.Sprint("fork ", len(o.threads))
		_, err = o.agent.Fork(o.ctx, at, id)
	} else {
		_, err = o.agent.Restore(o.ctx, id, at)
	}
	if n > 0 {
		o.restart()
	} else {
		o.ok(err)
	}
	if n == 1 {
		return // it has not moved
	}
	h := &history{done: slices.Clone(m.before), floor: m.floor}
	o.threads[id] = h
	if got := o.moment(id, "").messages; !slices.Equal(got, m.messages) {
		o.Fatalf("%s to %s: it holds\n%q\nwant\n%q", action, at, got, m.messages)
	}
	if m.own != nil {
		h.done = append(h.done, *m.own)
		if !m.over && action == "fork" {
			h.floor = len(h.done)
		}
		h.waits = !m.over
		if !m.over && n > 0 { // open questions may have to be asked again
			_, err := o.watch(id, agent.Input{})
			o.ok(err)
		}
		if h.waits {
			o.settle(id, segno.Reject)
		}
	}
}

func (o *oracle) ages(id string) (all []segno.CommitID) {
	for _, c := range o.heads(id) {
		all = append(all, c.ID)
	}
	return all
}

// failsAt makes the store fail from some commit on.
func (o *oracle) failsAt() (n int) {
	n = rapid.IntRange(1, 8).Draw(o.rt, "crash at commit")
	o.watched(func(i int, _ segno.Commit) error {
		if i >= n {
			return errDisk
		}
		return nil
	}, nil)
	return n
}

// crashedDeciding has the store fail while approved calls are made, discards the
// agent, and continues. The recorded approvals count.
func (o *oracle) crashedDeciding(id string) {
	in, asked := agent.Input{}, o.open(id)
	for _, q := range asked {
		in.Decide = append(in.Decide, approve(q))
	}
	o.failsAt()
	_, err := o.watch(id, in)
	o.restart()
	for _, q := range asked {
		if !slices.ContainsFunc(o.open(id), func(x segno.Interrupt) bool { return x.ID == q.ID }) {
			o.approved++
		}
	}
	o.threads[id].undone = nil
	if err != nil {
		o.settle(id, segno.Reject)
	}
}

// crashed has the store fail during a turn, discards the agent, and continues.
func (o *oracle) crashed(id string) {
	h := o.threads[id]
	n := o.failsAt()
	was := slices.Clone(h.done)
	now := o.draw(h.done)
	h.done, h.undone = append(slices.Clone(h.done), now), nil
	_, err := o.watch(id, agent.Input{Prompt: now.prompt})
	o.restart()
	switch {
	case err == nil:
		return
	case n == 1:
		h.done, h.waits = was, false // it had not begun
	default:
		o.settle(id, segno.Approve)
	}
}

// check compares a thread with its expected history.
func (o *oracle) check(id string) {
	h := o.threads[id]
	var prompts []string
	for _, m := range o.messages(id, "") {
		if m.Role == agent.User {
			prompts = append(prompts, m.Text())
		}
	}
	var want []string
	for _, x := range h.done {
		want = append(want, x.prompt)
	}
	if !slices.Equal(prompts, want) {
		o.Fatalf("%s was prompted %q, want %q", id, prompts, want)
	}
	if h.waits != (len(o.open(id)) > 0) {
		o.Fatalf("%s waits: %v, want %v", id, !h.waits, h.waits)
	}
	if sent := len(o.mails.all()); sent != o.approved {
		o.Fatalf("%d mails were sent, %d allowed", sent, o.approved)
	}
	if h.waits || len(h.done) == 0 {
		return
	}
	s, err := o.agent.Saver().Load(o.ctx, saver.ThreadKey{Thread: id})
	o.ok(err)
	files := map[string]string{}
	for key, value := range s.State {
		if name, ok := strings.CutPrefix(key, "files/"); ok {
			var f struct{ Text string }
			o.ok(json.Unmarshal(value, &f))
			files[name] = f.Text
		}
	}
	last := h.done[len(h.done)-1]
	w, err := o.agent.Status(o.ctx, id)
	o.ok(err)
	if !maps.Equal(files, last.files) || w.Todos != last.todos || w.Files != len(last.files) {
		o.Fatalf("%s holds %v, %d todos; want %v, %d", id, files, w.Todos, last.files, last.todos)
	}
}

func (o *oracle) checkAll() {
	o.restart()
	for at, m := range o.saved {
		now := o.moment(m.thread, at)
		if !slices.Equal(now.messages, m.messages) || !reflect.DeepEqual(now.state, m.state) {
			o.Fatalf("%s of %s held\n%v %v\nand holds\n%v %v", at, m.thread, m.messages, m.state, now.messages, now.state)
		}
	}
	for id := range o.threads {
		o.check(id)
		var last int64
		for _, e := range o.replayed(id, 0) {
			if e.Seq <= last {
				o.Fatalf("%s: event %d after %d", id, e.Seq, last)
			}
			last = e.Seq
		}
	}
}
