package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/dalsegno/segno/internal/history/printable"
)

// The limits of a result, in bytes: the text, and the structured content.
const (
	maxResultText = 16 << 10
	maxResultJSON = 64 << 10
	maxCutsListed = 20
)

// answer returns a result: fields with their lists and texts cut until they fit, the field "cut" with what is missing, and the
// text of the result.
func answer(fields map[string]any, text string) (*mcp.CallToolResult, any, error) {
	structured, cuts, err := bounded(fields)
	if err != nil {
		return nil, nil, err
	}
	if text == "" {
		data, err := json.Marshal(structured)
		if err != nil {
			return nil, nil, err
		}
		text = string(data)
	}
	if len(cuts) > 0 {
		structured["cut"] = cuts
	}
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: cutText(text, maxResultText)}}}, structured, nil
}

// bounded converts a value to JSON, and cuts it to its limit.
func bounded(fields map[string]any) (structured map[string]any, cuts []string, err error) {
	data, err := json.Marshal(fields)
	if err != nil {
		return nil, nil, err
	}
	for _, at := range []cutter{{len(data), len(data), nil}, {16 << 10, 400, nil}, {4 << 10, 100, nil}, {1 << 10, 25, nil}, {200, 10, nil}, {50, 3, nil}} {
		d := json.NewDecoder(bytes.NewReader(data))
		d.UseNumber()
		structured = nil
		if err := d.Decode(&structured); err != nil {
			return nil, nil, err
		}
		structured = at.cut(structured, "").(map[string]any)
		short, err := json.Marshal(structured)
		if err != nil || len(short) <= maxResultJSON {
			return structured, at.cuts, err
		}
	}
	return map[string]any{}, []string{fmt.Sprintf("the result has %d bytes: ask for less", len(data))}, nil
}

// cutter cuts the texts and lists of a JSON value.
type cutter struct {
	text, list int // the longest text, in bytes, and the longest list
	cuts       []string
}

func (c *cutter) cut(v any, name string) any {
	switch v := v.(type) {
	case string:
		if short := cutText(v, c.text); len(v) > c.text {
			c.note("%s: the first %d of %d bytes", name, c.text, len(v))
			return short
		}
	case []any:
		if len(v) > c.list {
			c.note("%s: the first %d of %d", name, c.list, len(v))
			v = v[:c.list]
		}
		for i := range v {
			v[i] = c.cut(v[i], name)
		}
		return v
	case map[string]any:
		for key, x := range v {
			v[key] = c.cut(x, key)
		}
	}
	return v
}

func (c *cutter) note(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); len(c.cuts) < maxCutsListed && !slices.Contains(c.cuts, text) {
		c.cuts = append(c.cuts, text)
	}
}

// cutText returns the beginning of a text that is longer than n bytes, and a line about the rest.
func cutText(text string, n int) string {
	if len(text) <= n {
		return text
	}
	end := n
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + fmt.Sprintf("\n… cut: %s more", printable.Plural(len(text)-end, "byte"))
}
