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

// maxFiles is the number of files of a call above which a hook does not look at them, because the agent waits for it.
const maxFiles = 64

// intent is the part of a tool call's beginning that an entry keeps. If the tool writes only the files that its input
// names, that includes when each of them changed last. Once the tool has written a file, nothing else shows a change that
// the user made before.
func (p Payload) intent() json.RawMessage {
	input := clipInput(p.ToolName, p.ToolInput)
	files := agents.Tool(p.ToolName).Files(p.ToolInput)
	if len(files) == 0 || len(files) > maxFiles {
		return input
	}
	changed := make([]*time.Time, len(files))
	for i, file := range files {
		if !filepath.IsAbs(file) {
			file = filepath.Join(p.Cwd, file)
		}
		var st unix.Stat_t
		switch err := unix.Stat(file, &st); err {
		case nil:
			changed[i] = new(time.Unix(st.Ctim.Unix()).UTC())
		case unix.ENOENT:
			changed[i] = new(time.Time)
		}
	}
	return turns.WithChanged(input, changed)
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
