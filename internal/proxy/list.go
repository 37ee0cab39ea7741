package proxy

import (
	"encoding/json"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/acp"
)

// listSessions serves session/list: the agent's, if it can, with the ids our clients
// know, else those of the book.
func (p *proxy) listSessions(m acp.Message) {
	if !p.agent.identity().List {
		p.listOurs(m)
		return
	}
	proc, err := p.agent.running(p.ctx)
	if err != nil {
		p.listOurs(m)
		return
	}
	proc.send(m.IDText(), m.Line, pending{gone: func() { p.work.Go(func() { p.listOurs(m) }) }, answer: func(a acp.Message) {
		if a.Err() != nil {
			p.toClient(a.Line)
			return
		}
		// The agent is read on meanwhile: the book may have thousands of pages.
		p.work.Go(func() {
			p.toClient(a.Splice(p.listEdits(a, realDir(m.Text(m.Find(m.Params, "cwd"))), m.Text(m.Find(m.Params, "cursor")))...))
		})
	}})
}

func (p *proxy) listOurs(m acp.Message) {
	pages, err := p.book.pages(realDir(m.Text(m.Find(m.Params, "cwd"))))
	if err != nil {
		p.toClient(acp.Failure(m.IDText(), refusal(err)))
		return
	}
	list := []any{}
	for _, pg := range pages {
		if !pg.Deleted {
			list = append(list, pg.info())
		}
	}
	p.toClient(acp.Result(m.IDText(), acp.Encode(map[string]any{"sessions": list})))
}

// listEdits puts the clients' ids in the agent's list: of a thread's sessions only
// the one that it stands on is listed, under the id its client keeps.
// What the agent does not list, because its session is lost or was not prompted yet,
// is added to the first page, where all of ours are.
func (p *proxy) listEdits(m acp.Message, cwd, cursor string) []acp.Edit {
	sessions := m.Find(m.Result, "sessions")
	if sessions.IsZero() {
		return nil
	}
	pages, err := p.book.pages("")
	if err != nil {
		p.logf("%v", err)
		return nil
	}
	clients, behind := p.ids(pages)
	titles := map[segno.SessionID]string{}
	for _, pg := range pages {
		titles[pg.Client] = pg.Title
	}
	var kept []string
	changed := false
	seen := map[string]bool{}
	m.Elements(sessions, func(el acp.Span) {
		at := m.Find(el, "sessionId")
		id := m.Text(at)
		text := string(el.Of(m.Line))
		client, ours := clients[segno.SessionID(id)]
		switch {
		case (behind[segno.SessionID(id)] && !ours) || (ours && cursor != ""):
			changed = true
			return
		case ours && string(client) != id:
			changed = true
			text = renamed(m, el, titles[client], client)
			id = string(client)
		}
		if seen[id] {
			changed = true
			return
		}
		seen[id] = true
		kept = append(kept, text)
	})
	if cursor == "" {
		for _, pg := range pages {
			if pg.Thread != "" && !pg.Deleted && pg.Agent == p.agent.name() && (cwd == "" || pg.Dir == cwd) && !seen[string(pg.Client)] {
				kept, changed = append(kept, string(acp.Encode(pg.info()))), true
			}
		}
	}
	if !changed {
		return nil
	}
	return []acp.Edit{{At: sessions, With: []byte("[" + strings.Join(kept, ",") + "]")}}
}

// renamed is a row of the agent's list under the id and the title that the client
// knows: the agent may have made its title of what a new session was told.
func renamed(m acp.Message, row acp.Span, title string, client segno.SessionID) string {
	var info map[string]json.RawMessage
	if m.Decode(row, &info) != nil {
		return string(row.Of(m.Line))
	}
	info["sessionId"] = acp.Encode(client)
	if title != "" {
		info["title"] = acp.Encode(title)
	}
	return string(acp.Encode(info))
}

// ids maps the agent's head sessions to the clients' ids, and tells which sessions
// are behind one of those.
func (p *proxy) ids(pages []page) (clients map[segno.SessionID]segno.SessionID, behind map[segno.SessionID]bool) {
	clients, behind = map[segno.SessionID]segno.SessionID{}, map[segno.SessionID]bool{}
	for _, pg := range pages {
		if pg.Thread == "" {
			if behind[pg.Upstream] = true; !pg.Deleted {
				clients[pg.Upstream] = pg.Client
			}
			continue
		}
		head, err := p.store.Head(p.ctx, pg.Thread)
		if err != nil {
			continue
		}
		for l, err := range p.store.Chain(p.ctx, pg.Thread) {
			if err == nil {
				behind[l.Session] = true
			}
		}
		if !pg.Deleted {
			clients[head.Link.Session] = pg.Client
		}
	}
	return clients, behind
}
