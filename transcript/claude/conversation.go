package claude

import (
	"slices"

	"github.com/dalsegno/segno"
)

// conversation is what a capture finds out about the conversation.
type conversation struct {
	leaf    string
	prompt  string    // the record that began the newest turn, "" if that turn is not new
	part    *turnPart // of that record
	follows string    // the leaf before that turn
	origin  *segno.Origin
	earlier []earlierTurn // oldest first
}

// earlierTurn is a turn that ended before the newest one began.
type earlierTurn struct {
	leaf, key, prompt string
	end               int64
}

// readConversation reads the conversation from t's graph. ok is false if only the rest of
// the file could show it.
func (t *capture) readConversation() (s conversation, ok bool) {
	g := t.graph
	if s.leaf, ok = g.leaf(t.prevLeaf()); !ok {
		return conversation{}, false
	}
	path, exit := g.path(s.leaf)
	turns := g.turnsOf(path)
	shared := len(path)
	if t.prev == nil {
		shared = t.findOrigin(path, &s)
		if t.of == nil {
			t.addEarlier(path, turns, shared, &s)
		}
	}
	if len(turns) == 0 || shared < turns[0].to || t.isCaptured(path[:turns[0].to]) {
		return s, true
	}
	prompt := &g.nodes[turns[0].prompt]
	s.prompt, s.part = prompt.uuid, prompt.part
	s.follows, ok = t.findFollowed(path[turns[0].to:], exit, &s)
	if !ok && g.isWhole && t.prev != nil {
		// The record above the prompt is not in the file. The session's own line is
		// the likelier one, and it loses no turn.
		s.follows = t.prev.Leaf
	}
	return s, ok || g.isWhole
}

func (t *capture) prevLeaf() string {
	if t.prev == nil {
		return ""
	}
	return t.prev.Leaf
}

// findOrigin returns the index in path, which runs from the newest record back, from which
// on a known session has the records, too.
func (t *capture) findOrigin(path []int, s *conversation) int {
	for at, i := range path {
		if leaf := t.knownLeaf(i); leaf != "" {
			s.origin = &segno.Origin{Leaf: leaf}
			return at
		}
	}
	return len(path)
}

// knownLeaf returns the name under which a record is a known leaf, or "".
func (t *capture) knownLeaf(i int) string {
	n := &t.graph.nodes[i]
	if t.known(n.uuid) {
		return n.uuid
	}
	if n.part != nil && n.part.source != "" && t.known(n.part.source) {
		return n.part.source
	}
	return ""
}

// addEarlier adds the completed turns between the shared records and the newest turn.
func (t *capture) addEarlier(path []int, turns []turn, shared int, s *conversation) {
	ends := t.graph.ends(path, turns)
	for i := len(turns) - 1; i > 0; i-- {
		if !turns[i].isAnswered || turns[i].to > shared {
			continue
		}
		part := t.graph.nodes[turns[i].prompt].part
		s.earlier = append(s.earlier, earlierTurn{
			leaf: t.graph.nodes[turns[i].leaf].uuid, key: part.key, prompt: part.text, end: ends[i],
		})
	}
}

// isCaptured reports whether an earlier capture had a turn, given newest record first.
func (t *capture) isCaptured(records []int) bool {
	if t.prev == nil {
		return false
	}
	prompt := records[len(records)-1]
	return t.graph.nodes[prompt].from < t.from || slices.ContainsFunc(records, func(i int) bool {
		return t.graph.nodes[i].uuid == t.prev.Leaf
	})
}

// lastCapturedTurn returns the records of the turn that was captured last, its prompt
// included. After the agent was killed while a tool ran, it leaves out the call when it
// continues, so the parent of the next prompt is an older record of the turn than its leaf.
func (t *capture) lastCapturedTurn() map[int]bool {
	records := map[int]bool{}
	path, _ := t.graph.path(t.prevLeaf())
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
func (t *capture) findFollowed(above []int, exit string, s *conversation) (leaf string, ok bool) {
	captured := t.lastCapturedTurn()
	before := t.prevLeaf()
	for _, i := range above {
		uuid := t.graph.nodes[i].uuid
		if captured[i] {
			return before, true
		}
		if uuid == before || slices.ContainsFunc(s.earlier, func(e earlierTurn) bool { return e.leaf == uuid }) {
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
