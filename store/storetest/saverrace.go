package storetest

import (
	"errors"
	"fmt"
	"sync"

	"github.com/dalsegno/segno/saver"
)

func saverRaces() []clause {
	return []clause{
		{"a stale save", "a save onto a checkpoint that is not the newest is a conflict, tells the newest and changes nothing", staleSave},
		{"a thread begins once", "a first save of a thread that has one is a conflict and overwrites nothing", beginsOnce},
		{"one of K saves", "of K savers on one checkpoint one wins; the others learn who, and leave nothing", func(f *fixture) {
			saverRace(f, f.saver)
		}},
	}
}

func otherSavers() []clause {
	return []clause{
		{"one of K saves in two savers", "two savers of the same thing exclude each other as two goroutines do", func(f *fixture) {
			saverRace(f, f.saver, f.another())
		}},
		{"what one saves the other loads", "a save is there for every other saver when it returns", func(f *fixture) {
			other := f.another()
			s := f.begin(f.address(), "one")
			for i := range 10 {
				seen, err := other.Load(f.Context(), s.ThreadKey)
				f.ok(err)
				f.alike("what the other loads", seen, s)
				s, err = other.Save(f.Context(), more(seen, fmt.Sprint(i)))
				f.ok(err)
				f.stands(s)
				s = f.save(more(f.get(s.ThreadKey), fmt.Sprint(i)))
			}
		}},
	}
}

func staleSave(f *fixture) {
	old := f.begin(f.address(), "one")
	now := f.save(more(old, "two"))
	_, err := f.saver.Save(f.Context(), more(old, "late"))
	f.same("what it is told", f.conflict(err).Head, now.ID)
	f.stands(now)
	won := f.save(more(f.get(old.ThreadKey), "after all"))
	f.same("messages", len(f.get(old.ThreadKey).Messages), 3)
	f.stands(won)
}

func beginsOnce(f *fixture) {
	s := f.begin(f.address(), "one")
	_, err := f.saver.Save(f.Context(), more(saver.Snapshot{ThreadKey: s.ThreadKey}, "another beginning"))
	f.same("what it is told", f.conflict(err).Head, s.ID)
	f.stands(s)
}

// saverRace has K savers save onto one checkpoint, over and over.
func saverRace(f *fixture, savers ...saver.Saver) {
	const writers, rounds = 8, 6
	s := saver.Snapshot{ThreadKey: f.address()}
	for round := range rounds {
		var mu sync.Mutex
		var won []saver.Snapshot
		var lost []error
		var group sync.WaitGroup
		for k := range writers {
			mine := more(s, fmt.Sprintf("round %d saver %d", round, k))
			group.Go(func() {
				got, err := savers[k%len(savers)].Save(f.Context(), mine)
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					lost = append(lost, err)
				} else {
					won = append(won, got)
				}
			})
		}
		group.Wait()
		if len(won) != 1 {
			f.Fatalf("%d savers won; errors: %v", len(won), errors.Join(lost...))
		}
		for _, err := range lost {
			f.same("what a loser learns", f.conflict(err).Head, won[0].ID)
		}
		s = won[0]
		f.stands(s)
	}
	f.same("messages", len(s.Messages), rounds)
	f.same("the step", s.Step, rounds)
}
