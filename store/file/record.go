package file

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"unicode/utf8"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/store/internal/threadlog"
)

// version is the version of the format that the package comment describes.
const version = 1

// entryRecord is a [segno.Entry]. Text holds a body that cannot be part of a line.
type entryRecord struct {
	segno.Entry
	Text string `json:"text,omitempty"`
}

const (
	crcBegin   = `{"crc":"`
	crcEnd     = `",`
	bodyAt     = len(crcBegin) + 8 + len(crcEnd) // the offset of the bytes that the checksum covers
	entriesKey = `,"entries":`
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(data []byte) string { return fmt.Sprintf("%08x", crc32.Checksum(data, castagnoli)) }

// seal returns the fields of a JSON object as a line with a checksum.
func seal(fields []byte) []byte {
	return slices.Concat([]byte(crcBegin), []byte(checksum(fields[1:])), []byte(crcEnd), fields[1:], []byte("\n"))
}

// unseal checks a line. It returns the line's fields except for the entries, as a JSON object, and
// the entries, which may be nil.
func unseal(line []byte) (fields, entries []byte, err error) {
	if len(line) < bodyAt+2 || line[len(line)-1] != '\n' || string(line[:len(crcBegin)]) != crcBegin {
		return nil, nil, errors.New("it is not a record")
	}
	body := line[bodyAt : len(line)-1]
	if string(line[len(crcBegin):bodyAt]) != checksum(body)+crcEnd {
		return nil, nil, errors.New("checksum mismatch")
	}
	body = body[:len(body)-1]
	// The key marks the end of the fields. It cannot be part of a string, whose quotes are escaped,
	// and only the entries, which come last, contain JSON of callers.
	if i := bytes.Index(body, []byte(entriesKey+"[")); i >= 0 {
		body, entries = body[:i], body[i+len(entriesKey):]
	}
	return slices.Concat([]byte("{"), body, []byte("}")), entries, nil
}

// encode returns the line of a record. The entries come last.
func encode(r *threadlog.Record, entries []segno.Entry) ([]byte, error) {
	all := make([]entryRecord, len(entries))
	for i, e := range entries {
		if all[i] = (entryRecord{Entry: e}); !canEmbed(e.Body) {
			all[i].Body, all[i].Text = nil, string(e.Body)
		}
	}
	fields, err := marshal(struct {
		*threadlog.Record
		Entries []entryRecord `json:"entries,omitempty"`
	}{r, all})
	if err != nil {
		return nil, err
	}
	return seal(fields), nil
}

// maxDepth is the greatest depth of a body inside a line. Go's decoder, which reads the whole line, allows 10,000.
const maxDepth = 1000

// canEmbed reports whether JSON can be part of a line: encoding does not change its bytes, because it has no white space
// between its tokens, and the line can be decoded, because it is not nested too deeply.
func canEmbed(body []byte) bool {
	inString, depth := false, 0
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case c == '"':
			inString = !inString
		case c == '\\':
			i++
		case inString:
		case c <= ' ':
			return false
		case c == '[' || c == '{':
			if depth++; depth > maxDepth {
				return false
			}
		case c == ']' || c == '}':
			depth--
		}
	}
	return utf8.Valid(body)
}

// marshal returns v as JSON. It escapes strings if JSON would lose bytes of them: that is, if the
// encoder writes \ufffd or a string contains the mark of an escape.
func marshal[T any](v T) ([]byte, error) {
	data, err := segno.Encode(v)
	if bytes.Contains(data, []byte(`\ufffd`)) || bytes.Contains(data, []byte(mark)) {
		data, err = segno.Encode(threadlog.CloneText(v, escape))
	}
	return data, err
}

func unmarshal[T any](data []byte) (v T, err error) {
	err = json.Unmarshal(data, &v)
	if bytes.Contains(data, []byte(mark)) {
		v = threadlog.CloneText(v, unescape)
	}
	return v, err
}

// decode decodes a line without its entries.
func decode(line []byte) (*threadlog.Record, error) {
	fields, _, err := unseal(line)
	if err != nil {
		return nil, err
	}
	r, err := unmarshal[threadlog.Record](fields)
	if err != nil {
		return nil, err
	}
	switch {
	case r.Format > version || r.Commit == nil && r.Lease == nil && !r.Hidden && r.Workspace == nil:
		return nil, errNewer
	case r.Commit != nil && r.Head == nil:
		return nil, errors.New("its head is missing")
	}
	return &r, nil
}

func decodeEntries(line []byte) ([]segno.Entry, error) {
	_, list, err := unseal(line)
	if err != nil || list == nil {
		return nil, err
	}
	all, err := unmarshal[[]entryRecord](list)
	entries := make([]segno.Entry, len(all))
	for i, r := range all {
		entries[i] = r.Entry
		if r.Text != "" {
			entries[i].Body = json.RawMessage(r.Text)
		}
	}
	return entries, err
}
