package segno

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// World is a simulation for agents that can save its whole state. Its methods may be called
// concurrently. Each change is atomic: a method that fails changes nothing, unless its comment
// allows it. An agent's observations never depend on the clock of the host.
type World interface {
	// Info describes the world. It never changes.
	Info() WorldInfo
	// Join lets an agent with a name enter. session is a secret that the caller chooses; a name
	// has one session. A repeated Join with the same session and name is not an event and
	// changes nothing. If either belongs to another agent, the error has [KindConflict].
	Join(ctx context.Context, session, name string) error
	// Act makes the agent of a session do something, and returns its observation
	// afterwards. An action is JSON in a form that the world documents. A malformed action is
	// [KindInvalid]. An action that the rules forbid now is [KindRefused]. An unknown session
	// is [KindNotFound].
	Act(ctx context.Context, session string, action json.RawMessage) (Observation, error)
	// Observe returns what the agent of a session perceives. It changes nothing: any number of
	// calls between two changes return the same bytes.
	Observe(ctx context.Context, session string) (Observation, error)
	// Advance moves the time of the world by d, a positive multiple of [WorldInfo.Tick]. Time
	// never moves otherwise. If ctx ends meanwhile, some of the ticks may have happened.
	Advance(ctx context.Context, d time.Duration) error
	// Snapshot returns the whole state at one moment, in sequence with all changes.
	Snapshot(ctx context.Context) (WorldSnapshot, error)
	// Load replaces the state of a world that was just constructed and not used yet; for any
	// other world, the error has [KindRefused]. Afterwards the world equals the saved one, byte
	// for byte in each observation and in its own snapshot. A document that is damaged or has
	// unknown fields is [KindCorrupt]. A document of another format or content is [KindRefused].
	Load(ctx context.Context, document []byte) error
}

// Observation is what an agent perceives, as JSON in a form that the world documents.
type Observation = json.RawMessage

// WorldInfo describes a [World].
type WorldInfo struct {
	Name    string        `json:"name"`
	Format  string        `json:"format"`                // of its documents, with a version: "grid/1"
	Content Hash          `json:"content_hash,omitzero"` // of the code, the assets and the configuration
	Tick    time.Duration `json:"-"`                     // the shortest time step; 0 if the world has no steps
	Manual  string        `json:"-"`                     // for agents, in Markdown: how to perceive and act
}

// WorldSnapshot is the state of a [World] at one moment.
type WorldSnapshot struct {
	// Seq is the number of earlier changes: joins, actions and ticks. Two snapshots of a world
	// with the same Seq are equal.
	Seq  uint64
	Time SimTime
	// Document is one JSON object with at least "format", "time" and "seq".
	Document []byte
}

// SimTime is a time in a [World]: the duration since the world began. In JSON it is a number of
// seconds.
type SimTime time.Duration

// String returns the seconds as a decimal number, without loss.
func (t SimTime) String() string {
	seconds, rest := time.Duration(t)/time.Second, time.Duration(t)%time.Second
	sign := ""
	if t < 0 {
		sign, seconds, rest = "-", -seconds, -rest
	}
	return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%s%d.%09d", sign, seconds, rest), "0"), ".")
}

// MarshalJSON returns the text of String.
func (t SimTime) MarshalJSON() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalJSON reads a number of seconds. The error has [KindInvalid].
func (t *SimTime) UnmarshalJSON(data []byte) error {
	d, err := time.ParseDuration(string(data) + "s")
	if err != nil { // another language may write a small number with an exponent
		seconds, floatErr := strconv.ParseFloat(string(data), 64)
		if floatErr != nil || math.Abs(seconds) > math.MaxInt64/float64(2*time.Second) {
			return Errorf(KindInvalid, "read world time", string(data), "not a number of seconds")
		}
		d = time.Duration(seconds * float64(time.Second))
	}
	*t = SimTime(d)
	return nil
}
