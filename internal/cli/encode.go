package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"unicode/utf16"
	"unicode/utf8"
)

// encoder writes JSON a terminal can show: characters that could drive one are
// escaped, so that the document stays the same.
func encoder(w io.Writer) *json.Encoder {
	e := json.NewEncoder(escapingWriter{w})
	e.SetEscapeHTML(false)
	return e
}

// escapingWriter escapes within the strings of JSON documents, each of which is one write.
type escapingWriter struct{ io.Writer }

func (h escapingWriter) Write(p []byte) (int, error) {
	out := make([]byte, 0, len(p))
	for rest := p; len(rest) > 0; {
		r, n := utf8.DecodeRune(rest)
		switch {
		case r == '\n' || !unsafe(r) && (r != utf8.RuneError || n > 1):
			out = append(out, rest[:n]...)
		case r > 0xffff:
			hi, lo := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, hi, lo)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
		rest = rest[n:]
	}
	if _, err := h.Writer.Write(out); err != nil {
		return 0, err
	}
	return len(p), nil
}
