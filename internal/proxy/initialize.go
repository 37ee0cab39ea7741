package proxy

import (
	"encoding/json"
	"fmt"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/proxy/acp"
)

// initialize forwards the client's first request. It asks for version 1 of the protocol at
// most.
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
	p.notices.Store(!m.Find(m.Params, "clientCapabilities", "session", "notices").IsZero())
	if proc := p.agent.current(); proc != nil {
		p.sendInitialize(proc, m)
		return
	}
	p.withAgent(m, func(proc *process) { p.sendInitialize(proc, m) })
}

// sendInitialize forwards initialize to a process that has received nothing yet. If it
// succeeds, the agent keeps the request for the next processes, and the client's answer also
// offers the methods of the proxy.
func (p *proxy) sendInitialize(proc *process, m acp.Message) {
	proc.send(nil, m.IDText(), m.Line, pending{
		ended: func() {
			outcome, _ := proc.outcome.Load().(string)
			p.fail(m, segno.Errorf(segno.KindIO, "start agent", p.Command[0], "it ended before it answered (%s)", outcome).
				WithHint("run the agent's command by hand to see what is wrong"))
		},
		answer: func(a acp.Message) {
			if a.Err() != nil {
				p.toClient(a.Line)
				return
			}
			version := acp.Version
			if err := a.Decode(a.Find(a.Result, "protocolVersion"), &version); err != nil || version != acp.Version {
				p.fail(m, segno.Errorf(segno.KindInvalid, "start agent", p.Command[0],
					"it speaks version %d of the protocol, segno speaks %d", version, acp.Version).
					WithHint("set the agent to version 1; claude-agent-acp takes CLAUDE_AGENT_ACP_PROTOCOL=v1"))
				return
			}
			p.agent.learn(m, a)
			p.ready.Store(true)
			p.toClient(offer(a))
		},
	})
}

// offered lists the session methods that the proxy serves if the agent does not.
var offered = [...]string{"list", "resume", "fork", "close", "delete"}

// offer adds the methods of the proxy to an agent's answer to initialize: it can load, list,
// resume, fork, close and delete sessions of every agent.
func offer(m acp.Message) []byte {
	at := m.Find(m.Result, "agentCapabilities")
	caps := members(at.Of(m.Line))
	sessions := members(caps["sessionCapabilities"])
	isComplete := string(caps["loadSession"]) == "true"
	for _, name := range offered {
		if string(sessions[name]) == "null" || sessions[name] == nil {
			sessions[name], isComplete = json.RawMessage("{}"), false
		}
	}
	if isComplete {
		return m.Line
	}
	caps["loadSession"], caps["sessionCapabilities"] = json.RawMessage("true"), acp.Encode(sessions)
	if !at.IsZero() {
		return m.Splice(acp.Edit{At: at, With: acp.Encode(caps)})
	}
	result := members(m.Result.Of(m.Line))
	result["agentCapabilities"] = acp.Encode(caps)
	return m.Splice(acp.Edit{At: m.Result, With: acp.Encode(result)})
}

// members returns the members of a JSON object. For any other value the map is empty, never
// nil.
func members(object json.RawMessage) map[string]json.RawMessage {
	var all map[string]json.RawMessage
	if json.Unmarshal(object, &all) != nil || all == nil {
		return map[string]json.RawMessage{}
	}
	return all
}
