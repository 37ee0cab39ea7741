package generation

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/internal/worlds/supervise"
)

// Kind is a kind of agent. It knows the command of one turn and the place of the agent's session.
type Kind interface {
	// Prepare fills the home of an agent before its first turn in a run. The home is new or was loaded.
	Prepare(ctx context.Context, p Place) error
	// Turn returns the command of one turn, which ends when the agent is idle.
	Turn(p Place, t Turn) Command
	// Session returns the reader of the sessions in the home of an agent, and the agent's session.
	// The reader is nil if the agent keeps none; the session is empty before the first turn.
	Session(ctx context.Context, p Place) (segno.Transcript, segno.Source, error)
}

// Place contains the directories and addresses of one agent. Its directories exist.
type Place struct {
	AgentSpec
	Dir     string // contains the other directories
	Session string // the id for a new conversation, if the agent lets the runner choose: a UUID
	World   string // the address of the world's API
	Ticket  string // the agent's session in the world
	Manual  string // the manual of the world
	FS      vfs.FS // for writes to its directories
}

// Workspace is the working directory of the agent.
func (p Place) Workspace() string { return filepath.Join(p.Dir, "workspace") }

// Home is the home directory of the agent.
func (p Place) Home() string { return filepath.Join(p.Dir, "home") }

// Run is for temporary files. It is empty whenever a run starts.
func (p Place) Run() string { return filepath.Join(p.Dir, "run") }

// conversationDir is beside the home of an agent, because the home contains no file of segno.
const conversationDir = "conversation"

// Conversation is where segno keeps the conversation of an agent that does not keep it in its home.
func (p Place) Conversation() string { return filepath.Join(p.Dir, conversationDir) }

// Turn is one prompt to an agent.
type Turn struct {
	Prompt  string
	Session segno.SessionID // the session to continue, or "" for a new one
}

// Command is a program that runs one turn.
type Command struct {
	Args []string
	Env  []string // beside the variables that all agents get
}

// environment returns the variables of an agent's process.
func (p Place) environment(c Command) []string {
	env := []string{"HOME=" + p.Home(), "TMPDIR=" + p.Run(), "PWD=" + p.Workspace(), "WORLD_URL=" + p.World, p.mark()}
	for _, name := range append([]string{"PATH", "LANG", "LC_ALL", "TZ", "TERM"}, p.Env...) {
		if value, has := os.LookupEnv(name); has {
			env = append(env, name+"="+value)
		}
	}
	return append(env, c.Env...)
}

// mark is a variable that only the processes of this agent have.
func (p Place) mark() string { return "WORLD_SESSION=" + p.Ticket }

// start starts one turn. hold stays open until it has ended.
func (p Place) start(ctx context.Context, c Command, log io.Writer, hold *os.File) (*supervise.Group, error) {
	g, err := supervise.Start(ctx, c.Args, supervise.Options{Dir: p.Workspace(), Env: p.environment(c), Output: log, Hold: hold})
	if err != nil {
		return nil, segno.NewError(segno.KindIO, "start agent", p.Name, err)
	}
	return g, nil
}

// outcome returns the error of a turn that ended.
func (p Place) outcome(g *supervise.Group) error {
	if state := g.State(); !state.Success() {
		return segno.Errorf(segno.KindIO, "run agent", p.Name, "its turn ended with %s", state).
			WithHint("see " + filepath.Join(p.Dir, logFile))
	}
	return nil
}

// logFile contains the output of an agent.
const logFile = "agent.log"

// defaultPrompt is the first message to an agent if the experiment has none.
const defaultPrompt = `You are AGENT, and you live in a world together with others. Read its manual with
  curl -s $WORLD_URL/api.md
and act over that API with the header "X-Session: $WORLD_SESSION". You have joined it already. Time moves when everyone
has acted: act once, then end your turn. Files in your working directory are your memory.`

// continuePrompt is the message to an idle agent. A resumed agent receives the same message, so that it
// cannot tell that it was resumed.
const continuePrompt = "Continue: observe the world, act once, and end your turn. Keep what you learn in files of your working directory."

// finishPrompt is the message of the last turn of a generation.
const finishPrompt = continuePrompt + " Your time here is about to end: write down what those after you should know."

// kind returns the kind of agents with a name.
func (c *Config) kind(name string) (Kind, error) {
	if k := c.Kinds[name]; k != nil {
		return k, nil
	}
	return nil, segno.NewError(segno.KindInvalid, "find kind of agent", name, fmt.Errorf("unknown kind")).WithHint("use " + strings.Join(slices.Sorted(maps.Keys(c.Kinds)), ", "))
}
