package transcript

import (
	"context"
	"encoding/json"
	"time"

	"github.com/dalsegno/segno"
)

// Conversation is what the model of an agent sees of a session, in a form that does not depend
// on the agent.
type Conversation struct {
	Messages []Message
	// Lost counts the parts of the session that have no such form.
	Lost map[Loss]int
}

// Lose counts n parts of a kind that cannot move to another agent.
func (c *Conversation) Lose(what Loss, n int) {
	if n == 0 {
		return
	}
	if c.Lost == nil {
		c.Lost = map[Loss]int{}
	}
	c.Lost[what] += n
}

// Append adds the messages of the conversation that follows.
func (c *Conversation) Append(next Conversation) {
	c.Messages = append(c.Messages, next.Messages...)
	for what, n := range next.Lost {
		c.Lose(what, n)
	}
}

// Loss is a kind of part that cannot move from a session to another agent, as a noun for the user.
type Loss string

// The kinds of loss.
const (
	LostReasoning   Loss = "reasoning block"
	LostImages      Loss = "image"
	LostDocuments   Loss = "document"
	LostAttachments Loss = "attached file"
	LostServerTools Loss = "tool call that the model's server ran"
	LostSummaries   Loss = "encrypted compaction"
	LostOther       Loss = "record of an unknown type"
	LostTasks       Loss = "task"
	LostSubagents   Loss = "subagent transcript"
	LostBackups     Loss = "file backup"
	LostErrors      Loss = "error mark of a result"
	// LostLengths are results that the other agent shortens when it loads them, and LostNames are
	// names of tools that its model does not accept. Both are written in a changed form.
	LostLengths Loss = "long result"
	LostNames   Loss = "tool name"
)

// Role is the author of a message.
type Role string

// The roles. Results of tools are in messages of the user.
const (
	User      Role = "user"
	Assistant Role = "assistant"
)

// Message is one message of a conversation. The calls of one message ran in parallel.
type Message struct {
	Role Role
	// Prompt is set if the message begins a turn.
	Prompt bool
	Model  string    // that wrote it, or ""
	Time   time.Time // zero if it is not known
	Parts  []Part
}

// Part is a piece of a message: exactly one of its fields is set.
type Part struct {
	Text   string
	Image  *Image
	Call   *Call
	Result *Result
	// Interruption is the agent's mark that the user interrupted the turn.
	Interruption bool
}

// Image is an image: its bytes, or their URL.
type Image struct {
	Type string // media type: "image/png"
	Data string // in base64
	URL  string
}

// Call is a model's request to run a tool.
type Call struct {
	ID    string
	Name  string
	Input json.RawMessage // a JSON object
}

// Result is the result of a call.
type Result struct {
	Call    string
	Parts   []Part // texts and images
	IsError bool
}

// ConversationReader is the ability of a [segno.Transcript] to return what the model sees.
type ConversationReader interface {
	// ReadConversation returns the conversation that the agent sends to the model if it continues
	// from p: without what a compaction replaced, and without the agent's own instructions. If
	// after is not "", it returns only the messages behind the leaf after. The error is
	// [segno.KindNotFound] if the model does not see that leaf. Bytes come from the agent's file while
	// it still begins with p's, else from o.
	ReadConversation(ctx context.Context, p segno.Position, after string, o segno.Objects) (Conversation, error)
}

// ConversationWriter is the ability of a [segno.Transcript] to write a session from a conversation.
type ConversationWriter interface {
	// WriteConversation writes the session to.Session: a cut at p, unless p is nil, and behind it
	// the messages of c in the agent's own records. Errors are those of Cut. The error is
	// [segno.KindInvalid] if there is no message.
	WriteConversation(ctx context.Context, c Conversation, p *segno.Position, to segno.Target, o segno.Objects) (segno.Source, error)
	// Losses counts the parts of c that WriteConversation leaves out or changes.
	Losses(ctx context.Context, c Conversation) (map[Loss]int, error)
}
