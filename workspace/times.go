package workspace

import (
	"encoding/binary"
	"errors"

	"github.com/dalsegno/segno"
)

// timeRecord is one entry of a times object: a file's time, or a directory's child.
type timeRecord struct {
	name  string
	mtime int64
	child segno.Hash // zero for a file
}

func appendTimes(b []byte) []byte { return append(b, timesMagic...) }

func appendTime(b []byte, r *timeRecord) []byte {
	if r.child.IsZero() {
		b = appendString(append(b, kindFile), r.name)
		return binary.BigEndian.AppendUint64(b, uint64(r.mtime))
	}
	b = appendString(append(b, kindDir), r.name)
	return append(b, r.child[:]...)
}

// decodeTimes reads a times object. It accepts exactly what encoding makes.
func decodeTimes(data []byte) ([]timeRecord, error) {
	d, err := decode(data, timesMagic)
	if err != nil {
		return nil, err
	}
	var out []timeRecord
	last := ""
	for len(d.rest) > 0 && d.err == nil {
		kind := d.byte()
		r := timeRecord{name: d.name()}
		switch kind {
		case kindFile:
			if s := d.take(8); s != "" {
				r.mtime = int64(binary.BigEndian.Uint64([]byte(s)))
			}
		case kindDir:
			r.child = d.hash()
		default:
			d.fail("an entry of an unknown kind")
		}
		d.order(&last, r.name)
		out = append(out, r)
	}
	if d.err == nil && len(out) == 0 {
		return nil, errors.New("no entries")
	}
	return out, d.err
}

// nanoseconds joins a time's parts; what does not fit stands at the end of the
// range, in the years 1677 and 2262.
func nanoseconds(sec, nsec int64) int64 {
	const limit = 9223372035 // seconds that fit with any nanoseconds
	if sec > limit {
		return limit*1e9 + 999999999
	}
	if sec < -limit {
		return -limit * 1e9
	}
	return sec*1e9 + nsec
}
