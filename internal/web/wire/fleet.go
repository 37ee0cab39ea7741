package wire

import (
	"encoding/json"
	"time"

	"github.com/dalsegno/segno"
)

// SendPrompt is the body of a request that sends a prompt to a thread of a fleet.
type SendPrompt struct {
	Text string `json:"text"`
	// Agent is the name of an agent in the configuration of the workers. "" is the agent of the thread's previous prompt; for a
	// new thread, it is the agent of the workers if they have only one.
	Agent    string    `json:"agent,omitempty"`
	Actor    string    `json:"actor,omitempty"`    // the sender
	Priority int       `json:"priority,omitempty"` // 1 is first, 4 is last; 0 is 2
	At       time.Time `json:"at,omitzero"`        // the earliest time of the turn; zero is now
}

// The states of a prompt.
const (
	PromptSent      = "sent"      // it waits for a worker, or for an earlier prompt of the thread
	PromptRunning   = "running"   // a worker runs its turn
	PromptWaiting   = "waiting"   // its turn waits for a decision, a time, a signal or another thread
	PromptDone      = "done"      // its turn ended
	PromptParked    = "parked"    // it failed too often; later prompts of the thread wait until it is retried or cancelled
	PromptCancelled = "cancelled" // a caller cancelled it
)

// Prompt is a prompt in the mailbox of a thread.
type Prompt struct {
	Thread   segno.ThreadID `json:"thread"`
	Key      string         `json:"key"`
	N        int64          `json:"n"` // the prompts of a thread run in this order
	Agent    string         `json:"agent"`
	Tenant   string         `json:"tenant,omitempty"`
	Actor    string         `json:"actor,omitempty"`
	Priority int            `json:"priority"`
	State    string         `json:"state"`
	Attempts int            `json:"attempts"`         // that failed since the last progress, and the present one
	Error    string         `json:"error,omitempty"`  // of the last attempt, if it failed
	Answer   string         `json:"answer"`           // once it is done
	Worker   string         `json:"worker,omitempty"` // of the last attempt
	Next     time.Time      `json:"next,omitzero"`    // sent: the next attempt begins no earlier
	Wake     time.Time      `json:"wake,omitzero"`    // waiting: when the turn continues, if nothing else wakes it
	Sent     time.Time      `json:"sent"`
	Started  time.Time      `json:"started,omitzero"` // the last attempt
	Ended    time.Time      `json:"ended,omitzero"`
	New      bool           `json:"new,omitempty"` // this request created it

	Waits []segno.Interrupt `json:"waits,omitempty"` // what the turn waits for; only if one prompt is read, or in the inbox
}

// PromptQuery selects prompts. A zero field excludes none.
type PromptQuery struct {
	Thread segno.ThreadID
	Key    string // with Thread
	States []string
	Before int64 // with a lower N
	Limit  int
}

// PromptList is a window of a list of prompts, the newest first.
type PromptList struct {
	Prompts []Prompt `json:"prompts"`
	Next    string   `json:"next"` // the cursor of the next window, "" at the end
}

// Decisions is the body of a request that answers questions of a thread.
type Decisions struct {
	Decisions []segno.Decision `json:"decisions"`
}

// Signal is the body of a request that sends a signal to a thread.
type Signal struct {
	Name  string          `json:"name"`
	Value json.RawMessage `json:"value,omitempty"`
}

// Question is an open question in the inbox of a fleet.
type Question struct {
	Thread    segno.ThreadID  `json:"thread"`
	Interrupt segno.Interrupt `json:"interrupt"`
}

// QuestionList is a window of the inbox.
type QuestionList struct {
	Questions []Question `json:"questions"` // fewer than the limit, or none, if many threads wait for no person
	Next      string     `json:"next"`      // the cursor of the next window, "" at the end
}

// FleetStatus has the open prompts and the workers of a fleet.
type FleetStatus struct {
	Open    []FleetCount  `json:"open"`
	Workers []FleetWorker `json:"workers"`
}

// FleetCount is the number of open prompts of a tenant in a state.
type FleetCount struct {
	Tenant string    `json:"tenant"`
	State  string    `json:"state"`
	Count  int64     `json:"count"`
	Oldest time.Time `json:"oldest"` // when the oldest of them was sent
}

// FleetWorker is a process that runs prompts, or was killed.
type FleetWorker struct {
	ID      string    `json:"id"`
	Host    string    `json:"host"`
	PID     int       `json:"pid"`
	Started time.Time `json:"started"`
	Seen    time.Time `json:"seen"`    // when it last reported
	Running int       `json:"running"` // turns
	Alive   bool      `json:"alive"`   // it reported within the lease
	Agents  []string  `json:"agents"`  // that it can run
}
