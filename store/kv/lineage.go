package kv

import (
	"context"

	"github.com/dalsegno/segno"
)

// run is a stretch of records that holds a part of a line, and may hold others.
type run struct {
	thread   segno.ThreadID
	area     byte
	from, to uint64
}

// lineage is where a line lies. A record need not repeat all of it: base is the
// position, in the same log, of a record that has it whole, and the first cut runs
// are as they are there. So a line through many forks costs its records nothing.
type lineage struct {
	runs []run // all of them, the newest last
	base uint64
	cut  int
}

// most is how many runs a record has of its own before it has all again.
const most = 6

// extend returns a line that goes on with one more record. Short gaps are closed:
// who reads a line passes over what is not of it.
func (l lineage) extend(at place) lineage {
	const gap = 16
	out := lineage{runs: append([]run(nil), l.runs...), base: l.base, cut: l.cut}
	n := len(out.runs)
	var end place
	if n > 0 {
		end = place{out.runs[n-1].thread, out.runs[n-1].area, out.runs[n-1].to}
	}
	if here := end.thread == at.thread && end.area == at.area; !here {
		out.base, out.cut = 0, 0
	} else if out.base == 0 && n > most {
		out.base, out.cut = end.pos, n-1
	}
	if end.thread == at.thread && end.area == at.area && end.pos < at.pos && at.pos-end.pos <= gap {
		out.runs[n-1].to = at.pos
	} else {
		out.runs = append(out.runs, run{thread: at.thread, area: at.area, from: at.pos, to: at.pos})
	}
	if len(out.runs)-out.cut > most {
		out.base, out.cut = 0, 0
	}
	return out
}

// complete reads the runs that e's record leaves to another, which may be among
// those seen.
func (s *Store) complete(ctx context.Context, e *entry, seen map[place]*entry) error {
	if e == nil || e.line.base == 0 || e.line.cut > 0 {
		return nil
	}
	at := place{e.at.thread, areaLog, e.line.base}
	base := seen[at]
	if base == nil {
		found, err := s.read(ctx, []place{at})
		if err != nil {
			return err
		}
		base = found[at]
	}
	if base == nil || base.line.base != 0 || len(base.line.runs) == 0 {
		return missing(at.key())
	}
	e.line.cut = len(base.line.runs) - 1
	e.line.runs = append(base.line.runs[:e.line.cut:e.line.cut], e.line.runs...)
	return nil
}

// lineage writes where a line lies: the runs from skip on.
func (w *writer) lineage(own segno.ThreadID, l lineage, skip int) {
	w.uint(l.base)
	w.uint(uint64(len(l.runs) - skip))
	for _, x := range l.runs[skip:] {
		name := string(x.thread)
		if x.thread == own {
			name = ""
		}
		w.text(name)
		w.byte(x.area)
		w.uint(x.from)
		w.uint(x.to - x.from)
	}
}

func (r *reader) lineage(own segno.ThreadID) (l lineage) {
	l.base = r.uint()
	for range r.count() {
		x := run{thread: segno.ThreadID(r.text()), area: r.byte(), from: r.uint()}
		x.to = x.from + r.uint()
		if x.thread == "" {
			x.thread = own
		}
		l.runs = append(l.runs, x)
	}
	return l
}
