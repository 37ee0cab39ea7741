package generation

import (
	"context"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/transcript"
)

// tokens are the tokens of an agent's session at one moment.
type tokens struct {
	session segno.SessionID
	sum     *transcript.Tokens // nil if unknown
}

// countTokens counts the tokens of an agent's session. The number is unknown if the agent has no session that records
// tokens. countTokens returns no error, because a generation does not depend on the number.
func (m *member) countTokens(ctx context.Context, t segno.Transcript, src segno.Source) tokens {
	now := tokens{session: src.Session}
	counter, can := t.(transcript.TokenCounter)
	switch {
	case !can, m.IsOffline(): // a scripted player has no model
	case src.Session == "":
		now.sum = &transcript.Tokens{}
	default:
		now.sum, _ = counter.Tokens(ctx, src)
	}
	return now
}

// tokens returns the tokens that the agent used in this attempt. They are unknown if the agent changed to another
// session.
func (m *member) tokens() (in, out *int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.now.sum == nil || m.began.sum == nil || m.began.session != "" && m.began.session != m.now.session {
		return nil, nil
	}
	more := m.now.sum.Sub(*m.began.sum)
	if more.Input < 0 || more.Output < 0 { // the agent removed a part of its session
		return nil, nil
	}
	return &more.Input, &more.Output
}
