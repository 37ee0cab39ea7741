package codex

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"unicode/utf8"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/jsonscan"
	"github.com/dalsegno/segno/transcript/internal/sessionfile"
)

// maxDamage is how many damaged lines are listed.
const maxDamage = 10

// turn is one turn with a prompt.
type turn struct {
	key        string // Codex's id of the turn, or the time of the prompt in old versions
	prompt     string
	from, to   int64 // its lines; to is the end of the newest one so far
	isAnswered bool
	isEnded    bool // Codex recorded its end
}

// history is the turns and the damage in a part of a stream.
type history struct {
	turns   []turn
	sum     uint32 // CRC-32C of the lines
	to      int64  // the end of the last whole line
	dir     string // of the newest turn, "" if the part has none
	damage  []segno.Damage
	ordinal int64 // ordinal of the newest line that has one; -1 if none has

	started   string // the turn that began last, before its prompt; "" if the version does not record it
	startedAt int64
	isPaged   bool
}

// readHistory reads the lines of s between two offsets.
func readHistory(ctx context.Context, s *stream, from, to int64) (*history, error) {
	h := &history{to: from, ordinal: -1, isPaged: s.meta.isPaged}
	h.readBefore(s, from)
	l := sessionfile.NewLineReader(s.section(from, to), from)
	l.HasSum = true
	var r record
	for at := range l.All() {
		if at.Number%1024 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		h.to = l.Offset
		if why := h.check(&r, at); why != "" && len(h.damage) < maxDamage {
			h.damage = append(h.damage, segno.Damage{Line: at.Number, Offset: at.Offset, Why: why})
		}
		h.add(&r, at.Offset, l.Offset)
	}
	h.sum = l.Sum
	_, err := l.End()
	return h, err
}

// readBefore finds the turn and the ordinal at an offset from the lines before it. It reads only as
// many lines as a capture in the middle of a turn needs.
func (h *history) readBefore(s *stream, offset int64) {
	const tail = 256 << 10
	l := sessionfile.NewLineReader(s.section(max(0, offset-tail), offset), max(0, offset-tail))
	var r record
	for at := range l.All() {
		if r.parse(at.Bytes) != nil {
			continue
		}
		switch h.ordinal = r.ordinal; r.kind {
		case kindStart:
			h.started, h.startedAt = r.text("turn_id"), at.Offset
		case kindEnd:
			h.started = ""
		}
	}
}

// check parses a line and returns the defect in it, or "". Codex ignores lines that are
// not JSON, and continues a session in which ordinals are wrong.
func (h *history) check(r *record, at sessionfile.Line) string {
	switch {
	case !at.IsWhole():
		*r = record{ordinal: -1}
		return fmt.Sprintf("longer than %d MiB", sessionfile.MaxLine>>20)
	case len(bytes.TrimSpace(at.Bytes)) == 0:
		*r = record{ordinal: -1}
		return ""
	case r.parse(at.Bytes) != nil:
		return errNotJSON.Error()
	case !utf8.Valid(at.Bytes):
		return "not UTF-8"
	case r.ordinal < 0 && h.isPaged:
		return "it has no ordinal"
	}
	before := h.ordinal
	if h.ordinal = r.ordinal; h.isPaged && r.ordinal <= before {
		return fmt.Sprintf("ordinal %d follows %d: another process wrote to the session, too", r.ordinal, before)
	}
	return ""
}

// add adds one line. Some versions do not record the beginning and the end of a turn. They write the
// user's words and the settings before the prompt's event. Those lines belong to the next turn, so a
// turn ends with the agent's last line.
func (h *history) add(r *record, from, to int64) {
	last := len(h.turns) - 1
	switch r.kind {
	case kindContext:
		h.dir = cmp.Or(r.text("cwd"), h.dir)
	case kindStart:
		h.started, h.startedAt = r.text("turn_id"), from
	case kindPrompt:
		h.addPrompt(r, from, to)
	case kindEnd:
		if last >= 0 && h.turns[last].key == r.text("turn_id") {
			h.turns[last].to, h.turns[last].isAnswered, h.turns[last].isEnded = to, true, true
		}
		h.started = ""
	case kindOutput, kindNote, kindCompacted:
		if last < 0 || h.turns[last].isEnded || h.started != "" && h.started != h.turns[last].key {
			return // between two turns, or in a compaction that the user asked for
		}
		h.turns[last].to = to
		h.turns[last].isAnswered = h.turns[last].isAnswered || r.kind == kindOutput
	}
}

// addPrompt begins a turn, unless the user added words to the newest one.
func (h *history) addPrompt(r *record, from, to int64) {
	key := cmp.Or(r.text("turn_id"), h.started)
	if h.started == "" {
		key, h.startedAt = cmp.Or(key, jsonscan.Unescape(r.timestamp)), from
	}
	if last := len(h.turns) - 1; last < 0 || h.turns[last].key != key {
		h.turns = append(h.turns, turn{key: key, prompt: r.prompt(), from: h.startedAt, to: to})
	}
}
