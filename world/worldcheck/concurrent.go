package worldcheck

import (
	"errors"
	"fmt"
	"sync"

	"github.com/dalsegno/segno"
)

// checkConcurrent lets two agents act concurrently while the world is saved. It checks that each
// snapshot is a state that the same steps reach one after the other in some order.
func checkConcurrent(r *run) error {
	prefix, lanes := r.concurrentSteps()
	w, _, err := r.played(prefix)
	if err != nil {
		return err
	}
	start, err := w.Snapshot(r.ctx)
	if err != nil {
		return err
	}
	seen, err := r.snapshotsDuring(w, lanes)
	if err != nil {
		return err
	}
	end, err := w.Snapshot(r.ctx)
	if err != nil {
		return err
	}
	all, last := states{}, states{}
	if err := r.explore(start, lanes, all, last); err != nil {
		return err
	}
	for _, s := range seen {
		if !all[string(s.Document)] {
			return fmt.Errorf("a snapshot during actions is none of the %d sequential states: %s", len(all), s.Document)
		}
	}
	if !last[string(end.Document)] {
		return fmt.Errorf("the state after concurrent actions is none of the %d sequential ones: %s", len(last), end.Document)
	}
	return nil
}

// concurrentSteps returns the first actions of two agents in the script, a lane for each agent, and the steps before
// them.
func (r *run) concurrentSteps() (prefix []Step, lanes [][]Step) {
	lanes = make([][]Step, 2)
	most := 3
	if r.config.External { // each order of the steps starts processes
		most = 1
	}
	for _, s := range r.script {
		if s.Verb == VerbAct && s.Agent < len(lanes) && len(lanes[s.Agent]) < most {
			lanes[s.Agent] = append(lanes[s.Agent], s)
		} else if len(lanes[0]) == 0 && len(lanes[1]) == 0 {
			prefix = append(prefix, s)
		}
	}
	return prefix, lanes
}

// checkSnapshots lets one agent act while others save the world. It checks that each snapshot is a state between two
// actions. The expected states come from a second world without concurrent calls.
func checkSnapshots(r *run) error {
	steps := r.further(nil)
	if !r.config.External { // random scripts repeat the check often
		steps = steps[:8]
	}
	quiet, _, err := r.played(Opening())
	if err != nil {
		return err
	}
	between := states{}
	for i := range len(steps) + 1 {
		s, err := quiet.Snapshot(r.ctx)
		if err != nil {
			return err
		}
		if between[string(s.Document)] = true; i == len(steps) {
			break
		}
		if _, err := steps[i].play(r.ctx, quiet); err != nil {
			return err
		}
	}
	for saved, rounds := 0, 5; rounds > 0 && saved < enoughSnapshots; rounds-- {
		n, err := r.saveDuring(steps, between)
		if err != nil || !r.config.External {
			return err
		}
		saved += n
	}
	return nil
}

// enoughSnapshots is how many snapshots during actions are enough to find a document that is not of one moment. On a busy
// machine there may be few in one round.
const enoughSnapshots = 250

// saveDuring plays the steps in a new world and saves it until they are done. It returns the number of snapshots.
func (r *run) saveDuring(steps []Step, between states) (n int, err error) {
	w, _, err := r.played(Opening())
	if err != nil {
		return 0, err
	}
	done := make(chan struct{})
	var torn, failed error
	var savers sync.WaitGroup
	var mu sync.Mutex
	for range 3 {
		savers.Go(func() {
			for {
				s, err := w.Snapshot(r.ctx)
				mu.Lock()
				if n++; err != nil {
					failed = fmt.Errorf("a snapshot during actions: %w", err)
				} else if !between[string(s.Document)] {
					torn = fmt.Errorf("a snapshot during actions is none of the %d states between them: %s", len(between), s.Document)
				}
				mu.Unlock()
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	_, err = play(r.ctx, w, steps)
	close(done)
	savers.Wait()
	return n, errors.Join(err, torn, failed)
}

// states is a set of documents.
type states map[string]bool

// snapshotsDuring plays the lanes concurrently and saves the world until they are done.
func (r *run) snapshotsDuring(w segno.World, lanes [][]Step) (seen []segno.WorldSnapshot, err error) {
	errs := make([]error, len(lanes))
	var agents sync.WaitGroup
	for i, lane := range lanes {
		agents.Go(func() { _, errs[i] = play(r.ctx, w, lane) })
	}
	done := make(chan struct{})
	go func() { agents.Wait(); close(done) }()
	for {
		s, err := w.Snapshot(r.ctx)
		if err != nil {
			<-done
			return nil, err
		}
		if n := len(seen); n == 0 || seen[n-1].Seq != s.Seq || string(seen[n-1].Document) != string(s.Document) {
			seen = append(seen, s)
		}
		select {
		case <-done:
			return seen, errors.Join(errs...)
		default:
		}
	}
}

// explore collects the states that the steps of the lanes reach in any order. last contains those after all
// steps.
func (r *run) explore(at segno.WorldSnapshot, lanes [][]Step, all, last states) error {
	all[string(at.Document)] = true
	isLast := true
	for i, lane := range lanes {
		if len(lane) == 0 {
			continue
		}
		isLast = false
		w, err := r.world()
		if err != nil {
			return err
		}
		if err := w.Load(r.ctx, at.Document); err != nil {
			return err
		}
		if _, err := lane[0].play(r.ctx, w); err != nil {
			return err
		}
		next, err := w.Snapshot(r.ctx)
		if err != nil {
			return err
		}
		rest := append([][]Step{}, lanes...)
		rest[i] = lane[1:]
		if err := r.explore(next, rest, all, last); err != nil {
			return err
		}
	}
	if isLast {
		last[string(at.Document)] = true
	}
	return nil
}
