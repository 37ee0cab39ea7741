package hook

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/dalsegno/segno/internal/local"
)

// Codex runs the program of the setting notify in config.toml at the end of each turn. It does so even if it runs no
// hooks: before the user reviewed them, and in versions without hooks. There can be only one such program. So segno's
// command ends with the command that it replaced, and runs that, too.

// NotifyArg is the argument of 'segno hook' in the setting notify.
const NotifyArg = "codex-notify"

// notifyOf returns the command that calls segno and ends with the replaced command before.
func notifyOf(self, before []string) []string {
	return slices.Concat(self, []string{"hook", NotifyArg}, before)
}

// notifiedBefore returns the command that segno's command replaced. ok is false for a command that
// is not segno's.
func notifiedBefore(run []string) (before []string, ok bool) {
	for _, at := range []int{1, 3} {
		if len(run) >= at+2 && run[at] == "hook" && run[at+1] == NotifyArg && (at == 1 || run[1] == "--store") {
			return run[at+2:], true
		}
	}
	return nil, false
}

// planNotify reads the user's config.toml for an edit of the setting notify.
func planNotify(p local.Place) (Edit, error) {
	a := codexAgent()
	e, err := a.readSettings(p, a.configFile(p))
	e.remove = removeNotify
	return e, err
}

// isNotified reports whether Codex notifies segno of the end of a turn.
func isNotified(p local.Place) bool {
	e, err := planNotify(p)
	if err != nil {
		return false
	}
	s, err := findNotify(e.Old)
	_, ok := notifiedBefore(s.run)
	return err == nil && ok
}

// addNotify returns a config.toml in which Codex calls self at the end of a turn, and self calls the
// program that Codex called before. The rest keeps its bytes.
func addNotify(config []byte, self []string) ([]byte, error) {
	s, err := findNotify(config)
	if err != nil {
		return nil, err
	}
	before, isOurs := notifiedBefore(s.run)
	if !isOurs {
		before = s.run
	}
	run := notifyOf(self, before)
	if slices.Equal(run, s.run) {
		return config, nil
	}
	value, err := encodeTOML(run)
	if err != nil {
		return nil, err
	}
	if s.isSet {
		return slices.Concat(config[:s.value.from], value, config[s.value.to:]), nil
	}
	begin := len(config) - len(bytes.TrimPrefix(config, []byte(byteOrderMark)))
	return slices.Concat(config[:begin], []byte("notify = "), value, []byte("\n"), config[begin:]), nil
}

// removeNotify returns a config.toml without segno's command, or config unchanged if it has none. The setting gets back
// the command that segno replaced, in the same form as in before.
func removeNotify(config, before []byte) ([]byte, error) {
	s, err := findNotify(config)
	if err != nil {
		return nil, err
	}
	run, isOurs := notifiedBefore(s.run)
	if !isOurs {
		return config, nil
	}
	value, err := encodeTOML(run)
	if err != nil {
		return nil, err
	}
	switch old, err := findNotify(before); {
	case err == nil && old.isSet && slices.Equal(old.run, run):
		value = before[old.value.from:old.value.to]
	case len(run) == 0:
		return slices.Concat(config[:s.line.from], config[s.line.to:]), nil
	}
	return slices.Concat(config[:s.value.from], value, config[s.value.to:]), nil
}

// notifySetting is the setting notify in a config.toml.
type notifySetting struct {
	isSet bool
	run   []string
	line  tomlSpan // includes the end of the line
	value tomlSpan
}

// findNotify returns the setting notify, which precedes all tables.
func findNotify(config []byte) (s notifySetting, err error) {
	in := &tomlScanner{data: config}
	in.skip(byteOrderMark)
	for {
		line, key, value, err := in.setting()
		if err != nil {
			return s, fmt.Errorf("line %d: %w", 1+bytes.Count(config[:in.at], []byte{'\n'}), err)
		}
		if key == "" {
			return s, nil
		}
		if key != "notify" {
			continue
		}
		if s.isSet {
			return s, errors.New("notify is set twice")
		}
		s = notifySetting{isSet: true, line: line, value: value}
		if s.run, err = decodeTOML(config[value.from:value.to]); err != nil {
			return s, fmt.Errorf("notify: %w", err)
		}
	}
}

// encodeTOML encodes an array of strings.
func encodeTOML(words []string) ([]byte, error) {
	quoted := make([]string, len(words))
	for i, w := range words {
		if strings.ToValidUTF8(w, "") != w {
			return nil, fmt.Errorf("%q is not UTF-8", w)
		}
		quoted[i] = quoteTOML(w)
	}
	return []byte("[" + strings.Join(quoted, ", ") + "]"), nil
}

// quoteTOML encodes a string as a basic string of TOML.
func quoteTOML(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < ' ' || r == 0x7f:
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
