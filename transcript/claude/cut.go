package claude

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/jsonscan"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/transcript/internal/sessionfile"
)

const opCut = "cut session"

// Cut writes the session to.Session, which ends at p: the records on the path to p.Leaf.
// It replaces every top-level sessionId and leaves every other byte unchanged. If the agent
// itself would continue p's bytes from p.Leaf, Cut keeps all their lines. Otherwise it keeps
// only the lines of that path and those of the records that the path needs.
//
// Bytes come from the agent's file while it still begins with p's, else from o.
// Sidecars are written before the transcript, which appears whole or not at all.
// An interrupted cut can be repeated: it accepts files that already have the bytes that it
// would write. The error is [segno.KindConflict] if the session exists with other bytes,
// [segno.KindInvalid] if p has nothing to resume or to.Session is not a UUID, and
// [segno.KindCorrupt] if a record of the line is missing or damaged.
func (c *Transcripts) Cut(ctx context.Context, p segno.Position, to segno.Target, o segno.Objects) (segno.Source, error) {
	k := &cut{installer: installer{c: c, op: opCut}, p: p, to: to, objects: o}
	err := k.check()
	if err == nil {
		err = k.install(ctx, to.Session, k)
	}
	if err != nil {
		return segno.Source{}, sessionfile.IOError(opCut, string(p.Session), err)
	}
	return segno.Source{Session: to.Session, Path: k.path, Dir: to.Dir}, nil
}

type cut struct {
	installer
	p       segno.Position
	to      segno.Target
	objects segno.Objects
	graph   *graph // of the lines written
}

func (k *cut) writeTranscript(ctx context.Context) error {
	from, err := k.copyAll(ctx)
	if err == nil {
		err = k.selectLine(ctx, from)
	}
	if err == nil && k.to.Yield {
		err = k.setTime()
	}
	return err
}

// check returns an error if the position cannot be cut, and sets the paths of the files.
func (k *cut) check() error {
	invalid := func(why string) error {
		return segno.Errorf(segno.KindInvalid, opCut, string(k.p.Session), "%s", why)
	}
	switch {
	case k.p.Leaf == "":
		return sessionfile.EmptyError(opCut, k.p.Session)
	case k.p.Offset <= 0 || k.p.SHA256.IsZero():
		return invalid("the position has no bytes")
	}
	if err := sessionfile.CheckSession(opCut, k.p.Session); err != nil {
		return err
	}
	if paths, _ := k.c.files(k.p.Session); len(paths) > 0 && k.p.Path == "" {
		k.p.Path = paths[0]
	}
	return k.checkTarget()
}

// checkTarget returns an error if the new session cannot be written, and sets its path.
func (k *cut) checkTarget() error {
	exists, err := k.findTarget()
	if exists && k.to.Session == k.p.Session {
		err = k.conflict(k.path, fs.ErrExist)
	}
	return err
}

// findTarget sets the path of the new session, and reports whether the session is there already. A session with the same id
// in another directory is an error.
func (k *cut) findTarget() (exists bool, err error) {
	if err := sessionfile.CheckNewSession(k.op, k.to.Session); err != nil {
		return false, err
	}
	if k.path, err = k.c.path(k.to.Session, k.to.Dir); err != nil {
		return false, segno.NewError(segno.KindInvalid, k.op, k.to.Dir, err)
	}
	files, err := k.c.files(k.to.Session)
	for _, file := range files {
		if file != k.path {
			return false, k.conflict(file, fs.ErrExist)
		}
	}
	return len(files) > 0, err
}

// copyAll writes all of p's lines from the first copy that still has them, and
// reads their graph on the way.
func (k *cut) copyAll(ctx context.Context) (from sessionfile.CopySource, err error) {
	err = sessionfile.FirstCopy(ctx, opCut, string(k.p.Session), k.c.copies(opCut, &k.p, k.objects), func(c sessionfile.CopySource) (readErr, doErr error) {
		if k.graph != nil { // another copy was read in part
			if err := k.out.Restart(); err != nil {
				return nil, err
			}
		}
		from, k.graph = c, newGraph(k.path)
		k.graph.isWhole = true
		var r record
		return c.EachLine(ctx, func(l sessionfile.Line) error {
			k.graph.parse(&r, l)
			return r.writeAs(k.out, k.to.Session)
		})
	})
	return from, err
}

// selectLine makes sure that the agent will continue from p.Leaf. If the agent would continue
// from another record of all lines, selectLine keeps only the line to p.Leaf. If that does not
// suffice, it adds a record that points to p.Leaf.
func (k *cut) selectLine(ctx context.Context, from sessionfile.CopySource) error {
	leaf := k.graph.index(k.p.Leaf)
	if leaf == none {
		return segno.Errorf(segno.KindCorrupt, opCut, string(k.p.Session), "record %s is missing%s", k.p.Leaf, k.graph.firstDamage())
	}
	v := k.graph.load()
	head := v.continuesFrom(leaf)
	if v.gone[leaf] {
		head = none
	}
	for _, write := range []func() error{func() error { return k.writeLine(ctx, from, leaf) }, k.writePointer} {
		if head != none {
			break
		}
		if err := write(); err != nil {
			return err
		}
		v = k.graph.load()
		head = v.continuesFrom(k.graph.index(k.p.Leaf))
	}
	if head == none {
		return segno.Errorf(segno.KindInternal, opCut, string(k.p.Session), "the agent would not continue from record %s", k.p.Leaf)
	}
	return v.checkChain(head)
}

// writePointer writes the record with which the agent itself marks the head.
func (k *cut) writePointer() error {
	data, err := json.Marshal(struct {
		Type     string          `json:"type"`
		Leaf     string          `json:"leafUuid"`
		Explicit bool            `json:"explicit"`
		Session  segno.SessionID `json:"sessionId"`
	}{"last-prompt", k.p.Leaf, true, k.to.Session})
	if err != nil {
		return err
	}
	if _, err := k.out.Write(append(data, '\n')); err != nil {
		return err
	}
	k.graph.setPointer([]byte(`"`+k.p.Leaf+`"`), true)
	return nil
}

// checkChain returns an error if the agent would silently lose a part of the conversation
// up to head, because a record is missing or damaged.
func (v *loaded) checkChain(head int) error {
	chain, gaps, lost := v.chain(head)
	if len(gaps) == 0 {
		return nil
	}
	broken := gaps[0]
	if v.damaged == 0 {
		if lost == none {
			return nil // the agent sometimes writes no parent, and finds it by time
		}
		if broken = lost; !v.losesMessage(chain, lost) {
			return nil
		}
	}
	n := &v.nodes[broken]
	return segno.Errorf(segno.KindCorrupt, opCut, "", "line %d has the parent %s, which is missing%s", n.line, n.parent, v.firstDamage())
}

// losesMessage reports whether a message before the record lost is not in chain.
func (v *loaded) losesMessage(chain []int, lost int) bool {
	inChain := make([]bool, len(v.nodes))
	for _, i := range chain {
		inChain[i] = true
	}
	for i := range lost {
		if n := &v.nodes[i]; n.kind.isMessage() && !n.isSidechain && !v.gone[i] && !inChain[i] {
			return true
		}
	}
	return false
}

// SetTime makes the new transcript older than its source.
func (k *cut) setTime() error {
	paths, _ := k.c.files(k.p.Session)
	for _, path := range append(paths, k.p.Path) {
		fi, err := os.Stat(path)
		if err == nil && filepath.Dir(path) == filepath.Dir(k.path) {
			return k.out.SetTime(fi.ModTime().Add(-time.Second))
		}
	}
	return nil
}

// sidecars returns p's sidecars, or the session's present ones if the position lists none.
func (k *cut) sidecars(ctx context.Context) (list []sidecar, err error) {
	switch {
	case !k.p.Sidecars.IsZero() && k.objects != nil:
		return k.c.trustedSidecars(ctx, k.objects, k.p.Sidecars)
	case k.p.Path != "":
		at := k.p.Path
		if !k.c.isOwn(at) { // another machine wrote the position: beside its path are other files of the user here
			at = ""
		}
		list, _, err = k.c.listSidecars(k.p.Session, at)
	}
	return list, err
}

// openSidecar opens a sidecar's stored content. If nothing is stored, it opens the agent's
// own file; if the store lost the content, it accepts an own file with the same content.
func (k *cut) openSidecar(ctx context.Context, s sidecar) (io.ReadCloser, error) {
	own := k.c.sidecarFile(k.p.Session, k.p.Path, s.path)
	switch {
	case s.name.IsZero():
		return vfs.OpenRegular(own)
	case s.isLog:
		r, err := openStored(ctx, k.objects, &s)
		return io.NopCloser(r), err
	}
	data, err := k.objects.Get(ctx, s.name)
	if segno.KindOf(err) == segno.KindNotFound {
		if f, openErr := vfs.OpenRegular(own); openErr == nil {
			defer f.Close()
			content, readErr := io.ReadAll(io.LimitReader(f, maxSidecar))
			if readErr == nil && sha256.Sum256(content) == s.name {
				data, err = content, nil
			}
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read sidecar %s: %w", s.path, err)
	}
	return io.NopCloser(bytes.NewReader(data)), nil
}

// writeLine writes the transcript again with only the records that the line to leaf needs,
// and replaces the graph by the graph of those records.
func (k *cut) writeLine(ctx context.Context, from sessionfile.CopySource, leaf int) error {
	keep := k.graph.ancestry(leaf)
	messages := map[int]message{}
	err := k.eachRecord(ctx, from, func(r *record, _ sessionfile.Line) error {
		k.graph.link(messages, r)
		return nil
	})
	if err != nil {
		return err
	}
	k.graph.addSiblings(keep, messages)
	k.graph.addTrailing(keep, leaf)
	names := k.graph.uuids(keep)
	if err := k.out.Restart(); err != nil {
		return err
	}
	all := k.graph
	k.graph = newGraph(k.path)
	k.graph.damage, k.graph.damaged = all.damage, all.damaged
	return k.eachRecord(ctx, from, func(r *record, l sessionfile.Line) error {
		if !r.belongsTo(names) {
			return nil
		}
		k.graph.add(r, l)
		return r.writeAs(k.out, k.to.Session)
	})
}

// eachRecord calls do for each record of p's bytes. The error is [segno.KindBusy] if the
// copy no longer has these bytes.
func (k *cut) eachRecord(ctx context.Context, from sessionfile.CopySource, do func(*record, sessionfile.Line) error) error {
	var r record
	readErr, doErr := from.EachLine(ctx, func(l sessionfile.Line) error {
		if r.parse(l.Bytes) != nil {
			return nil
		}
		return do(&r, l)
	})
	if errors.Is(readErr, sessionfile.ErrStale) {
		return segno.NewError(segno.KindBusy, opCut, from.Name, sessionfile.ErrRewritten)
	}
	return cmp.Or(readErr, doErr)
}

// message connects a record with other records: with the blocks of the same answer, or with
// the calls of tools.
type message struct {
	id             string // of the agent's answer; each of its blocks is a separate record
	hasToolResults bool
}

// link adds the message of a record to messages, by the record's index in the graph.
func (g *graph) link(messages map[int]message, r *record) {
	i := g.index(string(r.uuid))
	switch {
	case i == none:
	case r.kind == kindAssistant:
		messages[i] = message{id: jsonscan.Text(field(r.message, "id"))}
	case r.kind == kindUser && hasToolResult(field(r.message, "content")):
		messages[i] = message{hasToolResults: true}
	}
}

func (g *graph) uuids(records map[int]bool) map[string]bool {
	out := make(map[string]bool, len(records))
	for i := range records {
		out[g.nodes[i].uuid] = true
	}
	return out
}

// ancestry returns a record and all its ancestors, across compactions, with the records that
// the compactions preserved. In place of a missing parent it takes the record that the agent
// would take; see [loaded.chain].
func (g *graph) ancestry(leaf int) map[int]bool {
	keep := map[int]bool{}
	todo := []int{leaf}
	var search *nearest // until there is a gap, the path needs none
	for len(todo) > 0 {
		i := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if keep[i] {
			continue
		}
		keep[i] = true
		if search != nil {
			search.exclude(i)
		}
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
			if search == nil {
				search = g.load().nearest()
				for i := range keep {
					search.exclude(i)
				}
			}
			if near := search.before(i); near != none {
				todo = append(todo, near)
			}
		}
	}
	return keep
}

// addSiblings adds the other blocks of the answers in keep, and the results of the tools that
// they call. Only one of several parallel calls is an ancestor of the following records.
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

// belongsTo reports whether a record belongs in a transcript that consists of the records in
// names. Metadata belongs there, too, if it is still correct for them.
func (r *record) belongsTo(names map[string]bool) bool {
	leaf := jsonscan.RawText(r.leaf)
	switch {
	case r.kind == kindLastPrompt:
		return !r.isExplicit && names[string(leaf)]
	case r.kind.inConversation():
		return r.isSidechain || names[string(r.uuid)]
	case r.uuid != nil && r.parent != nil && r.kind == kindOther:
		return names[string(r.uuid)]
	}
	switch string(r.typ) {
	case "queue-operation":
		return false
	case "file-history-snapshot", "file-history-delta":
		return names[string(jsonscan.RawText(r.field("messageId")))]
	case "summary":
		return names[string(leaf)]
	}
	return true
}
