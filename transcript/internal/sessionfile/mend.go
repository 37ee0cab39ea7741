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
	Tail     string // how the agent treats bytes behind the last newline; findings quote it
	// BOM is how the agent treats a line that begins with a byte order mark, or "" if the agent ignores the mark.
	BOM string
	// BeginsOnly makes Pieces read as an agent does: in a damaged line, only a record at its beginning counts.
	BeginsOnly bool

	Findings []transcript.Finding
	edits    []edit
	order    []Place // if not nil, the repaired transcript consists of these records
}

// edit replaces the bytes between two offsets of a transcript.
type edit struct {
	from, to int64
	text     []byte
}

// Place is the position of a record in a transcript.
type Place struct{ From, To int64 }

// Piece is a record of a transcript. An undamaged line has exactly one.
type Piece struct {
	Bytes  []byte // without a newline; valid until the next piece
	Offset int64
	Line   int
}

// End returns the offset behind the piece.
func (p Piece) End() int64 { return p.Offset + int64(len(p.Bytes)) }

// Replace adds an edit that replaces the bytes between two offsets. An edit that begins inside the bytes of
// another edit has no effect.
func (m *Mend) Replace(from, to int64, text []byte) {
	m.edits = append(m.edits, edit{from, to, text})
}

// Reorder makes the repaired transcript consist of these records, one on each line. Edits then have no effect.
func (m *Mend) Reorder(records []Place) { m.order = records }

// Add records damage at a line, and the repair that the mended transcript has.
func (m *Mend) Add(code string, line int, offset int64, why, repair string) {
	m.Findings = append(m.Findings, transcript.Finding{Code: code, Line: line, Offset: offset, Why: why, Repair: repair})
}

// Sorted returns the findings in the order of their lines.
func (m *Mend) Sorted() []transcript.Finding {
	slices.SortStableFunc(m.Findings, func(a, b transcript.Finding) int { return cmp.Compare(a.Offset, b.Offset) })
	return m.Findings
}

// Pieces calls do for each record of a transcript. It finds damaged lines by rules that hold for
// every agent, and collects edits that leave one record on each line.
func (m *Mend) Pieces(ctx context.Context, in io.Reader, do func(Piece) error) error {
	l := NewLineReader(in, 0)
	var held []Piece // lines that may be the beginning of one record
	flush := func() error {
		lines := held
		held = nil
		for _, p := range lines {
			if err := m.line(p, p.End()+1, do); err != nil {
				return err
			}
		}
		return nil
	}
	for at := range l.All() {
		if err := ctx.Err(); err != nil {
			return err
		}
		if !at.IsWhole() && !isZeros(at.Bytes) {
			continue // the line is longer than MaxLine, so its content is not known
		}
		p := Piece{bytes.TrimSuffix(at.Bytes, []byte{'\n'}), at.Offset, at.Number}
		joined, canGrow := join(held, p)
		if len(held) > 0 && joined.Bytes == nil && !canGrow {
			if err := flush(); err != nil {
				return err
			}
			_, canGrow = join(nil, p) // the held lines were torn, and a record may begin here
		}
		switch {
		case joined.Bytes != nil:
			held = nil
			if err := m.joined(joined, do); err != nil {
				return err
			}
			continue
		case canGrow:
			p.Bytes = bytes.Clone(p.Bytes)
			held = append(held, p)
			continue
		}
		if err := m.line(p, l.Offset, do); err != nil {
			return err
		}
	}
	if err := flush(); err != nil {
		return err
	}
	torn, err := l.End()
	if err != nil || torn == 0 {
		return err
	}
	return m.tail(Piece{bytes.Clone(l.partial), l.Offset, l.Number + 1}, do)
}

// The limits for a record that is split over several lines.
const (
	maxJoinedLines = 1000
	maxJoinedBytes = 1 << 20
)

// join joins the held lines and p if together they are one record. canGrow reports whether they may be the
// beginning of a record.
func join(held []Piece, p Piece) (joined Piece, canGrow bool) {
	all := p
	if len(held) > 0 {
		text := make([]byte, 0, int(p.End()-held[0].Offset))
		for _, h := range held {
			text = append(append(text, h.Bytes...), '\n')
		}
		all = Piece{append(text, p.Bytes...), held[0].Offset, held[0].Line}
	}
	from := jsonscan.SkipSpace(all.Bytes, skipBOM(all))
	if from == len(all.Bytes) || all.Bytes[from] != '{' {
		return Piece{}, false
	}
	end, ok := jsonscan.Members(all.Bytes, from, func([]byte, jsonscan.Span) {})
	if ok && len(held) > 0 && jsonscan.SkipSpace(all.Bytes, end) == len(all.Bytes) {
		return all, false
	}
	return Piece{}, !ok && end == len(all.Bytes) && len(held) < maxJoinedLines && len(all.Bytes) < maxJoinedBytes
}

// joined handles a record that was split over several lines.
func (m *Mend) joined(p Piece, do func(Piece) error) error {
	for i, c := range p.Bytes {
		if c == '\n' {
			m.Replace(p.Offset+int64(i), p.Offset+int64(i)+1, []byte{' '})
		}
	}
	m.Add(transcript.CodeSplit, p.Line, p.Offset, "the record is on several lines, which Codex skips, and versions of Claude Code may skip", "put on one line")
	return m.record(p, do)
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

// isZeros reports whether bytes are only zeros and white space. A crash leaves zeros where a block was not written.
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
		m.Replace(p.Offset, math.MaxInt64, nil) // the line may be longer than MaxLine
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

// split puts each record of a damaged line on a separate line.
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
	if n := skipBOM(p); n > 0 && m.BOM != "" {
		m.Add(transcript.CodeBOM, p.Line, p.Offset, "the line begins with a byte order mark; "+m.BOM, "left out")
		m.Replace(p.Offset, p.Offset+int64(n), nil)
		p.Bytes, p.Offset = p.Bytes[n:], p.Offset+int64(n)
	}
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

// recordsIn finds the whole records in a damaged line. It does not mistake a record that is quoted inside
// another one for a record of the line, because the quotes of such a record are escaped.
func (m *Mend) recordsIn(line []byte) (out []jsonscan.Span) {
	if m.BeginsOnly {
		from := jsonscan.SkipSpace(line, 0)
		if end, ok := jsonscan.Members(line, from, func([]byte, jsonscan.Span) {}); ok {
			out = append(out, jsonscan.Span{From: from, To: end})
		}
		return out
	}
	budget := 8*len(line) + 64<<10 // limits the bytes to scan, because hostile lines begin many objects
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

// MendAll repairs a transcript until check finds no damage. It returns a reader of the repaired transcript,
// which reads from in, and the damage of the original. read returns which part of a transcript the agent reads.
func MendAll(in *io.SectionReader, check func(io.Reader) (*Mend, error), read func(io.Reader) (transcript.Reading, error)) (*io.SectionReader, transcript.Diagnosis, error) {
	var d transcript.Diagnosis
	var err error
	if d.Before, err = read(io.NewSectionReader(in, 0, in.Size())); err != nil {
		return in, d, err
	}
	original, all, found := in, &Mend{}, map[foundAt]bool{}
	origin := func(offset int64) int64 { return offset }
	for round := range maxRounds {
		m, err := check(io.NewSectionReader(in, 0, in.Size()))
		if err != nil {
			return in, d, err
		}
		if len(m.Findings) == 0 {
			d.After = d.Before
			if round > 0 {
				d.After, err = read(io.NewSectionReader(in, 0, in.Size()))
			}
			d.Findings = all.Sorted()
			return in, d, err
		}
		if round > 0 {
			if err := m.relocate(original, origin); err != nil {
				return in, d, err
			}
		}
		for _, f := range m.Findings {
			at := foundAt{f.Code, f.Line}
			if !found[at] || round == 0 {
				all.Findings = append(all.Findings, f)
			}
			found[at] = true
		}
		out, before := m.apply(in), origin
		in, origin = io.NewSectionReader(out, 0, out.size), func(offset int64) int64 { return before(out.origin(offset)) }
	}
	return nil, d, segno.Errorf(segno.KindInternal, "repair session", "", "the repaired copy would still be damaged")
}

// foundAt is the kind and the line of damage. A later round may find the same damage again.
type foundAt struct {
	code string
	line int
}

// relocate converts the offsets and lines of findings from a repaired transcript to the original one.
func (m *Mend) relocate(original io.ReaderAt, origin func(int64) int64) error {
	for i := range m.Findings {
		m.Findings[i].Offset = origin(m.Findings[i].Offset)
	}
	m.Sorted()
	at, line := int64(0), 1
	buf := make([]byte, 64<<10)
	for i := range m.Findings {
		for f := &m.Findings[i]; at < f.Offset; {
			n, err := original.ReadAt(buf[:min(int64(len(buf)), f.Offset-at)], at)
			if n == 0 {
				return cmp.Or(err, io.ErrUnexpectedEOF)
			}
			at, line = at+int64(n), line+bytes.Count(buf[:n], []byte{'\n'})
		}
		m.Findings[i].Line = line
	}
	return nil
}

// apply returns a transcript with all edits. If two insertions have the same place, the longer one comes
// first, because the newline that ends the last line must follow everything else.
func (m *Mend) apply(in *io.SectionReader) *parts {
	out := &parts{}
	if m.order != nil {
		for _, p := range m.order {
			out.keep(in, p.From, p.To)
			out.add([]byte{'\n'}, p.To)
		}
		return out
	}
	slices.SortStableFunc(m.edits, func(a, b edit) int {
		return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to), cmp.Compare(len(b.text), len(a.text)))
	})
	at := int64(0)
	for _, e := range m.edits {
		if e.from < at {
			continue // the edit begins inside bytes that another edit replaces
		}
		out.keep(in, at, e.from)
		out.add(e.text, e.from)
		at = min(e.to, in.Size())
	}
	out.keep(in, at, in.Size())
	return out
}

// parts is the concatenation of several texts.
type parts struct {
	all   []*io.SectionReader
	from  []int64 // the offset of each text, or of the bytes that it replaces, before the edits
	isNew []bool  // the text comes from an edit
	ends  []int64 // the end of each text in the concatenation
	size  int64
}

// keep adds the bytes of a transcript between two offsets.
func (p *parts) keep(in *io.SectionReader, from, to int64) {
	p.addPart(io.NewSectionReader(in, from, to-from), from, false)
}

// add adds the text of an edit at an offset.
func (p *parts) add(text []byte, at int64) {
	p.addPart(io.NewSectionReader(bytes.NewReader(text), 0, int64(len(text))), at, true)
}

func (p *parts) addPart(part *io.SectionReader, from int64, isNew bool) {
	if part.Size() > 0 {
		p.size += part.Size()
		p.all, p.from, p.isNew, p.ends = append(p.all, part), append(p.from, from), append(p.isNew, isNew), append(p.ends, p.size)
	}
}

// origin converts an offset in the edited transcript to the offset before the edits.
func (p *parts) origin(offset int64) int64 {
	i, _ := slices.BinarySearch(p.ends, offset+1)
	switch {
	case len(p.all) == 0:
		return 0
	case i == len(p.all):
		i, offset = i-1, p.size-1
	}
	if p.isNew[i] {
		return p.from[i]
	}
	return p.from[i] + offset - (p.ends[i] - p.all[i].Size())
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
