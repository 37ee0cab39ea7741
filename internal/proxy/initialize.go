package proxy

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/acp"
)

func rawID(id string) json.RawMessage { return json.RawMessage(id) }

// initialize passes the client's first request on, for version 1 of the protocol
// at most, and adds to the agent's answer what it can do from now on.
func (p *proxy) initialize(m acp.Message) {
	if !m.IsRequest() {
		return
	}
	version := m.Find(m.Params, "protocolVersion")
	asked := 0
	if err := m.Decode(version, &asked); err == nil && asked > acp.Version {
		p.logf("the client asked for version %d of the protocol; it is set to %d", asked, acp.Version)
		if clamped, err := acp.Parse(m.Splice(acp.Edit{At: version, With: []byte(fmt.Sprint(acp.Version))})); err == nil {
			m = clamped
		}
	}
	p.mu.Lock()
	p.notices = !m.Find(m.Params, "clientCapabilities", "session", "notices").IsZero()
	p.mu.Unlock()
	if proc := p.agent.current(); proc != nil {
		p.greet(proc, m)
		return
	}
	p.work.Go(func() {
		proc, err := p.agent.running(p.ctx)
		if err != nil {
			p.toClient(acp.Failure(m.IDText(), refusal(err)))
			return
		}
		p.greet(proc, m)
	})
}

// greet passes initialize on to a process that has heard nothing yet, and keeps it for
// those that follow.
func (p *proxy) greet(proc *process, m acp.Message) {
	proc.send(m.IDText(), m.Line, pending{
		gone: func() {
			how, _ := proc.how.Load().(string)
			p.toClient(acp.Failure(m.IDText(), refusal(segno.Errorf(segno.KindIO, "start agent", p.Command[0], "it ended before it answered (%s)", how).WithHint("run the agent's command by hand to see what is wrong"))))
		},
		answer: func(a acp.Message) {
			if a.Err() != nil {
				p.toClient(a.Line)
				return
			}
			version := acp.Version
			if err := a.Decode(a.Find(a.Result, "protocolVersion"), &version); err != nil || version != acp.Version {
				p.toClient(acp.Failure(m.IDText(), refusal(segno.Errorf(segno.KindInvalid, "start agent", p.Command[0], "it speaks version %d of the protocol, segno speaks %d", version, acp.Version).WithHint("set the agent to version 1; claude-agent-acp takes CLAUDE_AGENT_ACP_PROTOCOL=v1"))))
				return
			}
			p.agent.learn(m, a)
			p.mu.Lock()
			p.ready = true
			p.mu.Unlock()
			p.toClient(a.Splice(offer(a)...))
		},
	})
}

// offered are the methods the proxy does for an agent that cannot.
var offered = [...]string{"list", "resume", "fork", "close", "delete"}

// offer is what changes in an agent's answer to initialize: with us it can load,
// list, resume, fork, close and delete sessions.
func offer(m acp.Message) []acp.Edit {
	caps := m.Find(m.Result, "agentCapabilities")
	sessions := m.Find(caps, "sessionCapabilities")
	var missing []string
	var edits []acp.Edit
	for _, name := range offered {
		if at := m.Find(sessions, name); at.IsZero() {
			missing = append(missing, fmt.Sprintf("%q:{}", name))
		} else if string(at.Of(m.Line)) == "null" {
			edits = append(edits, acp.Edit{At: at, With: []byte("{}")})
		}
	}
	all := "{" + strings.Join(missing, ",") + "}"
	if !isObject(m, caps) {
		return put(m, m.Result, field{"agentCapabilities", caps, `{"loadSession":true,"sessionCapabilities":` + all + `}`})
	}
	var more []field
	if load := m.Find(caps, "loadSession"); string(load.Of(m.Line)) != "true" {
		more = append(more, field{"loadSession", load, "true"})
	}
	if !isObject(m, sessions) {
		more = append(more, field{"sessionCapabilities", sessions, all})
	} else if len(missing) > 0 {
		edits = append(edits, insert(m, sessions, missing...))
	}
	return append(edits, put(m, caps, more...)...)
}

func isObject(m acp.Message, at acp.Span) bool { return !at.IsZero() && m.Line[at.From] == '{' }

// field is what a member of an object is to be; at is where the object has it,
// zero if it has none.
type field struct {
	name  string
	at    acp.Span
	value string
}

// put gives members of an object other values.
func put(m acp.Message, object acp.Span, members ...field) []acp.Edit {
	var edits []acp.Edit
	var absent []string
	for _, p := range members {
		if p.at.IsZero() {
			absent = append(absent, fmt.Sprintf("%q:%s", p.name, p.value))
		} else {
			edits = append(edits, acp.Edit{At: p.at, With: []byte(p.value)})
		}
	}
	if len(absent) > 0 {
		edits = append(edits, insert(m, object, absent...))
	}
	return edits
}

// insert puts members in front of an object's others.
func insert(m acp.Message, object acp.Span, members ...string) acp.Edit {
	if !isObject(m, object) {
		return acp.Edit{}
	}
	text := strings.Join(members, ",")
	if rest := strings.TrimLeft(string(m.Line[object.From+1:object.To]), " \t\r\n"); !strings.HasPrefix(rest, "}") {
		text += ","
	}
	at := object.From + 1
	return acp.Edit{At: acp.Span{From: at, To: at}, With: []byte(text)}
}

// authenticate passes on what the client proves to the agent, and keeps it in
// memory for the next process.
func (p *proxy) authenticate(m acp.Message) {
	proc, err := p.agent.running(p.ctx)
	if err != nil {
		p.toClient(acp.Failure(m.IDText(), refusal(err)))
		return
	}
	p.forward(proc, m, m.Line, func(a acp.Message) {
		if a.Err() == nil {
			p.agent.known.Lock()
			p.agent.auth = append(json.RawMessage(nil), m.Params.Of(m.Line)...)
			p.agent.known.Unlock()
		}
		p.toClient(a.Line)
	})
}
