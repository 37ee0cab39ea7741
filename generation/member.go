package generation

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/internal/worlds/supervise"
	"github.com/dalsegno/segno/timeline"
)

// member is one agent of an attempt.
type member struct {
	Place
	kind     Kind
	log      *os.File
	timeline *timeline.Timeline
	session  segno.SessionID
	saved    savedFiles
	// talks is set if the agent keeps a conversation. If it is not set, the session is never known.
	talks bool

	began tokens // tokens of the session when the attempt began

	mu    sync.Mutex
	turns int              // complete turns in the generation
	group *supervise.Group // the processes of the turn in progress, or nil
	now   tokens           // tokens after the newest turn
}

// openAgent creates those directories of an agent that the template or the checkpoint did not create.
func (a *attempt) openAgent(ctx context.Context, spec AgentSpec, manual string) (m *member, err error) {
	name := string(a.key) + "/" + a.id + "/" + spec.Name
	m = &member{Place: Place{AgentSpec: spec, Dir: a.agentDir(spec.Name), World: a.world.URL(), Manual: manual, FS: a.FS,
		Ticket: segno.DerivedID("world-session", name), Session: uuid.NewSHA1(uuid.NameSpaceURL, []byte(name)).String()}}
	m.Ticket = cmp.Or(a.tickets[spec.Name], m.Ticket)
	if m.kind, err = a.kind(spec.Kind); err != nil {
		return nil, err
	}
	if err := os.RemoveAll(m.Run()); err != nil {
		return nil, segno.NewError(segno.KindIO, "prepare agent", m.Run(), err)
	}
	for _, dir := range []string{m.Workspace(), m.Home(), m.Run()} {
		if err := vfs.MkdirAll(a.FS, dir); err != nil {
			return nil, segno.NewError(segno.KindIO, "prepare agent", dir, err)
		}
	}
	if spec.Home != "" {
		if err := copyTree(spec.Home, m.Home()); err != nil {
			return nil, segno.NewError(segno.KindIO, "prepare agent", m.Home(), err)
		}
	}
	if err := m.kind.Prepare(ctx, m.Place); err != nil {
		return nil, err
	}
	if m.log, err = os.OpenFile(filepath.Join(m.Dir, logFile), os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600); err != nil {
		return nil, segno.NewError(segno.KindIO, "prepare agent", m.Dir, err)
	}
	t, src, err := m.kind.Session(ctx, m.Place)
	if err != nil {
		return nil, err
	}
	m.session, m.talks, m.turns = src.Session, t != nil, max(a.turns[spec.Name], a.ticks)
	m.began = m.countTokens(ctx, t, src)
	m.now = m.began
	m.timeline, err = a.Open(ctx, m.Workspace())
	return m, err
}

// prompt returns the message of the next turn of an agent. An agent that has lost its conversation receives the
// first message again, but keeps its files.
func (a *attempt) prompt(m *member) string {
	switch {
	case m.turns == 0 && m.session == "", m.talks && m.session == "":
		return strings.ReplaceAll(cmp.Or(m.Prompt, a.Experiment.Prompt, defaultPrompt), "AGENT", m.Name)
	case a.isFinishing():
		return finishPrompt
	}
	return continuePrompt
}

// isFinishing reports whether a turn that begins now is one of the last in the generation.
func (a *attempt) isFinishing() bool {
	if a.Experiment.Ticks > 0 {
		return a.ticks == a.Experiment.Ticks-1
	}
	d := time.Duration(a.Experiment.Duration)
	return d-a.elapsed() <= min(d/10, 5*time.Minute)
}

// turn runs one turn of an agent.
func (a *attempt) turn(ctx context.Context, m *member) error {
	c := m.kind.Turn(m.Place, Turn{Prompt: a.prompt(m), Session: m.session})
	g, err := a.startTurn(ctx, m, c)
	if err != nil {
		return err
	}
	<-g.Gone
	m.mu.Lock()
	m.group = nil
	m.mu.Unlock()
	t, src, err := m.kind.Session(ctx, m.Place)
	now := m.countTokens(ctx, t, src)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now = now // a turn that failed has a cost, too
	if err := m.outcome(g); err != nil {
		return err
	}
	m.session = src.Session
	m.turns++
	return err
}

// startTurn starts a turn, unless the attempt is ending.
func (a *attempt) startTurn(ctx context.Context, m *member, c Command) (*supervise.Group, error) {
	if !a.gate.enter() {
		return nil, context.Canceled
	}
	defer a.gate.leave()
	m.mu.Lock()
	defer m.mu.Unlock()
	g, err := m.start(ctx, c, m.log, a.locked)
	m.group = g
	return g, err
}

// groups returns the processes of the turns in progress.
func (a *attempt) groups() (all []*supervise.Group) {
	for _, m := range a.agents {
		m.mu.Lock()
		if m.group != nil {
			all = append(all, m.group)
		}
		m.mu.Unlock()
	}
	return all
}
