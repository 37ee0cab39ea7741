package turns

import (
	"encoding/json"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/transcript"
)

// addUsage adds what the calls of models used: the entry of a Go agent, or the note in which the proxy keeps what an agent
// reported over ACP at the end of its turn.
func (t *Turn) addUsage(e *segno.Entry) {
	u := transcript.Usage{Model: e.Name, Calls: 1}
	switch {
	case e.Kind == segno.EntryUsage:
		if json.Unmarshal(e.Body, &u.Tokens) != nil {
			return
		}
	case e.Kind == segno.EntryNote && e.Name == "end":
		var end struct {
			Usage *acpUsage `json:"usage"`
		}
		if json.Unmarshal(e.Body, &end) != nil || end.Usage == nil {
			return
		}
		u.Model, u.Tokens = "", end.Usage.tokens()
	}
	if u.Input != 0 || u.Output != 0 { // otherwise the model reported none
		t.Usage = append(t.Usage, u)
	}
}

// acpUsage is the usage in the answer to a prompt over ACP.
type acpUsage struct {
	Input      int64  `json:"inputTokens"`
	Output     int64  `json:"outputTokens"`
	Thought    *int64 `json:"thoughtTokens"`
	CacheRead  *int64 `json:"cachedReadTokens"`
	CacheWrite *int64 `json:"cachedWriteTokens"`
	Total      int64  `json:"totalTokens"`
}

// tokens returns the tokens. Agents differ in whether the input contains the cached tokens, and the output the thoughts. If
// the total is the sum of all numbers, they do not.
func (a *acpUsage) tokens() transcript.Tokens {
	t := transcript.Tokens{Input: a.Input, Output: a.Output, CacheRead: a.CacheRead, CacheWrite: a.CacheWrite, Reasoning: a.Thought}
	in, out := a.Input+transcript.Known(a.CacheRead)+transcript.Known(a.CacheWrite), a.Output+transcript.Known(a.Thought)
	if in+out == a.Total {
		t.Input, t.Output = in, out
	}
	return t
}
