package transcript

import (
	"context"
	"io"

	"github.com/dalsegno/segno"
)

// choose writes the transcript anew with the lines of one line only, and replaces
// the graph by that of what it wrote.
func (k *cutting) choose(ctx context.Context, from origin, leaf int) error {
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
	damage, damaged := k.graph.damage, k.graph.damaged
	k.graph = newGraph()
	k.graph.damage, k.graph.damaged = damage, damaged
	return k.each(ctx, from, func(l line, r *record) error {
		if !chosen(r, names) {
			return nil
		}
		k.graph.add(l, r)
		return k.splice(l, r, true)
	})
}

// each calls do for each record of p's bytes, and reports an error if they are
// no longer those.
func (k *cutting) each(ctx context.Context, from origin, do func(line, *record) error) error {
	in, err := from.open(ctx)
	if err != nil {
		return err
	}
	defer in.Close()
	a := readAhead(ctx, io.LimitReader(in, k.p.Offset))
	defer a.close()
	l := a.lines()
	var s scanner
	var r record
	for {
		at, ok := l.next()
		if !ok {
			break
		}
		if s.parse(at.bytes, &r) != nil {
			continue
		}
		if err := do(at, &r); err != nil {
			return err
		}
	}
	if _, err := l.close(); err != nil {
		return err
	}
	if size, sum := a.sum(); size != k.p.Offset || sum != k.p.SHA256 {
		return segno.NewError(segno.KindBusy, opCut, from.name, errRewritten)
	}
	return nil
}

// message is what a record's message tells of its place among others.
type message struct {
	id      string // of the agent's answer; its blocks are records of their own
	results bool   // it holds results of tools
}

// messages reads the messages of all records.
func (k *cutting) messages(ctx context.Context, from origin) (map[int]message, error) {
	out := map[int]message{}
	err := k.each(ctx, from, func(_ line, r *record) error {
		i, ok := k.graph.byUUID[string(r.uuid)]
		switch {
		case !ok || r.uuid == nil:
		case r.kind == kindAssistant:
			out[i] = message{id: plain(quoted(field(r.message, "id")))}
		case r.kind == kindUser:
			if holds(field(r.message, "content"), "tool_result") {
				out[i] = message{results: true}
			}
		}
		return nil
	})
	return out, err
}

// ancestry returns a record and all before it, across compactions, with what
// those preserved.
func (g *graph) ancestry(leaf int) map[int]bool {
	keep := map[int]bool{}
	todo := []int{leaf}
	add := func(uuid string) {
		if i := g.at(uuid); i != none {
			todo = append(todo, i)
		}
	}
	var v *view
	for len(todo) > 0 {
		i := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if keep[i] {
			continue
		}
		keep[i] = true
		n := &g.nodes[i]
		add(g.above(i))
		if p := n.preserved; p != nil {
			for _, uuid := range append(append([]string{p.anchor, p.head, p.tail}, p.uuids...), p.all...) {
				add(uuid)
			}
		}
		if n.parent != "" && g.at(n.parent) == none { // as the agent, see [view.chain]
			if v == nil {
				v = g.view()
			}
			if near := v.nearest(i, v.among(keep)); near != none {
				todo = append(todo, near)
			}
		}
	}
	return keep
}

// among turns a set of records into the form [view.nearest] takes.
func (v *view) among(set map[int]bool) []bool {
	out := make([]bool, len(v.nodes))
	for i := range set {
		out[i] = true
	}
	return out
}

// addSiblings adds the other blocks of the answers in keep, and the results of
// the tools they call: of parallel calls only one is an ancestor of what follows.
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
		if p := g.at(g.nodes[i].parent); m.results && p != none && keep[p] && messages[p].id != "" {
			keep[i] = true
		}
	}
}

// addTrailing adds what the agent reads beyond the head: what hangs from it and
// is nobody's words.
func (g *graph) addTrailing(keep map[int]bool, leaf int) {
	v := g.view()
	head := leaf
	if at := v.speaker(leaf); at != none {
		head = at
	}
	below := map[int][]int{}
	for i := range g.nodes {
		if p := g.at(g.nodes[i].parent); p != none && !g.nodes[i].kind.speaks() {
			below[p] = append(below[p], i)
		}
	}
	for todo := []int{head}; len(todo) > 0; {
		i := todo[len(todo)-1]
		todo = append(todo[:len(todo)-1], below[i]...)
		delete(below, i)
		keep[i] = true
	}
}

// chosen reports whether a record goes into a transcript of the records names,
// metadata that still makes sense there included.
func chosen(r *record, names map[string]bool) bool {
	switch {
	case r.kind == kindLastPrompt:
		return !r.explicit && names[string(r.leaf)]
	case r.kind.chains():
		return r.sidechain || names[string(r.uuid)]
	case r.uuid != nil && r.parent != nil && r.kind == kindOther:
		return names[string(r.uuid)]
	}
	switch string(r.typ) {
	case "queue-operation":
		return false
	case "file-history-snapshot", "file-history-delta":
		return names[string(r.messageID)]
	case "summary":
		return names[string(r.leaf)]
	}
	return true
}
