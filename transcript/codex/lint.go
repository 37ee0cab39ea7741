package codex

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"os"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/jsonscan"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/transcript"
	"github.com/dalsegno/segno/transcript/internal/sessionfile"
)

var _ transcript.Linter = (*Transcripts)(nil)

// Check returns the damage of a session. If the session has a lineage, lines and offsets count from
// the beginning of the whole lineage.
func (c *Transcripts) Check(ctx context.Context, src segno.Source, _ transcript.LintOptions) (transcript.Diagnosis, error) {
	const op = "check session"
	d, err := c.openDamaged(ctx, op, src)
	if err != nil {
		return transcript.Diagnosis{}, err
	}
	defer d.close()
	_, found, err := mendAll(ctx, d.file, io.NewSectionReader(d, 0, d.size))
	return found, sessionfile.IOError(op, d.file.path, err)
}

// Repair writes a copy of a session without its damage. Like a cut, the copy needs no other rollout.
func (c *Transcripts) Repair(ctx context.Context, src segno.Source, to segno.Target, _ transcript.LintOptions) (segno.Source, transcript.Diagnosis, error) {
	const op = "repair session"
	if err := checkNewSession(op, to.Session); err != nil {
		return segno.Source{}, transcript.Diagnosis{}, err
	}
	d, err := c.openDamaged(ctx, op, src)
	if err != nil {
		return segno.Source{}, transcript.Diagnosis{}, err
	}
	defer d.close()
	mended, found, err := mendAll(ctx, d.file, io.NewSectionReader(d, 0, d.size))
	if err != nil || len(found.Findings) == 0 || !found.CanContinue() {
		return segno.Source{}, found, sessionfile.IOError(op, d.file.path, err)
	}
	k := &writer{c: c, op: op, session: to.Session, dir: to.Dir}
	if err := k.writeMended(ctx, d, mended); err != nil {
		return segno.Source{}, found, sessionfile.IOError(op, d.file.path, err)
	}
	return segno.Source{Session: to.Session, Path: k.path, Dir: to.Dir}, found, nil
}

// damaged is the history of a session that may be damaged.
type damaged struct {
	io.ReaderAt
	file   rollout
	size   int64
	before os.FileInfo // the state of the file before the repair
	close  func()
}

// openDamaged opens the stream of a session, or only its rollout if the rollout does not begin with a
// session_meta. It returns an error if the lineage is broken, because the missing part is in no file.
func (c *Transcripts) openDamaged(ctx context.Context, op string, src segno.Source) (*damaged, error) {
	d := &damaged{}
	s, err := c.open(ctx, op, src)
	if err == nil {
		d.ReaderAt, d.file, d.size, d.close = s, s.file, s.size, s.close
		if d.before, err = os.Stat(s.file.path); err != nil {
			s.close()
			return nil, sessionfile.IOError(op, s.file.path, err)
		}
		return d, nil
	}
	if !errors.Is(err, errNoMeta) && !errors.Is(err, errEmpty) {
		return nil, err
	}
	r, _, locateErr := c.locate(ctx, op, src)
	if locateErr != nil || r.isCompressed() {
		return nil, err
	}
	f, openErr := vfs.OpenRegular(r.path)
	if openErr != nil {
		return nil, sessionfile.IOError(op, r.path, openErr)
	}
	d.ReaderAt, d.file, d.close = f, r, func() { f.Close() }
	if d.before, openErr = f.Stat(); openErr != nil {
		f.Close()
		return nil, sessionfile.IOError(op, r.path, openErr)
	}
	d.size = d.before.Size()
	return d, nil
}

// mendAll repairs a history in memory.
func mendAll(ctx context.Context, file rollout, in *io.SectionReader) (*io.SectionReader, transcript.Diagnosis, error) {
	return sessionfile.MendAll(in, func(in io.Reader) (*sessionfile.Mend, error) {
		l, err := lint(ctx, file, in)
		return &l.mend, err
	}, func(in io.Reader) (transcript.Reading, error) { return readingOf(ctx, file.thread, in) })
}

// writeMended writes the repaired lines of a session as a new session.
func (k *writer) writeMended(ctx context.Context, d *damaged, mended *io.SectionReader) error {
	p := segno.Position{Session: d.file.thread, Offset: mended.Size()}
	open := func(context.Context) (io.ReadCloser, error) {
		return io.NopCloser(io.NewSectionReader(mended, 0, mended.Size())), nil
	}
	h := sha256.New()
	if _, err := io.Copy(h, io.NewSectionReader(mended, 0, mended.Size())); err != nil {
		return err
	}
	h.Sum(p.SHA256[:0])
	if err := sessionfile.CheckUnchanged(k.op, d.file.path, d.before); err != nil {
		return err
	}
	readErr, writeErr := k.write(ctx, sessionfile.CopySource{Op: k.op, Name: d.file.path, Position: &p, Open: open})
	return cmp.Or(readErr, writeErr)
}

// linter finds the damage of one session.
type linter struct {
	file    rollout
	mend    sessionfile.Mend
	lines   []lintLine
	calls   map[string]int // the index of the line with each call
	results map[string]bool
	from    int // the first line that the model sees, apart from a compaction's summary
	isPaged bool
	dir     string // the directory of the newest turn

	meta        []byte // the first line, if it is a session_meta
	metaID      string
	metaProblem string
	laterMeta   int // the index of a session_meta that is not the first line; 0 if there is none
}

// lintLine has the facts about a line that the rules need.
type lintLine struct {
	piece   sessionfile.Piece // without bytes
	end     int64
	ordinal int64
	at      jsonscan.Span // the ordinal's value in the line
	kind    kind
	turn    string
	stamp   string
	call    string // the id of a call or of a result
	typ     string // the type of a call or a result
	isItem  bool   // a response item that the model may get
	isFixed bool   // the repair replaces the line, so it gets no other edit
	sum     [sha256.Size]byte
	raw     []byte // the whole line, if it is a result without the id of a call

	words    []byte // the words of a result
	brace    int64  // the offset of the record's first byte
	replaced []byte // the text that a repair writes instead of the line
	added    []byte // the text that a repair writes behind the line, apart from its ordinal
}

func lint(ctx context.Context, file rollout, in io.Reader) (*linter, error) {
	l := &linter{file: file, calls: map[string]int{}, results: map[string]bool{}}
	l.mend.IsRecord = isRecord
	l.mend.Tail = "Codex ignores it, but does not resume the session if it ends within a character"
	l.mend.BOM = "Codex does not resume the session"
	var r record
	turn, stamp := "", ""
	err := l.mend.Pieces(ctx, in, func(p sessionfile.Piece) error {
		if r.parse(p.Bytes) != nil {
			return nil
		}
		fixed := false
		if why := r.unreadable(); why != "" {
			line := r.readable(p.Bytes, stamp)
			l.reportUnreadable(p.Line, sessionfile.Place{From: p.Offset, To: p.End()}, why, line)
			if line == nil || r.parse(line) != nil {
				return nil
			}
			fixed = true
		}
		stamp = cmp.Or(string(r.timestamp), stamp)
		turn = l.add(&r, p, turn)
		l.lines[len(l.lines)-1].isFixed = fixed
		return nil
	})
	if err == nil && !l.checkOrder() {
		l.checkMeta()
		l.checkCalls()
		l.checkOrdinals()
	}
	return l, err
}

// reportUnreadable reports a line that Codex skips, and replaces it by line, which Codex reads. If line is
// nil, the repair leaves the line out.
func (l *linter) reportUnreadable(number int, at sessionfile.Place, why string, line []byte) {
	repair := "corrected"
	if line == nil {
		repair = "left out"
	}
	l.mend.Add(transcript.CodeUnreadable, number, at.From, why+", so Codex skips the line", repair)
	l.mend.Replace(at.From, at.To, line)
}

// maxOrdinal is the largest valid ordinal. JSON numbers are exact up to it.
const maxOrdinal = 1 << 53

// isRecord reports whether an object is a whole line of a rollout.
func isRecord(object []byte) bool {
	var r record
	return r.parse(object) == nil && r.typ != nil && len(r.payload) > 0 && r.payload[0] == '{'
}

// add stores the facts about a line, and returns the turn that contains the line.
func (l *linter) add(r *record, p sessionfile.Piece, turn string) string {
	x := lintLine{piece: p, end: p.End(), ordinal: r.ordinal, kind: r.kind, stamp: string(r.timestamp), sum: sha256.Sum256(p.Bytes)}
	x.piece.Bytes = nil
	if x.ordinal > maxOrdinal {
		x.ordinal = -1
	}
	start := jsonscan.SkipSpace(p.Bytes, 0)
	x.brace = p.Offset + int64(start)
	x.at = jsonscan.Find(p.Bytes, jsonscan.Span{From: start, To: len(p.Bytes)}, "ordinal")
	switch isMeta := string(r.typ) == "session_meta"; {
	case isMeta && len(l.lines) == 0:
		m, _ := parseMeta(p.Bytes)
		l.isPaged = m.isPaged
		l.meta, l.metaID, l.metaProblem = bytes.Clone(p.Bytes), m.id, metaProblem(p.Bytes)
		x.typ = "session_meta"
	case isMeta && metaProblem(p.Bytes) == "":
		l.laterMeta = cmp.Or(l.laterMeta, len(l.lines))
	case len(l.lines) == 0:
		l.isPaged = r.ordinal >= 0 // the session_meta, which records this, is missing
	}
	switch r.kind {
	case kindContext:
		l.dir = cmp.Or(r.text("cwd"), l.dir)
	case kindStart:
		turn = r.text("turn_id")
	case kindCompacted:
		l.from = len(l.lines)
	}
	x.turn = turn
	if string(r.typ) == "response_item" {
		l.addItem(&x, r, p.Bytes)
	}
	l.lines = append(l.lines, x)
	return turn
}

// addItem stores the facts about the call or the result in the next line.
func (l *linter) addItem(x *lintLine, r *record, line []byte) {
	x.isItem = true
	x.typ, x.call = string(r.event), r.text("call_id")
	switch isResult := isResultType(x.typ); {
	case isResult && x.call == "":
		x.raw = bytes.Clone(line)
	case isResult:
		l.results[x.call] = true
		x.words = r.resultText()
	case x.call != "" && resultType(x.typ) != "":
		l.calls[x.call] = len(l.lines)
	}
}

// resultType returns the type of the results for calls of a type, or "" if that is not the type of a call.
func resultType(call string) string {
	switch call {
	case "function_call", "local_shell_call":
		return "function_call_output"
	case "custom_tool_call":
		return "custom_tool_call_output"
	}
	return ""
}

func isResultType(typ string) bool {
	return typ == "function_call_output" || typ == "custom_tool_call_output"
}
