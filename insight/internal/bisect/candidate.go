package bisect

import (
	"slices"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history"
)

// Candidate is one state of the files on a line.
type Candidate struct {
	Checkpoint *segno.Checkpoint // the first one with these files
	Missing    string            // why the state cannot be tested, or ""
	// Unrecorded are the checkpoints between the state before and this one, oldest first, without recorded files. One of
	// them may have made what differs.
	Unrecorded []*segno.Checkpoint

	same []segno.CommitID // this checkpoint and those after it with the same files
}

// Candidates returns the states of the files from one checkpoint to a later one, oldest first. Checkpoints that changed no
// file, those without files, and steps inside a turn are no candidates. If good is "", the states begin with the oldest one
// of the line. The result is empty if good is not on the line of bad.
//
// A checkpoint that lacks a file which the last one has cannot be tested. A file that the last one lacks, too, because
// nothing can read it, makes no difference.
func Candidates(h *history.History, good, bad segno.CommitID) []Candidate {
	byID := map[segno.CommitID]*segno.Checkpoint{}
	shown := h.WithoutInnerSteps()
	for i := range shown {
		byID[shown[i].ID] = &shown[i]
	}
	at := func(id segno.CommitID) *segno.Checkpoint {
		if c := byID[id]; c != nil {
			return c
		}
		return h.ByID[id]
	}
	var line []*segno.Checkpoint
	var last *segno.Checkpoint
	unrecorded := map[segno.CommitID][]*segno.Checkpoint{} // by the next checkpoint with files
	for c := at(bad); c != nil; c = at(c.Parent) {
		last = c
		if n := len(line); !c.Tree().IsZero() {
			line = append(line, c)
		} else if n > 0 && c.Kind != segno.CheckpointStep {
			next := line[n-1].ID
			unrecorded[next] = append([]*segno.Checkpoint{c}, unrecorded[next]...)
		}
		if c.ID == good {
			break
		}
	}
	if good != "" && (last == nil || last.ID != good) {
		return nil
	}
	var all []Candidate
	for _, c := range slices.Backward(line) {
		if n := len(all); n > 0 && all[n-1].Checkpoint.Tree() == c.Tree() {
			all[n-1].same = append(all[n-1].same, c.ID)
			continue
		}
		all = append(all, Candidate{Checkpoint: c, Missing: missing(c, line[0]), Unrecorded: unrecorded[c.ID], same: []segno.CommitID{c.ID}})
	}
	return all
}

// missing returns why c lacks files that last has, or "".
func missing(c, last *segno.Checkpoint) string {
	paths, _ := history.Unread(c.Workspace)
	also, _ := history.Unread(last.Workspace)
	for _, p := range paths {
		if !slices.Contains(also, p) {
			return segno.QuotePath(p) + " could not be read at that time"
		}
	}
	return ""
}

// Index returns the state that a checkpoint has, or -1.
func Index(states []Candidate, id segno.CommitID) int {
	return slices.IndexFunc(states, func(c Candidate) bool { return slices.Contains(c.same, id) })
}

// Search returns the search in the states of this bisect, with the answers so far.
func (s *Session) Search(states []Candidate) *Search {
	search := NewSearch(len(states))
	for _, a := range s.Answers {
		if i := Index(states, a.Checkpoint); i >= 0 {
			_ = search.Record(i, Result{Verdict: a.Verdict}) // an answer was recorded only if it fits
		}
	}
	return search
}
