package hook

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agents/profile"
	"github.com/dalsegno/segno/internal/hook/event"
	"github.com/dalsegno/segno/internal/jsonscan"
)

// hookCommands are the commands that addHooks registers.
type hookCommands struct {
	tool []string // at tool boundaries
	rest []string
}

// of returns the command for an event with one of segno's names.
func (r hookCommands) of(name string) []string {
	if (event.Payload{Event: name}).IsToolEvent() {
		return r.tool
	}
	return r.rest
}

// command is one handler in an agent's settings.
type command struct {
	Type    string   `json:"type"`
	Name    string   `json:"name,omitempty"`
	Command string   `json:"command"`
	Args    []string `json:"args,omitempty"`
	Timeout int      `json:"timeout,omitempty"`
}

// group is an element of an event's list in an agent's settings: commands that run for the tools
// that match.
type group struct {
	Matcher string    `json:"matcher,omitempty"`
	Hooks   []command `json:"hooks"`
}

// member is a name and value of a JSON object. The order of members is kept.
type member struct {
	name  string
	value json.RawMessage
}

// object is a JSON object. A map would lose the order that the user gave the settings.
type object []member

// readObject parses an object that [object.text] writes back unchanged except for white space. It
// returns an error for a name with other escapes than text writes, and for anything after the object.
func readObject(data []byte) (o object, err error) {
	end, ok := jsonscan.Members(data, jsonscan.SkipSpace(data, 0), func(key []byte, value jsonscan.Span) {
		name := jsonscan.Unescape(key)
		if written := encodeJSON(name); string(key) != string(written[1:len(written)-1]) {
			err = fmt.Errorf("the name %q is written with escapes, as %s", name, key)
		}
		o = append(o, member{name, value.Of(data)})
	})
	switch invalid := json.Unmarshal(data, new(any)); {
	case !ok && invalid != nil:
		return nil, invalid // the error contains the position
	case !ok:
		return nil, errors.New("not a JSON object")
	case jsonscan.SkipSpace(data, end) < len(data):
		return nil, errors.New("unexpected text after the object")
	}
	return o, err
}

// checkNames returns an error if an object in value has a name twice, because it is unknown which
// of the two the agent uses.
func checkNames(value []byte) (err error) {
	check := func(inner jsonscan.Span) {
		if err == nil {
			err = checkNames(inner.Of(value))
		}
	}
	names := map[string]bool{}
	begin := jsonscan.SkipSpace(value, 0)
	jsonscan.Elements(value, begin, check)
	jsonscan.Members(value, begin, func(key []byte, inner jsonscan.Span) {
		name := jsonscan.Unescape(key)
		if names[name] {
			err = fmt.Errorf("the name %q appears twice", name)
		}
		names[name] = true
		check(inner)
	})
	return err
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

// encodeJSON encodes a value that has a form in JSON.
func encodeJSON(v any) []byte {
	data, err := segno.Encode(v)
	if err != nil {
		panic("hook: internal error: a setting does not encode: " + err.Error())
	}
	return data
}

func (o object) index(name string) int {
	return slices.IndexFunc(o, func(m member) bool { return m.name == name })
}

// get returns the value of a name, or nil.
func (o object) get(name string) json.RawMessage {
	if i := o.index(name); i >= 0 {
		return o[i].value
	}
	return nil
}

// set replaces the value of a name in its place, or adds the name at the end.
func (o object) set(name string, value json.RawMessage) object {
	if i := o.index(name); i >= 0 {
		o[i].value = value
		return o
	}
	return append(o, member{name, value})
}

// addHooks returns settings with segno's hooks. All other members keep their bytes and order. Hooks
// that an earlier segno registered are replaced.
func (a agent) addHooks(settings []byte, run hookCommands) ([]byte, error) {
	if a.Hooks.IsPlugin {
		return addPlugin(settings, run)
	}
	top, hooks, err := openSettings(settings)
	if err != nil {
		return nil, err
	}
	if hooks, _, err = a.withoutSegno(hooks); err != nil {
		return nil, err
	}
	for _, r := range a.Hooks.Registrations {
		groups, err := groupsOf(hooks.get(r.Event))
		if err != nil {
			return nil, err
		}
		ours := encodeJSON(group{Matcher: r.Matcher, Hooks: []command{a.handler(run.of(a.Hooks.NameOf(r.Event)), r.Timeout)}})
		hooks = hooks.set(r.Event, encodeJSON(append(groups, ours)))
	}
	return closeSettings(top, hooks, indentation(settings))
}

// removeHooks returns settings without segno's hooks. It returns settings unchanged if they contain
// none, and nil if the file is to be removed.
func (a agent) removeHooks(settings []byte) ([]byte, error) {
	if a.Hooks.IsPlugin {
		if readPlugin(settings) != nil {
			return nil, nil
		}
		return settings, nil
	}
	top, hooks, err := openSettings(settings)
	if err != nil {
		return nil, err
	}
	hooks, found, err := a.withoutSegno(hooks)
	if err != nil || !found {
		return settings, err
	}
	return closeSettings(top, hooks, indentation(settings))
}

// withoutSegno returns hooks without segno's commands, and whether there were any. An event that
// had no other command keeps its place, with the value nil.
func (a agent) withoutSegno(hooks object) (rest object, found bool, err error) {
	for _, m := range hooks {
		all, err := groupsOf(m.value)
		if !a.registers(m.name) && (err != nil || slices.ContainsFunc(all, isNoObject)) {
			rest = append(rest, m) // it is no event: earlier versions of Gemini CLI had "enabled" and "disabled" there
			continue
		}
		var kept []json.RawMessage
		isOurs := false
		for _, g := range all {
			rest, isFound, invalid := a.groupWithoutSegno(g)
			err, isOurs = errors.Join(err, invalid), isOurs || isFound
			if rest != nil {
				kept = append(kept, rest)
			}
		}
		if err != nil {
			return nil, false, err
		}
		if isOurs {
			found = true
			if m.value = nil; len(kept) > 0 {
				m.value = encodeJSON(kept)
			}
		}
		rest = append(rest, m)
	}
	return rest, found, nil
}

// registers reports whether segno registers for an event of the agent.
func (a agent) registers(name string) bool {
	return slices.ContainsFunc(a.Hooks.Registrations, func(r profile.Registration) bool { return r.Event == name })
}

func isNoObject(value json.RawMessage) bool { return !bytes.HasPrefix(value, []byte("{")) }

// groupsOf returns the groups of an event. raw is nil for an event that has no groups.
func groupsOf(raw json.RawMessage) (groups []json.RawMessage, err error) {
	if raw != nil {
		err = json.Unmarshal(raw, &groups)
	}
	if err != nil {
		return nil, fmt.Errorf("read its hooks: %w", err)
	}
	return groups, nil
}

var firstIndent = regexp.MustCompile(`\n([ \t]+)"`)

// indentation returns the indentation of settings, by default two spaces.
func indentation(settings []byte) string {
	if m := firstIndent.FindSubmatch(settings); m != nil {
		return string(m[1])
	}
	return "  "
}

// openSettings parses settings and the object "hooks" in them. Empty settings have neither.
func openSettings(settings []byte) (top, hooks object, err error) {
	if len(bytes.TrimSpace(settings)) == 0 {
		return nil, nil, nil
	}
	if top, err = readObject(settings); err == nil {
		err = checkNames(settings)
	}
	if raw := top.get("hooks"); raw != nil && err == nil {
		if hooks, err = readObject(raw); err != nil {
			err = fmt.Errorf("read its hooks: %w", err)
		}
	}
	return top, hooks, err
}

// closeSettings returns the settings with new hooks, in the user's indentation. It leaves out
// events without a value, and "hooks" if no event is left.
func closeSettings(top, hooks object, indent string) ([]byte, error) {
	without := func(o object, is func(member) bool) object { return slices.DeleteFunc(slices.Clone(o), is) }
	if hooks = without(hooks, func(m member) bool { return m.value == nil }); len(hooks) > 0 {
		top = top.set("hooks", hooks.text())
	} else {
		top = without(top, func(m member) bool { return m.name == "hooks" })
	}
	var b bytes.Buffer
	if err := json.Indent(&b, top.text(), "", indent); err != nil {
		return nil, err
	}
	b.WriteByte('\n')
	return b.Bytes(), nil
}

// groupWithoutSegno returns a group without segno's commands, and whether it had any. rest is nil if the group has no
// other command. A user may add a command to the group that segno wrote, as Claude Code's /hooks does.
func (a agent) groupWithoutSegno(raw json.RawMessage) (rest json.RawMessage, found bool, err error) {
	all, err := handlersOf(raw)
	if err != nil {
		return nil, false, err
	}
	kept := slices.DeleteFunc(slices.Clone(all), func(h json.RawMessage) bool { return a.segnoCommand(h) != nil })
	switch {
	case len(kept) == len(all):
		return raw, false, nil
	case len(kept) == 0:
		return nil, true, nil
	}
	o, err := readObject(raw)
	return o.set("hooks", encodeJSON(kept)).text(), true, err
}

// handlersOf returns the handlers of a group.
func handlersOf(raw json.RawMessage) ([]json.RawMessage, error) {
	var g struct {
		Hooks []json.RawMessage `json:"hooks"`
	}
	if err := json.Unmarshal(raw, &g); err != nil {
		return nil, fmt.Errorf("read its hooks: %w", err)
	}
	return g.Hooks, nil
}

// segnoCommand returns the command of a handler that addHooks wrote, or nil for other handlers.
func (a agent) segnoCommand(handler json.RawMessage) []string {
	var c struct {
		Command string   `json:"command"`
		Args    []string `json:"args"` // the user may change other values, to other types, too
	}
	if json.Unmarshal(handler, &c) != nil {
		return nil
	}
	return a.commandOf(command{Command: c.Command, Args: c.Args})
}

// installed returns the segno command that settings run for an event, or nil.
func (a agent) installed(settings []byte, name string) ([]string, error) {
	if a.Hooks.IsPlugin {
		return readPlugin(settings).of(a.Hooks.NameOf(name)), nil
	}
	_, hooks, err := openSettings(settings)
	var groups []json.RawMessage
	if err == nil {
		groups, err = groupsOf(hooks.get(name))
	}
	if err != nil {
		return nil, segno.NewError(segno.KindCorrupt, "read settings", "", err)
	}
	for _, g := range groups {
		handlers, _ := handlersOf(g) // a group that cannot be read is not segno's
		for _, h := range handlers {
			if run := a.segnoCommand(h); run != nil {
				return run, nil
			}
		}
	}
	return nil, nil
}
