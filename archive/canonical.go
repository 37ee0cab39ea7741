package archive

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// canonical writes v as JSON in the form of RFC 8785: no white space, keys in the order of
// their UTF-16 code units, and the shortest escapes. Two documents with the same content are
// the same bytes.
func canonical(v any) ([]byte, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var plain any
	if err := d.Decode(&plain); err != nil {
		return nil, err
	}
	return appendCanonical(nil, plain)
}

func appendCanonical(b []byte, v any) ([]byte, error) {
	switch v := v.(type) {
	case nil:
		return append(b, "null"...), nil
	case bool:
		if v {
			return append(b, "true"...), nil
		}
		return append(b, "false"...), nil
	case json.Number:
		return appendNumber(b, v)
	case string:
		return appendString(b, v)
	case []any:
		b = append(b, '[')
		for i, e := range v {
			if i > 0 {
				b = append(b, ',')
			}
			var err error
			if b, err = appendCanonical(b, e); err != nil {
				return nil, err
			}
		}
		return append(b, ']'), nil
	case map[string]any:
		return appendObject(b, v)
	}
	return nil, fmt.Errorf("cannot write %T as JSON", v)
}

func appendObject(b []byte, v map[string]any) ([]byte, error) {
	keys := make([]string, 0, len(v))
	for k := range v {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(x, y string) int {
		return slices.Compare(utf16.Encode([]rune(x)), utf16.Encode([]rune(y)))
	})
	b = append(b, '{')
	for i, k := range keys {
		if i > 0 {
			b = append(b, ',')
		}
		var err error
		if b, err = appendString(b, k); err != nil {
			return nil, err
		}
		b = append(b, ':')
		if b, err = appendCanonical(b, v[k]); err != nil {
			return nil, err
		}
	}
	return append(b, '}'), nil
}

// appendNumber writes a number as ECMAScript does, which is the form of encoding/json for a
// float64. Whole numbers beyond 2^53 would lose digits in other readers and are refused.
func appendNumber(b []byte, n json.Number) ([]byte, error) {
	f, err := n.Float64()
	if err != nil {
		return nil, fmt.Errorf("number %s has no exact form", n)
	}
	if f > 1<<53 || f < -(1<<53) {
		return nil, fmt.Errorf("number %s has no exact form", n)
	}
	text, err := json.Marshal(f)
	return append(b, text...), err
}

func appendString(b []byte, s string) ([]byte, error) {
	if !utf8.ValidString(s) {
		return nil, errors.New("a string is not UTF-8")
	}
	b = append(b, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c >= ' ':
			b = append(b, c)
		case strings.IndexByte("\b\t\n\f\r", c) >= 0:
			b = append(b, '\\', "btn_fr"[c-'\b'])
		default:
			b = fmt.Appendf(b, `\u%04x`, c)
		}
	}
	return append(b, '"'), nil
}

// parseCanonical reads into v the JSON that canonical writes for it, and nothing else: an
// unknown or repeated key, other white space or a second document is an error.
func parseCanonical(data []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is more behind the document")
	}
	again, err := canonical(v)
	if err != nil {
		return err
	}
	if !bytes.Equal(again, data) {
		return errors.New("the document is not in canonical form")
	}
	return nil
}
