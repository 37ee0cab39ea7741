package claude

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/jsonscan"
	"github.com/dalsegno/segno/transcript"
	"github.com/dalsegno/segno/transcript/internal/sessionfile"
)

// check applies the rules that need the whole conversation. Each rule changes the graph in the same way
// as its repair changes the transcript, because the next rule judges the repaired conversation.
func (l *linter) check() {
	l.joinDropped()
	v := l.graph.load()
	head := v.head()
	if head != none {
		l.attachResults(v)
		head = l.joinWriters(v, head)
		chain := l.mendChain(v, head)
		chain = l.joinIslands(v, chain)
		sent := l.sent(chain)
		l.checkCalls(chain, sent)
		l.checkBlocks(sent)
	}
	for i, parent := range l.parents {
		l.writeParent(i, parent)
	}
}

// setParent makes record i a child of the record above. If above is none, record i becomes a root.
func (l *linter) setParent(v *loaded, i, above int) {
	uuid := ""
	if above != none {
		uuid = v.nodes[above].uuid
	}
	v.parent[i], v.nodes[i].parent, l.parents[i] = above, uuid, uuid
}

// writeParent edits the parent in the line of a record.
func (l *linter) writeParent(i int, parent string) {
	value := "null"
	if parent != "" {
		value = `"` + parent + `"`
	}
	if part := l.parts[i]; part != nil && !part.parent.IsZero() {
		l.replace(part.parent, value)
	} else if part != nil {
		at := part.start + 1
		l.replace(jsonscan.Span{From: at, To: at}, `"parentUuid":`+value+`,`)
	}
}

func (l *linter) replace(at jsonscan.Span, text string) {
	l.mend.Replace(int64(at.From), int64(at.To), []byte(text))
}

// sent returns the records that the agent sends: the conversation, and the parallel calls and results
// beside it.
func (l *linter) sent(chain []int) []int {
	keep, messages := map[int]bool{}, map[int]message{}
	for _, i := range chain {
		keep[i] = true
	}
	for i, part := range l.parts {
		if part.id != "" || part.hasToolResults {
			messages[i] = part.message
		}
	}
	l.graph.addSiblings(keep, messages)
	return slices.Sorted(maps.Keys(keep))
}

// pairing has the blocks with the same id.
type pairing struct{ calls, results []placed }

// placed is a block and the node that has it.
type placed struct {
	node  int
	block *lintBlock
}

// checkCalls checks that each call of a tool has one result. The agent leaves out calls and results
// without a counterpart, so the model does not learn what a tool did.
func (l *linter) checkCalls(chain, sent []int) {
	pairs, order := map[string]*pairing{}, []string{}
	for _, i := range sent {
		part := l.parts[i]
		if part == nil {
			continue
		}
		for b := range part.blocks {
			at := placed{i, &part.blocks[b]}
			if at.block.id.IsZero() {
				continue
			}
			p := pairs[at.block.name]
			if p == nil {
				p = &pairing{}
				pairs[at.block.name], order = p, append(order, at.block.name)
			}
			if at.block.kind == blockCall {
				p.calls = append(p.calls, at)
			} else {
				p.results = append(p.results, at)
			}
		}
	}
	for _, id := range order {
		l.checkPairing(chain, id, pairs[id])
	}
}

func (l *linter) checkPairing(chain []int, id string, p *pairing) {
	for k, call := range p.calls {
		n := &l.graph.nodes[call.node]
		switch {
		case k == 0 && len(p.results) == 0 && !l.done[id]:
			l.mend.Add(transcript.CodeNoResult, n.line, int64(call.block.at.From),
				"the result of the call is missing, so the agent leaves out the call: the model never learns that the tool ran", "a result that says so is added")
			l.mend.Findings[len(l.mend.Findings)-1].Turn = l.turnOf(call.node)
			l.addResult(chain, call)
		case k == 0 && len(p.results) == 0:
			l.attachResult(call, id)
		case k > 0 && k < len(p.results):
			other := fmt.Sprintf("%s_%d", id, k+1)
			l.mend.Add(transcript.CodeDuplicateCall, n.line, int64(call.block.at.From),
				"another call has the same id; the API rejects that, and the agent leaves out the second one", "the second call and its result get another id")
			l.replace(call.block.id, other)
			l.replace(p.results[k].block.id, other)
		case k > 0:
			l.mend.Add(transcript.CodeDuplicateCall, n.line, int64(call.block.at.From),
				"the same call is there twice; the API rejects that, and the agent leaves out the second one", "left out")
			l.leaveOut(call)
		}
	}
	for k, result := range p.results {
		n := &l.graph.nodes[result.node]
		switch {
		case len(p.calls) == 0 && !l.calls[id]:
			l.mend.Add(transcript.CodeNoCall, n.line, int64(result.block.at.From),
				"the call of this result is missing, so the agent leaves out the result: the model does not get it", "the result becomes a text")
			l.makeText(result)
		case len(p.calls) > 0 && k >= len(p.calls):
			l.mend.Add(transcript.CodeDuplicateResult, n.line, int64(result.block.at.From),
				"the call of this result has another result; the API rejects that, and the agent leaves out the second one", "the result becomes a text")
			l.makeText(result)
		}
	}
}

// turnOf returns the key of the turn of a record: the agent's id of the nearest prompt at or above the record.
func (l *linter) turnOf(i int) segno.TurnKey {
	seen := map[int]bool{}
	for ; i != none && !seen[i]; i = l.graph.index(l.graph.above(i)) {
		if part := l.parts[i]; part != nil && part.role == rolePrompt {
			return part.key
		}
		seen[i] = true
	}
	return ""
}

// addResult adds a result for a call, as a record between the call and the next record. If the id of the
// lost record is known, the new record gets this id and replaces it. The results of parallel calls stay
// beside the conversation.
func (l *linter) addResult(chain []int, call placed) {
	n, part := &l.graph.nodes[call.node], l.parts[call.node]
	uuid := derivedUUID(string(l.src.Session), call.block.name)
	if at := slices.Index(chain, call.node); at > 0 {
		next := chain[at-1]
		nextPart := l.parts[next]
		isParallel := nextPart != nil && (nextPart.hasToolResults || nextPart.id != "" && nextPart.id == part.id)
		switch {
		case isParallel || call.block != &part.blocks[len(part.blocks)-1]:
		case l.graph.nodes[next].parent != "" && l.graph.index(l.graph.nodes[next].parent) == none:
			uuid = l.graph.nodes[next].parent
		default:
			l.parents[next] = uuid
		}
	}
	id := json.RawMessage(`"` + call.block.name + `"`) // as in the call, because ids are compared with their escapes
	line, _ := segno.Encode(map[string]any{"parentUuid": n.uuid, "isSidechain": false, "type": "user", "uuid": uuid, "timestamp": part.stamp,
		"message":   map[string]any{"role": "user", "content": []any{map[string]any{"tool_use_id": id, "type": "tool_result", "content": sessionfile.LostResult, "is_error": true}}},
		"sessionId": l.src.Session, "version": l.graph.version, "userType": "external", "cwd": l.graph.cwdText()}) // strings always encode
	l.mend.Replace(n.to, n.to, append([]byte{'\n'}, line...))
}

// derivedUUID returns a UUID that depends on texts only, so that a repeated repair has the same result.
func derivedUUID(texts ...string) string {
	sum := sha256.Sum256([]byte(fmt.Sprintf("segno heal %q", texts)))
	sum[6], sum[8] = sum[6]&0x0f|0x40, sum[8]&0x3f|0x80 // version 4 and the variant of RFC 9562
	return fmt.Sprintf("%x-%x-%x-%x-%x", sum[0:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}

// makeText replaces a result by a text block with its words. It marks the record as not written by the user.
func (l *linter) makeText(result placed) {
	b := result.block
	l.replace(b.at, `{"type":"text","text":"`+sessionfile.LostCall+`"}`+string(b.inner))
	start := l.parts[result.node].start + 1
	l.replace(jsonscan.Span{From: start, To: start}, `"isMeta":true,`)
}

// leaveOut replaces a block by a placeholder. If the record has no other block, it leaves out the whole record.
func (l *linter) leaveOut(at placed) {
	part, n := l.parts[at.node], &l.graph.nodes[at.node]
	if part.count > 1 {
		l.replace(at.block.at, `{"type":"text","text":"(no content)"}`)
		return
	}
	l.mend.Replace(n.from, n.to, nil)
	if l.children == nil {
		l.children = map[string][]int{}
		for i := range l.graph.nodes {
			parent := l.parentOf(i)
			l.children[parent] = append(l.children[parent], i)
		}
	}
	above, below := l.parentOf(at.node), l.children[n.uuid]
	delete(l.parents, at.node)
	for _, i := range below {
		if i != at.node && l.parentOf(i) == n.uuid {
			l.parents[i] = above
			l.children[above] = append(l.children[above], i)
		}
	}
}

// parentOf returns the parent that a record has after the repair.
func (l *linter) parentOf(i int) string {
	if parent, changed := l.parents[i]; changed {
		return parent
	}
	return l.graph.nodes[i].parent
}

// checkBlocks finds the blocks that the API rejects, regardless of their place.
func (l *linter) checkBlocks(sent []int) {
	var images []placed
	for _, i := range sent {
		part := l.parts[i]
		if part == nil {
			continue
		}
		for b := range part.blocks {
			if part.blocks[b].kind == blockImage {
				images = append(images, placed{i, &part.blocks[b]})
			}
		}
	}
	for k, at := range images {
		switch {
		case len(images)-k > maxImages:
			at.block.leaveOutImage(fmt.Sprintf("the API rejects more than %d images; there are %d", maxImages, len(images)))
		case len(images) > manyImages && at.block.larger(maxSideOfMany):
			at.block.leaveOutImage(fmt.Sprintf("the API rejects a side of more than %d pixels if there are more than %d images; this one has %d×%d",
				maxSideOfMany, manyImages, at.block.width, at.block.height))
		}
	}
	for _, i := range sent {
		part := l.parts[i]
		if part == nil {
			continue
		}
		for b := range part.blocks {
			l.checkBlock(placed{i, &part.blocks[b]})
		}
	}
}

func (l *linter) checkBlock(at placed) {
	b, line := at.block, l.graph.nodes[at.node].line
	if b.why == "" {
		return
	}
	switch b.kind {
	case blockThinking:
		l.mend.Add(transcript.CodeUnsigned, line, int64(b.at.From), b.why, "left out")
		l.leaveOut(at)
		return
	case blockText:
		l.mend.Add(transcript.CodeEmptyText, line, int64(b.at.From), b.why, "replaced by “(no content)”")
	case blockImage:
		repair := "replaced by a text"
		if b.fix != b.at {
			repair = "media_type corrected"
		}
		l.mend.Add(transcript.CodeImage, line, int64(b.at.From), b.why, repair)
	}
	l.replace(b.fix, b.text)
}
