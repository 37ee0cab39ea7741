package generation

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/BurntSushi/toml"

	"github.com/dalsegno/segno"
)

// Experiment is a file that describes generations of agents in one world.
type Experiment struct {
	Name        string `toml:"name"` // "" is the name of the file
	Description string `toml:"description"`
	// World is the name of a world that is part of segno, or a directory with a world.toml, relative to
	// the directory of the file.
	World string `toml:"world"`
	Seed  uint64 `toml:"seed"`
	// Order is the order of the turns within a tick: [OrderTogether], which is the default, or [OrderFixed]. A realtime
	// world has no ticks.
	Order       string `toml:"order"`
	Generations int    `toml:"generations"`
	// A generation lasts Ticks ticks of the world, or Duration.
	Ticks    int      `toml:"ticks"`
	Duration duration `toml:"duration"`
	// Idle is how long an idle agent of a realtime world waits for its next prompt; 0 is a second.
	Idle duration `toml:"idle"`
	// Template is a directory. Each workspace of the first generation begins with its files.
	Template string `toml:"template"`
	// Prompt is the first message to each agent. AGENT is replaced by the agent's name.
	Prompt string      `toml:"prompt"`
	Agents []AgentSpec `toml:"agents"`

	path string // of the file, absolute
}

// The orders of turns within a tick.
const (
	OrderTogether = "together" // all agents at once: the world sees their actions in any order
	OrderFixed    = "fixed"    // one after the other, as the file lists them: if the agents are reproducible, the run is, too
)

// AgentSpec is one agent of an [Experiment].
type AgentSpec struct {
	Name string `toml:"name"`
	Kind string `toml:"kind"` // of [Config.Kinds]; "" is "offline"
	// Command is the program of an agent that speaks the Agent Client Protocol, with its arguments.
	Command []string `toml:"command"`
	// Model, if given, is the model of the agent, in the agent's own words.
	Model  string `toml:"model"`
	System string `toml:"system"` // the system prompt
	Prompt string `toml:"prompt"` // instead of the experiment's prompt
	// Home is a directory. The home of the agent begins with its files, such as settings.
	Home string `toml:"home"`
	// Env are names of variables that the agent receives from segno's environment.
	Env []string `toml:"env"`
}

// IsOffline reports whether the agent is segno's own agent without a model. Its world must have a scripted player.
func (a *AgentSpec) IsOffline() bool {
	return (a.Kind == KindOffline || a.Kind == KindSegno) && (a.Model == "" || a.Model == "offline")
}

// duration is a [time.Duration] that is text in TOML: "4h".
type duration time.Duration

// UnmarshalText implements [encoding.TextUnmarshaler].
func (d *duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	*d = duration(parsed)
	return err
}

const (
	maxAgents      = 100
	maxGenerations = 999
	maxTicks       = 999_999
)

// simpleName is a name that can be part of a path and of a name in an archive.
var simpleName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,39}$`) })

// runName matches the end of the name of a run's directory. No experiment may have such a name, because its directory
// is beside the runs.
var runName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`-g[0-9]{3}$`) })

// ReadExperiment reads a file. The error has [segno.KindNotFound] or [segno.KindInvalid].
func ReadExperiment(path string) (*Experiment, error) {
	const op = "read experiment"
	data, err := os.ReadFile(path)
	if err != nil {
		kind := segno.KindIO
		if errors.Is(err, fs.ErrNotExist) {
			kind = segno.KindNotFound
		}
		return nil, segno.NewError(kind, op, path, err).WithHint("name a TOML file, such as experiments/village.toml")
	}
	e := &Experiment{path: path}
	meta, err := toml.Decode(string(data), e)
	if err == nil && len(meta.Undecoded()) > 0 {
		err = segno.Errorf(segno.KindInvalid, "", "", "unknown key %q", meta.Undecoded()[0])
	}
	if err == nil {
		err = e.check()
	}
	if err != nil {
		return nil, segno.Errorf(segno.KindInvalid, op, path, "%s", strings.TrimPrefix(err.Error(), "toml: ")).WithHint("see docs/generations.md")
	}
	return e, nil
}

// check fills in defaults and returns an error for a missing or wrong setting.
func (e *Experiment) check() error {
	if e.Name == "" {
		e.Name = strings.TrimSuffix(filepath.Base(e.path), filepath.Ext(e.path))
	}
	if e.Idle == 0 {
		e.Idle = duration(time.Second)
	}
	if err := e.checkSettings(); err != nil {
		return err
	}
	seen := map[string]bool{}
	for i := range e.Agents {
		a := &e.Agents[i]
		if !simpleName().MatchString(a.Name) || seen[strings.ToLower(a.Name)] {
			return errors.New("each agent needs its own name of 1 to 40 letters, digits, - and _")
		}
		seen[strings.ToLower(a.Name)] = true
		a.Kind = cmp.Or(a.Kind, KindOffline)
		if (a.Kind == KindACP) != (len(a.Command) > 0) {
			return fmt.Errorf("a command is needed for the kind %s, and only for it", KindACP)
		}
		if a.Home = e.resolve(a.Home); a.Home != "" && !isDir(a.Home) {
			return fmt.Errorf("home of %s is not a directory", a.Name)
		}
	}
	if e.Template = e.resolve(e.Template); e.Template != "" && !isDir(e.Template) {
		return errors.New("template is not a directory")
	}
	return nil
}

// checkSettings returns an error for a wrong setting of the experiment itself.
func (e *Experiment) checkSettings() error {
	switch {
	case !simpleName().MatchString(e.Name):
		return errors.New("name is not 1 to 40 letters, digits, - and _")
	case runName().MatchString(e.Name):
		return errors.New("name ends like that of a run")
	case e.World == "":
		return errors.New("world is missing")
	case e.Generations < 1 || e.Generations > maxGenerations:
		return errors.New("generations is not 1 to 999")
	case !e.hasOneLength():
		return errors.New("either ticks, 1 to 999999, or duration is needed")
	case e.Order != "" && e.Order != OrderTogether && e.Order != OrderFixed:
		return fmt.Errorf("order is %q, not together or fixed", e.Order)
	case e.Idle < 0:
		return errors.New("idle is negative")
	case len(e.Agents) == 0 || len(e.Agents) > maxAgents:
		return errors.New("1 to 100 tables [[agents]] are needed")
	}
	return nil
}

// hasOneLength reports whether either Ticks or Duration is given.
func (e *Experiment) hasOneLength() bool {
	return e.Duration == 0 && 0 < e.Ticks && e.Ticks <= maxTicks || e.Ticks == 0 && e.Duration > 0
}

// settings returns the hash of the settings that influence the course of the generations. It leaves out the number of
// generations and the paths.
func (e *Experiment) settings() segno.Hash {
	parts := *e
	parts.Name, parts.Description, parts.Generations, parts.Template = "", "", 0, ""
	parts.Agents = slices.Clone(e.Agents)
	for i := range parts.Agents {
		parts.Agents[i].Home = ""
	}
	data, err := json.Marshal(parts)
	if err != nil {
		panic(err) // it has texts and numbers only
	}
	return segno.HashOf(data)
}

// resolve makes a path in the file absolute. It returns "" for "".
func (e *Experiment) resolve(path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(filepath.Dir(e.path), path)
}

// WorldDir returns the directory of the world, or "" if World is a name.
func (e *Experiment) WorldDir() string {
	if dir := e.resolve(e.World); strings.ContainsRune(e.World, '/') || isDir(dir) {
		return dir
	}
	return ""
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
