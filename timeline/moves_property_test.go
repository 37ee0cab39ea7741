package timeline_test

import (
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/timeline"
)

// turnState is a turn in the model of a thread: the turn before it on its line, and the files after it.
type turnState struct {
	before int // the index of a turn; -1 for the beginning
	head   segno.CommitID
	files  map[string]string
}

// movesModel is what a user expects of moves in a directory in which only turns write.
type movesModel struct {
	turns     []turnState // the first is the beginning
	head, tip int
	moves     [][2]int // head and tip before each move since the last turn that op undo has not undone
}

// up returns the turns above the head to the tip, oldest first.
func (m *movesModel) up() (line []int) {
	for t := m.tip; t != m.head; t = m.turns[t].before {
		if t < 0 {
			return nil
		}
		line = append(line, t)
	}
	slices.Reverse(line)
	return line
}

// down returns the turns from the head to the beginning, which is the last.
func (m *movesModel) down() (line []int) {
	for t := m.head; t >= 0; t = m.turns[t].before {
		line = append(line, t)
	}
	return line
}

// TestMovesLeadToTheStatesOfTurns makes random turns and moves. Only turns write, so after each of them the files must be those of the
// turn at which the thread is, whatever path led there.
func TestMovesLeadToTheStatesOfTurns(t *testing.T) {
	checkEdited(t, func(r *rapid.T, e *edited) {
		m := &movesModel{turns: []turnState{{before: -1, files: e.contents()}}}
		move := func(ask timeline.MoveRequest, to int) {
			m.moves = append(m.moves, [2]int{m.head, m.tip})
			e.move(ask)
			m.head = to
		}
		steps := map[string]func(*rapid.T){
			"turn": func(r *rapid.T) {
				files := rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "new"}), rapid.IntRange(0, 2), 1, 2).Draw(r, "files")
				head := e.put(files)
				m.turns = append(m.turns, turnState{m.head, head, e.contents()})
				m.head, m.tip, m.moves = len(m.turns)-1, len(m.turns)-1, nil
			},
			"undo": func(r *rapid.T) {
				if line := m.down(); len(line) > 1 {
					k := rapid.IntRange(1, len(line)-1).Draw(r, "undo")
					move(timeline.MoveRequest{Verb: segno.VerbUndo, Turns: k}, line[k])
				}
			},
			"redo": func(r *rapid.T) {
				if line := m.up(); len(line) > 0 {
					k := rapid.IntRange(1, len(line)).Draw(r, "redo")
					move(timeline.MoveRequest{Verb: segno.VerbRedo, Turns: k}, line[k-1])
				}
			},
			"restore": func(r *rapid.T) {
				if len(m.turns) > 1 {
					to := rapid.IntRange(1, len(m.turns)-1).Draw(r, "restore")
					tip := to
					for t := m.tip; t >= 0; t = m.turns[t].before {
						if t == to {
							tip = m.tip
						}
					}
					move(timeline.MoveRequest{Verb: segno.VerbRestore, To: m.turns[to].head, Scope: timeline.ScopeBoth}, to)
					m.tip = tip
				}
			},
			"op undo": func(*rapid.T) {
				if last := len(m.moves) - 1; last >= 0 {
					e.move(timeline.MoveRequest{Verb: segno.VerbOpUndo})
					m.head, m.tip = m.moves[last][0], m.moves[last][1]
					m.moves = m.moves[:last]
				}
			},
			"": func(r *rapid.T) {
				if got, want := e.contents(), m.turns[m.head].files; !maps.Equal(got, want) {
					r.Fatalf("at turn %d: %q, want %q", m.head, got, want)
				}
			},
		}
		r.Repeat(steps)
	})
}
