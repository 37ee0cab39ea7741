package event

import (
	"bufio"
	"encoding/json"
	"io"
	"path/filepath"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
)

// OfParent converts an event of a subagent of Codex to an event of the session that started the
// subagent. The agent id becomes the session of the subagent. The prompt id is removed, because
// Codex does not report the prompt of the parent's turn. OfParent returns any other event
// unchanged.
//
// Codex 0.169 reports the parent's session itself. Older versions report the subagent's session. In
// both, the transcript is that of the subagent, and its first line names the parent.
func (p Payload) OfParent() Payload {
	if p.Session == "" || filepath.Ext(p.Transcript) != ".jsonl" {
		return p
	}
	parent := p
	if parent.Session = parentSession(p.Transcript); parent.Session == "" || parent.Check() != nil {
		return p
	}
	parent.PromptID = ""
	if p.AgentID == "" {
		parent.AgentID = string(p.Session)
	} else {
		parent.Session = p.Session // the parent may be a subagent itself
	}
	return parent
}

// parentSession returns the session that started a subagent of Codex with this transcript, or "".
// The path is untrusted: parentSession opens only a regular file, and reads only its first line.
func parentSession(transcript string) segno.SessionID {
	f, err := vfs.OpenRegular(transcript)
	if err != nil {
		return ""
	}
	defer f.Close()
	const most = 1 << 20 // the line has the instructions of the agent, about 20 kB
	line, err := bufio.NewReader(io.LimitReader(f, most)).ReadBytes('\n')
	if err != nil {
		return ""
	}
	var first struct {
		Payload struct {
			Source json.RawMessage `json:"source"` // a text for a session of a user
		} `json:"payload"`
	}
	var source struct {
		Subagent struct {
			Spawn struct {
				Parent segno.SessionID `json:"parent_thread_id"`
			} `json:"thread_spawn"`
		} `json:"subagent"`
	}
	if json.Unmarshal(line, &first) != nil || json.Unmarshal(first.Payload.Source, &source) != nil {
		return ""
	}
	return source.Subagent.Spawn.Parent
}
