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

// registration is one event that segno listens to, and how long the agent may
// wait for it, in seconds. All are synchronous: an asynchronous Stop is killed
// together with a print-mode process, and the turn is lost. WorktreeCreate is not
// here on purpose: a hook on it replaces the creation.
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

// runs are the commands that merge registers.
type runs struct {
	tool []string // at tool boundaries
	rest []string
}

func (r runs) of(name string) []string {
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

// member is one name and value of a JSON object whose order matters to its owner.
type member struct {
	name  string
	value json.RawMessage
}

type object []member

// readObject reads an object that [object.text] writes back as it was, but for white
// space. It returns an error for data that text would change: a duplicate name, a name
// whose escapes text would write in another way, and anything after the object.
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
		if written := bytes.TrimLeft(data[from:dec.InputOffset()], ", \t\r\n"); !bytes.Equal(written, plain(name)) {
			return nil, fmt.Errorf("the name %q is written with escapes, as %s", name, written)
		}
		if o.get(name) != nil {
			return nil, fmt.Errorf("the name %q is there twice", name)
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

// checkNames refuses a value that has an object with a name twice: which of the two the
// agent goes by is not ours to know.
func checkNames(value json.RawMessage) error {
	dec := json.NewDecoder(bytes.NewReader(value))
	var open []map[string]bool // of the objects and arrays around; nil for an array
	isName := false            // the next string in an object
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
					return fmt.Errorf("the name %q is there twice", name)
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

// text is the object as JSON. Values stay the bytes they were: encoding/json would
// escape what their owner wrote plainly.
func (o object) text() []byte {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range o {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(plain(m.name))
		b.WriteByte(':')
		b.Write(m.value)
	}
	b.WriteByte('}')
	return b.Bytes()
}

// list is an array of values as JSON.
func list(values []json.RawMessage) json.RawMessage {
	return slices.Concat([]byte("["), bytes.Join(raw(values), []byte(",")), []byte("]"))
}

func raw(values []json.RawMessage) [][]byte {
	out := make([][]byte, len(values))
	for i, v := range values {
		out[i] = v
	}
	return out
}

// plain encodes a value of ours without escaping <, > and &.
func plain(v any) []byte {
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

// merge returns settings with our hooks in them, whatever else they hold kept as
// it was and in its order. Hooks of ours that were there before are replaced.
func merge(settings []byte, run runs) ([]byte, error) {
	top, hooks, err := openSettings(settings)
	if err != nil {
		return nil, err
	}
	// An earlier segno registered events that this one does not.
	hooks, _, err = hooks.withoutOurs(func(event string) bool {
		return !slices.ContainsFunc(registrations[:], func(r registration) bool { return r.event == event })
	})
	if err != nil {
		return nil, err
	}
	for _, r := range registrations {
		groups, err := othersOf(hooks.get(r.event))
		if err != nil {
			return nil, err
		}
		c := run.of(r.event)
		ours := plain(group{Matcher: r.matcher, Hooks: []command{{
			Type: "command", Command: c[0], Args: c[1:], Timeout: r.timeout}}})
		hooks = hooks.set(r.event, list(append(groups, ours)))
	}
	return closeSettings(top, hooks, indentation(settings))
}

// strip returns settings without our hooks, and settings themselves if they have
// none.
func strip(settings []byte) ([]byte, error) {
	top, hooks, err := openSettings(settings)
	if err != nil {
		return nil, err
	}
	hooks, found, err := hooks.withoutOurs(func(string) bool { return true })
	if err != nil || !found {
		return settings, err
	}
	return closeSettings(top, hooks, indentation(settings))
}

// withoutOurs returns hooks without ours of the events that drop names, and whether
// there were any.
func (o object) withoutOurs(drop func(event string) bool) (rest object, found bool, err error) {
	rest = o
	for _, m := range append(object(nil), o...) {
		if !drop(m.name) {
			continue
		}
		var all []json.RawMessage
		if err := json.Unmarshal(m.value, &all); err != nil {
			return nil, false, fmt.Errorf("read its hooks: %w", err)
		}
		groups, err := othersOf(m.value)
		if err != nil {
			return nil, false, err
		}
		switch {
		case len(groups) == len(all):
		case len(groups) == 0:
			rest, found = rest.without(m.name), true
		default:
			rest, found = rest.set(m.name, list(groups)), true
		}
	}
	return rest, found, nil
}

var firstIndent = regexp.MustCompile(`\n([ \t]+)"`)

// indentation is what settings are indented with.
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

// othersOf returns an event's groups less our own hooks.
func othersOf(raw json.RawMessage) ([]json.RawMessage, error) {
	if raw == nil {
		return nil, nil
	}
	var groups []json.RawMessage
	if err := json.Unmarshal(raw, &groups); err != nil {
		return nil, fmt.Errorf("read its hooks: %w", err)
	}
	var out []json.RawMessage
	for _, g := range groups {
		ours, _, err := oursIn(g)
		if err != nil {
			return nil, err
		}
		if !ours {
			out = append(out, g)
		}
	}
	return out, nil
}

// oursIn reports whether a group is one that merge wrote.
func oursIn(raw json.RawMessage) (bool, []string, error) {
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

// installed returns the command that settings run for an event, or nil.
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
		if ours, run, err := oursIn(g); err == nil && ours {
			return run, nil
		}
	}
	return nil, nil
}
