package claude

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/dalsegno/segno"
)

const opCut = "cut session"

// Cut writes the session to.Session, which ends at p: the line of records that
// leads to p.Leaf, with every top-level sessionId replaced and every other byte
// as it was. If the agent itself would continue p's bytes from p.Leaf, all their
// lines are kept, else those of the line and the records that it needs.
//
// Bytes come from the agent's file while it still begins with p's, else from o.
// Sidecars are written before the transcript, which appears whole or not at all.
// An interrupted cut can be repeated: it accepts files that already have the bytes that it
// would write. The error is [segno.KindConflict] if the session exists with other bytes,
// [segno.KindInvalid] if p has nothing to resume or to.Session is not a UUID, and
// [segno.KindCorrupt] if a record of the line is missing or damaged.
func (c *Transcripts) Cut(ctx context.Context, p segno.Position, to segno.Target, o segno.Objects) (segno.Source, error) {
	k := &cut{installer: installer{c: c, op: opCut}, p: p, to: to, objects: o}
	defer k.cleanup()
	if err := k.run(ctx); err != nil {
		return segno.Source{}, ioError(opCut, string(p.Session), err)
	}
	return segno.Source{Session: to.Session, Path: k.path, Dir: to.Dir}, nil
}

// cut is the state of one cut.
type cut struct {
	installer
	p       segno.Position
	to      segno.Target
	objects segno.Objects
	graph   *graph // of what was written
}

func (k *cut) run(ctx context.Context) error {
	if err := k.check(); err != nil {
		return err
	}
	if err := k.begin(); err != nil {
		return err
	}
	from, err := k.copyAll(ctx)
	if err != nil {
		return err
	}
	if err := k.selectLine(ctx, from); err != nil {
		return err
	}
	if err := k.setTime(); err != nil {
		return err
	}
	if err := k.out.sync(); err != nil {
		return err
	}
	if err := k.copySidecars(ctx); err != nil {
		return err
	}
	return k.publish()
}

// check refuses what cannot be cut.
func (k *cut) check() error {
	invalid := func(why string) error {
		return segno.Errorf(segno.KindInvalid, opCut, string(k.p.Session), "%s", why)
	}
	switch {
	case k.p.Leaf == "":
		return invalid("the conversation is empty, so there is nothing to resume")
	case k.p.Offset <= 0 || k.p.SHA256.IsZero():
		return invalid("the position names no bytes")
	}
	if err := checkSession(opCut, k.p.Session); err != nil {
		return err
	}
	if err := checkNewSession(opCut, k.to.Session); err != nil {
		return err
	}
	path, err := k.c.path(k.to.Session, k.to.Dir)
	if err != nil {
		return invalid(err.Error())
	}
	k.path = path
	existing, err := k.c.files(k.to.Session)
	if err != nil {
		return err
	}
	for _, other := range existing {
		if other != path || k.to.Session == k.p.Session {
			return k.conflict(other, fs.ErrExist)
		}
	}
	return nil
}

// copyAll writes all of p's lines from the first copy that still has them, and
// reads their graph on the way.
func (k *cut) copyAll(ctx context.Context) (copySource, error) {
	err := error(segno.Errorf(segno.KindNotFound, opCut, string(k.p.Session), "neither the agent's files nor the store have its bytes"))
	for _, from := range k.c.copies(&k.p, k.objects) {
		k.graph = newGraph(k.path)
		k.graph.isWhole = true
		var r record
		readErr, writeErr := k.eachLine(ctx, from, func(l line) error {
			k.graph.parse(&r, l)
			return r.writeAs(k.out, k.to.Session)
		})
		switch {
		case writeErr != nil:
			return from, writeErr
		case readErr == nil:
			return from, nil
		case ctx.Err() != nil:
			return from, ctx.Err()
		case !errors.Is(readErr, fs.ErrNotExist):
			err = readErr
		}
		if err := k.out.restart(); err != nil {
			return from, err
		}
	}
	return copySource{}, err
}

// eachLine calls do for each of p's lines in a copy. It returns the error of do separately,
// because after another error the caller may try another copy.
func (k *cut) eachLine(ctx context.Context, from copySource, do func(line) error) (readErr, doErr error) {
	in, err := from.open(ctx)
	if err != nil {
		return err, nil
	}
	defer in.Close()
	a := newReadAhead(ctx, io.LimitReader(in, k.p.Offset))
	defer a.close()
	l := a.lines()
	for at := range l.all() {
		if err := do(at); err != nil {
			return nil, err
		}
	}
	torn, err := l.end()
	switch {
	case err != nil:
		return err, nil
	case !a.is(&k.p):
		return segno.NewError(segno.KindCorrupt, opCut, from.name, errStale), nil
	case torn > 0:
		return segno.Errorf(segno.KindCorrupt, opCut, from.name, "the position is in the middle of a line"), nil
	}
	return nil, nil
}

// selectLine makes sure that the agent will continue from p.Leaf. If it would continue all
// lines from elsewhere, only the line to p.Leaf is kept. If that does not suffice, a record
// is added that points there.
func (k *cut) selectLine(ctx context.Context, from copySource) error {
	leaf := k.graph.index(k.p.Leaf)
	if leaf == none {
		return segno.Errorf(segno.KindCorrupt, opCut, string(k.p.Session), "record %s is missing%s", k.p.Leaf, k.graph.firstDamage())
	}
	v := k.graph.load()
	if head := v.continuesFrom(leaf); head != none && !v.gone[leaf] {
		return v.checkChain(head)
	}
	if err := k.writeLine(ctx, from, leaf); err != nil {
		return err
	}
	v = k.graph.load()
	head := v.continuesFrom(k.graph.index(k.p.Leaf))
	if head == none {
		if err := k.writePointer(); err != nil {
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

// setTime makes the new transcript older than its source if the target wants that.
func (k *cut) setTime() error {
	if !k.to.Yield {
		return nil
	}
	paths, _ := k.c.files(k.p.Session)
	for _, path := range append(paths, k.p.Path) {
		fi, err := os.Stat(path)
		if err == nil && filepath.Dir(path) == filepath.Dir(k.path) {
			if err := k.out.flush(); err != nil {
				return err
			}
			t := fi.ModTime().Add(-time.Second)
			return k.c.fs.Chtimes(k.out.temp, t, t)
		}
	}
	return nil
}

// copySidecars writes p's sidecars beside the new transcript. If the position lists
// none, those the session has now are copied.
func (k *cut) copySidecars(ctx context.Context) error {
	from := k.p.Path
	if paths, _ := k.c.files(k.p.Session); len(paths) > 0 && from == "" {
		from = paths[0]
	}
	var list []sidecar
	var err error
	switch {
	case !k.p.Sidecars.IsZero() && k.objects != nil:
		list, err = getSidecars(ctx, k.objects, k.p.Sidecars)
	case from != "":
		list, _, err = k.c.listSidecars(k.p.Session, from)
	}
	if err != nil {
		return err
	}
	return k.writeSidecars(ctx, k.to.Session, list, func(s sidecar) (io.ReadCloser, error) { return k.openSidecar(ctx, s, from) })
}

// openSidecar opens a sidecar's stored content. If nothing is stored, it opens the agent's
// own file; if the store lost the content, it accepts an own file with the same content.
func (k *cut) openSidecar(ctx context.Context, s sidecar, transcript string) (io.ReadCloser, error) {
	own := k.c.sidecarFile(k.p.Session, transcript, s.path)
	switch {
	case s.name.IsZero():
		return openRegular(own)
	case s.isLog:
		r, err := openLog(ctx, k.objects, s.name, s.size)
		return io.NopCloser(r), err
	}
	data, err := k.objects.Get(ctx, s.name)
	if segno.KindOf(err) == segno.KindNotFound {
		if f, openErr := openRegular(own); openErr == nil {
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
