package agent_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/internal/testing/soak"
	"github.com/dalsegno/segno/store/sqlite"
)

// patience is how long a test waits for a follower to receive the events.
const patience = 5 * time.Minute

// heard is one event that a follower received.
type heard struct {
	agent.Event
	err error
}

// follower follows a thread and keeps the events that it received. An event that reports
// a move makes it drop the later ones.
type follower struct {
	r        *rig
	by       *agent.Agent
	leave    context.CancelFunc
	received chan heard
	holds    eventList
	moved    eventList
}

// follows makes a separate agent follow the thread.
func (r *rig) follows(by *agent.Agent, id string, since int64) *follower {
	f := &follower{r: r, by: by}
	f.begin(id, since)
	return f
}

func (f *follower) begin(id string, since int64) {
	var ctx context.Context
	ctx, f.leave = context.WithCancel(f.r.ctx)
	received := make(chan heard)
	f.received = received
	go func() {
		defer close(received)
		for e, err := range f.by.Follow(ctx, id, since) {
			select {
			case received <- heard{e, err}:
			case <-ctx.Done():
				return
			}
		}
	}()
}

// last returns the number from which to continue.
func (f *follower) last() int64 {
	if len(f.holds) == 0 {
		return 0
	}
	return f.holds[len(f.holds)-1].Seq
}

// next receives one event.
func (f *follower) next() {
	f.r.Helper()
	select {
	case h, ok := <-f.received:
		if !ok {
			f.r.Fatal("he was told that it is over")
		}
		f.r.ok(h.err)
		if h.Kind == agent.EventMoved {
			f.moved = append(f.moved, h.Event)
			f.holds = slices.DeleteFunc(f.holds, func(e agent.Event) bool { return e.Seq > h.Seq })
			return
		}
		if h.Seq <= f.last() {
			f.r.Fatalf("%s has the number %d after %d", h.Kind, h.Seq, f.last())
		}
		f.holds = append(f.holds, h.Event)
	case <-time.After(patience):
		f.r.Fatalf("nothing comes after %d events", len(f.holds))
	}
}

// until receives events until the follower holds the same events that Events yields.
func (f *follower) until(id string) {
	f.r.Helper()
	want := encodeAll(f.r, f.r.replayed(id, 0))
	for !slices.Equal(encodeAll(f.r, f.holds), want) {
		f.next()
	}
}

// stop stops the follower. That is not an error.
func (f *follower) stop() {
	f.r.Helper()
	f.leave()
	for h := range f.received {
		f.r.ok(h.err)
	}
}

func encodeAll(r *rig, all eventList) (texts []string) {
	for _, e := range all {
		texts = append(texts, encode(r, e))
	}
	return texts
}

// beside returns another agent on the store. If the store is on disk, it is opened a second time.
func (r *rig) beside(t *testing.T) *agent.Agent {
	c := r.config
	if on, ok := r.store.(*sqlite.Store); ok {
		other, err := sqlite.Open(t.Context(), on.Path(), sqlite.Options{})
		r.ok(err)
		t.Cleanup(func() { other.Close() })
		c.Store = other
	}
	return agent.New(c)
}

func TestAFollowerHearsAllOnceAndInOrder(t *testing.T) {
	eachStore(t, func(r *rig) {
		r.helped()
		live := r.prompt("say hello").numbered()
		f := r.follows(r.beside(t), thread, 0)
		live = append(live, r.prompt(eventful).own().numbered()...)
		live = append(live, r.finish(approve(r.question())).own().numbered()...)
		for i := range 5 {
			live = append(live, r.prompt(fmt.Sprint("write a.txt: ", i)).numbered()...)
		}
		for len(f.holds) < len(live) {
			f.next()
		}
		f.stop()
		if got, want := encodeAll(r, f.holds), encodeAll(r, live); !slices.Equal(got, want) {
			r.Errorf("he heard\n%q\nwant\n%q", got, want)
		}
		if again := r.replayed(thread, 0); !slices.Equal(encodeAll(r, f.holds), encodeAll(r, again)) {
			r.Errorf("he heard %v, and it is told again as %v", f.holds.kinds(), again.kinds())
		}
		if len(f.moved) > 0 {
			r.Errorf("it moved: %+v", f.moved)
		}
	})
}

func TestAFollowerGoesOnWhereHeLeft(t *testing.T) {
	r := newRig(t)
	r.prompt("say hello\nwrite a.txt: one")
	all := r.replayed(thread, 0)
	for i, e := range all {
		f := r.follows(r.agent, thread, e.Seq)
		for range all[i+1:] {
			f.next()
		}
		f.stop()
		if !slices.Equal(encodeAll(r, f.holds), encodeAll(r, all[i+1:])) || len(f.moved) > 0 {
			t.Errorf("since %d he heard %v, want %v; it moved: %v", e.Seq, f.holds.kinds(), all[i+1:].kinds(), f.moved)
		}
	}
}

func TestAFollowerHearsOfMoves(t *testing.T) {
	r := newRig(t)
	r.prompt("say one")
	kept := r.replayed(thread, 0)
	r.prompt("say two")
	two := r.heads(thread)[0].ID
	f := r.follows(r.agent, thread, 0)
	f.until(thread)

	where, err := r.agent.Undo(r.ctx, thread, 1)
	r.ok(err)
	f.until(thread)
	if len(f.moved) != 1 || f.moved[0].Saved != where.Head || f.moved[0].Thread != thread || len(f.holds) != len(kept) {
		t.Fatalf("after an undo he holds %v and was told of %+v", f.holds.kinds(), f.moved)
	}
	if back := f.moved[0].Seq; back < kept[len(kept)-1].Seq || back >= r.first(two) {
		t.Errorf("he is told to forget what is above %d", back)
	}
	_, err = r.agent.Redo(r.ctx, thread, 1)
	r.ok(err)
	f.until(thread)
	if len(f.moved) != 1 {
		t.Errorf("a redo goes on from what he holds, and he is told of %+v", f.moved)
	}
	_, err = r.agent.Undo(r.ctx, thread, 1)
	r.ok(err)
	r.prompt("say three")
	f.until(thread)
	_, err = r.agent.Restore(r.ctx, thread, two)
	r.ok(err)
	f.until(thread)
	if n := len(f.moved); n < 2 || n > 3 {
		t.Errorf("he is told of %+v", f.moved)
	}
	f.stop()
}

// first returns the first event number of a checkpoint's commit.
func (r *rig) first(at segno.CommitID) int64 {
	r.Helper()
	line, err := r.store.Load(r.ctx, at, segno.Window{Last: 1})
	r.ok(err)
	const perCommit = 1 << 20
	return line.Commits[0].Seq * perCommit
}

func TestLateFollowerReceivesMoved(t *testing.T) {
	r := newRig(t)
	r.prompt("say one")
	r.prompt("say two")
	all := r.replayed(thread, 0)
	_, err := r.agent.Undo(r.ctx, thread, 1)
	r.ok(err)
	f := r.follows(r.agent, thread, all[len(all)-1].Seq)
	f.holds = all
	f.until(thread)
	f.stop()
	if len(f.moved) != 1 || f.moved[0].Seq != 0 {
		t.Errorf("he is told of %+v", f.moved)
	}
}

// TestFollowerHasTheEventsOfEvents moves a thread at random, and has its follower stop and
// continue at random. After every move the follower must hold the events that Events yields.
func TestFollowerHasTheEventsOfEvents(t *testing.T) {
	for _, seed := range soak.Seeds(t, 6, 600) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			chance := rand.New(rand.NewPCG(seed, 0))
			r := newRig(t)
			r.prompt("say begin")
			f := r.follows(r.beside(t), thread, 0)
			for i := range 25 {
				switch chance.IntN(6) {
				case 0, 1:
					r.prompt(fmt.Sprint("write a.txt: ", i))
				case 2:
					_, err := r.agent.Undo(r.ctx, thread, 1+chance.IntN(2))
					r.unless(err, segno.KindNotFound)
				case 3:
					_, err := r.agent.Redo(r.ctx, thread, 1)
					r.unless(err, segno.KindNotFound)
				case 4:
					all := r.heads(thread)
					_, err := r.agent.Restore(r.ctx, thread, all[chance.IntN(len(all))].ID)
					r.ok(err)
				case 5:
					f.stop()
					f.begin(thread, f.last())
				}
				if chance.IntN(3) > 0 {
					f.until(thread)
				}
			}
			f.until(thread)
			f.stop()
		})
	}
}

// unless fails for an error of any other kind.
func (r *rig) unless(err error, kind segno.Kind) {
	r.Helper()
	if segno.KindOf(err) != kind {
		r.ok(err)
	}
}

func TestAForkIsFollowedAlone(t *testing.T) {
	r := newRig(t)
	r.prompt("say one")
	at := r.heads(thread)[0].ID
	_, err := r.agent.Fork(r.ctx, at, "fork")
	r.ok(err)
	f := r.follows(r.agent, "fork", 0)
	r.prompt("say two")
	r.run(agent.Input{Thread: "fork", Prompt: "say three"})
	f.until("fork")
	r.one(f.holds, "fork")
	_, err = r.agent.Undo(r.ctx, "fork", 1)
	r.ok(err)
	f.until("fork")
	f.stop()
}

func TestFollowingEnds(t *testing.T) {
	ends := func(t *testing.T, want segno.Kind, then func(r *rig)) {
		r := newRig(t)
		r.prompt("say hello")
		f := r.follows(r.agent, thread, 0)
		f.until(thread)
		then(r)
		h, ok := <-f.received
		if !ok || segno.KindOf(h.err) != want {
			t.Errorf("he is told %+v; want an error of kind %q", h, want)
		}
		if h, ok := <-f.received; ok {
			t.Errorf("and then he is told %+v", h)
		}
		f.leave()
	}
	t.Run("deleted", func(t *testing.T) {
		ends(t, segno.KindNotFound, func(r *rig) { r.ok(r.store.Delete(r.ctx, thread)) })
	})
	t.Run("closed", func(t *testing.T) {
		ends(t, segno.KindInvalid, func(r *rig) { r.ok(r.store.Close()) })
	})
	t.Run("not there", func(t *testing.T) {
		r := newRig(t)
		f := r.follows(r.agent, "nobody", 0)
		r.wants((<-f.received).err, segno.KindNotFound, "nobody")
		f.leave()
	})
	t.Run("cancelled before", func(t *testing.T) {
		r := newRig(t)
		r.prompt("say hello")
		ctx, cancel := context.WithCancel(r.ctx)
		cancel()
		for e, err := range r.agent.Follow(ctx, thread, 0) {
			t.Errorf("%+v, %v", e, err)
		}
	})
	t.Run("the caller stops", func(t *testing.T) {
		r := newRig(t)
		r.prompt("say hello")
		n := len(r.replayed(thread, 0))
		for stop := range n {
			seen := 0
			for _, err := range r.agent.Follow(r.ctx, thread, 0) {
				r.ok(err)
				if seen++; seen > stop {
					break
				}
			}
			if seen != stop+1 {
				t.Errorf("he stops after %d, and was told %d", stop+1, seen)
			}
		}
	})
}

// TestAFollowerOfAnotherProcess follows a thread that a child process works on.
func TestAFollowerOfAnotherProcess(t *testing.T) {
	dir := t.TempDir()
	r := onDiskAt(t, storeFile(dir))
	r.prompt("say hello")
	f := r.follows(r.agent, thread, 0)
	prompt, _ := steps(8)
	cmd := start(t, "run", dir, order{Prompt: prompt})
	cmd.Stderr = io.Discard
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for len(f.holds.of(agent.EventDone)) < 2 {
		f.next()
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	f.stop()
	again := r.replayed(thread, 0)
	if !slices.Equal(encodeAll(r, f.holds), encodeAll(r, again)) || len(f.moved) > 0 {
		t.Errorf("he heard %v, and it is told again as %v", f.holds.kinds(), again.kinds())
	}
	if n := len(again.of(agent.EventToolResult)); n != 8 {
		t.Errorf("%d calls were made, want 8", n)
	}
}

// TestAFollowerOfAProcessThatIsKilled follows a thread whose process is killed during a turn,
// and continues when another process does.
func TestAFollowerOfAProcessThatIsKilled(t *testing.T) {
	dir := t.TempDir()
	r := onDiskAt(t, storeFile(dir))
	r.prompt("say hello")
	f := r.follows(r.agent, thread, 0)
	prompt, lines := steps(6)
	o := order{Prompt: prompt, Effect: agent.LostRetry, Commit: "after", N: 7}
	if _, dead := child(t, "run", dir, o); !dead {
		t.Fatal("the child lived to the end of its turn")
	}
	f.until(thread)
	a := ledgerAgent(r.store, dir, o)
	if _, err := a.Run(r.ctx, agent.Input{Thread: thread}); err != nil {
		t.Fatal(err)
	}
	f.until(thread)
	f.stop()
	if n := len(f.holds.of(agent.EventDone)); n != 2 || len(f.moved) > 0 {
		t.Errorf("%d turns are done; it moved: %v", n, f.moved)
	}
	r.paid(dir, lines...)
}

// onDiskAt returns a rig on a store that child processes open by its file.
func onDiskAt(t *testing.T, file string) *rig {
	store, err := sqlite.Open(t.Context(), file, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return rigOn(t, func() segno.Store { return store })
}
