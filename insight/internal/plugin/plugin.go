// Package plugin writes the plugins in which agents get commands and tools of segno. Each agent's package below agents/ describes
// the layout of its plugin; the texts are here.
package plugin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agents/profile"
	"github.com/dalsegno/segno/internal/vfs"
)

// Values are the values that differ between plugins.
type Values struct {
	Version string
	Command []string // starts the MCP server
}

const description = "Undo, redo, restore, fork and search the turns of an agent: the conversation and the files together"

// Files returns the files of a plugin by their paths.
func Files(p *profile.Plugin, v Values) (map[string][]byte, error) {
	files := map[string][]byte{}
	for name, text := range p.Files {
		values := map[string]any{"VERSION": v.Version, "DESCRIPTION": description, "COMMAND": v.Command[0], "ARGS": v.Command[1:]}
		var pairs []string
		for _, word := range slices.Sorted(maps.Keys(values)) {
			value, err := json.Marshal(values[word])
			if err != nil {
				return nil, err
			}
			pairs = append(pairs, word, string(value))
		}
		var b bytes.Buffer
		if err := json.Indent(&b, []byte(strings.NewReplacer(pairs...).Replace(text)), "", "  "); err != nil {
			return nil, segno.NewError(segno.KindInternal, "make plugin", name, err)
		}
		files[name] = append(b.Bytes(), '\n')
	}
	files[p.Skill] = []byte(skill())
	for _, x := range verbs() {
		files[strings.ReplaceAll(p.Verb, "NAME", x.name)] = []byte(x.file(p))
	}
	return files, nil
}

// Write writes the files of a plugin to a directory. It returns [segno.KindConflict] if the directory has other files than those
// of an earlier plugin. Files with their names are only replaced beside a manifest of segno's plugin.
func Write(fsys vfs.FS, dir string, files map[string][]byte) error {
	isEarlier := hasManifest(dir, files)
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if text := files[filepath.ToSlash(rel)]; err != nil || text == nil || !isEarlier && !hasContent(path, d, text) {
			return segno.Errorf(segno.KindConflict, "write plugin", dir, "it has other files, such as %s", segno.QuotePath(path)).WithHint("choose a new directory")
		}
		return nil
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err = vfs.MkdirAll(fsys, filepath.Dir(path)); err == nil {
			err = vfs.Replace(fsys, path, files[name], 0o644)
		}
		if err != nil {
			return segno.NewError(segno.KindIO, "write plugin", path, err)
		}
	}
	return nil
}

// hasManifest reports whether a directory has a manifest of the plugin, and none of another one.
func hasManifest(dir string, files map[string][]byte) (found bool) {
	for name, text := range files {
		if nameIn(text) == "" {
			continue
		}
		present, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
		if err == nil && nameIn(present) != nameIn(text) {
			return false
		}
		found = found || err == nil
	}
	return found
}

// nameIn returns the name in a manifest, or "".
func nameIn(text []byte) string {
	var manifest struct{ Name string }
	if json.Unmarshal(text, &manifest) != nil {
		return ""
	}
	return manifest.Name
}

// hasContent reports whether a file has a content.
func hasContent(path string, d fs.DirEntry, text []byte) bool {
	if !d.Type().IsRegular() {
		return false
	}
	present, err := os.ReadFile(path)
	return err == nil && bytes.Equal(present, text)
}

// verb is a verb that a user calls in an agent.
type verb struct{ name, hint, description, prompt string }

// verbs returns the verbs. ARGS in a prompt stands for what the user typed after the verb.
func verbs() []verb {
	const report = " Report the outcome in one or two sentences. If it is REQUESTED, tell the user that it is made when this turn ends, and end the turn. " +
		"If it is CONFLICT, list the paths, and do not change them."
	return []verb{
		{"undo", "[N | tN]", "Undo the newest turns: their changes to the files, and the conversation", "Call the tool undo of segno. ARGS names the number of turns, or the turn to go back to; without it, undo one turn." + report},
		{"redo", "[N | tN]", "Redo turns that were undone", "Call the tool redo of segno. ARGS names the number of turns, or a turn; without it, redo one turn. If it is refused, tell the user to run 'segno redo' after this turn." + report},
		{"restore", "CHECKPOINT [PATH…]", "Make the files and the conversation as they were at a checkpoint, or bring a file back", "Call the tool restore of segno for this checkpoint and these paths: ARGS. If only a path is named, find the newest checkpoint that has it with the tools search or log first." + report},
		{"fork", "[CHECKPOINT] [NAME]", "Try something else in a new directory, from a checkpoint", "Call the tool fork of segno: ARGS. Tell the user the new directory, and the command that continues there."},
		{"save", "[TEXT]", "Make a checkpoint of the present files", "Call the tool save of segno with this message: ARGS."},
		{"log", "[PATH…]", "List the turns of this conversation, or those that changed a path", "Call the tool log of segno with these paths, if there are any: ARGS. Show the list as it is."},
		{"search", "WORD…", "Find earlier prompts, answers, commands and changes", "Call the tool search of segno: ARGS. List the hits with their turns, and quote the text."},
	}
}

// file returns the file of a verb in the form of an agent.
func (x verb) file(p *profile.Plugin) string {
	prompt := strings.ReplaceAll(x.prompt, "ARGS", p.Arguments)
	switch p.Form {
	case profile.TOMLCommand:
		return fmt.Sprintf("description = %s\nprompt = %s\n", strconv.Quote(x.description), strconv.Quote(prompt))
	case profile.SkillCommand:
		return fmt.Sprintf("---\nname: %s\ndescription: %s\n---\n\n%s\n", x.name, strconv.Quote(x.description+". Use it only if the user asks for it."), prompt)
	}
	return fmt.Sprintf("---\ndescription: %s\nargument-hint: %s\n---\n\n%s\n", strconv.Quote(x.description), strconv.Quote(x.hint), prompt)
}

func skill() string {
	return `---
name: segno
description: The history of this directory. Use it to find what an earlier turn did, to read a file as it was, or to undo turns when the user asks for it.
---

segno keeps a checkpoint of every turn: the conversation, the files, and what tools did. A shell command counts like a tool
that edits files. Its tools:

- log, show, diff, cat, blame, search, threads, status read. Use them instead of guessing what happened earlier, also without being asked.
- undo, redo, restore, fork and save move. Use them only if the user asks for it. Before an undo, name the turns that it undoes.

A checkpoint is t1, t2, … (a turn), @ (the present head), @- (the one before it), or the first letters of an id.

An undo or a restore during a turn of this conversation is REQUESTED: it is made when the turn ends. Say so, end the turn, and
do not repeat it. An undo counts the turns that have ended; it also undoes the turn in which you ask.
A CONFLICT is a file that the user changed, too: segno leaves it as it is. Show the difference, and let the user decide.

If log is empty, nothing is recorded here yet: the user runs 'segno enable' with the name of the agent once. This plugin has no
hooks, because those in the agent's settings also work where hooks of plugins do not.
`
}
