package timeline_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/timeline"
)

// line is a line of a file, by the file's name and the actor that changes it: the number of a thread, or 2 for the user.
type line struct {
	file  string
	actor int
}

// threadTurn is a turn in the model of a thread: the contents of the thread's lines before and after it.
type threadTurn struct {
	before     int // the index of the turn below it; -1 for the first
	found, was map[line]int
}

// threadModel is a thread. No other actor changes the lines of its turns. They are always those of the turn at which the thread is.
type threadModel struct {
	id        segno.ThreadID
	turns     []threadTurn
	head, tip int
	moves     []threadMove // those that op undo has not undone, since the last turn
}

// threadMove is a move, and where the thread was before it.
type threadMove struct {
	op        segno.OperationID
	head, tip int
}

// above returns the turns above one of a line, up to the top, oldest first.
func (m *threadModel) above(at, top int) (turns []int) {
	for t := top; t != at; t = m.turns[t].before {
		if t < 0 {
			return nil
		}
		turns = append(turns, t)
	}
	slices.Reverse(turns)
	return turns
}

// putLines writes the two files. Between two lines of actors are lines that stay, so that changes of different actors can be merged.
func (e *edited) putLines(all map[line]int) {
	for _, name := range []string{"a", "b"} {
		var lines []string
		for actor := range 3 {
			lines = append(lines, fmt.Sprint("by-", actor, "-", all[line{name, actor}]), "stays", fmt.Sprint("after-", actor), "stays")
		}
		if !slices.Equal(e.files()[name], lines) {
			e.write(name, lines)
		}
	}
}

// TestThreadsAndTheUserMoveBesideEachOther makes random turns and moves of two threads and edits of a user, in different lines of the
// same files. A move of a thread must change the lines of its turns alone.
func TestThreadsAndTheUserMoveBesideEachOther(t *testing.T) {
	checkEdited(t, func(r *rapid.T, e *edited) {
		now := map[line]int{}
		e.putLines(now)
		threads := [2]*threadModel{{head: -1, tip: -1}, {head: -1, tip: -1}}
		edit := func(r *rapid.T, actor int) {
			file := rapid.SampledFrom([]string{"a", "b"}).Draw(r, "file")
			now[line{file, actor}] = rapid.IntRange(0, 2).Draw(r, "content")
			e.putLines(now)
		}
		move := func(i int, ask timeline.MoveRequest, to int) {
			m := threads[i]
			ask.Thread = m.id
			was := threadMove{head: m.head, tip: m.tip}
			plan := e.move(ask)
			if len(plan.Conflicts) > 0 {
				r.Fatalf("%s of thread %d has the conflicts %v", ask.Verb, i, plan.Conflicts)
			}
			was.op, m.head = plan.Operation, to
			m.moves = append(m.moves, was)
			for l := range now {
				if l.actor == i && m.head >= 0 {
					now[l] = m.turns[m.head].was[l]
				} else if l.actor == i {
					now[l] = m.turns[0].found[l]
				}
			}
		}
		r.Repeat(map[string]func(*rapid.T){
			"user": func(r *rapid.T) { edit(r, 2) },
			"turn": func(r *rapid.T) {
				i := rapid.IntRange(0, 1).Draw(r, "thread")
				m, src := threads[i], segno.Source{Session: segno.SessionID(fmt.Sprint("session ", i))}
				begun, err := e.site.BeginTurn(e.Context(), timeline.Prompt{Agent: "test", Source: src, Text: "turn"})
				e.must(err)
				found := maps.Clone(now)
				for range rapid.IntRange(1, 2).Draw(r, "edits") {
					edit(r, i)
				}
				ended, err := e.site.EndTurn(e.Context(), timeline.TurnEnd{Key: begun.Key, Source: src, Agent: "test"})
				e.must(err)
				m.turns = append(m.turns, threadTurn{m.head, found, maps.Clone(now)})
				m.id, m.head, m.tip, m.moves = ended.Thread, len(m.turns)-1, len(m.turns)-1, nil
			},
			"undo": func(r *rapid.T) {
				i := rapid.IntRange(0, 1).Draw(r, "thread")
				if line := threads[i].above(-1, threads[i].head); len(line) > 0 {
					k := rapid.IntRange(1, len(line)).Draw(r, "undo")
					move(i, timeline.MoveRequest{Verb: segno.VerbUndo, Turns: k}, threads[i].turns[line[len(line)-k]].before)
				}
			},
			"redo": func(r *rapid.T) {
				i := rapid.IntRange(0, 1).Draw(r, "thread")
				if line := threads[i].above(threads[i].head, threads[i].tip); len(line) > 0 {
					k := rapid.IntRange(1, len(line)).Draw(r, "redo")
					move(i, timeline.MoveRequest{Verb: segno.VerbRedo, Turns: k}, line[k-1])
				}
			},
			"op undo": func(r *rapid.T) {
				i := rapid.IntRange(0, 1).Draw(r, "thread")
				if m := threads[i]; len(m.moves) > 0 {
					last := m.moves[len(m.moves)-1]
					move(i, timeline.MoveRequest{Verb: segno.VerbOpUndo, Op: last.op}, last.head)
					m.tip, m.moves = last.tip, m.moves[:len(m.moves)-2]
				}
			},
			"": func(r *rapid.T) {
				got := e.contents()
				if e.putLines(now); !maps.Equal(got, e.contents()) {
					r.Fatalf("the files are %q, want %q", got, e.contents())
				}
			},
		})
	})
}
