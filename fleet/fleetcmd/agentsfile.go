package fleetcmd

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/BurntSushi/toml"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/secret"
)

// agentsFile is the file agents.toml, which describes what a worker runs.
type agentsFile struct {
	Worker  workerSpec   `toml:"worker"`
	Agents  []agentSpec  `toml:"agents"`
	Tenants []tenantSpec `toml:"tenants"`

	dir string // of the file; paths in the file are relative to it
}

// workerSpec configures the process.
type workerSpec struct {
	Slots       int      `toml:"slots"`        // turns that run at once; 0 is 8
	Lease       duration `toml:"lease"`        // after which other workers take the turns of a dead one; 0 is 30 s
	MaxAttempts int      `toml:"max_attempts"` // how often a turn fails before it is parked; 0 is 5
	Retry       duration `toml:"retry"`        // the pause after the first failure, which doubles; 0 is 5 s
	Cache       string   `toml:"cache"`        // the directory for the files of agents with a command
	CacheSize   int64    `toml:"cache_gib"`    // its size; 0 is 20
}

// tenantSpec gives a tenant its own limit.
type tenantSpec struct {
	Name  string `toml:"name"`
	Slots int    `toml:"slots"` // turns of the tenant that run at once in this worker
}

// agentSpec is one agent.
type agentSpec struct {
	Name string `toml:"name"`

	// The fields of segno's own agent.
	Model            string   `toml:"model"`
	BaseURL          string   `toml:"base_url"`
	KeyEnv           string   `toml:"key_env"`  // the variable with the key of the model
	KeyFile          string   `toml:"key_file"` // or the file with it
	Instructions     string   `toml:"instructions"`
	InstructionsFile string   `toml:"instructions_file"`
	Tools            []string `toml:"tools"`
	Workspace        bool     `toml:"workspace"` // the thread has a directory of files, in which the tools work
	Approve          []string `toml:"approve"`   // tools whose calls wait for a decision
	Sandbox          string   `toml:"sandbox"`   // of commands: a name for [tool.ParseSandbox]; "" is none
	User             string   `toml:"user"`      // as whom commands run; it must be the user of the worker
	MaxSteps         int      `toml:"max_steps"`
	MaxTokens        int      `toml:"max_tokens"`

	// The fields of an agent that speaks the Agent Client Protocol.
	Command     []string `toml:"command"`
	Env         []string `toml:"env"`         // names of variables that it receives from the environment of the worker
	Permissions string   `toml:"permissions"` // what it may do when it asks: "ask" a person, which is the default, "allow" or "refuse"
}

// isACP reports whether the agent is a command that speaks ACP.
func (a *agentSpec) isACP() bool { return len(a.Command) > 0 }

// duration is a [time.Duration] that is text in TOML: "30s".
type duration time.Duration

// UnmarshalText implements [encoding.TextUnmarshaler].
func (d *duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	*d = duration(parsed)
	return err
}

// The limits of a file.
const (
	maxAgents       = 1000
	maxSlots        = 10_000
	defaultSlots    = 8
	maxInstructions = 256 << 10
	minLease        = 3 * time.Second // that of [agent.Config]
)

// fileError has the mistakes of a file, one line each.
type fileError struct{ lines []string }

func (e *fileError) Error() string { return strings.Join(e.lines, "; ") }

// readAgentsFile reads and checks a file. The error has [segno.KindNotFound], or [segno.KindInvalid] and all mistakes. The file
// may not contain a secret: a key is a variable or a file that it names.
func readAgentsFile(path string) (*agentsFile, error) {
	const op = "read agents"
	data, err := os.ReadFile(path)
	if err != nil {
		kind := segno.KindIO
		if errors.Is(err, fs.ErrNotExist) {
			kind = segno.KindNotFound
		}
		return nil, segno.NewError(kind, op, path, plainPathError(err)).WithHint("name a file like agents.toml; docs/fleet.md has one")
	}
	f := &agentsFile{dir: filepath.Dir(path)}
	if lines := f.decode(string(data)); len(lines) > 0 {
		return nil, segno.NewError(segno.KindInvalid, op, path, &fileError{lines}).WithHint("docs/fleet.md has all settings")
	}
	return f, nil
}

// plainPathError returns the reason of an error about a file, whose path the caller names.
func plainPathError(err error) error {
	if path := (*fs.PathError)(nil); errors.As(err, &path) {
		return path.Err
	}
	return err
}

// decode reads the text of a file into f, and returns its mistakes.
func (f *agentsFile) decode(text string) (mistakes []string) {
	scanner, err := secret.New(secret.Options{})
	if err != nil {
		return []string{err.Error()}
	}
	found, err := scanner.Scan("agents.toml", strings.NewReader(text))
	if err != nil {
		return []string{err.Error()}
	}
	for _, s := range found {
		mistakes = append(mistakes, fmt.Sprintf("line %d has a secret (%s): name a variable with key_env, or a file with key_file", s.Record, s.About))
	}
	meta, err := toml.Decode(text, f)
	if err != nil {
		return append(mistakes, strings.TrimPrefix(err.Error(), "toml: "))
	}
	for _, key := range meta.Undecoded() {
		mistakes = append(mistakes, fmt.Sprintf("unknown setting %q%s", key, similarSetting(key)))
	}
	return append(mistakes, f.check()...)
}

// misnamed has the settings of similar programs and the one that an agents.toml has instead.
var misnamed = map[string]string{
	"key": "key_env or key_file", "api_key": "key_env or key_file", "token": "key_env or key_file", "system": "instructions", "prompt": "instructions",
	"approvals": "approve", "tool": "tools", "workers": "slots", "url": "base_url", "kind": "command, for an agent that speaks ACP",
}

// similarSetting returns the end of a message about an unknown setting.
func similarSetting(key toml.Key) string {
	if instead := misnamed[key[len(key)-1]]; instead != "" {
		return "; use " + instead
	}
	return ""
}

// check fills in defaults, and returns the mistakes.
func (f *agentsFile) check() (mistakes []string) {
	add := func(format string, args ...any) { mistakes = append(mistakes, fmt.Sprintf(format, args...)) }
	if f.Worker.Slots < 0 || f.Worker.Slots > maxSlots {
		add("worker: slots is %d, not 1 to %d", f.Worker.Slots, maxSlots)
	}
	if f.Worker.Slots == 0 {
		f.Worker.Slots = defaultSlots
	}
	if f.Worker.Lease != 0 && time.Duration(f.Worker.Lease) < minLease {
		add("worker: lease is shorter than %s", minLease)
	}
	if f.Worker.MaxAttempts < 0 || f.Worker.Retry < 0 || f.Worker.CacheSize < 0 {
		add("worker: max_attempts, retry and cache_gib are not negative")
	}
	if n := len(f.Agents); n == 0 || n > maxAgents {
		add("1 to %d tables [[agents]] are needed", maxAgents)
	}
	seen := map[string]bool{}
	for i := range f.Agents {
		a := &f.Agents[i]
		who := fmt.Sprintf("agent %q", a.Name)
		switch {
		case !isName(a.Name):
			who = fmt.Sprintf("agent %d", i+1)
			add("%s: name is not 1 to 40 letters, digits, - and _", who)
		case seen[a.Name]:
			add("%s is in the file twice", who)
		}
		seen[a.Name] = true
		for _, m := range f.checkAgent(a) {
			add("%s: %s", who, m)
		}
	}
	tenants := map[string]bool{}
	for _, t := range f.Tenants {
		switch {
		case t.Name == "" || len(t.Name) > 200:
			add("a tenant needs a name of 1 to 200 bytes")
		case tenants[t.Name]:
			add("tenant %q is in the file twice", t.Name)
		case t.Slots < 1 || t.Slots > maxSlots:
			add("tenant %q: slots is %d, not 1 to %d", t.Name, t.Slots, maxSlots)
		}
		tenants[t.Name] = true
	}
	return mistakes
}

// isName reports whether a name of an agent is simple enough for a path and a shell.
func isName(name string) bool {
	return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,39}$`).MatchString(name)
}

// checkAgent returns the mistakes of an agent.
func (f *agentsFile) checkAgent(a *agentSpec) (mistakes []string) {
	add := func(format string, args ...any) { mistakes = append(mistakes, fmt.Sprintf(format, args...)) }
	switch {
	case a.isACP() && a.Model != "":
		add("it has a command and a model; use one of them")
	case !a.isACP() && a.Model == "":
		add("it needs a model, such as anthropic/NAME, or the command of an agent that speaks ACP")
	}
	if a.isACP() {
		if slices.Contains(a.Command, "") {
			add("command has an empty word")
		}
		if a.Permissions != "" && !slices.Contains(permissions(), a.Permissions) {
			add("unknown permissions %q; known are %s", a.Permissions, strings.Join(permissions(), ", "))
		}
		for what, isSet := range a.ownSettings() {
			if isSet {
				add("%s is for segno's own agent, and this one has a command", what)
			}
		}
	} else {
		if len(a.Env) > 0 || a.Permissions != "" {
			add("env and permissions are for an agent with a command")
		}
		mistakes = append(mistakes, f.checkOwn(a)...)
	}
	slices.Sort(mistakes)
	for _, name := range a.Env {
		if !isVariable(name) {
			add("env has %q, which is not the name of a variable; values do not belong into the file", name)
		}
	}
	return mistakes
}

// ownSettings reports which settings of segno's own agent are given.
func (a *agentSpec) ownSettings() map[string]bool {
	return map[string]bool{"base_url": a.BaseURL != "", "key_env": a.KeyEnv != "", "key_file": a.KeyFile != "", "instructions": a.Instructions != "",
		"instructions_file": a.InstructionsFile != "", "tools": len(a.Tools) > 0, "approve": len(a.Approve) > 0, "sandbox": a.Sandbox != "",
		"user": a.User != "", "workspace": a.Workspace, "max_steps": a.MaxSteps != 0, "max_tokens": a.MaxTokens != 0}
}

// checkOwn returns the mistakes of segno's own agent.
func (f *agentsFile) checkOwn(a *agentSpec) (mistakes []string) {
	add := func(format string, args ...any) { mistakes = append(mistakes, fmt.Sprintf(format, args...)) }
	known := slices.Sorted(maps.Keys(toolKinds()))
	if a.Workspace {
		known = append(known, "execute")
	}
	for _, name := range a.Tools {
		if name == "execute" && !a.Workspace {
			add("the tool execute needs workspace = true")
		} else if !slices.Contains(known, name) {
			add("unknown tools %q; known are %s", name, strings.Join(known, ", "))
		}
	}
	if a.KeyEnv != "" && a.KeyFile != "" {
		add("key_env and key_file are both given")
	}
	if a.KeyEnv != "" && !isVariable(a.KeyEnv) {
		add("key_env is not the name of a variable")
	}
	if _, err := a.commands(); err != nil {
		add("%s: %s", reasonOf(err), segno.HintOf(err))
	}
	for what, isSet := range map[string]bool{"sandbox": a.Sandbox != "", "user": a.User != ""} {
		if isSet && !slices.Contains(a.Tools, "execute") {
			add("%s is for commands, and the agent has no tool execute", what)
		}
	}
	if a.MaxSteps < 0 || a.MaxTokens < 0 {
		add("max_steps and max_tokens are not negative")
	}
	if a.Instructions != "" && a.InstructionsFile != "" {
		add("instructions and instructions_file are both given")
	} else if a.InstructionsFile != "" {
		text, err := f.read(a.InstructionsFile, maxInstructions)
		if err != nil {
			add("instructions_file %s: %s", segno.QuotePath(a.InstructionsFile), err)
		}
		a.Instructions = text
	}
	return mistakes
}

// read returns the content of a file that the configuration names.
func (f *agentsFile) read(name string, most int) (string, error) {
	if !filepath.IsAbs(name) {
		name = filepath.Join(f.dir, name)
	}
	data, err := os.ReadFile(name)
	switch {
	case err != nil:
		return "", plainPathError(err)
	case len(data) > most:
		return "", fmt.Errorf("longer than %d bytes", most)
	}
	return string(data), nil
}

// isVariable reports whether a text is the name of a variable of the environment.
func isVariable(name string) bool {
	return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,99}$`).MatchString(name)
}
