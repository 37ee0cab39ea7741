package hook

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
)

// pluginSource is segno's plugin for OpenCode without its commands.
//
//go:embed plugin.js
var pluginSource []byte

const commandsLine = "\nconst commands = "

// pluginCommands are the commands in the plugin, as JSON in one line.
type pluginCommands struct {
	Tool []string `json:"tool"`
	Rest []string `json:"rest"`
}

// addPlugin returns the plugin with commands. It replaces a plugin that an earlier segno wrote, and
// no other file.
func addPlugin(present []byte, run hookCommands) ([]byte, error) {
	if present != nil && readPlugin(present) == nil {
		return nil, errors.New("it is not segno's plugin")
	}
	line := encodeJSON(pluginCommands{Tool: run.tool, Rest: run.rest})
	return bytes.Replace(pluginSource, []byte(commandsLine+"null"), append([]byte(commandsLine), line...), 1), nil
}

// readPlugin returns the commands of a plugin that addPlugin wrote. It returns nil for any other
// file.
func readPlugin(file []byte) *pluginCommands {
	head, _, _ := bytes.Cut(pluginSource, []byte(commandsLine))
	rest, isOurs := bytes.CutPrefix(file, append(bytes.Clone(head), commandsLine...))
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	var c pluginCommands
	if !isOurs || json.Unmarshal(line, &c) != nil || len(c.Tool) == 0 || len(c.Rest) == 0 {
		return nil
	}
	return &c
}

// of returns the command for an event, or nil if c is nil.
func (c *pluginCommands) of(name string) []string {
	if c == nil {
		return nil
	}
	return c.commands().of(name)
}

// commands returns the commands of the events.
func (c *pluginCommands) commands() hookCommands { return hookCommands{tool: c.Tool, rest: c.Rest} }
