package claude

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/jsonscan"
	"github.com/dalsegno/segno/transcript"
	"github.com/dalsegno/segno/transcript/internal/sessionfile"
)

var _ transcript.Linter = (*Transcripts)(nil)

// Check returns the damage of a session. It considers only the records that the agent would send to
// the model, those that it should send but loses, and those that make it refuse the session. Tests in
// which versions 2.1.197 and 2.1.330 resumed damaged sessions showed how the agent treats damage.
func (c *Transcripts) Check(ctx context.Context, src segno.Source, o transcript.LintOptions) (transcript.Diagnosis, error) {
	const op = "check session"
	f, src, err := c.open(ctx, op, src)
	if err != nil {
		return transcript.Diagnosis{}, err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return transcript.Diagnosis{}, sessionfile.IOError(op, src.Path, err)
	}
	_, found, err := mendAll(ctx, src, o, io.NewSectionReader(f, 0, fi.Size()))
	return found, sessionfile.IOError(op, src.Path, err)
}

// mendAll repairs a transcript in memory.
func mendAll(ctx context.Context, src segno.Source, o transcript.LintOptions, in *io.SectionReader) (*io.SectionReader, transcript.Diagnosis, error) {
	return sessionfile.MendAll(in, func(in io.Reader) (*sessionfile.Mend, error) {
		l, err := lint(ctx, src, o, in)
		return &l.mend, err
	}, func(in io.Reader) (transcript.Reading, error) { return readingOf(ctx, in) })
}

// Repair writes a copy of a session and its sidecars, without the damage.
func (c *Transcripts) Repair(ctx context.Context, src segno.Source, to segno.Target, o transcript.LintOptions) (segno.Source, transcript.Diagnosis, error) {
	const op = "repair session"
	f, src, err := c.open(ctx, op, src)
	if err != nil {
		return segno.Source{}, transcript.Diagnosis{}, err
	}
	defer f.Close()
	k := &repair{cut: cut{installer: installer{c: c, op: op}, p: segno.Position{Session: src.Session, Path: src.Path}, to: to}}
	if k.before, err = f.Stat(); err != nil {
		return segno.Source{}, transcript.Diagnosis{}, sessionfile.IOError(op, src.Path, err)
	}
	var found transcript.Diagnosis
	k.mended, found, err = mendAll(ctx, src, o, io.NewSectionReader(f, 0, k.before.Size()))
	if err != nil || len(found.Findings) == 0 || !found.CanContinue() {
		return segno.Source{}, found, sessionfile.IOError(op, src.Path, err)
	}
	if err = k.checkTarget(); err == nil {
		err = k.install(ctx, to.Session, k)
	}
	if err != nil {
		return segno.Source{}, found, sessionfile.IOError(op, src.Path, err)
	}
	return segno.Source{Session: to.Session, Path: k.path, Dir: to.Dir}, found, nil
}

// repair writes a repaired session. It embeds cut for the methods that copy the sidecars.
type repair struct {
	cut
	before os.FileInfo // the state of the source before the repair
	mended *io.SectionReader
}

// writeTranscript writes the repaired lines.
func (k *repair) writeTranscript(ctx context.Context) error {
	lines := sessionfile.NewLineReader(k.mended, 0)
	var r record
	for at := range lines.All() {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := at.CheckWhole(k.op, k.p.Path); err != nil {
			return err
		}
		_ = r.parse(at.Bytes) // a line that is not a record has no session ids
		if err := r.writeAs(k.out, k.to.Session); err != nil {
			return err
		}
	}
	if _, err := lines.End(); err != nil {
		return err
	}
	return sessionfile.CheckUnchanged(k.op, k.p.Path, k.before)
}

// linter finds the damage of one transcript.
type linter struct {
	src     segno.Source
	options transcript.LintOptions
	mend    sessionfile.Mend
	graph   *graph
	parts   map[int]*lintPart // by node
	calls   map[string]bool   // the ids of all calls in the transcript
	done    map[string]bool   // the ids of the calls with a result
	end     int64             // the end of the last record
	lines   []lintLine

	order   []named        // all records of the main chain
	names   map[string]int // the first record with each name, by its index in order
	unnamed []named
	clashes []clash
	dropped map[string]string // records that the repair leaves out, with their parents

	parents  map[int]string   // parents that the repair changes, by node; "" for none
	children map[string][]int // the children of each record by its uuid; nil until the repair leaves out a record
}

// lintPart has the facts about a message that the rules need.
type lintPart struct {
	start  int           // where the record begins
	parent jsonscan.Span // the value of parentUuid, zero without one; offsets of the transcript
	message
	blocks []lintBlock
	count  int    // the number of its blocks
	stamp  string // the time
	source string // if it is a result: the record with its call
	key    segno.TurnKey
	role   role
}

// lintBlock is a content block that may be damaged. Spans count from the beginning of the transcript.
type lintBlock struct {
	kind  blockKind
	at    jsonscan.Span
	id    jsonscan.Span // the text of the id, for a call or a result
	name  string        // that text
	inner []byte        // the blocks with the words of a result
	image
	why  string // why the API rejects the block, or ""
	fix  jsonscan.Span
	text string // the text that replaces fix
}

type blockKind uint8

const (
	blockCall blockKind = iota
	blockResult
	blockThinking
	blockImage
	blockText
)

func lint(ctx context.Context, src segno.Source, o transcript.LintOptions, in io.Reader) (*linter, error) {
	l := &linter{src: src, options: o, graph: newGraph(src.Path), parts: map[int]*lintPart{}, calls: map[string]bool{}, done: map[string]bool{},
		names: map[string]int{}, dropped: map[string]string{}, parents: map[int]string{}}
	l.graph.isWhole = true
	l.mend.IsRecord, l.mend.Tail = isRecord, "the agent appends its next record to it and then loses that one, too"
	var r record
	err := l.mend.Pieces(ctx, in, func(p sessionfile.Piece) error {
		l.end = p.End()
		switch {
		case isNull(p.Bytes):
			l.mend.Add(transcript.CodeUnreadable, p.Line, p.Offset, "the line is null, so some versions of the agent do not continue the session", "left out")
			l.mend.Replace(p.Offset, p.End(), nil)
		case r.parse(p.Bytes) == nil && l.checkShape(&r, p):
			if r.kind.inConversation() && !r.isSidechain {
				l.noteName(readName(&r, p))
			}
			l.graph.add(&r, sessionfile.Line{Bytes: p.Bytes, Offset: p.Offset, Number: p.Line})
			l.read(&r, p)
			l.noteLine(&r, p)
		}
		return nil
	})
	if err == nil && !l.checkNames() && !l.checkOrder() && !l.checkCallNames() {
		l.check()
	}
	return l, err
}

// checkShape checks the values of a record. It returns false if the repair leaves the record out.
func (l *linter) checkShape(r *record, p sessionfile.Piece) bool {
	start := int(p.Offset) + skipBOM(r.line)
	if r.isMistyped() {
		line := r.line[skipBOM(r.line):]
		text := `"` + r.messageKind() + `"`
		at := jsonscan.Find(line, jsonscan.Span{To: len(line)}, "type")
		if at.IsZero() {
			at, text = jsonscan.Span{From: 1, To: 1}, `"type":`+text+`,`
		}
		l.mend.Add(transcript.CodeUnreadable, p.Line, p.Offset, "the record has the message of a turn, but not the type, so the agent loses it and everything before it", "gets the type")
		l.replace(jsonscan.Span{From: start + at.From, To: start + at.To}, text)
		r.kind = kinds[r.messageKind()]
		return true
	}
	kept := true
	for _, f := range r.faults() {
		if r.isSidechain && f.severity != breaks {
			continue
		}
		consequence := map[severity]string{
			loses: "the agent leaves it out", rejected: "the API rejects every request with it",
			refuses: "some versions of the agent do not continue the session", breaks: "some versions of the agent do not continue the session",
		}[f.severity]
		repair := "corrected"
		if f.at.IsZero() {
			repair, kept = "left out", false
		}
		l.mend.Add(transcript.CodeUnreadable, p.Line, p.Offset, f.why+", so "+consequence, repair)
		l.replace(jsonscan.Span{From: start + f.at.From, To: start + f.at.To}, f.text)
	}
	if !kept {
		l.mend.Replace(p.Offset, p.End(), nil)
		l.dropped[string(r.uuid)] = string(r.parent)
	}
	return kept
}

// isRecord reports whether an object is a whole line of a transcript. Objects inside records have no
// sessionId beside a type.
func isRecord(object []byte) bool {
	var r record
	if r.parse(object) != nil || r.typ == nil {
		return false
	}
	return len(r.sessions) > 0 || r.kind == kindLastPrompt || string(r.typ) == "file-history-snapshot" || string(r.typ) == "summary"
}

// read stores the facts about a record that the rules need.
func (l *linter) read(r *record, p sessionfile.Piece) {
	if !r.kind.inConversation() || r.isSidechain {
		return
	}
	start := skipBOM(r.line)
	span := func(in jsonscan.Span) jsonscan.Span {
		return jsonscan.Span{From: in.From + int(p.Offset) + start, To: in.To + int(p.Offset) + start}
	}
	line := r.line[start:]
	whole := jsonscan.Span{To: len(line)}
	part := &lintPart{start: int(p.Offset) + start, stamp: string(r.timestamp), source: text(r.field("sourceToolAssistantUUID")), key: segno.TurnKey(jsonscan.Unescape(r.promptID))}
	if at := jsonscan.Find(line, whole, "parentUuid"); !at.IsZero() {
		part.parent = span(at)
	}
	if t := turnPartOf(r); t != nil {
		part.role = t.role
	}
	i := l.graph.index(string(r.uuid))
	if i == none {
		return
	}
	l.parts[i] = part
	if !r.kind.isMessage() {
		return
	}
	if r.kind == kindAssistant {
		part.id = jsonscan.Text(field(r.message, "id"))
	}
	content := jsonscan.Find(line, whole, "message", "content")
	if content.IsZero() || line[content.From] != '[' {
		return
	}
	jsonscan.Elements(line, content.From, func(at jsonscan.Span) { l.readBlock(part, line, at, span) })
}

// readBlock stores a content block that may be damaged.
func (l *linter) readBlock(part *lintPart, line []byte, at jsonscan.Span, span func(jsonscan.Span) jsonscan.Span) {
	b := lintBlock{at: span(at), fix: span(at)}
	part.count++
	switch jsonscan.Text(field(at.Of(line), "type")) {
	case "tool_use":
		b.kind = blockCall
		b.readID(line, at, "id", span)
		l.calls[b.name] = true
	case "tool_result":
		b.kind = blockResult
		b.readID(line, at, "tool_use_id", span)
		b.inner = wordsOf(field(at.Of(line), "content"))
		l.done[b.name], part.hasToolResults = true, true
		l.readResult(part, line, at, span)
	case "thinking":
		if len(jsonscan.RawText(field(at.Of(line), "signature"))) > 0 {
			return
		}
		b.kind, b.why = blockThinking, "the API rejects thinking without a signature, and with it every later message"
	case "image":
		b.readImage(line, at, span)
	default:
		return
	}
	part.blocks = append(part.blocks, b)
}

// readID stores the id of a call, which both the call and its result must have. If it is missing, b.id stays zero.
func (b *lintBlock) readID(line []byte, at jsonscan.Span, key string, span func(jsonscan.Span) jsonscan.Span) {
	id := jsonscan.Find(line, at, key)
	if text := jsonscan.RawText(id.Of(line)); text != nil {
		b.name = string(text)
		b.id = span(jsonscan.Span{From: id.From + 1, To: id.To - 1})
	}
}

// readResult stores the blocks inside the result of a tool.
func (l *linter) readResult(part *lintPart, line []byte, at jsonscan.Span, span func(jsonscan.Span) jsonscan.Span) {
	content := jsonscan.Find(line, at, "content")
	if content.IsZero() {
		return
	}
	jsonscan.Elements(line, content.From, func(in jsonscan.Span) {
		b := lintBlock{at: span(in), fix: span(in)}
		switch jsonscan.Text(field(in.Of(line), "type")) {
		case "image":
			b.readImage(line, in, span)
		case "text":
			if string(field(in.Of(line), "text")) != `""` {
				return
			}
			b.kind, b.why, b.text = blockText, "the API rejects an empty text in the result of a tool", `{"type":"text","text":"(no content)"}`
		default:
			return
		}
		part.blocks = append(part.blocks, b)
	})
}

// wordsOf returns the content of a tool's result as content blocks with a comma before each.
func wordsOf(content []byte) (out []byte) {
	if words := jsonscan.RawText(content); len(words) > 0 {
		return fmt.Appendf(nil, `,{"type":"text","text":"%s"}`, words)
	}
	if content == nil {
		return nil
	}
	jsonscan.Elements(content, 0, func(at jsonscan.Span) {
		if t := jsonscan.Text(field(at.Of(content), "type")); t == "text" || t == "image" {
			out = append(append(out, ','), at.Of(content)...)
		}
	})
	return out
}
