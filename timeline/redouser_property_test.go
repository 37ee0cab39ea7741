package timeline_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/timeline"
)

// slot is a place in one of the files for one line. Lines that no actor changes are between two slots, so that changes of two slots can
// always be merged.
type slot struct {
	file string
	n    int
}

// slotChange is a change of one slot by a turn.
type slotChange struct {
	turn     int
	at       slot
	from, to string
}

// slotMove is a move of the model.
type slotMove struct {
	op        segno.OperationID
	changes   []slotChange // in the order in which they were made
	head, tip int          // before the move
	isAlone   bool         // it left the thread where it was
	isExact   bool         // it did that, or it was a restore
}

// slotModel is a thread and its files. Turn i is on turn before[i]; turn 0 is the beginning.
type slotModel struct {
	*edited
	now       map[slot]string
	removed   map[string]bool // lines that the user removed
	returned  map[string]bool // lines that a move brought back
	before    []int
	heads     []segno.CommitID
	did       [][]slotChange         // by turn
	alone     map[int][][]slotChange // by turn: those of the moves of files after it that op undo has not undone
	reverted  map[int][]slotChange   // by turn that is not in effect: the changes of the move that reverted it
	moves     []slotMove             // since the last turn, without those that op undo has undone
	head, tip int
	restored  bool // a restore was made, after which the model knows only the lines of the user
	ended     bool // a move left conflicts, with which the history ends
}

// above returns the turns above one of a line, up to the top, oldest first.
func (m *slotModel) above(at, top int) (turns []int) {
	for t := top; t != at; t = m.before[t] {
		if t == 0 {
			return nil
		}
		turns = append(turns, t)
	}
	slices.Reverse(turns)
	return turns
}

func (m *slotModel) put() {
	for _, name := range []string{"a", "b"} {
		var lines []string
		for n := range 6 {
			if line := m.now[slot{name, n}]; line != "" {
				lines = append(lines, line)
			}
			for i := range 3 {
				lines = append(lines, fmt.Sprint("stays.", n, ".", i))
			}
		}
		if !slices.Equal(m.files()[name], lines) {
			m.write(name, lines)
		}
	}
}

// read returns the slots of the files.
func (m *slotModel) read(r *rapid.T) map[slot]string {
	got := map[slot]string{}
	files := m.files()
	for _, name := range []string{"a", "b"} {
		n := 0
		for _, line := range files[name] {
			if line == fmt.Sprint("stays.", n, ".2") {
				n++
			} else if !slices.Contains([]string{fmt.Sprint("stays.", n, ".0"), fmt.Sprint("stays.", n, ".1")}, line) {
				if got[slot{name, n}] != "" {
					r.Fatalf("%s has %q", name, files[name])
				}
				got[slot{name, n}] = line
			}
		}
	}
	return got
}

func (m *slotModel) set(c slotChange) bool {
	if m.now[c.at] != c.from || c.from == c.to {
		return false
	}
	m.now[c.at] = c.to
	return true
}

// turn makes a turn that changes some slots.
func (m *slotModel) turn(r *rapid.T) {
	src := segno.Source{Session: "session"}
	begun, err := m.site.BeginTurn(m.Context(), timeline.Prompt{Agent: "test", Source: src, Text: fmt.Sprint("turn ", len(m.before))})
	m.must(err)
	t := len(m.before)
	var did []slotChange
	for range rapid.IntRange(1, 3).Draw(r, "edits") {
		c := slotChange{turn: t, at: m.drawSlot(r), to: rapid.SampledFrom([]string{"", m.line(fmt.Sprint("t", t), "")}).Draw(r, "line")}
		c.from = m.now[c.at]
		if i := slices.IndexFunc(did, func(x slotChange) bool { return x.at == c.at }); i < 0 && m.set(c) {
			did = append(did, c)
		}
	}
	m.put()
	ended, err := m.site.EndTurn(m.Context(), timeline.TurnEnd{Key: begun.Key, Source: src, Agent: "test"})
	m.must(err)
	r.Logf("turn %d: %v", t, lines(m.now))
	m.before, m.heads, m.did = append(m.before, m.head), append(m.heads, ended.ID), append(m.did, did)
	m.head, m.tip, m.moves = t, t, nil
}

func (m *slotModel) drawSlot(r *rapid.T) slot {
	return slot{rapid.SampledFrom([]string{"a", "b"}).Draw(r, "file"), rapid.IntRange(0, 5).Draw(r, "slot")}
}

// user changes a slot: to a new line, to none, or to what a turn in effect found there.
func (m *slotModel) user(r *rapid.T) {
	at := m.drawSlot(r)
	to := []string{""}
	for _, t := range m.above(0, m.head) {
		for _, c := range m.did[t] {
			if c.to == m.now[c.at] && c.to != c.from {
				at, to = c.at, []string{c.from, c.from, ""}
			}
		}
	}
	if m.now[at] == "" {
		to = append(to, m.line("u", ""))
	}
	if c := (slotChange{at: at, from: m.now[at], to: rapid.SampledFrom(to).Draw(r, "to")}); m.set(c) {
		m.removed[c.from] = true
	}
	r.Logf("user: %v", lines(m.now))
	m.put()
}

// move makes a move, which must lead to the slots of the model.
func (m *slotModel) move(r *rapid.T, ask timeline.MoveRequest, to int, changes []slotChange) {
	found := m.read(r)
	isInPlace := len(ask.Only)+len(ask.Paths) > 0 || ask.Scope == timeline.ScopeFiles
	done := slotMove{head: m.head, tip: m.tip, isAlone: isInPlace, isExact: isInPlace || ask.Verb == segno.VerbRestore}
	for _, c := range changes {
		if m.set(c) {
			done.changes = append(done.changes, c)
		}
	}
	result, err := m.site.Move(m.Context(), ask, nil)
	if isInPlace && segno.KindOf(err) == segno.KindNotFound {
		if !maps.Equal(lines(found), lines(m.now)) {
			r.Fatalf("%s %v leads to %v, and nothing is left to undo", ask.Verb, ask.Paths, lines(m.now))
		}
		return
	}
	m.must(err)
	plan := result.Plan
	if m.ended = len(plan.Conflicts) > 0; m.ended {
		return
	}
	got := m.read(r)
	r.Logf("%s %s, to turn %d, tip %d: %v", ask.Verb, plan.Args, to, m.tip, lines(got))
	// The op undo of such a move brings back all that it wrote, also if the user removed it between two later moves that were undone. What
	// the user removed after the move is no longer removed then: an earlier move may bring it back.
	if ask.Verb == segno.VerbOpUndo && m.moves[len(m.moves)-1].isExact {
		clear(m.removed)
	} else if ask.Verb != segno.VerbRestore {
		m.checkUser(r, found, got)
	}
	if ask.Verb == segno.VerbRestore {
		m.restored = true
	}
	if !m.restored && !maps.EqualFunc(lines(got), lines(m.now), func(a, b string) bool { return a == b }) {
		r.Fatalf("%s %s led to %v, want %v", ask.Verb, plan.Args, lines(got), lines(m.now))
	}
	for at, line := range got {
		m.returned[line] = m.returned[line] || found[at] != line
	}
	maps.DeleteFunc(m.removed, func(line string, _ bool) bool { return slices.Contains(slices.Collect(maps.Values(got)), line) })
	m.now, m.head = got, to
	done.op = plan.Operation
	m.moves = append(m.moves, done)
	for t, changes := range m.planned(found, got, m.above(to, done.head)) {
		m.reverted[t] = changes
	}
	if isInPlace { // a new checkpoint on the head
		m.tip = m.head
		m.alone[m.head] = append(slices.Clone(m.alone[m.head]), done.changes)
	}
}

// planned returns the changes that a move over turns, oldest first, reverted, by turn. A redo makes a move of files again with the turn below it. Other
// moves have left such a file alone if they did not write it.
func (m *slotModel) planned(found, got map[slot]string, turns []int) map[int][]slotChange {
	state, by := maps.Clone(found), map[int][]slotChange{}
	for _, t := range slices.Backward(turns) {
		by[t] = nil
		for _, c := range inverse(slices.Concat(append([][]slotChange{m.did[t]}, m.alone[t]...)...)) {
			if state[c.at] == c.from && c.from != c.to {
				state[c.at] = c.to
				by[t] = append(by[t], c)
			}
		}
	}
	for _, file := range []string{"a", "b"} {
		of := func(all map[slot]string) map[slot]string {
			all = lines(all)
			maps.DeleteFunc(all, func(at slot, _ string) bool { return at.file != file })
			return all
		}
		switch isSame := maps.Equal(of(found), of(got)); {
		case isSame && !maps.Equal(of(found), of(state)):
			for t := range by {
				by[t] = slices.DeleteFunc(by[t], func(c slotChange) bool { return c.at.file == file })
			}
		case isSame && len(m.alone) > 0 && len(m.removed) > 0:
			m.ended = true // the move took back a turn and a move over it, in lines that the user removed: the next redo may leave that turn out
		}
	}
	return by
}

// checkUser checks that a move removed no line that the user wrote, and brought back none that the user removed. Lines that a turn removed, too, do not count.
func (m *slotModel) checkUser(r *rapid.T, found, got map[slot]string) {
	for at, line := range found {
		if strings.HasPrefix(line, "u") && got[at] != line && !m.isRemovedByTurn(line) && !m.returned[line] {
			r.Fatalf("%s, which the user wrote, is gone", line)
		}
	}
	for at, line := range got {
		if m.removed[line] && found[at] != line && !m.isRemovedByTurn(line) {
			r.Fatalf("%s, which the user removed, came back", line)
		}
	}
}

func (m *slotModel) isRemovedByTurn(line string) bool {
	return slices.ContainsFunc(slices.Concat(m.did...), func(c slotChange) bool { return c.from == line })
}

// lines returns the slots that have a line.
func lines(all map[slot]string) map[slot]string {
	all = maps.Clone(all)
	maps.DeleteFunc(all, func(_ slot, line string) bool { return line == "" })
	return all
}

// inverse returns the changes that revert others.
func inverse(changes []slotChange) (back []slotChange) {
	for _, c := range slices.Backward(changes) {
		c.from, c.to = c.to, c.from
		back = append(back, c)
	}
	return back
}

// undone returns the changes of an op undo, without those of slots that the operation left as they were.
func (m *slotModel) undone(op []slotChange) (changes []slotChange) {
	first, last := map[slot]string{}, map[slot]string{}
	for _, c := range op {
		if _, ok := first[c.at]; !ok {
			first[c.at] = c.from
		}
		last[c.at] = c.to
	}
	return slices.DeleteFunc(inverse(op), func(c slotChange) bool { return first[c.at] == last[c.at] && m.now[c.at] != last[c.at] })
}

// redone returns the changes of turns that the newest moves over them reverted.
func (m *slotModel) redone(turns []int) (changes []slotChange) {
	for _, t := range turns {
		changes = append(changes, inverse(m.reverted[t])...)
	}
	return changes
}

// TestRedosWriteWhatTheMovesBackReverted makes random turns, edits of a user and moves. A user removes lines of turns at any moment: before
// a move back, between it and a redo, and between two redos. A move must change only the lines of turns that are as the turn or the move
// before it left them. Only a restore may change a line that the user changed last.
func TestRedosWriteWhatTheMovesBackReverted(t *testing.T) {
	checkEdited(t, func(r *rapid.T, e *edited) {
		m := &slotModel{edited: e, now: map[slot]string{}, removed: map[string]bool{}, returned: map[string]bool{}, before: []int{-1}, heads: []segno.CommitID{""},
			did: [][]slotChange{nil}, reverted: map[int][]slotChange{}, alone: map[int][][]slotChange{}}
		m.put()
		m.turn(r)
		steps := map[string]func(*rapid.T){
			"turn": func(r *rapid.T) {
				if len(m.moves) == 0 || rapid.IntRange(0, 3).Draw(r, "turn") == 0 {
					m.turn(r)
				}
			},
			"user": m.user,
			"undo": func(r *rapid.T) {
				line := m.above(0, m.head)
				if len(line) == 0 {
					return
				}
				k := rapid.IntRange(1, len(line)).Draw(r, "undo")
				var changes []slotChange
				for _, t := range slices.Backward(line[len(line)-k:]) {
					changes = append(changes, inverse(m.did[t])...)
				}
				m.move(r, timeline.MoveRequest{Verb: segno.VerbUndo, Turns: k}, m.before[line[len(line)-k]], changes)
			},
			"undo alone": func(r *rapid.T) {
				line := m.above(0, m.head)
				if len(line) == 0 || rapid.IntRange(0, 2).Draw(r, "alone") > 0 {
					return
				}
				t := rapid.SampledFrom(line).Draw(r, "turn")
				m.move(r, timeline.MoveRequest{Verb: segno.VerbUndo, Only: []int{t}}, m.head, inverse(m.did[t]))
			},
			"undo in a file": func(r *rapid.T) {
				line := m.above(0, m.head)
				if len(line) == 0 || rapid.IntRange(0, 2).Draw(r, "path") > 0 {
					return
				}
				k := rapid.IntRange(1, len(line)).Draw(r, "undo")
				var changes []slotChange
				for _, t := range slices.Backward(line[len(line)-k:]) {
					changes = append(changes, slices.DeleteFunc(inverse(m.did[t]), func(c slotChange) bool { return c.at.file != "a" })...)
				}
				m.move(r, timeline.MoveRequest{Verb: segno.VerbUndo, Turns: k, Paths: []string{"a"}}, m.head, changes)
			},
			"redo": func(r *rapid.T) {
				line := m.above(m.head, m.tip)
				if len(line) == 0 {
					return
				}
				k := rapid.IntRange(1, len(line)).Draw(r, "redo")
				m.move(r, timeline.MoveRequest{Verb: segno.VerbRedo, Turns: k}, line[k-1], m.redone(line[:k]))
			},
			"op undo": func(r *rapid.T) {
				if len(m.moves) == 0 {
					return
				}
				last := m.moves[len(m.moves)-1]
				changes := m.undone(last.changes)
				if line := m.above(m.head, last.head); len(line) > 0 {
					changes = m.redone(line)
				}
				m.move(r, timeline.MoveRequest{Verb: segno.VerbOpUndo, Op: last.op}, last.head, changes)
				if !m.ended {
					if last.isAlone {
						m.alone[m.head] = m.alone[m.head][:len(m.alone[m.head])-1]
					}
					m.tip, m.moves = last.tip, m.moves[:len(m.moves)-2]
				}
			},
			"restore": func(r *rapid.T) {
				to := rapid.IntRange(0, len(m.heads)-1).Draw(r, "to")
				if to == 0 || rapid.IntRange(0, 3).Draw(r, "restore") > 0 {
					return
				}
				if rapid.IntRange(0, 2).Draw(r, "files") == 0 {
					m.move(r, timeline.MoveRequest{Verb: segno.VerbRestore, To: m.heads[to], Scope: timeline.ScopeFiles}, m.head, nil)
					return
				}
				m.move(r, timeline.MoveRequest{Verb: segno.VerbRestore, To: m.heads[to], Scope: timeline.ScopeBoth}, to, nil)
				if !m.ended && !slices.Contains(m.above(0, m.tip), to) {
					m.tip = to
				}
			},
		}
		for name, step := range steps {
			steps[name] = func(r *rapid.T) {
				if !m.ended {
					step(r)
				}
			}
		}
		r.Repeat(steps)
	})
}
