package generation

import (
	"fmt"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/world"
)

// progress is what an attempt knows about the state of its world.
type progress struct {
	time     segno.SimTime
	outcomes world.Outcomes
	lost     bool // the outcomes could not be read at some moment
}

// observe records the time and the outcomes of the world. It returns an error if the outcomes cannot be columns of the
// chain. The outcomes are then unknown.
func (a *attempt) observe(s segno.WorldSnapshot) error {
	outcomes, err := world.ReadOutcomes(s.Document)
	if err != nil {
		outcomes = nil
	}
	a.now.time, a.now.outcomes = s.Time, outcomes
	a.status.SimTime, a.status.Outcomes, a.status.WhyNot = s.Time, outcomes, a.whyNotReproducible()
	return err
}

// observeOn calls observe while agents run. If that fails, the generation continues without outcomes, and an event
// reports the failure once.
func (a *attempt) observeOn(s segno.WorldSnapshot) {
	if err := a.observe(s); err != nil && !a.now.lost {
		a.now.lost = true
		a.event(Event{Kind: EventNoOutcomes, Generation: a.generation, Run: a.id, Tick: a.ticks, Error: err.Error()})
	}
}

// record writes run.json with the present rows of the attempt.
func (a *attempt) record(state runState) error {
	return a.writeRun(a.dir, runRecord{Generation: a.generation, ID: a.own, Start: a.start, Resumed: a.resumed, Settings: a.Experiment.settings(), State: state, Rows: a.rows()})
}

// rows returns the attempt's rows in the chain, without their status.
func (a *attempt) rows() []Row {
	end := a.Now().UTC().Truncate(time.Millisecond)
	rows := make([]Row, len(a.Experiment.Agents))
	for i, spec := range a.Experiment.Agents {
		rows[i] = Row{Generation: a.generation, AgentIndex: i, Agent: spec.Name, Run: a.own, TemplateIn: a.templates[i],
			WorkspaceOut: a.workspaceOut(a.own, spec.Name), Start: a.start, End: end, Seconds: end.Sub(a.start).Seconds(),
			Ticks: a.ticks, SimTime: a.now.time, Checkpoints: a.saved, WhyNot: a.whyNotReproducible(), Outcomes: a.now.outcomes}
	}
	for i, m := range a.agents {
		rows[i].TokensIn, rows[i].TokensOut = m.tokens()
	}
	return rows
}

// continues sets whyNot if the settings have changed since the checkpoint or the run from which the attempt began.
func (a *attempt) continues(before segno.Hash) {
	if a.whyNot == "" && before != a.Experiment.settings() && before != (segno.Hash{}) {
		a.whyNot = "the file of the experiment changed since it began"
	}
}

// whyNotReproducible returns why another run of the experiment may differ, or "". It assumes that agents without a
// model choose only by their observations and memory.
func (a *attempt) whyNotReproducible() string {
	if a.whyNot != "" {
		return a.whyNot
	}
	for _, spec := range a.Experiment.Agents {
		if !spec.IsOffline() {
			return fmt.Sprintf("%s has a model", spec.Name)
		}
	}
	switch {
	case a.world != nil && a.world.Info().Tick == 0:
		return "the world moves its own time"
	case a.Experiment.Order != OrderFixed && len(a.Experiment.Agents) > 1:
		return `turns within a tick have no fixed order; set order = "fixed"`
	}
	return ""
}
