package agent_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/saver"
	"github.com/dalsegno/segno/timeline"
)

// TestAKillAtAnyCommitLosesNothing kills a run repeatedly, right before or after
// any commit, while a person and other processes work in the same directory. The next run completes
// the turn: each bill is paid once, no bill that was begun needs a second approval,
// and the directory contains the files of the turn and of the person.
func TestAKillAtAnyCommitLosesNothing(t *testing.T) {
	eachSeed(t, (*journey).paying, func(j *journey) {
		prompt := "write a.txt: one\ncall pay {\"to\":\"1\"}\nwrite b.txt: two\ncall pay {\"to\":\"2\"}"
		if j.chance(3) {
			prompt = delegated(prompt)
		}
		want := map[string]string{"mine.txt": "mine", "a.txt": "one", "b.txt": "two", "receipt1": "paid 1", "receipt2": "paid 2"}
		for round := 0; !j.goesOn(prompt, round < 30); round++ {
			if round == 60 {
				j.broken("it never ends")
			}
			j.life.begin(0, false)
			j.meanwhile(want, round)
		}
		if !maps.Equal(j.paid, map[string]int{"1": 1, "2": 1}) {
			j.broken("the bills were paid %v times", j.paid)
		}
		if got := filesIn(j.T, j.home); !maps.Equal(got, want) {
			j.broken("the directory holds %v, want %v", got, want)
		}
	})
}

// goesOn runs the thread, perhaps until it is killed, and reports whether the turn has
// ended.
func (j *journey) goesOn(prompt string, mortal bool) bool {
	j.Helper()
	j.life.begin(0, j.chance(2))
	if mortal && j.chance(2) {
		j.life.begin(1+j.rnd.IntN(6), j.chance(2))
	}
	in := agent.Input{Thread: thread}
	w, err := j.Agent.Status(j.Context(), thread)
	if err != nil && segno.KindOf(err) != segno.KindNotFound {
		j.broken("look: %v", err)
	}
	for _, q := range w.Interrupts {
		in.Decide = append(in.Decide, j.honest(q))
	}
	if w.Messages == 0 {
		in.Prompt = prompt
	}
	o, err := j.Agent.Run(j.Context(), in)
	j.note("a run with ", len(in.Decide), " decisions, prompt ", in.Prompt != "", ", killed ", j.life.over(), ": ", o.Text, " ", err)
	switch {
	case err == nil:
		return o.Text != ""
	case j.life.over():
		return false
	case segno.KindOf(err) == segno.KindInvalid && strings.Contains(err.Error(), "turn is over"):
		return true // it was killed after its last commit
	}
	j.broken("it fails without a kill: %v", err)
	return false
}

// honest answers a question as a person would after checking which bills were paid.
func (j *journey) honest(q segno.Interrupt) segno.Decision {
	j.Helper()
	switch {
	case !j.began[q.Call]:
		return approve(q)
	case q.Reason == segno.ReasonUnknown:
		return respond(q, "it was paid")
	}
	j.broken("leave is wanted for a call that was begun: %s %s %s", q.Call, q.Tool, q.Args)
	return segno.Decision{}
}

// meanwhile makes one change between a run that was killed and the next one.
func (j *journey) meanwhile(files map[string]string, round int) {
	j.Helper()
	var err error
	switch j.rnd.IntN(5) {
	case 0:
		err = j.recorder().CloseAbandonedTurns(j.Context())
		j.note("turns that are gone are closed: ", err)
	case 1:
		_, err = j.recorder().Save(j.Context(), segno.CheckpointSave, "by hand")
		j.note("a person saves: ", err)
		err = nil // refused while a turn is open
	case 2:
		files["p.txt"] = fmt.Sprint("round ", round)
		j.person("p.txt", files["p.txt"])
	}
	if err != nil {
		j.broken("%v", err)
	}
}

// TestAPersonsFilesSurviveUndoAndRedo has two threads and a person write in one
// directory, and undoes and redoes turns in any order. The person's files stay
// unchanged, and redo after undo restores the directory.
func TestAPersonsFilesSurviveUndoAndRedo(t *testing.T) {
	if testing.Short() {
		return // it takes seconds
	}
	asking := func(_ *journey, c *agent.Config) { c.Approve = agent.RequireApproval("execute") }
	eachSeed(t, asking, func(j *journey) {
		theirs := map[string]string{"mine.txt": "mine"}
		for step := range 25 {
			id := [...]string{"a", "b"}[j.rnd.IntN(1+j.rnd.IntN(2))]
			switch op := j.rnd.IntN(10); {
			case op < 3:
				j.works(id, step)
			case op < 5:
				j.decides(id)
			case op < 7:
				name := fmt.Sprintf("p%d.txt", j.rnd.IntN(3))
				theirs[name] = fmt.Sprint("theirs ", step)
				j.person(name, theirs[name])
			case op < 8 && j.undone[id] > 0:
				j.redoesAll(id)
			default:
				j.undoesAndRedoes(id, theirs)
			}
			j.keeps(theirs)
		}
	})
}

// works makes a thread write files that are not the person's. A thread that waits
// refuses the prompt.
func (j *journey) works(id string, step int) {
	j.Helper()
	prompt := fmt.Sprintf("write f%d.txt: %s%d", j.rnd.IntN(3), id, step)
	if j.chance(2) {
		prompt += fmt.Sprintf("\nrun echo %s%d > g%d.txt", id, step, j.rnd.IntN(3))
	}
	_, err := j.Agent.Run(j.Context(), agent.Input{Thread: id, Prompt: prompt})
	j.note(id, " works: ", prompt, " ", err)
	if err == nil {
		j.undone[id] = 0
	}
	if err != nil && segno.KindOf(err) != segno.KindRefused {
		j.broken("%v", err)
	}
}

// decides answers the questions of a thread, if there are any.
func (j *journey) decides(id string) {
	j.Helper()
	w, err := j.Agent.Status(j.Context(), id)
	if err != nil || len(w.Interrupts) == 0 {
		return
	}
	d := approve(w.Interrupts[0])
	if j.chance(3) {
		d = reject(w.Interrupts[0], "not now")
	}
	_, err = j.Agent.Run(j.Context(), agent.Input{Thread: id, Decide: []segno.Decision{d}})
	j.note(id, " is told to ", d.Kind, " ", err)
	j.undone[id] = 0
	if err != nil {
		j.broken("%v", err)
	}
}

// redoesAll redoes all turns that a thread has undone since it last worked.
func (j *journey) redoesAll(id string) {
	j.Helper()
	x, err := j.Redo(j.Context(), id, j.undone[id])
	j.note(id, " redoes all ", j.undone[id], ": ", x.Conflicts, " ", err, " ", filesIn(j.T, j.home))
	if err != nil {
		j.broken("redo: %v", err)
	}
	j.undone[id] = 0
}

func (j *journey) undoesAndRedoes(id string, theirs map[string]string) {
	j.Helper()
	before, n := filesIn(j.T, j.home), 1+j.rnd.IntN(2)
	w, err := j.Undo(j.Context(), id, n)
	j.note(id, " undoes ", n, ": ", w.Conflicts, " ", err, " ", filesIn(j.T, j.home))
	if err != nil {
		if segno.KindOf(err) != segno.KindNotFound {
			j.broken("undo: %v", err)
		}
		return
	}
	j.keeps(theirs)
	if j.chance(2) {
		j.undone[id] += n
		return
	}
	x, err := j.Redo(j.Context(), id, n)
	j.note(id, " redoes ", n, ": ", x.Conflicts, " ", err, " ", filesIn(j.T, j.home))
	if err != nil {
		j.broken("redo: %v", err)
	}
	if got := filesIn(j.T, j.home); len(w.Conflicts)+len(x.Conflicts) == 0 && !maps.Equal(got, before) {
		j.broken("undone and redone the directory holds %v, want %v", got, before)
	}
}

// keeps checks that the person's files are as the person left them.
func (j *journey) keeps(theirs map[string]string) {
	j.Helper()
	got := filesIn(j.T, j.home)
	for name, want := range theirs {
		if got[name] != want {
			j.broken("the person's %s holds %q, want %q", name, got[name], want)
		}
	}
}

// TestApprovedCallRunsOnceAcrossMoves prompts, decides, undoes, redoes,
// restores, forks and kills in any order, while a person and other processes work, too. No bill
// is paid more often than it was approved.
func TestApprovedCallRunsOnceAcrossMoves(t *testing.T) {
	if testing.Short() {
		return // it takes seconds
	}
	change := func(j *journey, c *agent.Config) {
		j.paying(c)
		if j.chance(3) {
			c.Timeline = nil
		}
	}
	eachSeed(t, change, func(j *journey) {
		tr := &travels{journey: j, allowed: map[string]map[string]bool{}, threads: []string{thread}}
		for tr.step = range 60 {
			tr.life.begin(0, false)
			if tr.chance(4) {
				tr.life.begin(1+tr.rnd.IntN(6), tr.chance(2))
			}
			err := tr.act(tr.threads[tr.rnd.IntN(len(tr.threads))])
			tr.note("     ", err, ", killed ", tr.life.over())
			tr.justified()
			if !tr.life.over() && !expected(err) {
				tr.broken("%v", err)
			}
		}
		tr.life.begin(0, false)
		for _, id := range tr.threads {
			if _, err := tr.Agent.Status(tr.Context(), id); err != nil && segno.KindOf(err) != segno.KindNotFound {
				tr.broken("look: %v", err)
			}
		}
	}, 47, 112, 162, 239, 368) // a move that was killed was lost
}

// travels is a journey of threads that are moved and forked. allowed contains, for
// each bill, the questions that were approved.
type travels struct {
	*journey
	allowed map[string]map[string]bool
	threads []string
	step    int
}

func (tr *travels) act(id string) (err error) {
	tr.Helper()
	switch op := tr.rnd.IntN(20); {
	case op < 3:
		return tr.prompts(id)
	case op < 10:
		return tr.answers(id)
	case op == 10:
		tr.note(id, " undoes")
		_, err = tr.Undo(tr.Context(), id, 1)
	case op == 11:
		tr.note(id, " redoes")
		_, err = tr.Redo(tr.Context(), id, 1)
	case op < 15:
		return tr.restores(id)
	case op == 15:
		return tr.forks(id)
	case op == 16:
		tr.person("p.txt", fmt.Sprint("step ", tr.step))
	case tr.Timeline == nil:
		return nil
	case op == 17:
		tr.note(id, " is undone by another process")
		m := tr.Timeline
		_, err = m.Move(tr.Context(), timeline.MoveRequest{Verb: segno.VerbUndo, Turns: 1, Thread: segno.ThreadID(id)}, nil)
	case op == 18:
		tr.note("a person saves")
		_, err = tr.recorder().Save(tr.Context(), segno.CheckpointSave, "by hand")
	case op == 19:
		tr.note("turns that are gone are closed")
		err = tr.recorder().CloseAbandonedTurns(tr.Context())
	}
	return err
}

// prompts makes a thread, or its helper, pay a separate bill.
func (tr *travels) prompts(id string) error {
	prompt := fmt.Sprintf("write a%d.txt: %d\ncall pay {\"to\":\"%d\"}\nwrite b.txt: %d", tr.step%3, tr.step, tr.step, tr.step)
	if tr.chance(3) {
		prompt = delegated(prompt)
	}
	tr.note(id, " is prompted: ", prompt)
	_, err := tr.Agent.Run(tr.Context(), agent.Input{Thread: id, Prompt: prompt})
	return err
}

// answers continues a thread, and answers some of its questions.
func (tr *travels) answers(id string) error {
	tr.Helper()
	w, err := tr.Agent.Status(tr.Context(), id)
	if segno.KindOf(err) == segno.KindNotFound {
		return nil
	}
	if err != nil {
		tr.broken("look: %v", err)
	}
	in := agent.Input{Thread: id}
	for _, q := range w.Interrupts {
		switch tr.rnd.IntN(5) {
		case 0:
			in.Decide = append(in.Decide, reject(q, "not now"))
		case 1:
		default:
			in.Decide = append(in.Decide, approve(q))
			tr.allows(q)
		}
	}
	tr.note(id, " goes on: ", in.Decide)
	_, err = tr.Agent.Run(tr.Context(), in)
	return err
}

// allows records an approval. It counts each question once.
func (tr *travels) allows(q segno.Interrupt) {
	tr.Helper()
	bill := tr.bill(q)
	if tr.allowed[bill] == nil {
		tr.allowed[bill] = map[string]bool{}
	}
	tr.allowed[bill][q.ID] = true
}

// somewhere returns a random checkpoint of a thread.
func (tr *travels) somewhere(id string) segno.CommitID {
	tr.Helper()
	var all []segno.CommitID
	for c, err := range tr.store.Checkpoints(tr.Context(), segno.CheckpointQuery{Thread: segno.ThreadID(id)}) {
		if err != nil {
			tr.broken("%v", err)
		}
		all = append(all, c.ID)
	}
	if len(all) == 0 {
		return "none"
	}
	return all[tr.rnd.IntN(len(all))]
}

// restores moves a thread, through its agent or without it.
func (tr *travels) restores(id string) (err error) {
	tr.Helper()
	to := tr.somewhere(id)
	if tr.chance(2) {
		tr.note(id, " is restored to ", to)
		_, err = tr.Restore(tr.Context(), id, to)
		return err
	}
	tr.note(id, " is restored by the saver to ", to)
	_, err = tr.Saver().Restore(tr.Context(), saver.ThreadKey{Thread: id}, to)
	return err
}

// forks forks a thread, through the agent or without it.
func (tr *travels) forks(id string) (err error) {
	tr.Helper()
	at, fork := tr.somewhere(id), fmt.Sprint("fork ", tr.step)
	if tr.chance(2) {
		tr.note(id, " is forked at ", at, " as ", fork)
		_, err = tr.Fork(tr.Context(), at, fork)
	} else {
		tr.note(id, " is forked by the saver at ", at, " as ", fork)
		_, err = tr.Saver().Fork(tr.Context(), at, saver.ThreadKey{Thread: fork})
	}
	if _, there := tr.store.Head(tr.Context(), segno.ThreadID(fork)); there == nil {
		tr.threads = append(tr.threads, fork)
	}
	return err
}

// justified checks that no bill was paid more often than it was approved.
func (tr *travels) justified() {
	tr.Helper()
	for bill, times := range tr.paid {
		if times > len(tr.allowed[bill]) {
			tr.broken("bill %s was paid %d times and allowed %d times", bill, times, len(tr.allowed[bill]))
		}
	}
}

// expected reports whether an error is one that a person can act on: the object does not exist,
// the action is not possible now, the question was answered by another person, or the action completed an interrupted one.
func expected(err error) bool {
	switch segno.KindOf(err) {
	case segno.KindNotFound, segno.KindInvalid, segno.KindRefused:
		return true
	case segno.KindConflict:
		return contains(err.Error(), "replaced by question") || contains(err.Error(), "answered before") || contains(err.Error(), "completed only now")
	}
	return err == nil
}
