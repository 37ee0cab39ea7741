package file

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"reflect"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/dalsegno/segno"
)

// version is the version of the format. The package comment describes it.
const version = 1

// record is a line of a log without its entries.
type record struct {
	CRC    string        `json:"-"`
	N      int64         `json:"n"`
	Format int           `json:"format,omitempty"`
	Order  int64         `json:"order"`
	Commit *commitRecord `json:"commit,omitempty"`
	Digest segno.Hash    `json:"digest,omitzero"`
	Head   *headRecord   `json:"head,omitempty"`
	Turn   int           `json:"turn,omitempty"` // where the commit's own line stands
	Lease  *segno.Lease  `json:"lease,omitempty"`
	Hidden bool          `json:"hidden,omitempty"`

	Workspace *segno.WorkspaceRecord `json:"workspace,omitempty"` // alone in a file, never in a log
}

// commitRecord is what a log keeps of a [segno.Commit].
type commitRecord struct {
	ID         segno.CommitID        `json:"id"`
	Thread     segno.ThreadID        `json:"thread"`
	Create     *segno.Thread         `json:"create,omitempty"`
	Parent     segno.CommitID        `json:"parent,omitempty"`
	Checkpoint *checkpointRecord     `json:"checkpoint,omitempty"`
	Entries    int                   `json:"entries,omitempty"` // how many
	Needs      []segno.Hash          `json:"needs,omitempty"`
	Move       *segno.Move           `json:"move,omitempty"`
	Link       *segno.Link           `json:"link,omitempty"`
	Workspace  *segno.WorkspaceState `json:"workspace,omitempty"`
	Operation  *segno.Operation      `json:"operation,omitempty"`
	Pin        *segno.Pin            `json:"pin,omitempty"`
}

// checkpointRecord is a [segno.Checkpoint] without what the commit says already.
type checkpointRecord struct {
	segno.Checkpoint
	ID     *struct{} `json:"id,omitempty"`
	Thread *struct{} `json:"thread,omitempty"`
	Parent *struct{} `json:"parent,omitempty"`
	Seq    *struct{} `json:"seq,omitempty"`
}

// headRecord is a [segno.Head] without its thread and link.
type headRecord struct {
	Head  segno.CommitID `json:"head"`
	Tip   segno.CommitID `json:"tip"`
	Seq   int64          `json:"seq"`
	Turn  int            `json:"turn"`
	Epoch uint64         `json:"epoch,omitempty"`
	Phase segno.Phase    `json:"phase,omitempty"` // records of older versions have none
}

// entryRecord is a [segno.Entry]; its body is in Body or, if JSON would not give
// its bytes back, in Text.
type entryRecord struct {
	Kind    segno.EntryKind `json:"kind"`
	Turn    int             `json:"turn"`
	Session segno.SessionID `json:"session,omitempty"`
	Time    time.Time       `json:"time"`
	ID      string          `json:"id,omitempty"`
	Name    string          `json:"name,omitempty"`
	Text    string          `json:"text,omitempty"`
	Body    json.RawMessage `json:"body,omitempty"`
}

const (
	crcBegin   = `{"crc":"`
	crcEnd     = `",`
	crcHex     = 8
	bodyAt     = len(crcBegin) + crcHex + len(crcEnd) // where what the checksum covers begins
	briefBegin = `"brief":`
	entriesKey = `,"entries":`
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var errChecksum = errors.New("it does not match its checksum")

// encode returns the line of a record, its line break included.
func encode(r record, entries []segno.Entry) ([]byte, error) {
	brief, err := marshal(r)
	if err != nil {
		return nil, err
	}
	brief = brief[1 : len(brief)-1]
	size := bodyAt + len(briefBegin) + 20 + len(brief) + len(entriesKey) + 2
	for _, e := range entries {
		size += 256 + len(e.Body)
	}
	line := make([]byte, bodyAt, size)
	line = append(line, briefBegin...)
	line = strconv.AppendInt(line, int64(len(brief)), 10)
	line = append(line, ',')
	line = append(line, brief...)
	if len(entries) > 0 {
		line = append(line, entriesKey...)
		if line, err = appendEntries(line, entries); err != nil {
			return nil, err
		}
	}
	line = append(line, '}')
	copy(line, crcBegin)
	copy(line[len(crcBegin):], checksum(line[bodyAt:]))
	copy(line[len(crcBegin)+crcHex:], crcEnd)
	return append(line, '\n'), nil
}

// appendEntries appends a JSON array of entries. Their bodies are known to be JSON,
// and those that stay as they are need no second look.
func appendEntries(line []byte, entries []segno.Entry) ([]byte, error) {
	for i, e := range entries {
		r := entryRecord{Kind: e.Kind, Turn: e.Turn, Session: e.Session, Time: e.Time, ID: e.ID, Name: e.Name}
		body := e.Body
		if !isCompact(body) {
			r.Text, body = string(body), nil
		}
		data, err := marshal(r)
		if err != nil {
			return nil, err
		}
		separator := byte(',')
		if i == 0 {
			separator = '['
		}
		line = append(append(line, separator), data...)
		if len(body) > 0 {
			line = append(append(line[:len(line)-1], `,"body":`...), body...)
			line = append(line, '}')
		}
	}
	return append(line, ']'), nil
}

// isCompact reports whether JSON text has no space between its tokens and can
// stand in a log as it is.
func isCompact(text []byte) bool {
	inside := false // a string
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			inside = !inside
		case c == '\\':
			i++
		case c <= ' ' && (!inside || c < ' '):
			return false
		}
	}
	return utf8.Valid(text) && !bytes.Contains(text, []byte(mark))
}

func checksum(body []byte) string {
	sum := crc32.Checksum(body, castagnoli)
	return hex.EncodeToString([]byte{byte(sum >> 24), byte(sum >> 16), byte(sum >> 8), byte(sum)})
}

// marshal returns v as JSON, with every string escaped.
func marshal[T any](v T) ([]byte, error) {
	if !isPlain(reflect.ValueOf(v)) {
		v = clone(v, escape)
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

func (r entryRecord) entry() segno.Entry {
	e := segno.Entry{Kind: r.Kind, Turn: r.Turn, Session: r.Session, Time: r.Time, ID: r.ID, Name: r.Name, Body: r.Body}
	if r.Text != "" {
		e.Body = json.RawMessage(r.Text)
	}
	return e
}

// split checks a line, without its line break, and returns its two parts: the
// record's fields and its entries, which may be none.
func split(line []byte) (brief, entries []byte, err error) {
	if len(line) <= bodyAt || !bytes.HasPrefix(line, []byte(crcBegin)) || string(line[bodyAt-len(crcEnd):bodyAt]) != crcEnd {
		return nil, nil, errors.New("it is no record")
	}
	body := line[bodyAt:]
	if string(line[len(crcBegin):len(crcBegin)+crcHex]) != checksum(body) {
		return nil, nil, errChecksum
	}
	rest, ok := bytes.CutPrefix(body, []byte(briefBegin))
	digits, rest, comma := bytes.Cut(rest, []byte(","))
	n, err := strconv.Atoi(string(digits))
	if !ok || !comma || err != nil || n < 0 || n >= len(rest) || rest[len(rest)-1] != '}' {
		return nil, nil, errors.New("its parts do not add up")
	}
	brief, rest = rest[:n], rest[n:len(rest)-1]
	if len(rest) == 0 {
		return brief, nil, nil
	}
	entries, ok = bytes.CutPrefix(rest, []byte(entriesKey))
	if !ok {
		return nil, nil, errors.New("its parts do not add up")
	}
	return brief, entries, nil
}

// decode reads a line without its entries.
func decode(line []byte) (r record, err error) {
	brief, _, err := split(line)
	if err != nil {
		return r, err
	}
	whole := make([]byte, 0, len(brief)+2)
	whole = append(append(append(whole, '{'), brief...), '}')
	if err := json.Unmarshal(whole, &r); err != nil {
		return r, err
	}
	if bytes.Contains(whole, []byte(mark)) {
		r = clone(r, unescape)
	}
	r.CRC = string(line[len(crcBegin) : len(crcBegin)+crcHex])
	return r, r.check()
}

// check reports what no writer of this version writes.
func (r *record) check() error {
	kinds := 0
	for _, is := range []bool{r.Commit != nil, r.Lease != nil, r.Hidden, r.Workspace != nil} {
		if is {
			kinds++
		}
	}
	switch {
	case r.Format > version || kinds == 0 && r.Format == 0:
		return errNewer
	case kinds != 1, r.N < 0, (r.N == 0) != (r.Format != 0), r.Commit != nil && r.Head == nil:
		return fmt.Errorf("record %d is of no known kind", r.N)
	}
	return nil
}

// decodeEntries reads the entries of a line.
func decodeEntries(line []byte) ([]segno.Entry, error) {
	_, data, err := split(line)
	if err != nil || data == nil {
		return nil, err
	}
	var records []entryRecord
	if err := json.Unmarshal(data, &records); err != nil {
		return nil, err
	}
	if bytes.Contains(data, []byte(mark)) {
		records = clone(records, unescape)
	}
	out := make([]segno.Entry, len(records))
	for i, r := range records {
		out[i] = r.entry()
	}
	return out, nil
}
