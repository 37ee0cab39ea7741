package wire

import (
	"encoding/json"
	"time"

	"github.com/dalsegno/segno"
)

// SendPrompt is the body of a request that sends a prompt to a thread of a fleet.
type SendPrompt struct {
	Text string `json:"text"`
	// Agent is the name of an agent in the configuration of the workers. "" is the agent of the thread's previous prompt.
	Agent    string    `json:"agent,omitempty"`
	Actor    string    `json:"actor,omitempty"`    // the author
	Priority int       `json:"priority,omitempty"` // 1 is first, 4 is last; 0 is 1
	At       time.Time `json:"at,omitzero"`        // run it at this time; zero is now
}

// The states of a prompt.
const (
	PromptSent      = "sent"      // it waits for a worker, or for an earlier prompt of the thread
	PromptRunning   = "running"   // a worker runs its turn
	PromptWaiting   = "waiting"   // its turn waits: for a decision, a time, a signal or another thread
	PromptDone      = "done"      // its turn ended
	PromptParked    = "parked"    // it failed too often; later prompts of the thread wait until it is retried or cancelled
	PromptCancelled = "cancelled" // a user took it back
)

// Prompt is a prompt in the mailbox of a thread.
type Prompt struct {
	Thread   segno.ThreadID `json:"thread"`
	Key      string         `json:"key"`
	Agent    string         `json:"agent"`
	Tenant   string         `json:"tenant,omitempty"`
	Actor    string         `json:"actor,omitempty"`
	Priority int            `json:"priority"`
	State    string         `json:"state"`
	Attempts int            `json:"attempts"`        // how often a worker began it
	Error    string         `json:"error,omitempty"` // of the newest attempt that failed
	Answer   string         `json:"answer"`          // once it is done
	Sent     time.Time      `json:"sent"`
	At       time.Time      `json:"at,omitzero"` // when it may run, or runs again
	Ended    time.Time      `json:"ended,omitzero"`
	New      bool           `json:"new,omitempty"` // this request created it; false if the key was sent before

	Questions []segno.Interrupt `json:"questions,omitempty"` // what it waits for
}

// PromptQuery selects prompts, in the order in which they were sent.
type PromptQuery struct {
	Thread segno.ThreadID `json:"thread,omitempty"` // "" is any
	Key    string         `json:"key,omitempty"`    // "" is any
	State  string         `json:"state,omitempty"`  // "" is any
	After  string         `json:"after,omitempty"`  // the cursor of a previous list
	Limit  int            `json:"limit,omitempty"`  // 0 is the default
}

// PromptList is a window of a list of prompts.
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
	Questions []Question `json:"questions"`
	Next      string     `json:"next"` // the cursor of the next window, "" at the end
}

// FleetStatus counts the work of a fleet.
type FleetStatus struct {
	Prompts map[string]int `json:"prompts"` // by state
	Queues  []FleetQueue   `json:"queues"`
	Workers []FleetWorker  `json:"workers"`
	// Oldest is when the prompt was sent that has waited longest for a worker; zero if none waits.
	Oldest time.Time `json:"oldest,omitzero"`
}

// FleetQueue is the queue of a tenant, or the common one.
type FleetQueue struct {
	Name      string `json:"name"`
	Tenant    string `json:"tenant,omitempty"`
	Ready     int    `json:"ready"`     // jobs that a worker could begin now
	Running   int    `json:"running"`   // jobs that workers run
	Scheduled int    `json:"scheduled"` // jobs for a later time: wakes, and attempts after a failure
}

// FleetWorker is a process that runs prompts.
type FleetWorker struct {
	ID   string    `json:"id"`
	Seen time.Time `json:"seen"` // when it last reported
}
