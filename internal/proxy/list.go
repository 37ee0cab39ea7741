package proxy

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/acp"
)

// listPage is how many sessions one answer to session/list has. Only a page of the agent's
// own may have more.
const listPage = 100

// cursor is where the next page of a list begins. The agent's pages come first, then those
// of segno's sessions that the agent does not list.
type cursor struct {
	Agent  string          `json:"agent,omitempty"` // the agent's own, for its next page
	Ours   bool            `json:"ours,omitempty"`  // segno's sessions, behind this one
	Used   time.Time       `json:"used,omitzero"`
	Client segno.SessionID `json:"client,omitempty"` // "" for the first
}

// cursorMark begins every cursor that a client gets.
const cursorMark = "segno:"

func (c cursor) String() string {
	return cursorMark + base64.RawURLEncoding.EncodeToString(acp.Encode(c))
}

// readCursor reads the cursor of a request; at is zero where it has none.
func readCursor(m acp.Message) (c cursor, at acp.Span, err error) {
	at = m.Find(m.Params, "cursor")
	if at.IsZero() || string(at.Of(m.Line)) == "null" {
		return c, acp.Span{}, nil
	}
	text, ok := strings.CutPrefix(m.Text(at), cursorMark)
	data, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		err = json.Unmarshal(data, &c)
	}
	if !ok || err != nil {
		return c, at, segno.Errorf(segno.KindInvalid, "session/list", "", "cursor %s is not one that session/list gave", excerpt(at.Of(m.Line))).WithHint("list without a cursor for the first page")
	}
	return c, at, nil
}

// listSessions serves session/list: the agent's, if it can, with the ids our clients
// know, else those of the book.
func (p *proxy) listSessions(m acp.Message) {
	cur, at, err := readCursor(m)
	if err == nil && cur.Agent != "" && !p.agent.identity().List {
		err = segno.Errorf(segno.KindInvalid, "session/list", "", "cursor is of another agent").WithHint("list without a cursor for the first page")
	}
	if err != nil {
		p.toClient(acp.Failure(m.IDText(), refusal(err)))
		return
	}
	if !p.agent.identity().List {
		p.listOurs(m, cur)
		return
	}
	without := func() { // the agent
		if cur.Agent != "" {
			p.toClient(acp.Failure(m.IDText(), agentEnded()))
			return
		}
		p.listOurs(m, cur)
	}
	proc, err := p.agent.running(p.ctx)
	if err != nil {
		without()
		return
	}
	line := m.Line
	if cur.Agent != "" {
		line = m.Splice(acp.Edit{At: at, With: acp.Encode(cur.Agent)})
	} else if !at.IsZero() {
		line = m.Splice(acp.Edit{At: at, With: []byte("null")})
	}
	proc.send(m.IDText(), line, pending{gone: func() { p.work.Go(without) }, answer: func(a acp.Message) {
		if a.Err() != nil {
			p.toClient(a.Line)
			return
		}
		// The agent is read on meanwhile: the book may have thousands of pages.
		p.work.Go(func() { p.toClient(a.Splice(p.listEdits(a, realDir(m.Text(m.Find(m.Params, "cwd"))), cur)...)) })
	}})
}

func (p *proxy) listOurs(m acp.Message, cur cursor) {
	pages, err := p.book.pages()
	if err != nil {
		p.toClient(acp.Failure(m.IDText(), refusal(err)))
		return
	}
	list, next := cur.page(p.listed(pages, realDir(m.Text(m.Find(m.Params, "cwd")))), listPage)
	result := map[string]any{"sessions": append([]json.RawMessage{}, list...)}
	if next != nil {
		result["nextCursor"] = next.String()
	}
	p.toClient(acp.Result(m.IDText(), acp.Encode(result)))
}

// page returns the rows behind a cursor, so many at most, and where the next ones begin,
// nil if there are none.
func (c cursor) page(pages []page, most int) (rows []json.RawMessage, next *cursor) {
	next = &cursor{Ours: true, Used: c.Used, Client: c.Client}
	for _, pg := range pages {
		if order := pg.Used.Compare(c.Used); c.Client != "" && (order > 0 || order == 0 && pg.Client <= c.Client) {
			continue
		}
		if len(rows) >= most {
			return rows, next
		}
		rows = append(rows, acp.Encode(pg.info()))
		next.Used, next.Client = pg.Used, pg.Client
	}
	return rows, nil
}

// listed returns those of the book's pages that a list of a directory has, of all
// directories if it is "": each thread once, under the id that was used last.
func (p *proxy) listed(pages []page, dir string) []page {
	moved := p.movedTo(dir)
	seen := map[segno.ThreadID]bool{}
	var list []page
	for _, pg := range pages {
		if pg.Deleted || pg.Thread != "" && seen[pg.Thread] {
			continue
		}
		if dir != "" && pg.Dir != dir && !moved(&pg) {
			continue
		}
		seen[pg.Thread] = true
		list = append(list, pg)
	}
	return list
}

// movedTo returns a function that reports whether the directory of a page was moved and is
// dir now; it then has the page say so.
func (p *proxy) movedTo(dir string) func(pg *page) bool {
	none := func(*page) bool { return false }
	if dir == "" {
		return none
	}
	rec, err := p.store.Find(p.ctx, dir)
	if err != nil || len(rec.Moved) == 0 {
		return none
	}
	return func(pg *page) bool {
		for _, root := range rec.Moved {
			rel, err := filepath.Rel(root, pg.Dir)
			if err == nil && filepath.IsLocal(rel) && filepath.Join(rec.Path, rel) == dir && p.worksIn(pg, rec.ID) {
				pg.Dir = dir
				return true
			}
		}
		return false
	}
}

// worksIn reports whether a page's session works in a workspace that was moved. Before its
// first turn nothing tells, but that its directory is gone.
func (p *proxy) worksIn(pg *page, workspace segno.WorkspaceID) bool {
	if pg.Thread == "" {
		_, err := os.Lstat(pg.Dir)
		return errors.Is(err, fs.ErrNotExist)
	}
	for t, err := range p.store.Threads(p.ctx, segno.ThreadQuery{IDPrefix: string(pg.Thread), Limit: 1}) {
		return err == nil && t.Workspace == workspace
	}
	return false
}

// listEdits puts the clients' ids in the agent's list: of a thread's sessions only
// the one that it stands on is listed, under the id its client keeps.
// What the agent does not list on its first page, because its session is lost or was not
// prompted yet, follows behind that, and is left out of the agent's later pages.
func (p *proxy) listEdits(m acp.Message, cwd string, cur cursor) []acp.Edit {
	sessions := m.Find(m.Result, "sessions")
	if sessions.IsZero() {
		return nil
	}
	pages, err := p.book.pages()
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
	changed := cur.Ours
	seen := map[string]bool{}
	m.Elements(sessions, func(el acp.Span) {
		at := m.Find(el, "sessionId")
		id := m.Text(at)
		text := string(el.Of(m.Line))
		client, ours := clients[segno.SessionID(id)]
		switch {
		case (behind[segno.SessionID(id)] && !ours) || (ours && cur.Agent != ""):
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
	if cur.Ours {
		kept = nil // they were on the page before
	}
	theirs := m.Text(m.Find(m.Result, "nextCursor"))
	var next *cursor
	if cur.Agent == "" {
		var rows []json.RawMessage
		ours := slices.DeleteFunc(p.listed(pages, cwd), func(pg page) bool {
			return pg.Thread == "" || pg.Agent != p.agent.name() || seen[string(pg.Client)]
		})
		rows, next = cur.page(ours, max(listPage-len(kept), 0))
		for _, row := range rows {
			kept, changed = append(kept, string(row)), true
		}
	}
	if next == nil && theirs != "" {
		next = &cursor{Agent: theirs}
	}
	edits := nextCursor(m, next)
	if changed {
		edits = append(edits, acp.Edit{At: sessions, With: []byte("[" + strings.Join(kept, ",") + "]")})
	}
	return edits
}

// nextCursor gives a list's answer another cursor.
func nextCursor(m acp.Message, next *cursor) []acp.Edit {
	at := m.Find(m.Result, "nextCursor")
	switch {
	case next != nil:
		return put(m, m.Result, field{"nextCursor", at, string(acp.Encode(next.String()))})
	case m.Text(at) != "":
		return []acp.Edit{{At: at, With: []byte("null")}}
	}
	return nil
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
		if _, newer := clients[head.Link.Session]; !pg.Deleted && !newer {
			clients[head.Link.Session] = pg.Client
		}
	}
	return clients, behind
}
