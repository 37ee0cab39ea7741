package history

import (
	"cmp"
	"encoding/json"
	"fmt"

	"github.com/dalsegno/segno"
)

// CallTitle describes the input of a tool's call: its command or its path, else the input as text.
func CallTitle(input json.RawMessage) string {
	var fields struct {
		Command string `json:"command"`
		Path    string `json:"file_path"`
	}
	text := string(input)
	if json.Unmarshal(input, &text) != nil && json.Unmarshal(input, &fields) == nil {
		text = cmp.Or(fields.Command, fields.Path, text)
	}
	return text
}

// BodyText returns the body of an entry as text: the characters of a string, and any other value as
// JSON. If the body was too long to record, BodyText returns the recorded parts.
func BodyText(body json.RawMessage) string {
	var text string
	if json.Unmarshal(body, &text) == nil {
		return text
	}
	var c struct {
		Clipped *segno.Clipped `json:"clipped"`
	}
	if json.Unmarshal(body, &c) == nil && c.Clipped != nil {
		left := c.Clipped.Bytes - len(c.Clipped.Head) - len(c.Clipped.Tail)
		return fmt.Sprintf("%s\n… %d bytes were not recorded …\n%s", c.Clipped.Head, left, c.Clipped.Tail)
	}
	return string(body)
}
