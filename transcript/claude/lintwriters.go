package claude

import (
	"fmt"
	"slices"

	"github.com/dalsegno/segno/transcript"
)

// lostBranch is a line of records beside the conversation that another process wrote.
type lostBranch struct {
	fork    int // its first record's parent, which is in the conversation
	nodes   []int
	prompts int
	leaf    int // its newest message
}

// joinWriters puts branches that another process wrote at the same time into the conversation. It
// returns the new head. A branch that the user left with /rewind was complete before the next one
// began, so it stays where it is.
func (l *linter) joinWriters(v *loaded, head int) int {
	if v.pointer.isExplicit {
		return head
	}
	for range len(v.nodes) { // a join can make the head explicit, too
		chain, _, _ := v.chain(head)
		i := slices.IndexFunc(l.branches(v, chain), func(b lostBranch) bool { return l.isConcurrent(chain, b) })
		if i < 0 {
			return head
		}
		b, when := l.branches(v, chain)[i], " at the same time"
		if l.options.Join {
			when = ", or the user went back to an earlier message"
		}
		first := &v.nodes[b.nodes[0]]
		if at := slices.IndexFunc(b.nodes, func(i int) bool { return l.roleOf(i) == rolePrompt }); at >= 0 {
			first = &v.nodes[b.nodes[at]]
		}
		l.mend.Add(transcript.CodeTwoWriters, first.line, first.from, "another process wrote to the session"+when+"; the agent leaves out what begins here", "both are in the conversation, one after the other")
		head = l.join(v, chain, b)
	}
	return head
}

// branches returns the branches beside the conversation, oldest first.
func (l *linter) branches(v *loaded, chain []int) (out []lostBranch) {
	top := v.branchTops(chain)
	byTop := map[int]int{}
	for i := range v.nodes {
		if top[i] < 0 || v.gone[i] || v.nodes[i].isSidechain {
			continue
		}
		at, known := byTop[top[i]]
		if !known {
			at, out = len(out), append(out, lostBranch{fork: v.parent[top[i]], leaf: none})
			byTop[top[i]] = at
		}
		b := &out[at]
		b.nodes = append(b.nodes, i)
		if v.nodes[i].kind.isMessage() {
			b.leaf = i
		}
		if l.roleOf(i) == rolePrompt {
			b.prompts++
		}
	}
	return out
}

// branchTops returns, for each record, the first record of the branch that contains it. The number is negative for
// a record of the conversation, and for one that is not connected with the conversation.
func (v *loaded) branchTops(chain []int) []int {
	const live = -2
	top, seen := make([]int, len(v.nodes)), make([]bool, len(v.nodes))
	for _, i := range chain {
		top[i], seen[i] = live, true
	}
	for i := range v.nodes {
		visitPath(i, v.parent, seen, func(i, above int) {
			switch {
			case above == none:
				top[i] = none
			case top[above] == live:
				top[i] = i
			default:
				top[i] = top[above]
			}
		})
	}
	return top
}

func (l *linter) roleOf(i int) role {
	if part := l.parts[i]; part != nil {
		return part.role
	}
	return roleNone
}

// isConcurrent reports whether a branch was written while the conversation went on: it has records
// behind the first ones of the conversation beside it, or it has a prompt and the conversation then
// continues the turn from before that prompt. If the option Join is set, any branch with a prompt
// counts.
func (l *linter) isConcurrent(chain []int, b lostBranch) bool {
	live := chain[:slices.Index(chain, b.fork)]
	if len(live) == 0 || b.leaf == none || !l.hasOwnWords(chain, b) {
		return false
	}
	if l.options.Join && b.prompts > 0 {
		return true
	}
	if b.prompts > 0 && l.begins(live) == roleReply && slices.Max(b.nodes) < slices.Min(live) {
		return true
	}
	return slices.Min(live) < slices.Max(b.nodes)
}

// hasOwnWords reports whether a branch has a prompt, or an answer of which the conversation contains no
// part. The record of a parallel call is beside the conversation, too, but belongs to its answer.
func (l *linter) hasOwnWords(chain []int, b lostBranch) bool {
	if b.prompts > 0 {
		return true
	}
	answers := map[string]bool{}
	for _, i := range chain {
		if part := l.parts[i]; part != nil {
			answers[part.id] = true
		}
	}
	return slices.ContainsFunc(b.nodes, func(i int) bool { return l.roleOf(i) == roleReply && !answers[l.parts[i].id] })
}

// begins returns the role of the first message in records, which are newest first. It skips text
// that the program wrote. Results of tools continue a turn like a reply.
func (l *linter) begins(records []int) role {
	for _, i := range slices.Backward(records) {
		part := l.parts[i]
		switch {
		case part == nil:
		case part.role == roleReply, part.hasToolResults:
			return roleReply
		case part.role == rolePrompt:
			return rolePrompt
		}
	}
	return roleNone
}

// join links the conversation and a branch into one line, and returns its head. If one of them
// continues the turn at the fork, it comes first; otherwise the older one does.
func (l *linter) join(v *loaded, chain []int, b lostBranch) (head int) {
	at := slices.Index(chain, b.fork)
	live := chain[:at]
	branch := slices.Collect(v.ancestors(b.leaf)) // newest first
	branch = branch[:slices.Index(branch, b.fork)]
	isBranchFirst := l.begins(live) == rolePrompt && (l.begins(branch) == roleReply || slices.Min(b.nodes) < slices.Min(live))
	if isBranchFirst {
		l.setParent(v, l.start(live), b.leaf)
		return chain[0]
	}
	l.setParent(v, l.start(branch), v.message(chain[0]))
	l.addPointer(v.nodes[b.leaf].uuid)
	return b.leaf
}

// start returns the record of a line that becomes the child of the other line's end: the prompt if
// only text of the program comes before it, else the oldest record. records are newest first.
func (l *linter) start(records []int) int {
	for _, i := range slices.Backward(records) {
		switch part := l.parts[i]; {
		case part != nil && part.role == rolePrompt:
			return i
		case part != nil && (part.role == roleReply || part.hasToolResults):
			return records[len(records)-1]
		}
	}
	return records[len(records)-1]
}

// addPointer makes a record the head, as the agent does after a rewind.
func (l *linter) addPointer(uuid string) {
	l.mend.Replace(l.end, l.end, fmt.Appendf(nil, "\n"+`{"type":"last-prompt","leafUuid":"%s","explicit":true,"sessionId":"%s"}`, uuid, l.src.Session))
	l.graph.setPointer([]byte(`"`+uuid+`"`), true)
}
