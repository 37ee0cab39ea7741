package claude

import (
	"slices"

	"github.com/dalsegno/segno"
)

// readConversation fills t.Out from the graph. The positions have only a leaf and an
// offset. ok is false if the conversation cannot be known without the rest of the file.
func (t *capture) readConversation() (ok bool) {
	g := t.graph
	t.Out = segno.Captured{}
	t.Out.Position.Offset = t.to
	if t.Out.Position.Leaf, ok = g.leaf(t.Prev.Leaf); !ok {
		return false
	}
	path, exit := g.path(t.Out.Position.Leaf)
	turns := g.turnsOf(path)
	shared := len(path)
	if t.IsFirst {
		shared = t.findOrigin(path)
		if t.Of == nil || t.AllTurns {
			t.addEarlier(path, turns, shared)
		}
	}
	if len(turns) == 0 || shared < turns[0].to || t.isCaptured(path[:turns[0].to]) {
		return true
	}
	prompt := &g.nodes[turns[0].prompt]
	t.Out.Prompt, t.Out.Key, t.Out.Text = prompt.uuid, segno.TurnKey(prompt.part.key), prompt.part.text
	oldest := 0
	if t.AllTurns && !t.IsFirst {
		oldest = t.addLater(path, turns)
	}
	t.Out.Follows, ok = t.findFollowed(path[turns[oldest].to:], exit)
	if !ok && g.isWhole {
		// The record above the prompt is not in the file. The session's own line is
		// the likelier origin, and choosing it loses no turn.
		t.Out.Follows = t.Prev.Leaf
	}
	return ok || g.isWhole
}

// findOrigin returns the first index in path whose record also belongs to a known session,
// or the length of path. path runs from the newest record back, so that session has all the
// records from this index on.
func (t *capture) findOrigin(path []int) int {
	for at, i := range path {
		if leaf := t.knownLeaf(i); leaf != "" {
			t.Out.Origin = &segno.Origin{Leaf: leaf}
			return at
		}
	}
	return len(path)
}

// knownLeaf returns the name under which a record is a known leaf, or "".
func (t *capture) knownLeaf(i int) string {
	n := &t.graph.nodes[i]
	if t.Knows(n.uuid) {
		return n.uuid
	}
	if n.part != nil && n.part.source != "" && t.Knows(n.part.source) {
		return n.part.source
	}
	return ""
}

// addEarlier adds the completed turns between the shared records and the newest turn, oldest
// first.
func (t *capture) addEarlier(path []int, turns []turn, shared int) {
	ends := t.graph.ends(path, turns)
	for i := len(turns) - 1; i > 0; i-- {
		if !turns[i].isAnswered || turns[i].to > shared {
			continue
		}
		part := t.graph.nodes[turns[i].prompt].part
		p := segno.Position{Leaf: t.graph.nodes[turns[i].leaf].uuid, Offset: ends[i]}
		t.Out.Earlier = append(t.Out.Earlier, segno.TranscriptTurn{Key: segno.TurnKey(part.key), Prompt: part.text, Position: p})
	}
}

// addLater adds the completed turns between an earlier capture and the newest turn, oldest first, and
// returns the index of the oldest one.
func (t *capture) addLater(path []int, turns []turn) (oldest int) {
	ends := t.graph.ends(path, turns)
	for i := len(turns) - 1; i > 0; i-- {
		if t.isCaptured(path[turns[i].from:turns[i].to]) {
			continue
		}
		oldest = max(oldest, i)
		if !turns[i].isAnswered || ends[i] <= t.From {
			continue
		}
		part := t.graph.nodes[turns[i].prompt].part
		p := segno.Position{Leaf: t.graph.nodes[turns[i].leaf].uuid, Offset: ends[i]}
		t.Out.Earlier = append(t.Out.Earlier, segno.TranscriptTurn{Key: segno.TurnKey(part.key), Prompt: part.text, Position: p})
	}
	return oldest
}

// isCaptured reports whether an earlier capture contains a turn. records are the turn's
// records, newest first.
func (t *capture) isCaptured(records []int) bool {
	prompt := records[len(records)-1]
	return t.graph.nodes[prompt].from < t.From || slices.ContainsFunc(records, func(i int) bool {
		return t.graph.nodes[i].uuid == t.Prev.Leaf
	})
}

// lastCapturedTurn returns the records of the turn that was captured last, its prompt
// included. An agent that was killed while a tool ran leaves out the call when it
// continues, so the parent of the next prompt is an older record of the turn than its leaf.
func (t *capture) lastCapturedTurn() map[int]bool {
	records := map[int]bool{}
	path, _ := t.graph.path(t.Prev.Leaf)
	for _, i := range path {
		records[i] = true
		if part := t.graph.nodes[i].part; part != nil && part.role == rolePrompt {
			return records
		}
	}
	return nil
}

// findFollowed returns the known leaf that a prompt follows, given the records
// above it.
func (t *capture) findFollowed(above []int, exit string) (leaf string, ok bool) {
	captured := t.lastCapturedTurn()
	before := t.Prev.Leaf
	for _, i := range above {
		uuid := t.graph.nodes[i].uuid
		if captured[i] {
			return before, true
		}
		if uuid == before || slices.ContainsFunc(t.Out.Earlier, func(e segno.TranscriptTurn) bool { return e.Position.Leaf == uuid }) {
			return uuid, true
		}
		if leaf := t.knownLeaf(i); leaf != "" {
			return leaf, true
		}
	}
	if exit != "" && exit == before {
		return exit, true
	}
	return "", exit == ""
}
