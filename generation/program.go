package generation

import (
	"context"
	"iter"
	"os/exec"
	"strings"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/pack"
	"github.com/dalsegno/segno/internal/worlds/credential"
	"github.com/dalsegno/segno/transcript"
	"github.com/dalsegno/segno/transcript/claude"
	"github.com/dalsegno/segno/transcript/codex"
)

// The kinds of agents that are programs of others. They run without asking for permissions.
const (
	KindClaude = "claude" // Claude Code, one claude -p per turn
	KindCodex  = "codex"  // Codex, one codex exec per turn
)

// Programs returns the kinds of agents that are programs of other vendors. home is the user's home, whose logins the
// agents get. getenv reads the user's environment, from which they get the keys of their models.
func Programs(home string, getenv func(string) string) map[string]Kind {
	user := user{home: home, getenv: getenv}
	return map[string]Kind{KindClaude: claudeKind{user}, KindCodex: codexKind{user}}
}

// user is the user that runs the experiment.
type user struct {
	home   string
	getenv func(string) string
}

// prepare finds the program, and merges the login of the user into the home of the agent.
func (u user) prepare(ctx context.Context, p Place, program string) error {
	if _, err := exec.LookPath(program); err != nil {
		return segno.NewError(segno.KindInvalid, "prepare agent", p.Name, err).WithHint("install " + program + ", or choose another kind of agent")
	}
	_, err := credential.Merge(ctx, p.FS, program, p.Home(), credential.UserFile(program, u.home, u.getenv))
	return err
}

// variables returns those of the named variables that the user has set.
func (u user) variables(names ...string) (env []string) {
	for _, name := range names {
		if value := u.getenv(name); value != "" {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// claudeKind is Claude Code. The runner chooses the id of its session.
type claudeKind struct{ user }

func (k claudeKind) Prepare(ctx context.Context, p Place) error {
	return k.prepare(ctx, p, claude.Agent)
}

func (k claudeKind) Turn(p Place, t Turn) Command {
	args := []string{"claude", "-p", "--dangerously-skip-permissions"}
	if t.Session == "" {
		args = append(args, "--session-id", p.Session)
	} else {
		args = append(args, "--resume", string(t.Session))
	}
	if p.Model != "" {
		args = append(args, "--model", p.Model)
	}
	if p.System != "" {
		args = append(args, "--append-system-prompt", p.System)
	}
	variable, dir := pack.HomeVariable(claude.Agent, p.Home())
	env := k.variables("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "CLAUDE_CODE_OAUTH_TOKEN", "IS_SANDBOX")
	return Command{Args: append(args, "--", t.Prompt),
		Env: append(env, variable+"="+dir, "DISABLE_AUTOUPDATER=1")}
}

func (k claudeKind) Session(ctx context.Context, p Place) (segno.Transcript, segno.Source, error) {
	return newest(ctx, p, claudeSessions(p))
}

func claudeSessions(p Place) *claude.Transcripts {
	_, dir := pack.HomeVariable(claude.Agent, p.Home())
	return claude.New(dir, claude.Options{})
}

func codexSessions(p Place) *codex.Transcripts {
	_, dir := pack.HomeVariable(codex.Agent, p.Home())
	return codex.New(dir, codex.Options{})
}

// codexKind is Codex, which chooses the id of its session.
type codexKind struct{ user }

func (k codexKind) Prepare(ctx context.Context, p Place) error {
	return k.prepare(ctx, p, codex.Agent)
}

func (k codexKind) Turn(p Place, t Turn) Command {
	args := []string{"codex", "exec"}
	if t.Session != "" {
		args = append(args, "resume", string(t.Session))
	}
	args = append(args, "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox")
	if p.Model != "" {
		args = append(args, "--model", p.Model)
	}
	prompt := t.Prompt
	if t.Session == "" && p.System != "" {
		prompt = strings.TrimSpace(p.System) + "\n\n" + prompt
	}
	variable, dir := pack.HomeVariable(codex.Agent, p.Home())
	return Command{Args: append(args, "--", prompt), Env: append(k.variables("OPENAI_API_KEY", "CODEX_API_KEY"), variable+"="+dir)}
}

func (k codexKind) Session(ctx context.Context, p Place) (segno.Transcript, segno.Source, error) {
	return newest(ctx, p, codexSessions(p))
}

// sessions reads the sessions in the home of an agent.
type sessions interface {
	segno.Transcript
	Sessions(ctx context.Context) iter.Seq2[transcript.SessionFile, error]
}

// newest returns the session of an agent: the one that changed last of those that the readers find. If there is
// none, it returns the last reader.
func newest(ctx context.Context, p Place, readers ...sessions) (reader segno.Transcript, found segno.Source, err error) {
	var changed time.Time
	for _, t := range readers {
		if found.Session == "" {
			reader = t
		}
		for f, err := range t.Sessions(ctx) {
			if err != nil {
				if segno.KindOf(err) == segno.KindCancelled {
					return nil, segno.Source{}, err
				}
				continue // an agent can write anything there; the other sessions still count
			}
			if f.Modified.After(changed) {
				changed, reader, found = f.Modified, t, segno.Source{Session: f.Session, Path: f.Path, Dir: p.Workspace()}
			}
		}
	}
	return reader, found, nil
}
