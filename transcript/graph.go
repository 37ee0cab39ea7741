package transcript

import (
	"bytes"
	"context"
	"encoding/json"
	"hash/crc32"
	"math"
	"path/filepath"
)

// none is the index of no node.
const none = -1

// node is one record of the conversation. The file is a tree: file order is not
// causal order, a record may stand before its ancestors.
type node struct {
	uuid      string
	parent    string // "" at a root
	logical   string // across a compaction
	kind      kind
	sidechain bool
	boundary  bool
	harmless  bool  // no part of what the model reads
	time      int64 // milliseconds, [noTime] if unreadable
	line      int
	from, to  int64 // the newest line with this uuid
	preserved *preserved
	said      *said // in a graph made by [newTurnGraph]
}

const noTime = math.MinInt64

// preserved is which records before a compaction live on behind it.
type preserved struct {
	anchor     string
	uuids      []string
	all        []string
	head, tail string // what older versions write instead of uuids
}

// graph is what a piece of a transcript says of the conversation.
type graph struct {
	nodes  []node // in file order
	byUUID map[string]int
	skip   map[string]string // parents of progress records, the way past them

	newest  int // the newest record of the main chain
	pointer pointer
	last    bool // pointer came after newest

	turns  bool // read what was said, too
	places bool // read where, too
	whole  bool // this is all there is

	slug    string // of the directory the transcript is in
	cwd     []byte // the newest one seen
	dir     string // the newest one with that slug
	version string
	damage  []damage
	damaged int    // lines, listed or not
	sum     uint32 // CRC-32C of the bytes read
}

// pointer is what the newest last-prompt line says the head is.
type pointer struct {
	uuid     string
	explicit bool
	cleared  bool // the conversation is empty
}

// damage is a line that is no record.
type damage struct {
	line   int
	offset int64
	why    string
}

// maxDamage is how many bad lines are listed.
const maxDamage = 10

func newGraph() *graph {
	return &graph{byUUID: map[string]int{}, skip: map[string]string{}, newest: none}
}

// newPlaceGraph returns a graph that also reads where the agent worked, of the
// transcript at path.
func newPlaceGraph(path string) *graph {
	g := newGraph()
	g.places, g.slug = true, filepath.Base(filepath.Dir(path))
	return g
}

// newTurnGraph returns a graph that reads prompts as well.
func newTurnGraph(path string) *graph {
	g := newPlaceGraph(path)
	g.turns = true
	return g
}

// read takes in every whole line of l and returns how many bytes they are.
func (g *graph) read(ctx context.Context, l *lines) (int64, error) {
	var s scanner
	var r record
	start := l.offset
	for {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		at, ok := l.next()
		if !ok {
			_, err := l.close()
			return l.offset - start, err
		}
		g.sum = crc32.Update(g.sum, crc32.MakeTable(crc32.Castagnoli), at.bytes)
		g.take(&s, &r, at)
	}
}

// take reads one line into r and takes it in.
func (g *graph) take(s *scanner, r *record, l line) bool {
	if blank(l.bytes) {
		return false
	}
	if err := s.parse(l.bytes, r); err != nil {
		g.spoil(l, err)
		return false
	}
	g.add(l, r)
	return true
}

// blank reports whether a line is empty but for white space.
func blank(b []byte) bool { return space(b, skipMark(b)) == len(b) }

// spoil notes a line that is no record.
func (g *graph) spoil(l line, err error) {
	if g.damaged++; len(g.damage) < maxDamage {
		g.damage = append(g.damage, damage{l.number, l.offset, err.Error()})
	}
}

// add takes the record r of line l in.
func (g *graph) add(l line, r *record) {
	if g.places && r.cwd != nil && !bytes.Equal(r.cwd, g.cwd) {
		g.cwd = append(g.cwd[:0], r.cwd...)
		if dir := plain(r.cwd); Slug(dir) == g.slug {
			g.dir = dir
		}
	}
	if r.kind == kindLastPrompt {
		g.point(r)
		return
	}
	if r.uuid == nil {
		return
	}
	if r.kind == kindProgress {
		g.skip[string(r.uuid)] = g.past(r.parent)
		return
	}
	i := g.put(l, r)
	if !r.kind.chains() {
		return
	}
	if g.places && r.version != nil && string(r.version) != g.version {
		g.version = plain(r.version)
	}
	if !r.sidechain {
		g.newest, g.last = i, false
		g.pointer.explicit, g.pointer.cleared = false, false
	}
	if r.boundary() {
		g.pointer = pointer{}
	}
}

// put stores the node of r. A uuid that comes twice keeps its first place and
// its last content, as in the agent's own map.
func (g *graph) put(l line, r *record) int {
	n := node{
		parent: g.past(r.parent), logical: g.intern(r.logical), kind: r.kind, sidechain: r.sidechain,
		boundary: r.boundary(), harmless: harmless(r), time: noTime,
		line: l.number, from: l.offset, to: l.offset + int64(len(l.bytes)),
	}
	if t, ok := r.time(); ok {
		n.time = t
	}
	if g.turns {
		n.said = readSaid(r)
	}
	if n.boundary && r.compact != nil {
		n.preserved = readPreserved(r.compact)
	}
	if i, ok := g.byUUID[string(r.uuid)]; ok {
		n.uuid = g.nodes[i].uuid
		g.nodes[i] = n
		return i
	}
	n.uuid = string(r.uuid)
	g.nodes = append(g.nodes, n)
	g.byUUID[n.uuid] = len(g.nodes) - 1
	return len(g.nodes) - 1
}

// nowhere is what Claude Code 2.1.329 points at to take a pointer back. It does so
// after a rewind, behind the first prompt that hangs from where the user went. The
// conversation is then what was written last.
const nowhere = "00000000-0000-0000-0000-000000000000"

// point takes a last-prompt line in.
func (g *graph) point(r *record) {
	p := &g.pointer
	switch {
	case string(r.leaf) == nowhere:
		*p, g.last = pointer{}, false
	case len(r.leaf) > 0:
		leaf := g.intern(r.leaf)
		p.explicit = r.explicit || p.explicit && leaf == p.uuid
		p.uuid, p.cleared, g.last = leaf, false, true
	case r.cleared && r.explicit:
		*p = pointer{cleared: true}
		g.last = true
	}
}

// harmless reports whether the model never sees r and nothing of the
// conversation follows from it.
func harmless(r *record) bool {
	switch string(r.subtype) {
	case "turn_duration", "stop_hook_summary":
		return r.kind == kindSystem
	}
	return false
}

// past returns the uuid that stands for parent once progress records are skipped.
func (g *graph) past(parent []byte) string {
	if to, ok := g.skip[string(parent)]; ok && parent != nil {
		return to
	}
	return g.intern(parent)
}

// intern returns the string of a uuid without a second copy of a known one.
func (g *graph) intern(uuid []byte) string {
	if i, ok := g.byUUID[string(uuid)]; ok {
		return g.nodes[i].uuid
	}
	return string(uuid)
}

// at returns the node with a uuid, or none.
func (g *graph) at(uuid string) int {
	if i, ok := g.byUUID[uuid]; ok && uuid != "" {
		return i
	}
	return none
}

// readPreserved reads a compactMetadata value.
func readPreserved(raw []byte) *preserved {
	var m struct {
		Segment *struct {
			Head   string `json:"headUuid"`
			Anchor string `json:"anchorUuid"`
			Tail   string `json:"tailUuid"`
		} `json:"preservedSegment"`
		Messages *struct {
			Anchor string   `json:"anchorUuid"`
			UUIDs  []string `json:"uuids"`
			All    []string `json:"allUuids"`
		} `json:"preservedMessages"`
	}
	if json.Unmarshal(raw, &m) != nil {
		return nil
	}
	switch {
	case m.Messages != nil:
		return &preserved{anchor: m.Messages.Anchor, uuids: m.Messages.UUIDs, all: m.Messages.All}
	case m.Segment != nil:
		return &preserved{anchor: m.Segment.Anchor, head: m.Segment.Head, tail: m.Segment.Tail}
	}
	return nil
}
