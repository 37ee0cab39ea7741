package sessionfile

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"unicode/utf8"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/jsonscan"
	"github.com/dalsegno/segno/transcript"
)

// Mend collects the damage of a transcript and the edits that repair it.
type Mend struct {
	// IsRecord reports whether a JSON object is a whole record of the agent.
	IsRecord func(object []byte) bool
	Tail     string // what the agent does with bytes behind the last newline, for findings

	Findings []transcript.Finding
	edits    []edit
}

// edit replaces the bytes between two offsets of a transcript.
type edit struct {
	from, to int64
	text     []byte
}

// Piece is a record of a transcript. A line has one, unless it is damaged.
type Piece struct {
	Bytes  []byte // without a newline; valid until the next piece
	Offset int64
	Line   int
}

// End returns the offset behind the piece.
func (p Piece) End() int64 { return p.Offset + int64(len(p.Bytes)) }

// Replace adds an edit that replaces the bytes between two offsets. An edit inside the bytes of
// another one has no effect.
func (m *Mend) Replace(from, to int64, text []byte) {
	m.edits = append(m.edits, edit{from, to, text})
}

// Add adds a finding.
func (m *Mend) Add(code string, line int, offset int64, why, repair string) {
	m.Findings = append(m.Findings, transcript.Finding{Code: code, Line: line, Offset: offset, Why: why, Repair: repair})
}

// Sorted returns the findings in the order of their lines.
func (m *Mend) Sorted() []transcript.Finding {
	slices.SortStableFunc(m.Findings, func(a, b transcript.Finding) int { return cmp.Compare(a.Offset, b.Offset) })
	return m.Findings
}

// Pieces calls do for each record of a transcript. It finds damaged lines whatever
// their agent is, and collects edits that leave one record in each line.
func (m *Mend) Pieces(ctx context.Context, in io.Reader, do func(Piece) error) error {
	l := NewLineReader(in, 0)
	for at := range l.All() {
		if err := ctx.Err(); err != nil {
			return err
		}
		if !at.IsWhole() && !isZeros(at.Bytes) {
			continue // longer than MaxLine: its content is not known
		}
		if err := m.line(Piece{bytes.TrimSuffix(at.Bytes, []byte{'\n'}), at.Offset, at.Number}, l.Offset, do); err != nil {
			return err
		}
	}
	torn, err := l.End()
	if err != nil || torn == 0 {
		return err
	}
	return m.tail(Piece{bytes.Clone(l.partial), l.Offset, l.Number + 1}, do)
}

// line handles a line with a newline, which ends at the offset end.
func (m *Mend) line(p Piece, end int64, do func(Piece) error) error {
	start := skipBOM(p)
	if jsonscan.SkipSpace(p.Bytes, start) == len(p.Bytes) {
		return nil
	}
	if jsonscan.Valid(p.Bytes[start:]) {
		return m.record(p, do)
	}
	records := m.recordsIn(p.Bytes)
	if len(records) == 0 {
		m.Replace(p.Offset, end, nil)
		if isZeros(p.Bytes) {
			m.Add(transcript.CodeNUL, p.Line, p.Offset, "the agent skips a line of zeros, which a crash left instead of records", "left out")
			return nil
		}
		m.Add(transcript.CodeNotJSON, p.Line, p.Offset, "the agent skips the line: it is not JSON", "left out")
		return nil
	}
	return m.split(p, records, do)
}

// isZeros reports whether bytes are zeros, as a crash leaves them where a block was not written.
func isZeros(b []byte) bool { return len(bytes.Trim(b, "\x00 \t\r\n")) == 0 }

// tail handles the bytes behind the last newline.
func (m *Mend) tail(p Piece, do func(Piece) error) error {
	records := []jsonscan.Span{{To: len(p.Bytes)}}
	if !jsonscan.Valid(p.Bytes[skipBOM(p):]) {
		records = m.recordsIn(p.Bytes)
	}
	switch {
	case jsonscan.SkipSpace(p.Bytes, 0) == len(p.Bytes):
		return nil
	case isZeros(p.Bytes):
		m.Replace(p.Offset, math.MaxInt64, nil)
		m.Add(transcript.CodeNUL, p.Line, p.Offset, "zeros follow the last line; "+m.Tail, "left out")
	case len(records) == 0:
		m.Replace(p.Offset, math.MaxInt64, nil) // it may be longer than MaxLine
		m.Add(transcript.CodeTorn, p.Line, p.Offset, "the last line is incomplete; "+m.Tail, "the incomplete line is left out")
	default:
		m.Replace(p.End(), math.MaxInt64, []byte{'\n'}) // the line may be longer than MaxLine
		if len(records) == 1 && records[0] == (jsonscan.Span{To: len(p.Bytes)}) {
			m.Add(transcript.CodeNoNewline, p.Line, p.End(), "the last line has no end; "+m.Tail, "the end of the line is added")
			return m.record(p, do)
		}
		return m.split(p, records, do)
	}
	return nil
}

// split makes a line of each of the records in a damaged line.
func (m *Mend) split(p Piece, records []jsonscan.Span, do func(Piece) error) error {
	code, between := transcript.CodeGlued, "parts of others"
	if bytes.IndexByte(p.Bytes, 0) >= 0 {
		code, between = transcript.CodeNUL, "zeros"
	}
	repair := fmt.Sprintf("split into %d lines", len(records))
	if len(records) == 1 {
		repair = "the record gets a line of its own"
	}
	at := 0
	for i, r := range records {
		var newline []byte
		if i > 0 {
			newline = []byte{'\n'}
		}
		if r.From > at || i > 0 {
			m.Replace(p.Offset+int64(at), p.Offset+int64(r.From), newline)
		}
		at = r.To
	}
	if at < len(p.Bytes) {
		m.Replace(p.Offset+int64(at), p.End(), nil)
	}
	m.Add(code, p.Line, p.Offset, "the agent skips the line, because its records are not separate lines or have "+between+" beside them", repair)
	for _, r := range records {
		if err := m.record(Piece{p.Bytes[r.From:r.To], p.Offset + int64(r.From), p.Line}, do); err != nil {
			return err
		}
	}
	return nil
}

// record handles a record, and replaces bytes of it that are not UTF-8.
func (m *Mend) record(p Piece, do func(Piece) error) error {
	if !utf8.Valid(p.Bytes) {
		first := -1
		for i := 0; i < len(p.Bytes); {
			r, n := utf8.DecodeRune(p.Bytes[i:])
			if r == utf8.RuneError && n == 1 {
				if first < 0 {
					first = i
				}
				m.Replace(p.Offset+int64(i), p.Offset+int64(i)+1, []byte("\uFFFD"))
			}
			i += n
		}
		m.Add(transcript.CodeNotUTF8, p.Line, p.Offset+int64(first), "bytes that are not UTF-8: Codex does not resume the session, Claude Code replaces them", "replaced by U+FFFD")
	}
	return do(p)
}

// recordsIn finds the whole records in a damaged line. A record inside a part of another one is
// in a string there, so its quotes are escaped.
func (m *Mend) recordsIn(line []byte) (out []jsonscan.Span) {
	budget := 8*len(line) + 64<<10 // how many bytes may be scanned: hostile lines begin many objects
	for at := 0; at < len(line) && budget > 0; {
		from := bytes.IndexByte(line[at:], '{')
		if from < 0 {
			break
		}
		from += at
		end, ok := jsonscan.Members(line, from, func([]byte, jsonscan.Span) {})
		budget -= end - from
		if at = from + 1; ok && m.IsRecord(line[from:end]) {
			out, at = append(out, jsonscan.Span{From: from, To: end}), end
		}
	}
	return out
}

// skipBOM returns where the text of the first line begins.
func skipBOM(p Piece) int {
	if p.Offset == 0 && bytes.HasPrefix(p.Bytes, []byte("\xef\xbb\xbf")) {
		return 3
	}
	return 0
}

// maxRounds is how often a repaired transcript is checked again. A repair can show other damage: a
// record that was hidden in a damaged line becomes part of the conversation.
const maxRounds = 8

// MendAll repairs a transcript until check finds no damage. It returns the repaired transcript and
// the damage of the original. The reader reads in.
func MendAll(in *io.SectionReader, check func(io.Reader) (*Mend, error)) (*io.SectionReader, []transcript.Finding, error) {
	var first []transcript.Finding
	for round := range maxRounds {
		m, err := check(io.NewSectionReader(in, 0, in.Size()))
		if err != nil || len(m.Findings) == 0 {
			return in, first, err
		}
		if round == 0 {
			first = m.Sorted()
		}
		in = m.apply(in)
	}
	return nil, nil, segno.Errorf(segno.KindInternal, "repair session", "", "the repaired copy would still be damaged")
}

// apply returns a transcript with all edits. Of two insertions at one place the longer one is first,
// because the newline at the end of the last line follows all else.
func (m *Mend) apply(in *io.SectionReader) *io.SectionReader {
	slices.SortStableFunc(m.edits, func(a, b edit) int {
		return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to), cmp.Compare(len(b.text), len(a.text)))
	})
	out, at := &parts{}, int64(0)
	for _, e := range m.edits {
		if e.from < at {
			continue // it is inside bytes that another edit replaces
		}
		out.add(io.NewSectionReader(in, at, e.from-at))
		out.add(io.NewSectionReader(bytes.NewReader(e.text), 0, int64(len(e.text))))
		at = min(e.to, in.Size())
	}
	out.add(io.NewSectionReader(in, at, in.Size()-at))
	return io.NewSectionReader(out, 0, out.size)
}

// parts are several texts as one.
type parts struct {
	all  []*io.SectionReader
	ends []int64 // of each, in the whole
	size int64
}

func (p *parts) add(part *io.SectionReader) {
	if part.Size() > 0 {
		p.size += part.Size()
		p.all, p.ends = append(p.all, part), append(p.ends, p.size)
	}
}

// ReadAt implements [io.ReaderAt].
func (p *parts) ReadAt(b []byte, off int64) (n int, err error) {
	i, _ := slices.BinarySearch(p.ends, off+1)
	for ; i < len(p.all) && n < len(b); i++ {
		at := off + int64(n) - (p.ends[i] - p.all[i].Size())
		got, err := p.all[i].ReadAt(b[n:min(len(b), n+int(p.all[i].Size()-at))], at)
		n += got
		if err != nil && (!errors.Is(err, io.EOF) || off+int64(n) != p.ends[i]) {
			return n, err
		}
	}
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}
