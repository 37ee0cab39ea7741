package kv

import (
	"cmp"
	"context"
	"slices"

	"github.com/dalsegno/segno"
)

// run is a range of records of one log that contains a part of a line. It may contain records that
// are not on the line.
type run struct {
	thread   segno.ThreadID
	area     byte
	from, to uint64
}

// lineage lists the runs that contain a line. A record stores only the newest of them: its first runs, as many
// as cut, are in an earlier record of the same log, at the position base. The size of a record thus does not
// depend on the number of forks in its line.
//
// For example a thread B that forks from the third record of A, and has two records, has the runs
// A 1–3 and B 1–2.
type lineage struct {
	runs []run // all of them, the newest last
	base uint64
	cut  int
}

// maxRuns is the largest number of runs in a record that refers to another one. A record with more
// of them repeats all runs, so that later records can refer to it.
const maxRuns = 6

// extend returns the line that continues l with the record at a position. A run includes short gaps:
// a reader skips records that are not on the line.
func (l lineage) extend(at position) lineage {
	const maxGap = 16
	out := lineage{runs: slices.Clone(l.runs), base: l.base, cut: l.cut}
	n := len(out.runs)
	var last run
	if n > 0 {
		last = out.runs[n-1]
	}
	sameLog := last.thread == at.thread && last.area == at.area
	switch {
	case !sameLog: // the first record of a fork has all runs
		out.base, out.cut = 0, 0
	case out.base == 0 && n > maxRuns:
		out.base, out.cut = last.to, n-1
	}
	// Another line of the same thread may have the records in the gap.
	if sameLog && last.to < at.pos && at.pos-last.to <= maxGap {
		out.runs[n-1].to = at.pos
	} else {
		out.runs = append(out.runs, run{thread: at.thread, area: at.area, from: at.pos, to: at.pos})
	}
	if len(out.runs)-out.cut > maxRuns {
		out.base, out.cut = 0, 0
	}
	return out
}

// completeLine adds the runs that e's record leaves out, which are in its base record. That record
// may be in seen.
func (s *Store) completeLine(ctx context.Context, e *logRecord, seen map[position]*logRecord) error {
	if e.line.base == 0 || e.line.cut > 0 {
		return nil
	}
	at := position{e.at.thread, areaLog, e.line.base}
	base := seen[at]
	if base == nil {
		found, err := s.read(ctx, []position{at})
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

// splitNewest removes the newest n positions from a line. A reader of a long line calls it again
// with rest, until it has found enough.
func splitNewest(line []run, n int) (newest []position, rest []run) {
	rest = slices.Clone(line)
	for len(rest) > 0 && len(newest) < n {
		r := &rest[len(rest)-1]
		for len(newest) < n && r.to >= r.from && r.to > 0 {
			newest = append(newest, position{r.thread, r.area, r.to})
			r.to--
		}
		if r.to < r.from || r.to == 0 {
			rest = rest[:len(rest)-1]
		}
	}
	return newest, rest
}

// fields codes the runs from skip on. It writes the log's own thread as "".
func (l *lineage) fields(f *fields, own segno.ThreadID, skip int) {
	runs := l.runs[skip:]
	unsigned(f, &l.base)
	items(f, &runs)
	for i := range runs {
		x := &runs[i]
		name, more := x.thread, x.to-x.from
		if name == own {
			name = ""
		}
		text(f, &name)
		octet(f, &x.area)
		unsigned(f, &x.from)
		unsigned(f, &more)
		if f.decoding {
			x.thread, x.to = cmp.Or(name, own), x.from+more
		}
	}
	if f.decoding {
		l.runs = runs
	}
}
