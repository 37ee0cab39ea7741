package tui

import (
	"context"
	"strings"
	"time"

	"charm.land/bubbles/v2/textarea"
	tea "charm.land/bubbletea/v2"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/internal/chat"
)

// state says what the terminal waits for.
type state int

const (
	busy    state = iota // for a command, or for where the session stands
	idle                 // for a prompt
	running              // for a run
	asking               // for what to do with a call
	editing              // for a call's new arguments, a reason, or an answer
)

// model is the screen. Only the program's own loop touches it.
type model struct {
	ctx   context.Context
	chat  Chat
	name  string
	print func(string) tea.Cmd
	after func(time.Duration, tea.Cmd) tea.Cmd // does it after a while
	style styles

	width, height int
	state         state
	standing      chat.Status
	input         textarea.Model
	draft         string // a line that was put away
	sent          string // the prompt of the run, until it is recorded
	past          past
	question      question
	stream        *stream
	saying        strings.Builder // text under way
	calls         []agent.Call    // calls under way
	notice        string
	heard         map[int64]bool // the run's durable events, by number
	armed         bool           // ctrl+c was pressed
	ran           bool           // a run has just ended
	failed        error

	lines    []string // to be printed above
	printing bool
	quitting bool
}

func newModel(ctx context.Context, o Options) *model {
	m := &model{ctx: ctx, chat: o.Chat, name: o.Model, print: func(s string) tea.Cmd { return tea.Println(s) }, style: stylesOf(o.Colour), width: 80, height: 24, heard: map[int64]bool{}}
	m.after = func(d time.Duration, cmd tea.Cmd) tea.Cmd {
		return tea.Tick(d, func(time.Time) tea.Msg { return cmd() })
	}
	m.input = m.area("a prompt, or /help")
	m.question.area = m.area("")
	m.resize()
	return m
}

// area is an empty text area without looks of its own.
func (m *model) area(placeholder string) textarea.Model {
	t := textarea.New()
	t.Placeholder, t.Prompt, t.ShowLineNumbers, t.EndOfBufferCharacter = placeholder, "", false, ' '
	t.CharLimit, t.DynamicHeight, t.MinHeight, t.MaxHeight, t.MaxContentHeight = 0, true, 1, 8, 1<<20
	t.SetVirtualCursor(false)
	t.SetStyles(textarea.Styles{Focused: textarea.StyleState{Placeholder: m.style.dim}})
	t.KeyMap.InsertNewline.SetEnabled(false)
	t.Focus()
	return t
}

// What comes back from the chat.
type (
	stood struct { // where the session stands
		standing chat.Status
		err      error
		show     []agent.Message // of a session to show
		missed   []agent.Event   // that a run recorded and did not tell
		greet    bool
	}
	replied struct {
		reply chat.Reply
		err   error
	}
	printed struct{}
)

func (m *model) Init() tea.Cmd { return m.look(true, true) }

// look asks where the session stands, and what was said in it.
func (m *model) look(greet, show bool) tea.Cmd {
	m.state = busy
	return func() tea.Msg {
		s := stood{greet: greet}
		if s.standing, s.err = m.chat.Status(m.ctx); s.err == nil && show {
			s.show, s.err = m.chat.Messages(m.ctx)
		}
		return s
	}
}

func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	var cmd tea.Cmd
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
		m.resize()
	case tea.KeyPressMsg:
		cmd = m.key(msg)
	case tea.PasteMsg:
		cmd = m.enter(msg)
	case stood:
		m.stand(msg)
	case replied:
		cmd = m.reply(msg)
	case told:
		cmd = m.hear(msg)
	case printed:
		m.printing = false
	case readied:
		m.question.ready = m.question.ready || string(msg) == m.question.about.ID && m.question.timed
	}
	return m, tea.Batch(cmd, m.flush(), m.arm())
}

// settled asks where a run has left the session, and for what it could not tell any
// more: nobody listens to one that was stopped.
func (m *model) settled() tea.Cmd {
	m.state, m.ran = busy, true
	since := m.standing.Seq
	return func() tea.Msg {
		var s stood
		if s.standing, s.err = m.chat.Status(m.ctx); s.err != nil || s.standing.New {
			return s
		}
		for e, err := range m.chat.Events(m.ctx, since) {
			if err != nil {
				s.err = err
				break
			}
			s.missed = append(s.missed, e)
		}
		return s
	}
}

// flush prints what is to be printed, in order, and leaves once all of it is.
func (m *model) flush() tea.Cmd {
	switch {
	case m.printing:
		return nil
	case len(m.lines) > 0:
		n := min(len(m.lines), max(1, m.height/2)) // what is more than a screen would push this one away
		text := strings.Join(m.lines[:n], "\n")
		m.lines, m.printing = m.lines[n:], true
		return tea.Sequence(m.print(text), func() tea.Msg { return printed{} })
	case m.quitting && m.state != running:
		return tea.Quit
	}
	return nil
}

// say prints text above, wrapped.
func (m *model) say(prefix, text string) {
	m.lines = append(m.lines, wrap(strings.TrimRight(clean(text), "\n"), prefix, m.width)...)
}

func (m *model) complain(err error) {
	m.say("✗ ", err.Error())
	if hint := segno.HintOf(err); hint != "" {
		m.say("  ", hint)
	}
}

// stand takes in where the session stands, and asks what it waits for.
func (m *model) stand(s stood) {
	if s.err != nil {
		m.complain(s.err)
		m.unsent()
		m.back()
		if m.state = idle; s.greet {
			m.failed, m.quitting = s.err, true
		}
		return
	}
	m.standing = s.standing
	if s.greet {
		m.say("", s.standing.Greeting())
	}
	if m.recall(s.show); s.show != nil {
		m.question.told = "" // it stands above in another conversation, if at all
	}
	for _, e := range s.missed {
		if !m.heard[e.Seq] {
			m.event(e)
		}
	}
	if m.ran {
		m.lines, m.ran = append(m.lines, ""), false
	}
	m.unsent()
	switch {
	case s.standing.Running:
		m.say("", "another run is at work in this session")
	case s.standing.Broken:
		m.say("", "the last turn was broken off; /continue goes on with it")
	}
	if m.state = idle; len(m.standing.Interrupts) > 0 {
		m.ask()
	} else {
		m.back()
	}
	m.refuse()
}

// unsent keeps a prompt that was not recorded, to be sent again.
func (m *model) unsent() {
	if m.sent != "" && m.draft == "" {
		m.draft = m.sent
	}
	m.sent = ""
}

func (m *model) reply(r replied) tea.Cmd {
	if r.err != nil {
		m.complain(r.err)
		return m.look(false, false)
	}
	if r.reply.Text != "" {
		m.say("", r.reply.Text)
	}
	switch {
	case r.reply.Quit:
		m.quitting, m.state = true, idle
		return nil
	case r.reply.Continue:
		return m.run(agent.Input{Prompt: r.reply.Prompt})
	}
	return m.look(false, r.reply.Switched)
}

// run starts a run.
func (m *model) run(in agent.Input) tea.Cmd {
	m.state, m.stream, m.armed, m.notice, m.heard = running, begin(m.ctx, m.chat, in, m.standing), false, "", map[int64]bool{}
	m.question.edited, m.sent = "", in.Prompt
	return m.stream.next
}

func (m *model) resize() {
	m.input.SetWidth(max(10, m.width-2))
	m.question.area.MaxHeight = max(1, m.height-8)
	m.question.area.SetWidth(max(10, m.width-2))
}
