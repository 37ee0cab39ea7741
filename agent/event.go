package agent

import (
	"encoding/json"
	"time"

	"github.com/dalsegno/segno"
)

// Event is something that happened in a run. Those with a number are durable: they
// are in the log before anyone hears of them, and come again from
// [Agent.Events]. Those without are on their way and are told once: pieces of text,
// and that something has begun.
type Event struct {
	// Seq grows within Thread, whatever line that is on; its gaps mean nothing. A
	// subagent's events have the numbers of its own thread. 0 is an event that is not
	// kept.
	Seq    int64          `json:"seq,omitempty"`
	Kind   EventKind      `json:"kind"`
	Thread segno.ThreadID `json:"thread"`
	Agent  string         `json:"agent,omitempty"` // which subagent, "" for the agent itself
	Turn   int            `json:"turn,omitempty"`
	Step   int            `json:"step,omitempty"` // of a live event: the last one that is over
	Time   time.Time      `json:"time,omitzero"`

	Text       string            `json:"text,omitempty"`
	Path       string            `json:"path,omitempty"`    // of a file or a directory
	Pattern    string            `json:"pattern,omitempty"` // glob, grep
	Count      int               `json:"count,omitempty"`   // of lines, matches, bytes, as the kind says
	Code       *int              `json:"code,omitempty"`    // execute-finish: the exit code
	Message    *Message          `json:"message,omitempty"`
	Call       *Call             `json:"call,omitempty"`
	Result     *Result           `json:"result,omitempty"`
	Todos      []Todo            `json:"todos,omitempty"`
	Interrupt  *segno.Interrupt  `json:"interrupt,omitempty"`
	Decision   *segno.Decision   `json:"decision,omitempty"`
	Interrupts []segno.Interrupt `json:"interrupts,omitempty"` // interrupted, and error if a lost call is why: all that wait
	Usage      *Usage            `json:"usage,omitempty"`
	Saved      segno.CommitID    `json:"saved,omitempty"` // the checkpoint
	Loaded     *Loaded           `json:"loaded,omitempty"`
	Output     json.RawMessage   `json:"output,omitempty"` // done: the structured answer
	Stop       Stop              `json:"stop,omitempty"`   // done: length or refusal, if that cut the answer short
}

// Loaded is what a run found of its thread.
type Loaded struct {
	Step     int `json:"step"`
	Messages int `json:"messages"`
	Todos    int `json:"todos"`
	Files    int `json:"files"`
}

// Todo is one thing to do.
type Todo struct {
	ID     string `json:"id"`
	Text   string `json:"text"`
	Status string `json:"status"` // "pending", "in_progress", "completed" or "cancelled"
}

// EventKind says what an event tells.
type EventKind string

// The kinds of event. Live ones have no number.
const (
	EventLoaded      EventKind = "checkpoint-loaded"  // live: where the run begins; Loaded
	EventUserMessage EventKind = "user-message"       // Message
	EventStepStart   EventKind = "step-start"         // live: the model is asked
	EventText        EventKind = "text"               // live: a piece of text
	EventThinking    EventKind = "thinking"           // live: a piece of thinking
	EventRetry       EventKind = "retry"              // live: the answer so far is void, the model is asked again; Text says why
	EventSegment     EventKind = "text-segment"       // a whole text of the model's
	EventToolCall    EventKind = "tool-call"          // Call
	EventToolStart   EventKind = "tool-start"         // live: Call begins
	EventToolResult  EventKind = "tool-result"        // Result
	EventStepFinish  EventKind = "step-finish"        // Usage
	EventSaved       EventKind = "checkpoint-saved"   // Saved
	EventApproval    EventKind = "approval-requested" // Interrupt
	EventDecision    EventKind = "approval-response"  // Decision
	EventTodos       EventKind = "todos-changed"      // Todos
	EventFileStart   EventKind = "file-write-start"   // live: Path
	EventFileWritten EventKind = "file-written"       // Path, Count bytes
	EventFileEdited  EventKind = "file-edited"        // Path, Count places
	EventFileRead    EventKind = "file-read"          // Path, Count lines
	EventList        EventKind = "ls"                 // Path, Count names
	EventGlob        EventKind = "glob"               // Pattern, Count paths
	EventGrep        EventKind = "grep"               // Pattern, Count lines
	EventExecStart   EventKind = "execute-start"      // live: Text is the command
	EventExecFinish  EventKind = "execute-finish"     // Text is the command, Code
	EventSubStart    EventKind = "subagent-start"     // live: Path is the subagent, Text the task
	EventSubStep     EventKind = "subagent-step"      // live: Path is the subagent, Count its steps so far
	EventSubFinish   EventKind = "subagent-finish"    // Path is the subagent, Text its answer
	EventSummarized  EventKind = "summarized"         // Text is the summary, Count messages, Usage
	EventFork        EventKind = "fork"               // Saved: the checkpoint it was made at
	EventMoved       EventKind = "moved"              // told by [Agent.Follow] alone: the thread left the line that was told; Saved is where it stands
	EventInterrupted EventKind = "interrupted"        // the run ends and waits for decisions
	EventDone        EventKind = "done"               // the turn is over; Text is the answer, Output the structured one, Stop what cut it short
	EventError       EventKind = "error"              // the run ends; Text says why
)

// live reports whether events of a kind are told once and not kept.
func (k EventKind) live() bool {
	switch k {
	case EventLoaded, EventStepStart, EventText, EventThinking, EventRetry, EventToolStart, EventFileStart, EventExecStart,
		EventSubStart, EventSubStep, EventInterrupted, EventError:
		return true
	}
	return false
}

// tools reports whether events of a kind are a tool's to tell.
func (k EventKind) tools() bool {
	switch k {
	case EventTodos, EventFileStart, EventFileWritten, EventFileEdited, EventFileRead, EventList, EventGlob, EventGrep,
		EventExecStart, EventExecFinish, EventSubStart, EventSubStep, EventSubFinish:
		return true
	}
	return false
}
