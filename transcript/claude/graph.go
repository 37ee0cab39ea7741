package claude

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/jsonscan"
	"github.com/dalsegno/segno/transcript/internal/sessionfile"
)

const none = -1 // instead of the index of a node

// node is one record of the conversation. The records form a tree. Their order in the file
// is not causal order: a record may come before its ancestors.
type node struct {
	uuid           string
	parent         string // "" at a root
	logical        string // the parent across a compaction
	kind           kind
	isSidechain    bool
	isBoundary     bool
	isHousekeeping bool
	isRestart      bool  // the root of a conversation that the user began again
	time           int64 // milliseconds, noTime if unreadable
	line           int
	from, to       int64 // the offsets of the newest line with this uuid
	preserved      *preserved
	part           *turnPart // nil unless the graph reads turns
}

const noTime = math.MinInt64

// preserved names the records before a compaction that the agent still sends to the model
// after the compaction.
type preserved struct {
	anchor     string
	uuids      []string
	all        []string
	head, tail string // written by older versions instead of uuids
}

// graph is the conversation in a part of a transcript.
type graph struct {
	nodes  []node // in file order
	byUUID map[string]int
	skip   map[string]string // the nearest ancestor that is not a progress record, by the uuid of a progress record

	newest       int // the newest record of the main chain
	pointer      pointer
	pointerIsNew bool // pointer comes after newest

	readTurns bool // the nodes have the parts of turns
	isWhole   bool // the graph has the whole transcript

	slug    string // the slug of the directory that contains the transcript
	cwd     []byte // the newest working directory, undecoded
	dir     string // the newest working directory with that slug
	version string
	damage  []segno.Damage // lines that are not records
	damaged int            // the number of damaged lines, listed or not
	sum     uint32         // CRC-32C of the bytes read
}

// pointer is the head of the conversation according to the newest last-prompt line.
type pointer struct {
	uuid       string
	isExplicit bool
	isEmpty    bool // the conversation is empty
}

// maxDamage is the number of damaged lines that a graph lists.
const maxDamage = 10

func newGraph(path string) *graph {
	return &graph{byUUID: map[string]int{}, skip: map[string]string{}, newest: none, slug: filepath.Base(filepath.Dir(path))}
}

// read adds every whole line of l and returns the number of their bytes.
func (g *graph) read(ctx context.Context, l *sessionfile.LineReader) (int64, error) {
	var r record
	start := l.Offset
	l.HasSum = true
	for at := range l.All() {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		g.parse(&r, at)
	}
	g.sum = l.Sum
	_, err := l.End()
	return l.Offset - start, err
}

// parse parses a line into r and adds it to the graph. It counts and lists a damaged line.
func (g *graph) parse(r *record, l sessionfile.Line) {
	switch err := r.parse(l.Bytes); {
	case err == nil:
		g.add(r, l)
	case !isBlank(l.Bytes):
		if g.damaged++; len(g.damage) < maxDamage {
			g.damage = append(g.damage, segno.Damage{Line: l.Number, Offset: l.Offset, Why: err.Error()})
		}
	}
}

// add adds r, the record on line l, to the graph.
func (g *graph) add(r *record, l sessionfile.Line) {
	if r.cwd != nil && !bytes.Equal(r.cwd, g.cwd) {
		g.cwd = append(g.cwd[:0], r.cwd...)
		if dir := g.cwdText(); Slug(dir) == g.slug {
			g.dir = dir
		}
	}
	switch {
	case r.kind == kindLastPrompt:
		g.setPointer(r.leaf, r.isExplicit)
		return
	case r.uuid == nil:
		return
	case r.kind == kindProgress:
		g.skip[string(r.uuid)] = g.parentOf(r)
		return
	}
	i := g.put(r, l)
	g.nodes[i].isRestart = r.parent == nil && g.pointer.isEmpty
	if !r.kind.inConversation() {
		return
	}
	if r.version != nil && string(r.version) != g.version {
		g.version = jsonscan.Unescape(r.version)
	}
	if !r.isSidechain {
		g.newest, g.pointerIsNew = i, false
		g.pointer.isExplicit, g.pointer.isEmpty = false, false
	}
	if r.isBoundary() {
		g.pointer = pointer{}
	}
}

// cwdText is the newest working directory.
func (g *graph) cwdText() string { return jsonscan.Unescape(g.cwd) }

// put stores the node of r. If a uuid occurs twice, its node keeps the first place and has
// the last content, as in the agent's own map.
func (g *graph) put(r *record, l sessionfile.Line) int {
	n := node{
		parent: g.parentOf(r), logical: g.intern(r.logical), kind: r.kind, isSidechain: r.isSidechain,
		isBoundary: r.isBoundary(), isHousekeeping: r.isHousekeeping(), time: noTime,
		line: l.Number, from: l.Offset, to: l.Offset + int64(len(l.Bytes)),
	}
	if t, ok := r.time(); ok {
		n.time = t
	}
	if g.readTurns {
		n.part = turnPartOf(r)
	}
	if n.isBoundary {
		n.preserved = readPreserved(r.field("compactMetadata"))
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

// noRecord is the leafUuid with which Claude Code 2.1.329 cancels a pointer. After a rewind,
// it writes this value behind the first new prompt. The newest record is then the head again.
const noRecord = "00000000-0000-0000-0000-000000000000"

// setPointer applies a last-prompt line whose leafUuid is leaf.
func (g *graph) setPointer(leaf []byte, explicit bool) {
	p := &g.pointer
	switch uuid := jsonscan.RawText(leaf); {
	case string(uuid) == noRecord:
		*p, g.pointerIsNew = pointer{}, false
	case len(uuid) > 0:
		leaf := g.intern(uuid)
		p.isExplicit = explicit || p.isExplicit && leaf == p.uuid
		p.uuid, p.isEmpty, g.pointerIsNew = leaf, false, true
	case string(leaf) == "null" && explicit:
		*p = pointer{isEmpty: true}
		g.pointerIsNew = true
	}
}

// parentOf returns the uuid of r's parent. It skips progress records.
func (g *graph) parentOf(r *record) string {
	if to, ok := g.skip[string(r.parent)]; ok && r.parent != nil {
		return to
	}
	return g.intern(r.parent)
}

// intern converts a uuid to a string. For a known uuid it returns the existing string, to save memory.
func (g *graph) intern(uuid []byte) string {
	if i, ok := g.byUUID[string(uuid)]; ok {
		return g.nodes[i].uuid
	}
	return string(uuid)
}

// index returns the node with a uuid, or none.
func (g *graph) index(uuid string) int {
	if i, ok := g.byUUID[uuid]; ok && uuid != "" {
		return i
	}
	return none
}

// firstDamage returns a text about the first damaged line for an error, or "" if there is no damage.
func (g *graph) firstDamage() string {
	if len(g.damage) == 0 {
		return ""
	}
	d := g.damage[0]
	return fmt.Sprintf("; line %d at byte %d is %s", d.Line, d.Offset, d.Why)
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
	switch {
	case json.Unmarshal(raw, &m) != nil: // without metadata, the agent preserves nothing
	case m.Messages != nil:
		return &preserved{anchor: m.Messages.Anchor, uuids: m.Messages.UUIDs, all: m.Messages.All}
	case m.Segment != nil:
		return &preserved{anchor: m.Segment.Anchor, head: m.Segment.Head, tail: m.Segment.Tail}
	}
	return nil
}
