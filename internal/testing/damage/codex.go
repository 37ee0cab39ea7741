package damage

import (
	"regexp"
	"slices"
	"strings"
)

// Patterns for lines of Codex's session files.
const (
	codexMessage = `"type":"response_item".*"(text|output)":"[^"]*fact-`
	codexPrompt  = `"type":"response_item".*"role":"user".*"text":"fact`
	codexAnswer  = `"type":"response_item".*"role":"assistant".*"text":"fact`
	codexCall    = `"type":"function_call",`
	codexResult  = `"type":"function_call_output"`
	codexContent = `"content":\[\{.*?\}\]`
)

// CodexMessage reports whether a line of a Codex session is a message that the model receives.
func CodexMessage(line []byte) bool { return regexp.MustCompile(codexMessage).Match(line) }

// Codex returns the ways to damage a session of Codex.
func Codex() []Kind {
	edit := func(name, line, pattern, by string) Kind {
		return Kind{name, func(f *File) { f.Edit(line, pattern, by) }}
	}
	spoil := func(name, line, pattern, by string) Kind {
		return Kind{name, func(f *File) { f.Spoil(line, pattern, by) }}
	}
	first := func(name, pattern, by string) Kind {
		return Kind{name, func(f *File) { f.edit(0, pattern, by) }}
	}
	last := func(name, pattern, by string) Kind {
		return Kind{name, func(f *File) {
			if i := len(f.Lines) - 1; regexp.MustCompile(pattern).Match(f.Lines[i].Text) {
				f.edit(i, pattern, by)
			}
		}}
	}
	blank := func(name, line, pattern, by string) Kind {
		return Kind{name, func(f *File) { f.Blank(line, pattern, by) }}
	}
	return append([]Kind{
		spoil("the content of a prompt is null", codexPrompt, codexContent, `"content":null`),
		spoil("the content of an answer is null", codexAnswer, codexContent, `"content":null`),
		blank("the content of an answer is empty", codexAnswer, codexContent, `"content":[]`),
		spoil("an answer has no content", codexAnswer, codexContent, `"x":0`),
		spoil("the text of an answer is a number", codexAnswer, `"text":"fact[^"]*"`, `"text":7`),
		spoil("the text of an answer is null", codexAnswer, `"text":"fact[^"]*"`, `"text":null`),
		{"the content of an answer is a text", func(f *File) {
			i := f.Pick(codexAnswer)
			f.edit(i, codexContent, `"content":"`+f.Lines[i].Facts[0]+`"`)
		}},
		edit("a block of an answer is null", codexAnswer, `"content":\[`, `"content":[null,`),
		edit("a block of an answer has an unknown type", codexAnswer, `"content":\[`, `"content":[{"type":"new"},`),
		edit("a message has no role", codexAnswer, `"role":"assistant"`, `"x":0`),
		edit("the role of a message is unknown", codexAnswer, `"role":"assistant"`, `"role":"model"`),
		spoil("a message has no payload", codexAnswer, `"payload":`, `"x":`),
		spoil("the payload of a message is null", codexAnswer, `"payload":`, `"payload":null,"x":`),
		spoil("the payload of a message is a text", codexAnswer, `"payload":`, `"payload":"","x":`),
		edit("a message has no time", codexMessage, `"timestamp":"[^"]*"`, `"x":0`),
		edit("the time of a message is no time", codexMessage, `"timestamp":"[^"]*"`, `"timestamp":"yesterday"`),
		edit("the time of a message is a number", codexMessage, `"timestamp":"[^"]*"`, `"timestamp":7`),
		edit("a line has no type", codexAnswer, `"type":"response_item"`, `"x":0`),
		edit("the type of a line is unknown", codexAnswer, `"type":"response_item"`, `"type":"item"`),
		edit("the type of an item is unknown", codexAnswer, `"type":"message"`, `"type":"words"`),
		edit("a call has no id", codexCall, `"call_id":"[^"]*"`, `"x":0`),
		edit("a call has no arguments", codexCall, `"arguments":`, `"x":`),
		edit("the arguments of a call are an object", codexCall, `"arguments":"(\\.|[^"\\])*"`, `"arguments":{"cmd":"true"}`),
		edit("a call has no name", codexCall, `"name":`, `"x":`),
		edit("a result names no call", codexResult, `"call_id":"[^"]*"`, `"x":0`),
		spoil("the output of a result is null", codexResult, `"output":"(\\.|[^"\\])*"`, `"output":null`),
		{"the result of a call is lost", func(f *File) { i := f.Pick(codexResult); f.Delete(i, i+1) }},
		{"a call is lost", func(f *File) { i := f.Pick(codexCall); f.Delete(i, i+1) }},
		{"two calls have one id", func(f *File) {
			i := f.Pick(codexCall)
			k := slices.IndexFunc(f.Lines[i+1:], func(l Line) bool { return strings.Contains(string(l.Text), codexCall) }) + i + 1
			f.edit(k, `"call_id":"[^"]*"`, string(regexp.MustCompile(`"call_id":"[^"]*"`).Find(f.Lines[i].Text)))
		}},
		{"the first line is lost", func(f *File) { f.Delete(0, 1) }},
		{"the first line is torn", func(f *File) {
			f.Lines[0].Text = append(f.Lines[0].Text[:len(f.Lines[0].Text)/2], '\n')
		}},
		{"the first line is zeros", func(f *File) { f.Lines[0].Text = append(make([]byte, 4000), '\n') }},
		{"the first line is in the middle", func(f *File) {
			i, l := f.Pick(codexMessage), f.Lines[0]
			f.Lines = slices.Insert(f.Lines, i, l)
			f.Delete(0, 1)
		}},
		{"an empty line is the first", func(f *File) { f.Insert(0, "\n") }},
		first("the id in the first line is of another session", `"id":"[^"]*"`, `"id":"01a20562-62f8-7731-83e7-00000000eeee"`),
		first("the first line has no id", `"id":"[^"]*"`, `"x":0`),
		first("the id in the first line is no id", `"id":"[^"]*"`, `"id":"x"`),
		first("the first line has no directory", `"cwd":"[^"]*"`, `"x":0`),
		first("the directory in the first line is a number", `"cwd":"[^"]*"`, `"cwd":7`),
		first("the first line has no time", `"payload":\{(.*?)"timestamp":"[^"]*"`, `"payload":{"x":0`),
		first("the first line names no program", `"originator":"[^"]*"`, `"x":0`),
		first("the first line has no version", `"cli_version":"[^"]*"`, `"x":0`),
		first("the payload of the first line is null", `"payload":`, `"payload":null,"x":`),
		first("the first line has no type", `"type":"session_meta"`, `"x":0`),
		first("the first line has no payload", `"payload":`, `"x":`),
		last("the last line has no ordinal", `"ordinal":\d+,`, ``),
		last("the ordinal of the last line is a text", `"ordinal":\d+`, `"ordinal":"x"`),
		last("the ordinal of the last line is smaller", `"ordinal":\d+`, `"ordinal":3`),
		{"two lines have one ordinal", func(f *File) {
			i, ordinal := f.Pick(codexMessage), regexp.MustCompile(`"ordinal":\d+`)
			if at := ordinal.Find(f.Lines[i].Text); at != nil {
				f.edit(i+1, ordinal.String(), string(at))
			}
		}},
		edit("a turn has no end", `"type":"task_complete"`, `"type":"task_complete"`, `"type":"x"`),
		edit("a turn has no context", `"type":"turn_context"`, `"type":"turn_context"`, `"type":"x"`),
		edit("the context of a turn is null", `"type":"turn_context"`, `"payload":`, `"payload":null,"x":`),
	}, Bytes(codexMessage, codexMessage)...)
}
