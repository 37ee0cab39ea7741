package tui

import (
	"cmp"
	"context"
	"io"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/generation"
)

// ExperimentOptions configures the view of an experiment.
type ExperimentOptions struct {
	Experiment *generation.Experiment
	// Run runs the experiment until it is complete or ctx ends. It calls report for each event.
	Run func(ctx context.Context, report func(generation.Event)) error
	// Describe describes an event in one line without colours, or returns "".
	Describe func(generation.Event) string
	In       io.Reader
	Out      io.Writer
	Environ  []string
	Colour   bool
	Now      func() time.Time
}

// ShowExperiment runs an experiment and shows it on the whole terminal. It returns the error of Run after Run
// has returned. When the user quits, ShowExperiment ends the context of Run; the view stays until Run returns
// or the user quits a second time.
func ShowExperiment(ctx context.Context, o ExperimentOptions) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	events := make(chan generation.Event)
	var failed error
	go func() {
		defer close(events)
		failed = o.Run(ctx, func(e generation.Event) { events <- e })
	}()
	m := newExperimentModel(o, stop)
	left := make(chan struct{})
	defer close(left)
	m.second = func() tea.Msg {
		timer := time.NewTimer(time.Second)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-left:
		}
		return secondMsg{}
	}
	m.next = func() tea.Msg {
		if e, ok := <-events; ok {
			return e
		}
		return runEnded{}
	}
	m.stopped = func() tea.Msg {
		<-ctx.Done()
		return runStopping{}
	}
	options := []tea.ProgramOption{tea.WithInput(o.In), tea.WithOutput(o.Out), tea.WithEnvironment(o.Environ), tea.WithoutSignalHandler()}
	if !o.Colour {
		options = append(options, tea.WithColorProfile(colorprofile.ASCII))
	}
	_, err := tea.NewProgram(m, options...).Run()
	if err != nil {
		stop() // without a view, the user can neither watch the run nor end it
	}
	for range events { // wait until Run has returned
	}
	if failed == nil && err != nil {
		return segno.NewError(segno.KindIO, "show experiment", o.Experiment.Name, err)
	}
	return failed
}

// The messages of the view, beside [generation.Event].
type (
	runStopping struct{} // the context of the run ended
	runEnded    struct{}
	secondMsg   struct{}
)

// experimentModel is the view of an experiment. Only the loop of the program accesses it.
type experimentModel struct {
	ExperimentOptions
	stop          func() // ends the context of the run
	next, stopped tea.Cmd
	second        tea.Cmd // returns a second later
	style         styles
	width, height int

	progress
	agents   []agentRow
	lines    []eventLine // the newest, oldest first
	stopping bool
}

// progress is the progress of the experiment.
type progress struct {
	state   string
	at      generation.Event // the newest event with a time in the world
	every   time.Duration    // the interval of checkpoints; 0 for none
	nextCut time.Time        // of the next checkpoint
	lastCut generation.Event // the newest checkpoint, or none
	cuts    int              // checkpoints
	failed  int              // checkpoints
	omitted int              // checkpoints without a conversation
	retries int              // generations that failed
}

// agentRow is one agent on the screen.
type agentRow struct {
	name  string
	since time.Time // when its turn began, or zero
	last  string    // the last line that it printed
}

// eventLine is one event on the screen.
type eventLine struct {
	text string
	warn bool
}

func newExperimentModel(o ExperimentOptions, stop func()) *experimentModel {
	m := &experimentModel{ExperimentOptions: o, stop: stop, style: stylesOf(o.Colour), width: 80, height: 24, progress: progress{state: "starting"}}
	for _, a := range o.Experiment.Agents {
		m.agents = append(m.agents, agentRow{name: a.Name})
	}
	return m
}

// Init implements [tea.Model].
func (m *experimentModel) Init() tea.Cmd { return tea.Batch(m.next, m.stopped, m.second) }

// Update implements [tea.Model].
func (m *experimentModel) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = cmp.Or(msg.Width, 80), cmp.Or(msg.Height, 24) // some terminals report 0
	case tea.KeyPressMsg:
		return m, m.key(msg.String())
	case generation.Event:
		m.onEvent(msg)
		return m, m.next
	case runStopping:
		m.stopping = true
	case runEnded:
		return m, tea.Quit
	case secondMsg:
		return m, m.second
	}
	return m, nil
}

func (m *experimentModel) key(name string) tea.Cmd {
	switch name {
	case "q", "ctrl+c":
		if m.stopping {
			return tea.Quit
		}
		m.stopping = true
		m.stop()
	case "ctrl+z":
		return tea.Suspend
	}
	return nil
}

// maxEventLines is the number of lines that the view keeps. It is more than a screen has.
const maxEventLines = 300

// onEvent updates the view with an event.
func (m *experimentModel) onEvent(e generation.Event) {
	switch e.Kind {
	case generation.EventBegin:
		m.state, m.at, m.every = "running", e, seconds(e.Next)
		m.nextCut = e.Time.Add(m.every)
		m.endTurns()
	case generation.EventTurn, generation.EventTurnEnd:
		m.onTurn(e)
		return
	case generation.EventTick:
		m.at, m.nextCut = e, e.Time.Add(seconds(e.Next))
		return
	case generation.EventCheckpoint:
		m.cuts++
		m.lastCut, m.nextCut = e, e.Time.Add(m.every)
		m.at.SimTime = max(m.at.SimTime, e.SimTime) // in a world without ticks, no other events have a time
	case generation.EventOmitted:
		m.omitted++
	case generation.EventNoCheckpoint:
		m.failed++
		m.nextCut = e.Time.Add(m.every)
	case generation.EventFailed:
		if e.Error != "" {
			m.state = "failed"
			m.retries++
			m.endTurns()
		}
	case generation.EventDone:
		m.state = "complete"
	}
	m.addLine(eventLine{text: escapeLine(m.Describe(e)), warn: e.Error != ""})
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// onTurn updates whether an agent works or is idle.
func (m *experimentModel) onTurn(e generation.Event) {
	for i := range m.agents {
		a := &m.agents[i]
		switch {
		case a.name != e.Agent:
		case e.Kind == generation.EventTurn:
			a.since = e.Time
		default:
			a.since, a.last = time.Time{}, escapeLine(e.Text)
		}
	}
}

// endTurns marks all agents as idle.
func (m *experimentModel) endTurns() {
	for i := range m.agents {
		m.agents[i].since = time.Time{}
	}
}

// addLine adds a line to the scrolling events.
func (m *experimentModel) addLine(l eventLine) {
	if l.text == "" {
		return
	}
	m.lines = append(m.lines, l)
	if n := len(m.lines) - maxEventLines; n > 0 {
		m.lines = m.lines[n:]
	}
}
