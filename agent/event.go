package agent

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/dalsegno/segno"
)

// Event is something that happened in a run. An event with a number is durable: it is in the
// log before the caller receives it, and [Agent.Events] yields it again. An event without a number
// is live and sent once: a piece of text, or the beginning of something.
type Event struct {
	// Seq increases within Thread, across lines, with gaps. A subagent's events have the
	// numbers of the subagent's thread. 0 is a live event.
	Seq    int64          `json:"seq,omitempty"`
	Kind   EventKind      `json:"kind"`
	Thread segno.ThreadID `json:"thread"`
	Agent  string         `json:"agent,omitempty"` // the subagent, "" for the agent itself
	Turn   int            `json:"turn,omitempty"`
	Step   int            `json:"step,omitempty"` // of a live event: the last completed step
	Time   time.Time      `json:"time,omitzero"`

	Text      string           `json:"text,omitempty"`
	Path      string           `json:"path,omitempty"`    // of a file or a directory
	Pattern   string           `json:"pattern,omitempty"` // glob, grep
	Count     int              `json:"count,omitempty"`   // of lines, matches or bytes, depending on the kind
	Code      *int             `json:"code,omitempty"`    // execute-finish: the exit code
	Message   *Message         `json:"message,omitempty"`
	Call      *Call            `json:"call,omitempty"`
	Result    *Result          `json:"result,omitempty"`
	Todos     []Todo           `json:"todos,omitempty"`
	Interrupt *segno.Interrupt `json:"interrupt,omitempty"`
	Decision  *segno.Decision  `json:"decision,omitempty"`
	Usage     *Usage           `json:"usage,omitempty"`
	RunEvent
}

// RunEvent has the fields of an [Event] about the run as a whole.
type RunEvent struct {
	Interrupts []segno.Interrupt `json:"interrupts,omitempty"` // interrupted, and error because of a lost call: all open questions
	Wake       time.Time         `json:"wake,omitzero"`        // interrupted: when the turn continues without an answer
	Saved      segno.CommitID    `json:"saved,omitempty"`      // the checkpoint
	Loaded     *Loaded           `json:"loaded,omitempty"`
	Output     json.RawMessage   `json:"output,omitempty"` // done: the structured answer
	Stop       Stop              `json:"stop,omitempty"`   // done: length or refusal, if that cut the answer short
}

// Loaded counts the contents of a thread.
type Loaded struct {
	Step     int `json:"step"`
	Messages int `json:"messages"`
	Todos    int `json:"todos"`
	Files    int `json:"files"`
}

// Todo is an item of the todo list.
type Todo struct {
	ID     string `json:"id"`
	Text   string `json:"text"`
	Status string `json:"status"` // "pending", "in_progress", "completed" or "cancelled"
}

// EventKind is the kind of an event. Its comment names the fields that are set. Tools send
// further kinds, such as those of package tool.
type EventKind string

// The kinds of event. Live ones have no number.
const (
	EventLoaded      EventKind = "checkpoint-loaded"  // live: where the run begins; Loaded
	EventUserMessage EventKind = "user-message"       // Message
	eventStepStart   EventKind = "step-start"         // live: the model is asked
	EventText        EventKind = "text"               // live: a piece of text
	EventThinking    EventKind = "thinking"           // live: a piece of thinking
	EventRetry       EventKind = "retry"              // live: the answer so far is discarded and the model asked again; Text is the reason
	EventSegment     EventKind = "text-segment"       // a whole text of the model
	EventToolCall    EventKind = "tool-call"          // Call
	EventToolStart   EventKind = "tool-start"         // live: Call begins
	EventToolOverdue EventKind = "tool-overdue"       // live: Call ignores the end of its context, and the run waits for it; Text
	EventToolResult  EventKind = "tool-result"        // Result
	EventStepFinish  EventKind = "step-finish"        // Usage
	EventSaved       EventKind = "checkpoint-saved"   // Saved
	EventApproval    EventKind = "approval-requested" // Interrupt: a person is asked
	EventWaiting     EventKind = "waiting"            // Interrupt: a call sleeps, or waits for a signal or another thread
	EventSignal      EventKind = "signal"             // Path is its name, Text its value
	EventDecision    EventKind = "approval-response"  // Decision
	EventTodos       EventKind = "todos-changed"      // Todos
	EventSubStart    EventKind = "subagent-start"     // live: Path is the subagent, Text the task
	eventSubStep     EventKind = "subagent-step"      // live: Path is the subagent, Count its steps so far
	eventSubFinish   EventKind = "subagent-finish"    // Path is the subagent, Text its answer
	EventSummarized  EventKind = "summarized"         // Text is the summary, Count messages, Usage
	eventFork        EventKind = "fork"               // Saved: the checkpoint of the fork
	EventMoved       EventKind = "moved"              // only from [Agent.Follow]: the thread moved to another line; Saved is its head
	EventInterrupted EventKind = "interrupted"        // the run ends and waits for decisions
	EventDone        EventKind = "done"               // the turn ended; Text is the answer, Output the structured one, Stop what cut it short
	EventError       EventKind = "error"              // the run ends; Text is the error
)

// isLive reports whether events of a kind are not in the log.
func (k EventKind) isLive() bool {
	switch k {
	case EventLoaded, EventText, EventThinking, EventRetry, EventToolOverdue, eventSubStep, EventInterrupted, EventError:
		return true
	}
	return strings.HasSuffix(string(k), "-start")
}

// isOwn reports whether only the agent sends events of a kind.
func (k EventKind) isOwn() bool {
	switch k {
	case "", EventLoaded, EventUserMessage, eventStepStart, EventText, EventThinking, EventRetry, EventSegment, EventToolCall, EventToolStart,
		EventToolOverdue, EventToolResult, EventStepFinish, EventSaved, EventApproval, EventWaiting, EventSignal, EventDecision, EventSummarized, eventFork, EventMoved, EventInterrupted,
		EventDone, EventError:
		return true
	}
	return false
}
