package event

import (
	"encoding/json"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/agenttool"
	"github.com/dalsegno/segno/internal/history/turns"
)

// maxPath is the length limit of a path in an event and in a clipped input.
const maxPath = 4096

// clipInput shortens a tool's input like [segno.Clip], but keeps the members that name the
// file.
func clipInput(raw json.RawMessage) json.RawMessage {
	clipped := segno.Clip(raw)
	if len(clipped) == len(raw) {
		return clipped
	}
	var in, out map[string]json.RawMessage
	if json.Unmarshal(raw, &in) != nil || json.Unmarshal(clipped, &out) != nil {
		return clipped
	}
	if headers := agenttool.PatchHeaders(turns.CommandText(in["command"])); headers != nil {
		out["command"], _ = json.Marshal(agenttool.PatchBegin + strings.Join(headers, "")) // a string always encodes
	}
	for _, name := range []string{"file_path", "filePath", "notebook_path", "path"} {
		if v := in[name]; len(v) > 0 && len(v) <= maxPath && v[0] == '"' {
			out[name] = v
		}
	}
	data, err := json.Marshal(out)
	if err != nil {
		return clipped
	}
	return data
}
