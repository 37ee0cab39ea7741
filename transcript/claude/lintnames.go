package claude

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"

	"github.com/dalsegno/segno/internal/jsonscan"
	"github.com/dalsegno/segno/transcript"
	"github.com/dalsegno/segno/transcript/internal/sessionfile"
)

// named has the name of a record and its place in the conversation.
type named struct {
	line   int
	offset int64
	uuid   jsonscan.Span // the value, or an empty span in which one is inserted
	isNew  bool          // uuid has no value
	name   string
	parent string
	above  jsonscan.Span     // the value of parentUuid; zero if there is none
	sum    [sha256.Size]byte // the hash of the message
}

// readName returns the name and the place of a record.
func readName(r *record, p sessionfile.Piece) named {
	start := skipBOM(r.line)
	line := r.line[start:]
	n := named{line: p.Line, offset: p.Offset, name: string(r.uuid), parent: string(r.parent), sum: sha256.Sum256(r.message)}
	shift := func(at jsonscan.Span) jsonscan.Span {
		return jsonscan.Span{From: at.From + int(p.Offset) + start, To: at.To + int(p.Offset) + start}
	}
	if at := jsonscan.Find(line, jsonscan.Span{To: len(line)}, "uuid"); !at.IsZero() {
		n.uuid = shift(at)
	} else {
		n.uuid, n.isNew = shift(jsonscan.Span{From: 1, To: 1}), true
	}
	if at := jsonscan.Find(line, jsonscan.Span{To: len(line)}, "parentUuid"); !at.IsZero() {
		n.above = shift(at)
	}
	return n
}

// noteName stores the name of a record, and whether the record is the first one with this name.
func (l *linter) noteName(n named) {
	if n.name == "" {
		l.unnamed = append(l.unnamed, n)
	} else if before, ok := l.names[n.name]; !ok {
		l.names[n.name] = len(l.order)
	} else if l.order[before].sum != n.sum {
		l.clashes = append(l.clashes, clash{l.order[before], n})
	}
	l.order = append(l.order, n)
}

// clash is a pair of records with the same name and different contents.
type clash struct{ first, second named }

// checkNames checks that each record has a unique name, because the agent keeps only one of the records with
// the same name. It reports whether it repairs a name. The other rules then judge the result.
func (l *linter) checkNames() bool {
	used := map[string]bool{}
	for _, n := range l.unnamed {
		name := cmp.Or(l.expectedName(n.offset, used), derivedUUID(string(l.src.Session), fmt.Sprint("line ", n.line)))
		l.mend.Add(transcript.CodeUnreadable, n.line, n.offset, "the record has no uuid, so the agent loses it and everything before it", "named as the next record expects it")
		l.rename(n, name)
	}
	for _, c := range l.clashes {
		l.mend.Add(transcript.CodeDuplicateUUID, c.second.line, c.second.offset, fmt.Sprintf("the record has the uuid of the one in line %d, so the agent loses the content of one of them", c.first.line), "both get a uuid of their own")
		if name := l.expectedName(c.second.offset, used); name != "" {
			l.rename(c.second, name)
		} else {
			l.renameFirst(c)
		}
	}
	return len(l.unnamed)+len(l.clashes) > 0
}

// expectedName returns the first name that a record behind an offset gives as its parent, and that no record has
// and no repair used. It adds the name to used. It returns "" if there is none.
func (l *linter) expectedName(offset int64, used map[string]bool) string {
	for _, n := range l.order {
		_, known := l.names[n.parent]
		if n.offset > offset && n.parent != "" && !known && !used[n.parent] && !l.isDropped(n.parent) {
			used[n.parent] = true
			return n.parent
		}
	}
	return ""
}

// renameFirst gives the first record of a clash a new name. Its children are the records before the second one
// that name it, and the second one itself if both have the same parent.
func (l *linter) renameFirst(c clash) {
	name := derivedUUID(string(l.src.Session), fmt.Sprint("line ", c.first.line))
	l.rename(c.first, name)
	for _, n := range l.order {
		isBetween := n.parent == c.first.name && n.offset > c.first.offset && n.offset < c.second.offset
		isSecond := n.offset == c.second.offset && n.parent == c.first.parent
		if (isBetween || isSecond) && !n.above.IsZero() {
			l.replace(n.above, `"`+name+`"`)
		}
	}
}

func (l *linter) isDropped(uuid string) bool {
	_, ok := l.dropped[uuid]
	return ok
}

func (l *linter) rename(n named, name string) {
	text := `"` + name + `"`
	if n.isNew {
		text = `"uuid":` + text + `,`
	}
	l.replace(n.uuid, text)
}

// checkCallNames gives calls and results without an id the id of their counterpart. It finds the counterpart
// through the record of the result, which names the record of the call. It reports whether it repairs an id.
// The other rules then judge the result.
func (l *linter) checkCallNames() bool {
	repaired := false
	for _, i := range slices.Sorted(maps.Keys(l.parts)) {
		part := l.parts[i]
		for b := range part.blocks {
			result := &part.blocks[b]
			if result.kind != blockResult || part.source == "" {
				continue
			}
			j := l.graph.index(part.source)
			if j == none || l.parts[j] == nil {
				continue
			}
			k := slices.IndexFunc(l.parts[j].blocks, func(call lintBlock) bool {
				return call.kind == blockCall && (call.id.IsZero() && !l.calls[result.name] && !result.id.IsZero() || result.id.IsZero() && !call.id.IsZero() && !l.done[call.name])
			})
			if k < 0 {
				continue
			}
			call := &l.parts[j].blocks[k]
			repaired = true
			if call.id.IsZero() {
				l.mend.Add(transcript.CodeUnreadable, l.graph.nodes[j].line, int64(call.at.From), "the call has no id, so the agent leaves out its result", "gets the id of its result")
				l.replace(jsonscan.Span{From: call.at.From + 1, To: call.at.From + 1}, `"id":"`+result.name+`",`)
				continue
			}
			l.mend.Add(transcript.CodeUnreadable, l.graph.nodes[i].line, int64(result.at.From), "the result names no call, so the agent leaves out both", "gets the id of its call")
			l.replace(jsonscan.Span{From: result.at.From + 1, To: result.at.From + 1}, `"tool_use_id":"`+call.name+`",`)
			l.done[call.name] = true
		}
	}
	return repaired
}
