package jsonscan

import "bytes"

// Compact returns data as encoding/json writes it for a [json.RawMessage]: without white space around tokens, and with <, >, &, U+2028
// and U+2029 as escapes. data must be valid, see [Valid]. Compact returns data itself if it is already in that form.
func Compact(data []byte) []byte {
	if end := indexSpace(data, 0); end < len(data) {
		out := make([]byte, 0, len(data))
		for start := 0; start < len(data); start = SkipSpace(data, end) {
			end = indexSpace(data, start)
			out = append(out, data[start:end]...)
		}
		data = out
	}
	if bytes.IndexByte(data, '<') >= 0 || bytes.IndexByte(data, '>') >= 0 || bytes.IndexByte(data, '&') >= 0 || hasSeparator(data) {
		return escapeHTML(data)
	}
	return data
}

// indexSpace returns the place of the first white space outside strings at or behind i, which is outside strings, or len(data).
func indexSpace(data []byte, i int) int {
	for i < len(data) {
		switch data[i] {
		case ' ', '\n', '\r', '\t':
			return i
		case '"':
			i, _ = skipString(data, i+1)
		default:
			i++
		}
	}
	return i
}

func hasSeparator(data []byte) bool {
	return bytes.Contains(data, []byte("\u2028")) || bytes.Contains(data, []byte("\u2029"))
}

// escapeHTML writes escapes for some characters. In valid JSON, these are inside strings.
func escapeHTML(data []byte) []byte {
	const hex = "0123456789abcdef"
	out, start := make([]byte, 0, len(data)+len(data)/4), 0
	for i, c := range data {
		switch {
		case c == '<' || c == '>' || c == '&':
			out = append(append(out, data[start:i]...), '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
			start = i + 1
		case c == 0xe2 && i+2 < len(data) && data[i+1] == 0x80 && data[i+2]&^1 == 0xa8:
			out = append(append(out, data[start:i]...), '\\', 'u', '2', '0', '2', hex[data[i+2]&15])
			start = i + 3
		}
	}
	return append(out, data[start:]...)
}
