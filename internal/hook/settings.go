package hook

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/event"
)

// registration is an event that segno registers for, and the seconds that the agent waits for the
// hook. All hooks are synchronous: the agent kills an asynchronous Stop hook together with a
// print-mode process, which would lose the turn. WorktreeCreate is not registered, because a hook
// on it replaces the creation.
type registration struct {
	event   string
	matcher string
	timeout int
}

var registrations = [...]registration{
	{"SessionStart", "", 10},
	{"UserPromptSubmit", "", 60},
	{"PreToolUse", "*", 5},
	{"PostToolUse", "*", 5},
	{"PostToolUseFailure", "*", 5},
	{"Stop", "", 60},
	{"StopFailure", "", 60},
	{"SubagentStop", "", 5},
	{"WorktreeRemove", "", 30},
	{"SessionEnd", "", 30},
}

// hookCommands are the commands that addHooks registers.
type hookCommands struct {
	tool []string // at tool boundaries
	rest []string
}

func (r hookCommands) of(name string) []string {
	if (event.Payload{Event: name}).IsToolEvent() {
		return r.tool
	}
	return r.rest
}

// command is one handler of Claude Code's settings.
type command struct {
	Type    string   `json:"type"`
	Command string   `json:"command"`
	Args    []string `json:"args,omitempty"`
	Timeout int      `json:"timeout,omitempty"`
}

type group struct {
	Matcher string    `json:"matcher,omitempty"`
	Hooks   []command `json:"hooks"`
}

// member is a name and value of a JSON object. The order of members is kept.
type member struct {
	name  string
	value json.RawMessage
}

type object []member

// readObject parses an object that [object.text] writes back unchanged except for white space. It
// returns an error for data that text would change: a duplicate name, a name with other escapes
// than text writes, and anything after the object.
func readObject(data []byte) (object, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	tok, err := dec.Token()
	if err != nil {
		return nil, err
	}
	if tok != json.Delim('{') {
		return nil, fmt.Errorf("not a JSON object")
	}
	var o object
	for dec.More() {
		from := dec.InputOffset()
		tok, err := dec.Token()
		if err != nil {
			return nil, err
		}
		name := tok.(string)
		if written := bytes.TrimLeft(data[from:dec.InputOffset()], ", \t\r\n"); !bytes.Equal(written, encodeJSON(name)) {
			return nil, fmt.Errorf("the name %q is written with escapes, as %s", name, written)
		}
		if o.get(name) != nil {
			return nil, fmt.Errorf("the name %q appears twice", name)
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, err
		}
		if err := checkNames(value); err != nil {
			return nil, err
		}
		o = append(o, member{name, value})
	}
	if _, err := dec.Token(); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, fmt.Errorf("unexpected text after the object")
	}
	return o, nil
}

// checkNames returns an error if an object in value has a name twice, because it is unknown which
// of the two the agent uses.
func checkNames(value json.RawMessage) error {
	dec := json.NewDecoder(bytes.NewReader(value))
	var open []map[string]bool // the names of each enclosing object; nil for an array
	isName := false            // the next string in an object is a name
	for {
		tok, err := dec.Token()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		switch tok {
		case json.Delim('{'):
			open, isName = append(open, map[string]bool{}), true
			continue
		case json.Delim('['):
			open = append(open, nil)
			continue
		case json.Delim('}'), json.Delim(']'):
			open = open[:len(open)-1]
		default:
			if name, ok := tok.(string); ok && isName && len(open) > 0 && open[len(open)-1] != nil {
				if names := open[len(open)-1]; names[name] {
					return fmt.Errorf("the name %q appears twice", name)
				} else {
					names[name] = true
				}
				isName = false
				continue
			}
		}
		isName = len(open) > 0 && open[len(open)-1] != nil // a value ended
	}
}

// text returns the object as JSON. Values keep their bytes, because encoding/json would add escapes
// to them.
func (o object) text() []byte {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range o {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(encodeJSON(m.name))
		b.WriteByte(':')
		b.Write(m.value)
	}
	b.WriteByte('}')
	return b.Bytes()
}

// encodeJSON encodes a value without escaping <, > and &.
func encodeJSON(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic("hook: internal error: a setting does not encode: " + err.Error())
	}
	return bytes.TrimSpace(b.Bytes())
}

func (o object) get(name string) json.RawMessage {
	for _, m := range o {
		if m.name == name {
			return m.value
		}
	}
	return nil
}

func (o object) set(name string, value json.RawMessage) object {
	for i, m := range o {
		if m.name == name {
			o[i].value = value
			return o
		}
	}
	return append(o, member{name, value})
}

func (o object) without(name string) object {
	var out object
	for _, m := range o {
		if m.name != name {
			out = append(out, m)
		}
	}
	return out
}

// addHooks returns settings with segno's hooks. All other members keep their bytes and order. Hooks
// that an earlier segno registered are replaced.
func addHooks(settings []byte, run hookCommands) ([]byte, error) {
	top, hooks, err := openSettings(settings)
	if err != nil {
		return nil, err
	}
	// An earlier segno registered events that this one does not.
	hooks, _, err = hooks.withoutSegno(func(event string) bool {
		return !slices.ContainsFunc(registrations[:], func(r registration) bool { return r.event == event })
	})
	if err != nil {
		return nil, err
	}
	for _, r := range registrations {
		groups, err := groupsWithoutSegno(hooks.get(r.event))
		if err != nil {
			return nil, err
		}
		c := run.of(r.event)
		ours := encodeJSON(group{Matcher: r.matcher, Hooks: []command{{
			Type: "command", Command: c[0], Args: c[1:], Timeout: r.timeout}}})
		hooks = hooks.set(r.event, encodeJSON(append(groups, ours)))
	}
	return closeSettings(top, hooks, indentation(settings))
}

// removeHooks returns settings without segno's hooks, or settings itself if there are none.
func removeHooks(settings []byte) ([]byte, error) {
	top, hooks, err := openSettings(settings)
	if err != nil {
		return nil, err
	}
	hooks, found, err := hooks.withoutSegno(func(string) bool { return true })
	if err != nil || !found {
		return settings, err
	}
	return closeSettings(top, hooks, indentation(settings))
}

// withoutSegno returns hooks without segno's commands for the events that drop selects, and whether
// there were any.
func (o object) withoutSegno(drop func(event string) bool) (rest object, found bool, err error) {
	rest = o
	for _, m := range append(object(nil), o...) {
		if !drop(m.name) {
			continue
		}
		var all []json.RawMessage
		if err := json.Unmarshal(m.value, &all); err != nil {
			return nil, false, fmt.Errorf("read its hooks: %w", err)
		}
		groups, err := groupsWithoutSegno(m.value)
		if err != nil {
			return nil, false, err
		}
		switch {
		case len(groups) == len(all):
		case len(groups) == 0:
			rest, found = rest.without(m.name), true
		default:
			rest, found = rest.set(m.name, encodeJSON(groups)), true
		}
	}
	return rest, found, nil
}

var firstIndent = regexp.MustCompile(`\n([ \t]+)"`)

// indentation returns the indentation of settings, by default two spaces.
func indentation(settings []byte) string {
	if m := firstIndent.FindSubmatch(settings); m != nil {
		return string(m[1])
	}
	return "  "
}

func openSettings(settings []byte) (top, hooks object, err error) {
	if len(bytes.TrimSpace(settings)) == 0 {
		return nil, nil, nil
	}
	if top, err = readObject(settings); err != nil {
		return nil, nil, err
	}
	if raw := top.get("hooks"); raw != nil {
		if hooks, err = readObject(raw); err != nil {
			return nil, nil, fmt.Errorf("read its hooks: %w", err)
		}
	}
	return top, hooks, nil
}

func closeSettings(top, hooks object, indent string) ([]byte, error) {
	if len(hooks) == 0 {
		top = top.without("hooks")
	} else {
		top = top.set("hooks", hooks.text())
	}
	var b bytes.Buffer
	if err := json.Indent(&b, top.text(), "", indent); err != nil {
		return nil, err
	}
	b.WriteByte('\n')
	return b.Bytes(), nil
}

// groupsWithoutSegno returns an event's groups except those that addHooks wrote.
func groupsWithoutSegno(raw json.RawMessage) ([]json.RawMessage, error) {
	if raw == nil {
		return nil, nil
	}
	var groups []json.RawMessage
	if err := json.Unmarshal(raw, &groups); err != nil {
		return nil, fmt.Errorf("read its hooks: %w", err)
	}
	var out []json.RawMessage
	for _, g := range groups {
		ours, _, err := segnoCommand(g)
		if err != nil {
			return nil, err
		}
		if !ours {
			out = append(out, g)
		}
	}
	return out, nil
}

// segnoCommand reports whether addHooks wrote a group, and returns the command of the group.
func segnoCommand(raw json.RawMessage) (bool, []string, error) {
	var g struct {
		Hooks []json.RawMessage `json:"hooks"`
	}
	if err := json.Unmarshal(raw, &g); err != nil {
		return false, nil, fmt.Errorf("read its hooks: %w", err)
	}
	if len(g.Hooks) != 1 {
		return false, nil, nil
	}
	var c command
	if json.Unmarshal(g.Hooks[0], &c) != nil {
		return false, nil, nil
	}
	n := len(c.Args)
	if n < 2 || c.Args[n-2] != "hook" || c.Args[n-1] != agentClaude {
		return false, nil, nil
	}
	return true, append([]string{c.Command}, c.Args...), nil
}

// installed returns the segno command that settings run for an event, or nil.
func installed(settings []byte, name string) ([]string, error) {
	_, hooks, err := openSettings(settings)
	if err != nil {
		return nil, segno.NewError(segno.KindCorrupt, "read settings", "", err)
	}
	var groups []json.RawMessage
	if raw := hooks.get(name); raw != nil {
		if err := json.Unmarshal(raw, &groups); err != nil {
			return nil, segno.NewError(segno.KindCorrupt, "read settings", "", err)
		}
	}
	for _, g := range groups {
		if ours, run, err := segnoCommand(g); err == nil && ours {
			return run, nil
		}
	}
	return nil, nil
}
