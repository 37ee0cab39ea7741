package preamble_test

import (
	"encoding/json"
	"fmt"

	"github.com/dalsegno/segno"
)

// threadWriter writes the commits of a thread.
type threadWriter struct {
	nodes []segno.Node
	turn  int
	calls int
}

func (l *threadWriter) add(e segno.Entry) {
	e.Turn = l.turn
	if n := len(l.nodes); n == 0 || l.nodes[n-1].Checkpoint != nil {
		l.nodes = append(l.nodes, segno.Node{})
	}
	at := &l.nodes[len(l.nodes)-1]
	at.Entries = append(at.Entries, e)
}

func (l *threadWriter) prompt(text string) *threadWriter {
	l.turn++
	l.add(message("user", text))
	return l
}

func (l *threadWriter) reply(text string) *threadWriter {
	l.add(message("agent", text))
	return l
}

// intent adds an intent and returns its id.
func (l *threadWriter) intent(tool, body string) string {
	l.calls++
	id := fmt.Sprint("call_", l.calls)
	l.add(segno.Entry{Kind: segno.EntryIntent, ID: id, Name: tool, Body: json.RawMessage(body)})
	return id
}

func (l *threadWriter) result(id, tool, body string) *threadWriter {
	l.add(segno.Entry{Kind: segno.EntryResult, ID: id, Name: tool, Body: json.RawMessage(body)})
	return l
}

func (l *threadWriter) call(tool, input, result string) *threadWriter {
	return l.result(l.intent(tool, input), tool, result)
}

func (l *threadWriter) note(name, body string) *threadWriter {
	l.add(segno.Entry{Kind: segno.EntryNote, Name: name, Body: json.RawMessage(body)})
	return l
}

func (l *threadWriter) end() *threadWriter {
	return l.checkpoint(segno.Checkpoint{Kind: segno.CheckpointTurn})
}

func (l *threadWriter) interrupted() *threadWriter {
	return l.checkpoint(segno.Checkpoint{Kind: segno.CheckpointTurn, Interrupted: true})
}

func (l *threadWriter) checkpoint(cp segno.Checkpoint) *threadWriter {
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
