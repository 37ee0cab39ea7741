package httpworld

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/BurntSushi/toml"

	"github.com/dalsegno/segno"
)

// ConfigFile is the name of the file that describes a world. A directory with it is a world.
const ConfigFile = "world.toml"

// Config is the file world.toml.
type Config struct {
	Name        string `toml:"name"` // "" is the name of the directory
	Description string `toml:"description"`
	Runtime     struct {
		// Mode is "stepped" if time moves only by POST /advance, or "realtime".
		Mode string  `toml:"mode"`
		Tick float64 `toml:"tick"` // of a stepped world, in seconds
	} `toml:"runtime"`
	Run struct {
		// Command runs in the directory of the world. A string is a shell command.
		Command command `toml:"command"`
	} `toml:"run"`
	// Player plays for agents without a model. Its command has the same form as Run's.
	Player struct {
		Command command `toml:"command"`
	} `toml:"player"`
	// Check is for 'segno world check'.
	Check struct {
		Actions []string `toml:"actions"` // examples of actions, good and bad
		Say     string   `toml:"say"`     // an action of saying TEXT
	} `toml:"check"`
	// Other tools read these tables.
	Replay  map[string]any `toml:"replay"`
	Agent   map[string]any `toml:"agent"`
	Scripts map[string]any `toml:"scripts"`
}

type command []string

// UnmarshalTOML reads a string or an array of strings.
func (c *command) UnmarshalTOML(v any) error {
	list, isList := v.([]any)
	if !isList {
		list = []any{"sh", "-c", v}
	}
	for _, v := range list {
		s, isString := v.(string)
		if !isString || s == "" {
			return errors.New("a command is not a string or an array of strings")
		}
		*c = append(*c, s)
	}
	return nil
}

const (
	modeStepped  = "stepped"
	modeRealtime = "realtime"
)

// ReadConfig reads the world.toml of a directory.
func ReadConfig(dir string) (Config, error) {
	var c Config
	path := filepath.Join(dir, ConfigFile)
	invalid := func(format string, args ...any) error {
		return segno.Errorf(segno.KindInvalid, "read world", path, format, args...).WithHint("see docs/worlds.md")
	}
	data, err := os.ReadFile(path)
	if err != nil {
		kind := segno.KindIO
		if errors.Is(err, fs.ErrNotExist) {
			kind = segno.KindNotFound
		}
		return c, segno.NewError(kind, "read world", path, err).WithHint("name a directory with a file world.toml")
	}
	meta, err := toml.Decode(string(data), &c)
	if err != nil {
		return c, invalid("%s", strings.TrimPrefix(err.Error(), "toml: "))
	}
	if unknown := meta.Undecoded(); len(unknown) > 0 {
		return c, invalid("unknown key %q", unknown[0])
	}
	c.Name = cmp.Or(c.Name, filepath.Base(dir))
	if err := c.validate(); err != nil {
		return c, invalid("%s", err)
	}
	return c, nil
}

func (c Config) validate() error {
	switch {
	case len(c.Run.Command) == 0:
		return errors.New("run.command is missing")
	case c.Runtime.Mode != modeStepped && c.Runtime.Mode != modeRealtime:
		return fmt.Errorf("runtime.mode is %q, not stepped or realtime", c.Runtime.Mode)
	case c.Runtime.Mode == modeStepped && c.tick() <= 0:
		return errors.New("runtime.tick of a stepped world is missing or out of range")
	case c.Runtime.Mode == modeRealtime && c.Runtime.Tick != 0:
		return errors.New("runtime.tick is only for a stepped world")
	}
	for _, action := range c.Check.Actions {
		if !json.Valid([]byte(action)) {
			return fmt.Errorf("check.actions has %q, which is not JSON", action)
		}
	}
	if say := c.Check.Say; say != "" && (!json.Valid([]byte(say)) || !strings.Contains(say, "TEXT")) {
		return errors.New("check.say is not JSON with the word TEXT")
	}
	return nil
}

// tick returns the shortest step of time, or 0.
func (c Config) tick() time.Duration {
	if c.Runtime.Tick > 0 && c.Runtime.Tick <= time.Duration(1<<62).Seconds() {
		return time.Duration(c.Runtime.Tick * float64(time.Second))
	}
	return 0
}
