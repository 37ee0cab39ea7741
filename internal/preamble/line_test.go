package preamble_test

import (
	"encoding/json"
	"fmt"

	"github.com/dalsegno/segno"
)

// line is a thread's line in the making.
type line struct {
	nodes []segno.Node
	turn  int
	calls int
}

func (l *line) add(e segno.Entry) {
	e.Turn = l.turn
	if n := len(l.nodes); n == 0 || l.nodes[n-1].Checkpoint != nil {
		l.nodes = append(l.nodes, segno.Node{})
	}
	at := &l.nodes[len(l.nodes)-1]
	at.Entries = append(at.Entries, e)
}

func (l *line) prompt(text string) *line {
	l.turn++
	l.add(message("user", text))
	return l
}

func (l *line) says(text string) *line {
	l.add(message("agent", text))
	return l
}

// begins adds an intent and returns its id.
func (l *line) begins(tool, body string) string {
	l.calls++
	id := fmt.Sprint("call_", l.calls)
	l.add(segno.Entry{Kind: segno.EntryIntent, ID: id, Name: tool, Body: json.RawMessage(body)})
	return id
}

func (l *line) result(id, tool, body string) *line {
	l.add(segno.Entry{Kind: segno.EntryResult, ID: id, Name: tool, Body: json.RawMessage(body)})
	return l
}

func (l *line) does(tool, input, result string) *line {
	return l.result(l.begins(tool, input), tool, result)
}

func (l *line) note(name, body string) *line {
	l.add(segno.Entry{Kind: segno.EntryNote, Name: name, Body: json.RawMessage(body)})
	return l
}

func (l *line) end() *line { return l.checkpoint(segno.Checkpoint{Kind: segno.CheckpointTurn}) }

func (l *line) cutOff() *line {
	return l.checkpoint(segno.Checkpoint{Kind: segno.CheckpointTurn, Interrupted: true})
}

func (l *line) checkpoint(cp segno.Checkpoint) *line {
	cp.Turn = l.turn
	if n := len(l.nodes); n == 0 || l.nodes[n-1].Checkpoint != nil {
		l.nodes = append(l.nodes, segno.Node{})
	}
	l.nodes[len(l.nodes)-1].Checkpoint = &cp
	return l
}

func message(who, text string) segno.Entry {
	return segno.Entry{Kind: segno.EntryMessage, Name: who, Body: quoted(text)}
}

func quoted(text string) json.RawMessage {
	body, err := json.Marshal(text)
	if err != nil {
		panic(err) // a string always encodes
	}
	return body
}
