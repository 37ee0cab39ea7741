package chat

import (
	"context"

	"github.com/dalsegno/segno"
)

// Decide records the answer to a question of a session without a run. The next run of the session
// acts on the answer. c needs no model. See [agent.Agent.Decide] for the errors.
func Decide(ctx context.Context, c Config, d segno.Decision) error {
	chat, err := Open(ctx, c)
	if err != nil {
		return err
	}
	defer chat.Close()
	return chat.agent.Decide(ctx, chat.Session, d)
}

// Command returns the command that continues a session. store is the directory of the store, or "" for the default.
func Command(store string, session segno.ThreadID, args ...string) []string {
	run := []string{"segno"}
	if store != "" {
		run = append(run, "--store", store)
	}
	return append(append(run, "chat", "--session", string(session)), args...)
}
