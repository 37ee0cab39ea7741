package agent

import "github.com/dalsegno/segno"

// lineIndex finds commits on a thread's line.
type lineIndex struct {
	commits map[segno.CommitID]bool
	records map[string]*segno.Node // the newest commit of an interrupt, intent or decision, by kind and id
	prompts map[int]*segno.Node    // by turn: the commit of its prompt
	ends    map[int]*segno.Node    // by turn: the commit that ended it with an answer
	shells  map[int]int            // by turn: the number of commands it ran
}

func newLineIndex() lineIndex {
	return lineIndex{commits: map[segno.CommitID]bool{}, records: map[string]*segno.Node{}, prompts: map[int]*segno.Node{},
		ends: map[int]*segno.Node{}, shells: map[int]int{}}
}

// addCommit indexes a commit. It does not count commands; see countShell.
func (x *lineIndex) addCommit(n *segno.Node) {
	x.commits[n.ID] = true
	if c := n.Checkpoint; c != nil && c.Kind == segno.CheckpointTurn && !c.Interrupted {
		x.ends[c.Turn] = n
	}
	for _, e := range n.Entries {
		switch e.Kind {
		case segno.EntryMessage:
			if e.Name == string(User) && x.prompts[e.Turn] == nil {
				x.prompts[e.Turn] = n
			}
		case segno.EntryInterrupt, segno.EntryIntent, segno.EntryDecision:
			x.records[string(e.Kind)+e.ID] = n
		}
	}
}

// record returns the commit of an interrupt, intent or decision, or nil if no commit has it yet.
func (x *lineIndex) record(kind segno.EntryKind, id string) *segno.Node {
	return x.records[string(kind)+id]
}

// countShell counts an entry if it is the intent of a command.
func (x *lineIndex) countShell(e *segno.Entry) {
	if e.Kind == segno.EntryIntent && e.Name == "execute" {
		x.shells[e.Turn]++
	}
}

// intentAt returns the key of a call's committed intent.
func (x *lineIndex) intentAt(call string) intentAt {
	if n := x.record(segno.EntryIntent, call); n != nil {
		return intentAt{n.ID, call}
	}
	return intentAt{}
}
