package transcript

import (
	"slices"

	"github.com/dalsegno/segno"
)

// story is what a capture found out about the conversation.
type story struct {
	leaf    string
	prompt  string // of the newest turn, if it is new
	said    *said  // by that prompt
	follows string
	origin  *segno.Origin
	earlier []past // oldest first
}

// past is a turn that ended before the newest one began.
type past struct {
	leaf, key, prompt string
	end               int64
}

// tell finds the story in t's graph, or reports that only the rest of the file
// can tell.
func (t *taking) tell() (s story, sure bool) {
	before := ""
	if t.prev != nil {
		before = t.prev.Leaf
	}
	whole := t.from == 0 || t.graph.whole
	if s.leaf, sure = t.graph.leaf(before, whole); !sure {
		return story{}, false
	}
	path, exit := t.graph.path(t.graph.at(s.leaf))
	turns := t.graph.split(path)
	shared := len(path)
	if t.prev == nil {
		shared = t.shared(path, &s)
		if t.of == nil {
			t.tellEarlier(path, turns, shared, &s)
		}
	}
	if len(turns) == 0 || shared < turns[0].to || t.old(path[:turns[0].to]) {
		return s, true
	}
	s.prompt, s.said = t.graph.nodes[turns[0].prompt].uuid, t.graph.nodes[turns[0].prompt].said
	s.follows, sure = t.follows(path[turns[0].to:], exit, &s)
	if !sure && whole && t.prev != nil {
		// The record that it hangs from is not in the file. The session's own line is
		// the likelier one, and no turn of it is cut off.
		s.follows = t.prev.Leaf
	}
	return s, sure || whole
}

// shared returns where on a path, which runs from the newest record back, the
// records begin that a known session has, too.
func (t *taking) shared(path []int, s *story) int {
	for at, i := range path {
		if leaf := t.knows(i); leaf != "" {
			s.origin = &segno.Origin{Leaf: leaf}
			return at
		}
	}
	return len(path)
}

// knows returns the name under which a record is a known leaf, or "".
func (t *taking) knows(i int) string {
	n := &t.graph.nodes[i]
	if t.known(n.uuid) {
		return n.uuid
	}
	if n.said != nil && n.said.source != "" && t.known(n.said.source) {
		return n.said.source
	}
	return ""
}

// tellEarlier adds the completed turns between what is shared and the newest.
func (t *taking) tellEarlier(path []int, turns []turn, shared int, s *story) {
	ends := t.graph.ends(path, turns)
	for i := len(turns) - 1; i > 0; i-- {
		if !turns[i].answered || turns[i].to > shared {
			continue
		}
		said := t.graph.nodes[turns[i].prompt].said
		s.earlier = append(s.earlier, past{
			leaf: t.graph.nodes[turns[i].leaf].uuid, key: said.key, prompt: said.text, end: ends[i],
		})
	}
}

// old reports whether a turn, given newest record first, was captured before.
func (t *taking) old(records []int) bool {
	if t.prev == nil {
		return false
	}
	prompt := records[len(records)-1]
	return t.graph.nodes[prompt].from < t.from || slices.ContainsFunc(records, func(i int) bool {
		return t.graph.nodes[i].uuid == t.prev.Leaf
	})
}

// lastTurn returns the records of the turn that was captured last, its prompt included.
// An agent that was killed while a tool ran leaves out the call when it goes on, so the
// next prompt hangs from an older record of the turn than its leaf.
func (t *taking) lastTurn() map[int]bool {
	records := map[int]bool{}
	if t.prev == nil {
		return records
	}
	path, _ := t.graph.path(t.graph.at(t.prev.Leaf))
	for _, i := range path {
		records[i] = true
		if s := t.graph.nodes[i].said; s != nil && s.role == rolePrompt {
			return records
		}
	}
	return map[int]bool{}
}

// follows returns the known leaf that a prompt hangs from, given the records
// above it.
func (t *taking) follows(above []int, exit string, s *story) (leaf string, sure bool) {
	captured := t.lastTurn()
	for _, i := range above {
		uuid := t.graph.nodes[i].uuid
		if captured[i] {
			return t.prev.Leaf, true
		}
		if t.prev != nil && uuid == t.prev.Leaf || slices.ContainsFunc(s.earlier, func(p past) bool { return p.leaf == uuid }) {
			return uuid, true
		}
		if leaf := t.knows(i); leaf != "" {
			return leaf, true
		}
	}
	if t.prev != nil && exit != "" && exit == t.prev.Leaf {
		return exit, true
	}
	return "", exit == ""
}
