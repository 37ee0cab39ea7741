package transcript

import (
	"context"
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
// lines are kept, else those of the line and what they need.
//
// Bytes come from the agent's file while it still begins with p's, else from o.
// Sidecars are in place before the transcript, which appears whole or not at all.
// A broken-off cut can be repeated: what it would write and finds written is
// accepted. The error is [segno.KindConflict] if the session exists otherwise,
// [segno.KindInvalid] if p has nothing to resume or to.Session is no UUID, and
// [segno.KindCorrupt] if a record of the line is missing or damaged.
func (c *Claude) Cut(ctx context.Context, p segno.Position, to segno.Target, o segno.Objects) (segno.Source, error) {
	k := &cutting{placing: placing{c: c, op: opCut}, p: p, to: to, objects: o}
	defer k.clean()
	src, err := k.run(ctx)
	return src, ioError(opCut, string(p.Session), err)
}

// cutting is one cut.
type cutting struct {
	placing
	p       segno.Position
	to      segno.Target
	objects segno.Objects
	graph   *graph // of what was written
}

func (k *cutting) run(ctx context.Context) (segno.Source, error) {
	if err := k.check(); err != nil {
		return segno.Source{}, err
	}
	if err := k.begin(); err != nil {
		return segno.Source{}, err
	}
	from, err := k.copy(ctx)
	if err != nil {
		return segno.Source{}, err
	}
	if err := k.aim(ctx, from); err != nil {
		return segno.Source{}, err
	}
	if err := k.date(); err != nil {
		return segno.Source{}, err
	}
	if err := k.out.settle(); err != nil {
		return segno.Source{}, err
	}
	if err := k.sidecars(ctx); err != nil {
		return segno.Source{}, err
	}
	if err := k.publish(); err != nil {
		return segno.Source{}, err
	}
	return segno.Source{Session: k.to.Session, Path: k.path, Dir: k.to.Dir}, nil
}

// check refuses what cannot be cut.
func (k *cutting) check() error {
	invalid := func(why string) error {
		return segno.Errorf(segno.KindInvalid, opCut, string(k.p.Session), "%s", why)
	}
	switch {
	case k.p.Leaf == "":
		return invalid("nothing was said yet, so there is nothing to resume")
	case k.p.Offset <= 0 || k.p.SHA256.IsZero():
		return invalid("the position names no bytes")
	}
	if err := checkSession(opCut, k.p.Session); err != nil {
		return err
	}
	if err := checkNew(opCut, k.to.Session); err != nil {
		return err
	}
	path, err := k.c.place(k.to.Session, k.to.Dir)
	if err != nil {
		return invalid(err.Error())
	}
	k.path = path
	taken, err := k.c.files(k.to.Session)
	if err != nil {
		return err
	}
	for _, other := range taken {
		if other != path || k.to.Session == k.p.Session {
			return exists(opCut, other)
		}
	}
	return nil
}

func exists(op, path string) error {
	return segno.Errorf(segno.KindConflict, op, path, "the session exists already").WithHint("choose another session id")
}

// copy writes all of p's lines from the first origin that still has them, and
// reads the graph on the way.
func (k *cutting) copy(ctx context.Context) (origin, error) {
	err := error(segno.Errorf(segno.KindNotFound, opCut, string(k.p.Session), "its bytes are nowhere to be had"))
	for _, from := range k.c.origins(k.p, k.objects) {
		readErr, writeErr := k.copyFrom(ctx, from)
		switch {
		case writeErr != nil:
			return origin{}, writeErr
		case readErr == nil:
			return from, nil
		case ctx.Err() != nil:
			return origin{}, ctx.Err()
		case !errors.Is(readErr, fs.ErrNotExist):
			err = readErr
		}
		if err := k.out.restart(); err != nil {
			return origin{}, err
		}
	}
	return origin{}, err
}

// copyFrom copies p's lines from one origin.
func (k *cutting) copyFrom(ctx context.Context, from origin) (readErr, writeErr error) {
	in, err := from.open(ctx)
	if err != nil {
		return err, nil
	}
	defer in.Close()
	a := readAhead(ctx, io.LimitReader(in, k.p.Offset))
	defer a.close()
	k.graph = newGraph()
	k.graph.whole = true
	l := a.lines()
	var s scanner
	var r record
	for {
		at, ok := l.next()
		if !ok {
			break
		}
		if err := k.splice(at, &r, k.graph.take(&s, &r, at)); err != nil {
			return nil, err
		}
	}
	torn, err := l.close()
	if err != nil {
		return err, nil
	}
	if size, sum := a.sum(); size != k.p.Offset || sum != k.p.SHA256 {
		return corrupt(opCut, from.name, errStale), nil
	}
	if torn > 0 {
		return corrupt(opCut, from.name, errors.New("the position is in the middle of a line")), nil
	}
	return nil, nil
}

// splice writes a line, as the new session's if it is a record.
func (k *cutting) splice(l line, r *record, parsed bool) error {
	if parsed {
		return splice(k.out, l.bytes, r, k.to.Session)
	}
	_, err := k.out.Write(l.bytes)
	return err
}

// aim makes sure that the agent will continue from p.Leaf.
func (k *cutting) aim(ctx context.Context, from origin) error {
	leaf := k.graph.at(k.p.Leaf)
	if leaf == none {
		return corrupt(opCut, string(k.p.Session), fmt.Errorf("record %s is not there%s", k.p.Leaf, k.graph.worst()))
	}
	v := k.graph.view()
	if head := v.head(); !v.gone[leaf] && head != none && head == v.speaker(leaf) {
		return v.sound(head)
	}
	if err := k.choose(ctx, from, leaf); err != nil {
		return err
	}
	v = k.graph.view()
	if head := v.head(); head == none || head != v.speaker(k.graph.at(k.p.Leaf)) {
		if err := k.point(); err != nil {
			return err
		}
		v = k.graph.view()
	}
	head := v.head()
	if head == none || head != v.speaker(k.graph.at(k.p.Leaf)) {
		return segno.Errorf(segno.KindInternal, opCut, string(k.p.Session), "the agent would not continue from record %s", k.p.Leaf)
	}
	return v.sound(head)
}

// point writes the line with which the agent itself says where it stands.
func (k *cutting) point() error {
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
	k.graph.point(&record{leaf: []byte(k.p.Leaf), explicit: true})
	return nil
}

// date gives the new transcript its time.
func (k *cutting) date() error {
	if !k.to.Yield {
		return nil
	}
	paths, _ := k.c.files(k.p.Session)
	for _, path := range append(paths, k.p.Path) {
		fi, err := os.Stat(path)
		if err == nil && filepath.Dir(path) == filepath.Dir(k.path) {
			if err := k.out.drain(); err != nil {
				return err
			}
			t := fi.ModTime().Add(-time.Second)
			return k.c.fs.Chtimes(k.out.temp, t, t)
		}
	}
	return nil
}
