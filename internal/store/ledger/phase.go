package ledger

import (
	"slices"

	"github.com/dalsegno/segno"
)

// NextPhase returns the phase of a thread after c. before is its phase before c. Stores keep the
// phase with the thread's head, so that they can find threads by phase. The result is
// [segno.PhaseUnknown] if it depends on the commits before c, which only [phase.Read] reads.
func NextPhase(before segno.Phase, c *segno.Commit) segno.Phase {
	switch {
	case c.Create != nil && c.Parent == "":
		before = segno.PhaseDone
	case c.Move != nil && c.Move.Head == c.Expect || c.Move == nil && !c.IsNode():
		return before
	case c.Move != nil && c.Move.Head != segno.Self:
		return segno.PhaseUnknown
	case c.Parent != c.Expect:
		before = segno.PhaseUnknown // the move changes the line
	}
	return phaseAfterNode(before, c.Checkpoint, c.Entries)
}

// phaseAfterNode returns the phase of a line to which a node is added.
func phaseAfterNode(before segno.Phase, cp *segno.Checkpoint, entries []segno.Entry) segno.Phase {
	asks := hasEntry(entries, segno.EntryInterrupt)
	answers := hasEntry(entries, segno.EntryDecision) || hasEntry(entries, segno.EntryResult)
	ofTurn := cp != nil && (cp.Kind == segno.CheckpointTurn || cp.Kind == segno.CheckpointStep)
	switch {
	case ofTurn && endsTurn(cp):
		return segno.PhaseDone
	case asks && ofTurn && !answers:
		return segno.PhaseWaiting
	case asks, answers && (before == segno.PhaseWaiting || before == segno.PhaseUnknown):
		return segno.PhaseUnknown
	case !ofTurn, before == segno.PhaseWaiting, before == segno.PhaseUnknown:
		return before
	case cp.Kind == segno.CheckpointStep && cp.Agent == "":
		return segno.PhaseDone // every save in a saver's thread is complete
	}
	return segno.PhaseOpen
}

func endsTurn(cp *segno.Checkpoint) bool { return cp.Kind == segno.CheckpointTurn && !cp.Interrupted }

func hasEntry(entries []segno.Entry, kind segno.EntryKind) bool {
	return slices.ContainsFunc(entries, func(e segno.Entry) bool { return e.Kind == kind })
}
