package storetest

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/saver"
	"pgregory.net/rapid"
)

func journeys() []clause {
	return []clause{
		{"any journey", "whatever is saved, undone, redone, restored and forked, every checkpoint holds what an oracle says, and every thread stands where it says", anyJourney},
	}
}

// journey drives a saver by chance, beside what should be there.
type journey struct {
	*fixture
	t       *rapid.T
	round   int
	threads []*path
	saved   map[segno.CommitID]saver.Snapshot // as it was saved
	parent  map[segno.CommitID]segno.CommitID
}

// path is one thread of a journey.
type path struct {
	saver.ThreadKey
	head, tip segno.CommitID
	step      int
	told      []segno.CommitID // its history, oldest first
}

func anyJourney(f *fixture) {
	round := 0
	f.check(func(t *rapid.T) {
		round++
		j := &journey{fixture: f, t: t, round: round, saved: map[segno.CommitID]saver.Snapshot{}, parent: map[segno.CommitID]segno.CommitID{}}
		j.start()
		for range rapid.IntRange(1, 9).Draw(t, "steps") {
			[]func(){j.saves, j.saves, j.saves, j.undoes, j.redoes, j.restores, j.forks, j.start}[rapid.IntRange(0, 7).Draw(t, "what")]()
		}
		j.arrived()
	})
}

func (j *journey) pick() *path {
	return j.threads[rapid.IntRange(0, len(j.threads)-1).Draw(j.t, "thread")]
}

func (j *journey) start() {
	if len(j.threads) == 3 {
		return
	}
	a := saver.ThreadKey{Thread: fmt.Sprintf("round %d thread %d", j.round, len(j.threads))}
	if len(j.threads) > 0 && rapid.Bool().Draw(j.t, "a part") {
		a = saver.ThreadKey{Thread: j.threads[0].Thread, Namespace: fmt.Sprint("part ", len(j.threads))}
	}
	t := &path{ThreadKey: a}
	j.threads = append(j.threads, t)
	j.onto(t, saver.Snapshot{ThreadKey: a})
}

// onto saves by chance something that follows s.
func (j *journey) onto(t *path, s saver.Snapshot) {
	before := s.ID
	keep := rapid.IntRange(0, len(s.Messages)).Draw(j.t, "keep")
	if rapid.Bool().Draw(j.t, "append only") {
		keep = len(s.Messages)
	}
	s.Messages, s.Kept = slices.Clone(s.Messages[:keep]), keep
	s = more(s, rapid.SliceOfN(rapid.String(), 0, 3).Draw(j.t, "messages")...)
	s.State = maps.Clone(s.State)
	if s.State == nil {
		s.State = map[string]json.RawMessage{}
	}
	for _, key := range rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c"}), 0, 2).Draw(j.t, "keys") {
		if rapid.Bool().Draw(j.t, "drop") {
			delete(s.State, key)
		} else {
			s.State[key] = json.RawMessage(fmt.Sprint(rapid.IntRange(0, 3).Draw(j.t, "value")))
		}
	}
	s.Meta = map[string]string{"round": fmt.Sprint(j.round)}
	want := s
	s = j.save(s)
	want.ID, want.Step, want.Created, want.Updated = s.ID, t.step+1, s.Created, s.Updated
	j.alike("what Save returned", s, want)
	j.saved[s.ID], j.parent[s.ID] = want, before
	t.head, t.tip, t.step, t.told = s.ID, s.ID, s.Step, append(t.told, s.ID)
}

func (j *journey) saves() {
	t := j.pick()
	j.onto(t, j.get(t.ThreadKey))
}

// moved moves the oracle and compares.
func (j *journey) moved(t *path, got saver.Snapshot, to, tip segno.CommitID) {
	t.head, t.tip, t.step = to, tip, j.saved[to].Step
	j.likeFork("where it stands", got, j.saved[to])
}

func (j *journey) line(at segno.CommitID) (ids []segno.CommitID) {
	for ; at != ""; at = j.parent[at] {
		ids = append(ids, at)
	}
	slices.Reverse(ids)
	return ids
}

func (j *journey) undoes() {
	t := j.pick()
	n := rapid.IntRange(1, 4).Draw(j.t, "how many back")
	line := j.line(t.head)
	got, err := j.saver.(Traveller).Undo(j.Context(), t.ThreadKey, n)
	if n >= len(line) {
		j.kind(err, segno.KindNotFound)
		return
	}
	j.ok(err)
	j.moved(t, got, line[len(line)-1-n], t.tip)
}

func (j *journey) redoes() {
	j.redone(j.pick(), rapid.IntRange(1, 4).Draw(j.t, "how many forward"))
}

func (j *journey) redone(t *path, n int) {
	ahead := j.line(t.tip)[len(j.line(t.head)):]
	got, err := j.saver.(Traveller).Redo(j.Context(), t.ThreadKey, n)
	if n > len(ahead) {
		j.kind(err, segno.KindNotFound)
		return
	}
	j.ok(err)
	j.moved(t, got, ahead[n-1], t.tip)
}

func (j *journey) restores() {
	t := j.pick()
	to := t.told[rapid.IntRange(0, len(t.told)-1).Draw(j.t, "restore to")]
	got, err := j.saver.(Traveller).Restore(j.Context(), t.ThreadKey, to)
	j.ok(err)
	tip := to
	if slices.Contains(j.line(t.tip), to) {
		tip = t.tip
	}
	j.moved(t, got, to, tip)
}

func (j *journey) forks() {
	if len(j.threads) == 3 {
		return
	}
	t := j.pick()
	from := t.told[rapid.IntRange(0, len(t.told)-1).Draw(j.t, "fork at")]
	a := saver.ThreadKey{Thread: fmt.Sprintf("round %d thread %d", j.round, len(j.threads))}
	got := j.fork(from, a)
	j.likeFork("the fork", got, j.saved[from])
	j.saved[got.ID], j.parent[got.ID] = got, from
	j.threads = append(j.threads, &path{ThreadKey: a, head: got.ID, tip: got.ID, step: got.Step, told: []segno.CommitID{got.ID}})
}

// arrived compares all that was ever saved.
func (j *journey) arrived() {
	for _, t := range j.threads {
		j.likeFork("where a thread stands", j.get(t.ThreadKey), j.saved[t.head])
		told := slices.Clone(t.told)
		slices.Reverse(told)
		j.same("a thread's history", j.told(t.ThreadKey, segno.CheckpointQuery{}), told)
		for _, id := range t.told {
			j.alike("a checkpoint", j.at(t.ThreadKey, id), j.saved[id])
		}
		j.redone(t, 1)
	}
}
