package acptest

import (
	"encoding/json"
	"path/filepath"
)

// Config says what kind of agent it is. Dir is required.
type Config struct {
	// Dir is where its sessions, faults and pids are; it is made. Agents of one Dir
	// share sessions, one after the other.
	Dir string `json:"dir"`
	// Ledger is the file tools append to; Requests is the log of what the model was
	// sent. They default to files in Dir.
	Ledger   string `json:"ledger,omitempty"`
	Requests string `json:"requests,omitempty"`

	Name    string `json:"name,omitempty"` // agentInfo; without one there is none
	Version string `json:"version,omitempty"`

	Load   bool `json:"load,omitempty"`
	Resume bool `json:"resume,omitempty"`
	Fork   bool `json:"fork,omitempty"`
	List   bool `json:"list,omitempty"`
	Close  bool `json:"close,omitempty"`
	Delete bool `json:"delete,omitempty"`

	// Claude is a configuration directory of Claude Code. The agent stores its sessions
	// there in the format of Claude Code's transcripts. If it is empty, the agent stores
	// them in Dir in a simpler format.
	Claude string `json:"claude,omitempty"`
	// Missing is whose errors say that a session is not there: claude-0.49,
	// claude-0.100 (the default), codex, opencode or gemini.
	Missing string `json:"missing,omitempty"`
	// Lazy keeps a session in memory until its first prompt.
	Lazy bool `json:"lazy,omitempty"`
	// Keyed makes a session of another cwd one that is not there.
	Keyed bool `json:"keyed,omitempty"`
	// ForkAt honours the fork point in _meta.jetbrains.air.fork; without it, it is
	// ignored. ForkTurns keeps all of the turn it is in.
	ForkAt    bool `json:"forkAt,omitempty"`
	ForkTurns bool `json:"forkTurns,omitempty"`
	// ForkReplay sends a fork's history before the answer that names it.
	ForkReplay bool `json:"forkReplay,omitempty"`
	// NullResults answers load and resume with null.
	NullResults bool `json:"nullResults,omitempty"`
	// Title sends a session_info_update with a title after a turn's answer.
	Title bool `json:"title,omitempty"`
	// Commands are announced behind every answer that opens a session.
	Commands []string `json:"commands,omitempty"`
	// ListPage is how many sessions session/list gives at once; 0 is all.
	ListPage int `json:"listPage,omitempty"`
	// Auth refuses to open a session before authenticate.
	Auth bool `json:"auth,omitempty"`
	// Ask makes every tool call ask for permission.
	Ask bool `json:"ask,omitempty"`
	// Deaf are methods that get no answer.
	Deaf []string `json:"deaf,omitempty"`
	// Greeting is written to stdout before anything else.
	Greeting string `json:"greeting,omitempty"`
	// CRLF ends lines so; Chunk cuts every write into pieces of so many bytes.
	CRLF  bool `json:"crlf,omitempty"`
	Chunk int  `json:"chunk,omitempty"`
	// Protocol is the version it answers; 0 is 1.
	Protocol int `json:"protocol,omitempty"`
}

// Full is an agent that can do everything with sessions.
func Full(dir string) Config {
	return Config{Dir: dir, Name: "acptest", Version: "1.0.0", Load: true, Resume: true, Fork: true, ForkAt: true,
		List: true, Close: true, Delete: true, Lazy: true}
}

// Args are the arguments of a process that is this agent; see [Main].
func (c Config) Args() []string { return []string{agentArg, string(encode(c))} }

// LedgerFile is where the agent's tools append.
func (c Config) LedgerFile() string { return or(c.Ledger, filepath.Join(c.Dir, "ledger")) }

// RequestsFile is the log of what the model was sent.
func (c Config) RequestsFile() string { return or(c.Requests, filepath.Join(c.Dir, "requests.jsonl")) }

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

func (c Config) capabilities() json.RawMessage {
	session := map[string]any{}
	for name, has := range map[string]bool{"resume": c.Resume, "fork": c.Fork, "list": c.List, "close": c.Close, "delete": c.Delete} {
		if has {
			session[name] = struct{}{}
		}
	}
	caps := map[string]any{"loadSession": c.Load,
		"promptCapabilities": map[string]bool{"image": false, "audio": false, "embeddedContext": true}}
	if len(session) > 0 {
		caps["sessionCapabilities"] = session
	}
	return encode(caps)
}
