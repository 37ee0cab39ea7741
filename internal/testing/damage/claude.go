package damage

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Patterns for lines of Claude Code's session files.
const (
	claudeMessage = `"parentUuid":.*"message":\{`
	claudePrompt  = `"role":"user","content":"fact`
	claudeAnswer  = `"role":"assistant".*"text":"fact-a`
	claudeCall    = `"type":"tool_use"`
	claudeResult  = `"type":"tool_result"`
	claudeString  = `"content":"(\\.|[^"\\])*"`
	claudeParent  = `"parentUuid":("[^"]*"|null)`
	claudeUUID    = `"uuid":"[^"]*"`
	claudeTime    = `"timestamp":"[^"]*"`
)

// ClaudeMessage reports whether a line of a Claude Code session is a message.
func ClaudeMessage(line []byte) bool { return regexp.MustCompile(claudeMessage).Match(line) }

// Claude returns the ways to damage a session of Claude Code.
func Claude() []Kind {
	edit := func(name, line, pattern, by string) Kind {
		return Kind{name, func(f *File) { f.Edit(line, pattern, by) }}
	}
	spoil := func(name, line, pattern, by string) Kind {
		return Kind{name, func(f *File) { f.Spoil(line, pattern, by) }}
	}
	blank := func(name, line, pattern, by string) Kind {
		return Kind{name, func(f *File) { f.Blank(line, pattern, by) }}
	}
	unname := func(name, by string) Kind {
		return Kind{name, func(f *File) {
			f.Edit(claudeMessage, claudeUUID, by)
			f.IsUnnamed = true
		}}
	}
	return append([]Kind{
		spoil("the content of a prompt is null", claudePrompt, claudeString, `"content":null`),
		spoil("the content of an answer is null", claudeAnswer, `"content":\[.*?\]`, `"content":null`),
		spoil("the content of a result is null", claudeResult, `"content":\[.*?\}\]`, `"content":null`),
		spoil("a prompt has no message", claudePrompt, `"message":\{.*?\}`, `"x":0`),
		spoil("an answer has no message", claudeAnswer, `"message":\{`, `"massage":{`),
		spoil("the message of an answer is null", claudeAnswer, `"message":\{`, `"message":null,"x":{`),
		spoil("the content of an answer is a number", claudeAnswer, `"content":\[.*?\]`, `"content":7`),
		spoil("an answer has no content", claudeAnswer, `"content":\[.*?\]`, `"x":0`),
		blank("the content of an answer is empty", claudeAnswer, `"content":\[.*?\]`, `"content":[]`),
		blank("the content of a prompt is an empty text", claudePrompt, claudeString, `"content":""`),
		edit("a block of an answer is null", claudeAnswer, `"content":\[`, `"content":[null,`),
		edit("a block of an answer is a text", claudeAnswer, `"content":\[`, `"content":["x",`),
		edit("a block of an answer has no type", claudeAnswer, `"content":\[`, `"content":[{"text":"x"},`),
		edit("a block of an answer has an unknown type", claudeAnswer, `"content":\[`, `"content":[{"type":"new","x":1},`),
		spoil("the text of an answer is a number", claudeAnswer, `"text":"fact[^"]*"`, `"text":7`),
		spoil("the text of an answer is null", claudeAnswer, `"text":"fact[^"]*"`, `"text":null`),
		{"the content of an answer is a text", func(f *File) {
			i := f.Pick(claudeAnswer)
			f.edit(i, `"content":\[.*?\]`, `"content":"`+f.Lines[i].Facts[0]+`"`)
		}},
		spoil("the content of a call's result is null", claudeResult, `"content":"(\\.|[^"\\])*"`, `"content":null`),
		edit("the input of a call is null", claudeCall, `"input":\{.*?\}`, `"input":null`),
		edit("a call has no id", claudeCall, `"id":"toolu[^"]*",`, ``),
		edit("a result names no call", claudeResult, `"tool_use_id":"[^"]*"`, `"x":0`),
		edit("a message has no role", claudeAnswer, `"role":"assistant"`, `"x":0`),
		edit("the parent of a prompt is null", claudePrompt, claudeParent, `"parentUuid":null`),
		edit("the parent of an answer is null", claudeAnswer, claudeParent, `"parentUuid":null`),
		edit("the parent of a result is null", claudeResult, claudeParent, `"parentUuid":null`),
		edit("the parent of an answer is missing", claudeAnswer, claudeParent, `"parentUuid":"00000000-0000-4000-8000-000000000001"`),
		edit("an answer has no parent", claudeAnswer, claudeParent, `"x":0`),
		{"a message is its own parent", func(f *File) {
			i := f.Pick(claudeMessage)
			id := strings.TrimPrefix(string(regexp.MustCompile(claudeUUID).Find(f.Lines[i].Text)), `"uuid":`)
			f.edit(i, claudeParent, `"parentUuid":`+id)
		}},
		{"a message is its own ancestor", func(f *File) {
			i := f.Pick(claudeMessage)
			k := min(i+6, len(f.Lines)-1)
			for !ClaudeMessage(f.Lines[k].Text) {
				k--
			}
			id := strings.TrimPrefix(string(regexp.MustCompile(claudeUUID).Find(f.Lines[k].Text)), `"uuid":`)
			f.edit(i, claudeParent, `"parentUuid":`+id)
		}},
		unname("a message has no uuid", `"x":0`),
		unname("the uuid of a message is null", `"uuid":null`),
		unname("the uuid of a message is a number", `"uuid":7`),
		{"one uuid has two contents", func(f *File) {
			i := f.Pick(claudeAnswer)
			l := f.Lines[i]
			word := l.Facts[0]
			l.Text, l.Facts = []byte(strings.Replace(string(l.Text), word, "fact-other", 1)), []string{"fact-other"}
			f.Lines = slices.Insert(f.Lines, i+1, l)
			f.Order = slices.Insert(f.Order, slices.Index(f.Order, word)+1, "fact-other")
		}},
		{"two messages have one uuid", func(f *File) {
			i := f.Pick(claudePrompt)
			k := i + 1
			for !regexp.MustCompile(claudePrompt).Match(f.Lines[k].Text) {
				k++
			}
			f.edit(k, claudeUUID, string(regexp.MustCompile(claudeUUID).Find(f.Lines[i].Text)))
		}},
		edit("a message has no time", claudeMessage, claudeTime, `"x":0`),
		edit("the time of a message is no time", claudeMessage, claudeTime, `"timestamp":"yesterday"`),
		edit("the time of a message is in the future", claudeMessage, claudeTime, `"timestamp":"2099-01-01T00:00:00.000Z"`),
		edit("the time of a message is 1970", claudeMessage, claudeTime, `"timestamp":"1970-01-01T00:00:00.000Z"`),
		edit("a message has no type", claudeAnswer, `"type":"assistant"`, `"x":0`),
		edit("the type of a message is unknown", claudePrompt, `"type":"user"`, `"type":"usr"`),
		edit("a message is marked as a subagent's", claudeAnswer, `"isSidechain":false`, `"isSidechain":true`),
		{"the last pointer is at an unknown record", func(f *File) {
			f.Lines = append(f.Lines, Line{Text: []byte(`{"type":"last-prompt","leafUuid":"00000000-0000-4000-8000-000000000001","explicit":true,"sessionId":"x"}` + "\n")})
		}},
		{"a plain pointer is at an old record", func(f *File) {
			id := regexp.MustCompile(`"uuid":"([^"]*)"`).FindSubmatch(f.Lines[f.Pick(claudePrompt)].Text)[1]
			f.Lines = append(f.Lines, Line{Text: fmt.Appendf(nil, `{"type":"last-prompt","leafUuid":"%s","sessionId":"x"}`+"\n", id)})
		}},
		edit("a message is of another session", claudeMessage, `"sessionId":"[^"]*"`, `"sessionId":"00000000-0000-4000-8000-000000000009"`),
		edit("a message has no session", claudeMessage, `"sessionId":"[^"]*"`, `"x":0`),
		edit("an attachment is null", `"attachment":\{`, `"attachment":\{`, `"attachment":null,"x":{`),
		edit("an attachment has no type", `"attachment":\{`, `"attachment":\{"type"`, `"attachment":{"x"`),
		{"the result of a call is lost", func(f *File) { i := f.Pick(claudeResult); f.Delete(i, i+1) }},
		{"a call is lost", func(f *File) { i := f.Pick(claudeCall); f.Delete(i, i+1) }},
		edit("an answer has the id of another", claudeAnswer, `"id":"[^"]*"`, `"id":"msg_same"`),
		edit("an answer has no id", claudeAnswer, `"id":"[^"]*",`, ``),
	}, Bytes(claudeMessage, claudeMessage+`.*"fact-`)...)
}
