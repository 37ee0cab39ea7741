package chat

import (
	"context"

	"github.com/dalsegno/segno"
)

// Decide records the answer to a question of a session and runs nothing. The next run of the session
// acts on it. c needs no model. See [agent.Agent.Decide] for the errors.
func Decide(ctx context.Context, c Config, d segno.Decision) error {
	chat, err := Open(ctx, c)
	if err != nil {
		return err
	}
	defer chat.Close()
	return chat.agent.Decide(ctx, chat.Session, d)
}
