package acptest

import (
	"encoding/json"
	"path/filepath"
)

// Config describes the agent. Dir is required.
type Config struct {
	// Dir is the directory of its sessions, faults and pids; the agent creates it. Agents
	// with the same Dir, run one after the other, share sessions.
	Dir string `json:"dir"`
	// Ledger is the file to which tools append. Requests is the log of the model's input.
	// They default to files in Dir.
	Ledger   string `json:"ledger,omitempty"`
	Requests string `json:"requests,omitempty"`

	Name    string `json:"name,omitempty"` // of agentInfo; if it is "", there is no agentInfo
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
	// Missing names the agent whose error for a missing session is used: claude-0.49,
	// claude-0.100 (the default), codex, opencode or gemini.
	Missing string `json:"missing,omitempty"`
	// Lazy keeps a session in memory until its first prompt.
	Lazy bool `json:"lazy,omitempty"`
	// Numbered makes the ids of sessions numbers, which begin at 1 in each process.
	Numbered bool `json:"numbered,omitempty"`
	// Keyed makes a session of another cwd count as missing.
	Keyed bool `json:"keyed,omitempty"`
	// ForkAt makes the agent honour the fork point in _meta.jetbrains.air.fork; otherwise
	// it ignores the point. ForkTurns keeps the whole turn that contains the point.
	ForkAt    bool `json:"forkAt,omitempty"`
	ForkTurns bool `json:"forkTurns,omitempty"`
	// ForkReplay sends a fork's history before the answer that names it.
	ForkReplay bool `json:"forkReplay,omitempty"`
	// NullResults answers load and resume with null.
	NullResults bool `json:"nullResults,omitempty"`
	// Title sends a session_info_update with a title after a turn's answer.
	Title bool `json:"title,omitempty"`
	// Commands are announced after every answer that opens a session.
	Commands []string `json:"commands,omitempty"`
	// ListPage is the number of sessions in one answer to session/list; 0 means all.
	ListPage int `json:"listPage,omitempty"`
	// Auth refuses to open a session before authenticate.
	Auth bool `json:"auth,omitempty"`
	// Ask makes every tool call ask for permission.
	Ask bool `json:"ask,omitempty"`
	// Patient makes the agent wait for the answer to its request for permission also after a cancel, and then act on it.
	Patient bool `json:"patient,omitempty"`
	// Careless makes the agent repeat a call without a look at the ledger, also if the conversation reports
	// that it was made before.
	Careless bool `json:"careless,omitempty"`
	// LoadWait makes session/load wait for a file before it replays the session. A file with the same name and ".waits" shows
	// that it waits.
	LoadWait string `json:"loadWait,omitempty"`
	// Deaf are methods that get no answer. [Config.DeafFile] shows that the agent received one.
	Deaf []string `json:"deaf,omitempty"`
	// Greeting is written to stdout before anything else.
	Greeting string `json:"greeting,omitempty"`
	// CRLF makes lines end in CRLF. Chunk divides every write into pieces of that many
	// bytes.
	CRLF  bool `json:"crlf,omitempty"`
	Chunk int  `json:"chunk,omitempty"`
	// Protocol is the version in the answer to initialize; 0 means 1.
	Protocol int `json:"protocol,omitempty"`
}

// Full configures an agent that supports every method of sessions.
func Full(dir string) Config {
	return Config{Dir: dir, Name: "acptest", Version: "1.0.0", Load: true, Resume: true, Fork: true, ForkAt: true,
		List: true, Close: true, Delete: true, Lazy: true}
}

// Args returns the arguments of a process that runs this agent; see [Main].
func (c Config) Args() []string { return []string{agentArg, string(encode(c))} }

// LedgerFile returns the file to which the agent's tools append.
func (c Config) LedgerFile() string { return or(c.Ledger, filepath.Join(c.Dir, "ledger")) }

// RequestsFile returns the log of the model's input.
func (c Config) RequestsFile() string { return or(c.Requests, filepath.Join(c.Dir, "requests.jsonl")) }

// DeafFile returns a file that exists after the agent received a method of Deaf.
func (c Config) DeafFile() string { return filepath.Join(c.Dir, "deaf") }

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
