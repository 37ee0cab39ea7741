package profile

// Failure is one way in which an agent that speaks the Agent Client Protocol reports a problem. An answer of the agent
// matches if it matches every field that is set. internal/proxy/failure has the failures that all agents have in common,
// and what each problem means for the session and the turn.
type Failure struct {
	Problem Problem
	By      Evidence

	// A failure counts for all versions of the agent: an untested version probably behaves like its neighbours, and no
	// answer has two meanings.
	Observed   []string // the versions that sent it
	Documented []string // the versions whose published code contains it

	Methods []string // of the request; nil is any

	// Fields of an error. The codes of the protocol are -32000 (a login is needed), -32002 (not found), -32600 (invalid
	// request), -32601 (unknown method), -32602 (invalid parameters), -32603 (internal) and -32800 (cancelled).
	Code   int      // 0 is any
	Key    string   // a key of the error's data
	Values []string // the values that the key may have; nil is any value

	// Text are words in lower case. For an error, one of them must be in the message or in a string of the data; for a
	// result, in the title or the reply. "^" before the words anchors them at the beginning.
	Text []string

	// Fields of a result:
	Stop     []string // stopReason
	Category []string // of _meta.jetbrains.air.sessionFailure
	Silent   bool     // the agent sent no text and called no tool
	Idle     bool     // no update and no token in a fresh session
}

// Evidence is how a failure shows. An answer is compared with the more reliable evidence first, and for each kind of evidence
// with the failures of its agent before the common ones.
type Evidence int

const (
	ByCode        Evidence = iota // an error, by its code, and perhaps a field of its data
	ByData                        // an error, by a field of its data
	ByText                        // an error, by its words
	ByError                       // an error of which nothing more is known
	ByStop                        // the result of a prompt, by its stopReason
	ByCategory                    // the result of a prompt, by its category
	BySystemError                 // the result of a prompt after _meta.codex.threadStatus.type was systemError
	ByEnd                         // the result of a prompt that reports no failure
	ByExit                        // no answer, because the agent's output ended
)

// The methods of requests.
var (
	Prompt     = []string{"session/prompt"}
	NewSession = []string{"session/new"}
	Fork       = []string{"session/fork"}
	Reopen     = []string{"session/resume", "session/load"}
	Opening    = []string{"session/resume", "session/load", "session/fork"}
	Starting   = []string{"session/new", "session/resume", "session/load", "session/fork"}
)

// Problem is the cause of a failure.
type Problem int

const (
	_               Problem = iota
	MissingSession          // the agent does not have the session
	SessionEnded            // the agent had ended the session before
	NotOpened               // the agent cannot open the session
	NoFork                  // the agent has no forks
	NotOffered              // the agent does not know the request that opens a session
	BusySession             // another program has the session open
	NoForkPoint             // the agent does not find the message to fork at
	NoDirectory             // the session's directory does not exist or is not absolute
	AgentGone               // the agent's process ended
	ChildGone               // a process of the agent ended, and the session with it
	ChildRestarts           // a process of the agent ended, and the agent starts it again
	ChildStaysDead          // a process of the agent ended, and the agent does not start it again
	ChildCrashes            // a process of the agent ended each time it opened the session
	NoStart                 // the agent does not start
	StartRefused            // the agent refuses to start the session
	LoginNeeded             // the agent asks for a login
	UsageLimit              // the account's limit is reached
	RateLimit               // the model's provider accepts no more requests for now
	Overload                // the model's provider is overloaded or has an error
	ConnectionLost          // the connection to the model ended
	TooLong                 // the conversation is longer than the model accepts
	OutputCut               // the model's answer was longer than allowed
	RequestRejected         // the model's provider rejects the request
	NoResult                // the agent stopped without a result
	OpenToolCalls           // the agent ended the turn without the results of its tools
	UnknownError            // any other error
	Cancelled               // the user cancelled the turn
	ModelRefused            // the model refused
	CutShort                // the agent reached a limit of the turn
	EmptyTurn               // the agent ended the turn without any output
	ModelNotAsked           // the agent ended the turn without asking the model
)
