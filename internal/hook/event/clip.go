package event

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agents"
	"github.com/dalsegno/segno/agents/profile"
	"github.com/dalsegno/segno/internal/history/turns"
)

// maxPath is the length limit of a path in an event and in a clipped input.
const maxPath = 4096

// intent is the part of a tool call's beginning that an entry keeps. If the tool writes exactly one file, that includes
// when the file changed last. Once the tool has written it, nothing else shows a change that the user made before.
func (p Payload) intent() json.RawMessage {
	input := clipInput(p.ToolName, p.ToolInput)
	files := agents.Tool(p.ToolName).Files(p.ToolInput)
	if len(files) != 1 {
		return input
	}
	file := files[0]
	if !filepath.IsAbs(file) {
		file = filepath.Join(p.Cwd, file)
	}
	var st unix.Stat_t
	switch err := unix.Stat(file, &st); err {
	case nil:
		return turns.WithChanged(input, time.Unix(st.Ctim.Unix()))
	case unix.ENOENT:
		return turns.WithChanged(input, time.Time{})
	}
	return input
}

// clipInput shortens the input of a tool like [segno.Clip], but keeps the members that name its files.
func clipInput(tool string, raw json.RawMessage) json.RawMessage {
	clipped := segno.Clip(raw)
	if len(clipped) == len(raw) {
		return clipped
	}
	var in, out map[string]json.RawMessage
	if json.Unmarshal(raw, &in) != nil || json.Unmarshal(clipped, &out) != nil {
		return clipped
	}
	for _, name := range slices.Concat(agents.Tool(tool).Subject, turns.FileFields()) {
		v := in[name]
		if len(v) > 0 && len(v) <= maxPath && v[0] == '"' {
			out[name] = v
		} else if headers := profile.PatchHeaders(profile.Text(v)); headers != nil {
			out[name], _ = json.Marshal(profile.PatchBegin + strings.Join(headers, "")) // a string always encodes
		}
	}
	data, err := json.Marshal(out)
	if err != nil {
		return clipped
	}
	return data
}
