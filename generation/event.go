package generation

import (
	"time"

	"github.com/dalsegno/segno"
)

// Event is something that happened in an experiment.
type Event struct {
	Time       time.Time     `json:"time"`
	Kind       EventKind     `json:"kind"`
	Experiment string        `json:"experiment"`
	Generation int           `json:"generation,omitempty"`
	Run        string        `json:"run,omitempty"`
	Tick       int           `json:"tick,omitempty"` // ticks passed in the generation
	SimTime    segno.SimTime `json:"sim_time,omitempty"`
	Agent      string        `json:"agent,omitempty"` // the agent that has the turn
	Path       string        `json:"path,omitempty"`  // of a checkpoint or a directory
	Digest     string        `json:"state_digest,omitempty"`
	Text       string        `json:"text,omitempty"`
	Error      string        `json:"error,omitempty"`
	// Next is how many seconds are left until the next checkpoint. It is set when a generation begins and after a tick.
	Next float64 `json:"next_checkpoint_seconds,omitempty"`
}

// EventKind is the kind of an [Event].
type EventKind string

// The kinds of event.
const (
	EventBegin         EventKind = "begin"              // a generation begins; Path is its template or checkpoint
	EventTurn          EventKind = "turn"               // an agent gets its prompt
	EventTurnEnd       EventKind = "turn-end"           // Text is the last line that the agent printed
	EventTick          EventKind = "tick"               // all agents acted, and time moved
	EventStory         EventKind = "story"              // what happened in the world, for people
	EventNoStory       EventKind = "story-lost"         // the generation continues, and Path ends here
	EventNoOutcomes    EventKind = "outcomes-lost"      // the generation continues, and its row may lack them
	EventCheckpoint    EventKind = "checkpoint"         // Path is the archive
	EventOmitted       EventKind = "session-omitted"    // an archive lacks conversations with a secret; Text names them
	EventFileOmitted   EventKind = "file-omitted"       // archives lack files with a secret; Text names those that no event named before
	EventNoCheckpoint  EventKind = "checkpoint-failed"  // the generation continues without it
	EventFailed        EventKind = "generation-failed"  // Path is where its directory is kept
	EventBadCheckpoint EventKind = "checkpoint-refused" // it does not verify, so an older one is tried
	EventIncomplete    EventKind = "files-incomplete"   // a resumed agent has only the files that its archive has
	EventEnd           EventKind = "end"                // a generation is complete
	EventStopped       EventKind = "stopped"            // by a signal
	EventDone          EventKind = "done"               // all generations are complete
)
