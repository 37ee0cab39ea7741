package generation

import (
	"fmt"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/world"
)

// progress is what an attempt knows of its world.
type progress struct {
	time     segno.SimTime
	outcomes world.Outcomes
	lost     bool // the outcomes could not be read at some moment
}

// observe keeps the time and the outcomes of the world. The error is that of outcomes that cannot be columns; they are then unknown.
func (a *attempt) observe(s segno.WorldSnapshot) error {
	outcomes, err := world.ReadOutcomes(s.Document)
	if err != nil {
		outcomes = nil
	}
	a.now.time, a.now.outcomes = s.Time, outcomes
	a.status.SimTime, a.status.Outcomes, a.status.WhyNot = s.Time, outcomes, a.whyNotReproducible()
	return err
}

// observeOn is observe while agents live. The generation goes on without outcomes, and the user learns of it once.
func (a *attempt) observeOn(s segno.WorldSnapshot) {
	if err := a.observe(s); err != nil && !a.now.lost {
		a.now.lost = true
		a.event(Event{Kind: EventNoOutcomes, Generation: a.generation, Run: a.id, Tick: a.ticks, Error: err.Error()})
	}
}

// record writes run.json, with the rows of the attempt as they are now.
func (a *attempt) record(state runState) error {
	return a.writeRun(a.dir, runRecord{Generation: a.generation, ID: a.own, Start: a.start, Resumed: a.resumed, Settings: a.Experiment.settings(), State: state, Rows: a.rows()})
}

// rows are those of the attempt in the chain, without their status.
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

// continues compares the settings with those of what the attempt began with.
func (a *attempt) continues(before segno.Hash) {
	if a.whyNot == "" && before != a.Experiment.settings() && before != (segno.Hash{}) {
		a.whyNot = "the file of the experiment changed since it began"
	}
}

// whyNotReproducible returns why another run of the experiment may differ, or "". Agents without a model are taken to choose by what they
// observe and remember alone.
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
