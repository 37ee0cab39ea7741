package claude

import (
	"context"
	"errors"
	"slices"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/jsonscan"
)

// writeLine writes the transcript again with only the records that the line to leaf needs,
// and replaces the graph by that of what it wrote.
func (k *cut) writeLine(ctx context.Context, from copySource, leaf int) error {
	keep := k.graph.ancestry(leaf)
	messages, err := k.messages(ctx, from)
	if err != nil {
		return err
	}
	k.graph.addSiblings(keep, messages)
	k.graph.addTrailing(keep, leaf)
	names := make(map[string]bool, len(keep))
	for i := range keep {
		names[k.graph.nodes[i].uuid] = true
	}
	if err := k.out.restart(); err != nil {
		return err
	}
	all := k.graph
	k.graph = newGraph(k.path)
	k.graph.damage, k.graph.damaged = all.damage, all.damaged
	return k.eachRecord(ctx, from, func(r *record, l line) error {
		if !r.belongsTo(names) {
			return nil
		}
		k.graph.add(r, l)
		return r.writeAs(k.out, k.to.Session)
	})
}

// eachRecord calls do for each record of p's bytes. The error is [segno.KindBusy] if the
// copy has other bytes by now.
func (k *cut) eachRecord(ctx context.Context, from copySource, do func(*record, line) error) error {
	var r record
	readErr, doErr := k.eachLine(ctx, from, func(l line) error {
		if r.parse(l.bytes) != nil {
			return nil
		}
		return do(&r, l)
	})
	if errors.Is(readErr, errStale) {
		return segno.NewError(segno.KindBusy, opCut, from.name, errRewritten)
	}
	if readErr != nil {
		return readErr
	}
	return doErr
}

// message is what a record's message shows of its place among others.
type message struct {
	id             string // of the agent's answer; each of its blocks is a separate record
	hasToolResults bool
}

// messages reads the messages of all records.
func (k *cut) messages(ctx context.Context, from copySource) (map[int]message, error) {
	out := map[int]message{}
	err := k.eachRecord(ctx, from, func(r *record, _ line) error {
		i := k.graph.index(string(r.uuid))
		switch {
		case i == none:
		case r.kind == kindAssistant:
			out[i] = message{id: jsonscan.Text(field(r.message, "id"))}
		case r.kind == kindUser:
			if hasToolResult(field(r.message, "content")) {
				out[i] = message{hasToolResults: true}
			}
		}
		return nil
	})
	return out, err
}

// ancestry returns a record and all before it, across compactions, with the records that
// those preserved. For a missing parent it takes the record that the agent would take, see
// [loaded.chain].
func (g *graph) ancestry(leaf int) map[int]bool {
	keep := map[int]bool{}
	todo := []int{leaf}
	var v *loaded
	for len(todo) > 0 {
		i := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if keep[i] {
			continue
		}
		keep[i] = true
		n := &g.nodes[i]
		above := []string{g.above(i)}
		if p := n.preserved; p != nil {
			above = slices.Concat(above, []string{p.anchor, p.head, p.tail}, p.uuids, p.all)
		}
		for _, uuid := range above {
			if i := g.index(uuid); i != none {
				todo = append(todo, i)
			}
		}
		if n.parent != "" && g.index(n.parent) == none {
			if v == nil {
				v = g.load()
			}
			if near := v.nearest(i, func(i int) bool { return keep[i] }); near != none {
				todo = append(todo, near)
			}
		}
	}
	return keep
}

// addSiblings adds the other blocks of the answers in keep, and the results of
// the tools they call: of parallel calls only one is an ancestor of the following records.
func (g *graph) addSiblings(keep map[int]bool, messages map[int]message) {
	answers := map[string]bool{}
	for i := range keep {
		if id := messages[i].id; id != "" {
			answers[id] = true
		}
	}
	for i, m := range messages {
		if m.id != "" && answers[m.id] {
			keep[i] = true
		}
	}
	for i, m := range messages {
		if p := g.index(g.nodes[i].parent); m.hasToolResults && p != none && keep[p] && messages[p].id != "" {
			keep[i] = true
		}
	}
}

// addTrailing adds the records that the agent reads beyond the head: those below it that
// are not messages.
func (g *graph) addTrailing(keep map[int]bool, leaf int) {
	head := leaf
	if at := g.load().message(leaf); at != none {
		head = at
	}
	below := g.childrenIf(func(i int) bool { return !g.nodes[i].kind.isMessage() })
	below.visit([]int{head}, func(i int) { keep[i] = true })
}

// belongsTo reports whether a record belongs in a transcript of the records names. Such a
// transcript also has the metadata that is still correct there.
func (r *record) belongsTo(names map[string]bool) bool {
	leaf := string(jsonscan.Inside(r.leaf))
	switch {
	case r.kind == kindLastPrompt:
		return !r.isExplicit && names[leaf]
	case r.kind.inConversation():
		return r.isSidechain || names[string(r.uuid)]
	case r.uuid != nil && r.parent != nil && r.kind == kindOther:
		return names[string(r.uuid)]
	}
	switch string(r.typ) {
	case "queue-operation":
		return false
	case "file-history-snapshot", "file-history-delta":
		return names[string(jsonscan.Inside(r.field("messageId")))]
	case "summary":
		return names[leaf]
	}
	return true
}
