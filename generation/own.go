package generation

import (
	"cmp"
	"context"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/transcript/filelog"
)

// The kinds of agents whose turns are commands of segno. Segno keeps their conversations in
// [Place.Conversation], unless they are in the home of the agent.
const (
	KindOffline = "offline" // segno's own agent; without a model it is a scripted player
	KindSegno   = "segno"   // the same
	KindACP     = "acp"     // a program that speaks the Agent Client Protocol
)

// Own returns the kinds of agents whose turns are commands of segno. A command gets the flags --conversation, --id,
// --prompt and --system. The command for segno's own agent also gets --model. The command for an agent that speaks the
// Agent Client Protocol also gets --session and, as arguments, the command of the agent.
func Own(getenv func(string) string, turn, acp []string) map[string]Kind {
	u := user{getenv: getenv}
	own := ownKind{u, turn}
	return map[string]Kind{KindOffline: own, KindSegno: own, KindACP: acpKind{acp}}
}

// ownKind is segno's own agent.
type ownKind struct {
	user
	command []string
}

// Prepare implements [Kind].
func (ownKind) Prepare(context.Context, Place) error { return nil }

// Turn implements [Kind].
func (k ownKind) Turn(p Place, t Turn) Command {
	args := append(ownFlags(k.command, p, t, cmp.Or(string(t.Session), p.Session)), "--model="+p.Model)
	return Command{Args: args, Env: k.variables("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "OPENAI_API_KEY", "OPENAI_BASE_URL")}
}

// Session implements [Kind].
func (ownKind) Session(ctx context.Context, p Place) (segno.Transcript, segno.Source, error) {
	return newest(ctx, p, filelog.New(p.Conversation(), nil))
}

// acpKind is a program that speaks the Agent Client Protocol.
type acpKind struct{ command []string }

// Prepare implements [Kind].
func (acpKind) Prepare(context.Context, Place) error { return nil }

// Turn implements [Kind]. The session is the one in the record of the conversation, or a session without a
// record that was loaded from a checkpoint into the home of the agent.
func (k acpKind) Turn(p Place, t Turn) Command {
	id := p.Session
	if filelog.New(p.Conversation(), nil).Has(t.Session) {
		id = string(t.Session)
	}
	args := append(ownFlags(k.command, p, t, id), "--session="+string(t.Session), "--")
	return Command{Args: append(args, p.Command...)}
}

// Session implements [Kind]. If the program is Claude Code or Codex, the conversation is in its home.
func (acpKind) Session(ctx context.Context, p Place) (segno.Transcript, segno.Source, error) {
	reader, found, err := newest(ctx, p, claudeSessions(p), codexSessions(p))
	if err != nil || found.Session != "" {
		return reader, found, err
	}
	return newest(ctx, p, filelog.New(p.Conversation(), nil))
}

// ownFlags returns a command with the flags that all turns have.
func ownFlags(command []string, p Place, t Turn, id string) []string {
	return append(append([]string{}, command...), "--conversation="+p.Conversation(), "--id="+id, "--prompt="+t.Prompt, "--system="+p.System)
}
