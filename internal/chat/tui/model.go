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
	"github.com/dalsegno/segno/internal/history/printable"
)

// state is the input or the result for which the screen waits.
type state int

const (
	busy    state = iota // for a command or for the status
	idle                 // for a prompt
	running              // for a run
	asking               // for a decision about a call
	editing              // for a call's new arguments, a reason, or a reply
)

// model is the screen. Only the loop of the program accesses it.
type model struct {
	ctx   context.Context
	chat  Chat
	name  string
	print func(string) tea.Cmd
	after func(time.Duration, tea.Cmd) tea.Cmd // delays a command
	style styles

	width, height int
	state         state
	session       chat.Status
	input         textarea.Model
	draft         string // a stored line
	history       history
	question      question
	notice        string
	failed        error
	runView
	printer
}

// runView is the state of a run on the screen.
type runView struct {
	stream     *stream
	sent       string          // the prompt of the run, until it is recorded
	answerText strings.Builder // the text received so far
	calls      []agent.Call    // running calls
	shownSeqs  map[int64]bool  // numbers of the run's durable events that were shown
	runEnded   bool            // the run has just ended
}

// printer is the state of the output above the view, and of leaving the program after it.
type printer struct {
	lines     []string // to be printed
	printing  bool
	quitArmed bool // ctrl+c was pressed; the next one quits
	quitting  bool
}

func newModel(ctx context.Context, o Options) *model {
	m := &model{ctx: ctx, chat: o.Chat, name: o.Model, print: func(s string) tea.Cmd { return tea.Println(s) }, style: stylesOf(o.Colour),
		width: 80, height: 24, runView: runView{shownSeqs: map[int64]bool{}}}
	m.after = func(d time.Duration, cmd tea.Cmd) tea.Cmd {
		return tea.Tick(d, func(time.Time) tea.Msg { return cmd() })
	}
	m.input = m.area("a prompt, or /help")
	m.question.area = m.area("")
	m.resize()
	return m
}

// area returns an empty text area.
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

// The messages of commands that use the chat.
type (
	statusMsg struct { // the status of the session
		status   chat.Status
		err      error
		messages []agent.Message // the conversation of a session that was opened
		missed   []agent.Event   // events that the run recorded and the stream did not deliver
		greet    bool
	}
	replyMsg struct {
		reply chat.Reply
		err   error
	}
	printedMsg struct{}
)

func (m *model) Init() tea.Cmd { return m.loadStatus(true, true) }

// loadStatus loads the status, and the messages if show.
func (m *model) loadStatus(greet, show bool) tea.Cmd {
	m.state = busy
	return func() tea.Msg {
		s := statusMsg{greet: greet}
		if s.status, s.err = m.chat.Status(m.ctx); s.err == nil && show {
			s.messages, s.err = m.chat.Messages(m.ctx)
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
		cmd = m.insertKey(msg)
	case statusMsg:
		m.showStatus(msg)
	case replyMsg:
		cmd = m.reply(msg)
	case streamEvent:
		cmd = m.onStreamEvent(msg)
	case printedMsg:
		m.printing = false
	case readyMsg:
		m.question.ready = m.question.ready || string(msg) == m.question.about.ID && m.question.timerStarted
	}
	return m, tea.Batch(cmd, m.flush(), m.startReadyTimer())
}

// loadAfterRun loads the status after a run, and the events that the run recorded after the
// stream was stopped.
func (m *model) loadAfterRun() tea.Cmd {
	m.state, m.runEnded = busy, true
	since := m.session.Seq
	return func() tea.Msg {
		var s statusMsg
		if s.status, s.err = m.chat.Status(m.ctx); s.err != nil || s.status.New {
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

// flush prints the waiting lines in order. If the user asked to quit, it quits after the last
// one.
func (m *model) flush() tea.Cmd {
	switch {
	case m.printing:
		return nil
	case len(m.lines) > 0:
		n := min(len(m.lines), max(1, m.height/2)) // more lines than the screen has would scroll the view away
		text := strings.Join(m.lines[:n], "\n")
		m.lines, m.printing = m.lines[n:], true
		return tea.Sequence(m.print(text), func() tea.Msg { return printedMsg{} })
	case m.quitting && m.state != running:
		return tea.Quit
	}
	return nil
}

// say prints wrapped text above the view.
func (m *model) say(prefix, text string) {
	m.lines = append(m.lines, wrap(strings.TrimRight(printable.Lines(text), "\n"), prefix, m.width)...)
}

func (m *model) showError(err error) {
	m.say("✗ ", err.Error())
	if hint := segno.HintOf(err); hint != "" {
		m.say("  ", hint)
	}
}

// showStatus shows a session's status and asks its first question.
func (m *model) showStatus(s statusMsg) {
	if s.err != nil {
		m.showError(s.err)
		m.keepUnsent()
		m.restoreDraft()
		if m.state = idle; s.greet {
			m.failed, m.quitting = s.err, true
		}
		return
	}
	m.session = s.status
	if s.greet {
		m.say("", s.status.Greeting())
	}
	if m.showHistory(s.messages); s.messages != nil {
		m.question.printedID = "" // at most, the question was printed in another conversation
	}
	for _, e := range s.missed {
		if !m.shownSeqs[e.Seq] {
			m.showEvent(e)
		}
	}
	if m.runEnded {
		m.lines, m.runEnded = append(m.lines, ""), false
	}
	m.keepUnsent()
	switch {
	case s.status.Phase == agent.PhaseRunning:
		m.say("", "another process is running this session")
	case s.status.Phase == agent.PhaseBrokenOff:
		m.say("", "the last turn was interrupted; /continue continues it")
	}
	if m.state = idle; len(m.session.Interrupts) > 0 {
		m.ask()
	} else {
		m.restoreDraft()
	}
	m.showEditError()
}

// keepUnsent stores a prompt that the run did not record, so that the user can send it again.
func (m *model) keepUnsent() {
	if m.sent != "" && m.draft == "" {
		m.draft = m.sent
	}
	m.sent = ""
}

func (m *model) reply(r replyMsg) tea.Cmd {
	if r.err != nil {
		m.showError(r.err)
		return m.loadStatus(false, false)
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
	return m.loadStatus(false, r.reply.Switched)
}

// run starts a run.
func (m *model) run(in agent.Input) tea.Cmd {
	m.state, m.stream, m.quitArmed, m.notice, m.shownSeqs = running, startStream(m.ctx, m.chat, in, m.session), false, "", map[int64]bool{}
	m.question.edited, m.sent = "", in.Prompt
	return m.stream.next
}

func (m *model) resize() {
	m.input.SetWidth(max(10, m.width-2))
	m.question.area.MaxHeight = max(1, m.height-8)
	m.question.area.SetWidth(max(10, m.width-2))
}
