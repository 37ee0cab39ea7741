package proxy

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/proxy/acp"
)

// listPageSize is the number of sessions in one answer to session/list. A page that the
// agent made may have more.
const listPageSize = 100

// cursor marks the beginning of the next page of a list. The agent's pages come first, then
// the sessions of the index that the agent does not list.
type cursor struct {
	Agent  string          `json:"agent,omitempty"` // the agent's cursor of its next page
	Index  bool            `json:"index,omitempty"` // the page begins in the index, after this session
	Used   time.Time       `json:"used,omitzero"`
	Client segno.SessionID `json:"client,omitempty"` // "" for the first session
}

// cursorPrefix begins every cursor that a client receives.
const cursorPrefix = "segno:"

func (c cursor) String() string {
	return cursorPrefix + base64.RawURLEncoding.EncodeToString(acp.Encode(c))
}

// readCursor reads the cursor of a request. at is zero if the request has none.
func (p *proxy) readCursor(m acp.Message) (c cursor, at acp.Span, err error) {
	at = m.Find(m.Params, "cursor")
	if at.IsZero() || string(at.Of(m.Line)) == "null" {
		return c, acp.Span{}, nil
	}
	text, ok := strings.CutPrefix(m.Text(at), cursorPrefix)
	data, err := base64.RawURLEncoding.DecodeString(text)
	wrong := ""
	if !ok || err != nil || json.Unmarshal(data, &c) != nil {
		wrong = "is unknown"
	} else if c.Agent != "" && !p.agent.identity().List {
		wrong = "belongs to another agent"
	} else {
		return c, at, nil
	}
	return c, at, segno.Errorf(segno.KindInvalid, "session/list", "", "cursor %s %s", excerpt(at.Of(m.Line)), wrong).
		WithHint("list without a cursor for the first page")
}

// listSessions serves session/list: the agent's sessions, if it can list them, with the ids
// that clients know, and the sessions of the index.
func (p *proxy) listSessions(m acp.Message) {
	cur, at, err := p.readCursor(m)
	if err != nil {
		p.fail(m, err)
		return
	}
	withoutAgent := func() {
		if cur.Agent != "" {
			p.failWith(m, agentEnded())
		} else {
			p.listIndex(m, cur)
		}
	}
	var proc *process
	if p.agent.identity().List {
		proc, _ = p.agent.running(p.ctx) // if the agent cannot start, the list has only the index
	}
	if proc == nil {
		withoutAgent()
		return
	}
	agents := []byte("null") // the cursor for the agent, if the request has one
	if cur.Agent != "" {
		agents = acp.Encode(cur.Agent)
	}
	line := m.Splice(acp.Edit{At: at, With: agents})
	proc.send(nil, m.IDText(), line, pending{ended: func() { p.work.Go(withoutAgent) }, answer: func(a acp.Message) {
		if a.Err() != nil || a.Find(a.Result, "sessions").IsZero() {
			p.toClient(a.Line)
			return
		}
		// The index may have thousands of records: the goroutine that reads the agent must not wait.
		p.work.Go(func() { p.listAll(m, a, cur) })
	}})
}

// listIndex answers with the sessions of the index only.
func (p *proxy) listIndex(m acp.Message, cur cursor) {
	records, err := p.index.all()
	if err != nil {
		p.fail(m, err)
		return
	}
	rows, next := cur.page(p.ofDir(records, cwd(m)), listPageSize)
	p.toClient(acp.Result(m.IDText(), listResult(members(nil), rows, next)))
}

// listResult builds a result of session/list. other are its members beside the rows and the
// cursor.
func listResult(other map[string]json.RawMessage, rows []json.RawMessage, next *cursor) json.RawMessage {
	result := maps.Clone(other)
	delete(result, "nextCursor")
	if result["sessions"] = array(rows); next != nil {
		result["nextCursor"] = acp.Encode(next.String())
	}
	return acp.Encode(result)
}

// page returns at most limit rows after a cursor, and the cursor of the next page, nil if
// there is none.
func (c cursor) page(records []sessionRecord, limit int) (rows []json.RawMessage, next *cursor) {
	next = &cursor{Index: true, Used: c.Used, Client: c.Client}
	for _, r := range records {
		if order := r.Used.Compare(c.Used); c.Client != "" && (order > 0 || order == 0 && r.Client <= c.Client) {
			continue
		}
		if len(rows) >= limit {
			return rows, next
		}
		rows = append(rows, r.row())
		next.Used, next.Client = r.Used, r.Client
	}
	return rows, nil
}

// ofDir returns the records for the list of a directory; "" means all directories. A thread
// with several records is in the list once, under the id that was used last.
func (p *proxy) ofDir(records []sessionRecord, dir string) []sessionRecord {
	var moved segno.WorkspaceRecord
	if dir != "" {
		moved, _ = p.store.Find(p.ctx, dir) // if the store does not know dir, no session was moved to it
	}
	seen := map[segno.ThreadID]bool{}
	var list []sessionRecord
	for _, r := range records {
		if r.Deleted || r.Thread != "" && seen[r.Thread] {
			continue
		}
		if dir != "" && r.Dir != dir {
			if !p.wasMoved(r, moved, dir) {
				continue
			}
			r.Dir = dir
		}
		seen[r.Thread] = true
		list = append(list, r)
	}
	return list
}

// wasMoved reports whether the directory of a session is dir now, because its workspace was
// moved.
func (p *proxy) wasMoved(r sessionRecord, to segno.WorkspaceRecord, dir string) bool {
	return slices.ContainsFunc(to.Moved, func(root string) bool {
		rel, err := filepath.Rel(root, r.Dir)
		return err == nil && filepath.IsLocal(rel) && filepath.Join(to.Path, rel) == dir && p.worksIn(r, to.ID)
	})
}

// worksIn reports whether a session works in a workspace that was moved. A session without a
// turn has no workspace yet; it counts if its directory no longer exists.
func (p *proxy) worksIn(r sessionRecord, workspace segno.WorkspaceID) bool {
	if r.Thread == "" {
		_, err := os.Lstat(r.Dir)
		return errors.Is(err, fs.ErrNotExist)
	}
	t, ok, err := segno.FindThread(p.ctx, p.store, r.Thread)
	return err == nil && ok && t.Workspace == workspace
}

// listAll answers with a page of the agent's list. It lists only the newest session of each
// thread, under the id and the title that the client knows. The agent does not list sessions
// that it lost or that had no prompt yet. listAll adds those sessions from the index after
// the agent's first page, and leaves them out of the later pages.
func (p *proxy) listAll(m, a acp.Message, cur cursor) {
	records, err := p.index.all()
	if err != nil {
		p.logErr(err)
		p.toClient(a.Line)
		return
	}
	rows, listed, changed := p.agentRows(a, records, cur)
	var next *cursor
	if cur.Agent == "" {
		others := slices.DeleteFunc(p.ofDir(records, cwd(m)), func(r sessionRecord) bool {
			return r.Thread == "" || r.Agent != p.agent.name() || listed[r.Client]
		})
		var more []json.RawMessage
		more, next = cur.page(others, max(listPageSize-len(rows), 0))
		rows, changed = append(rows, more...), changed || len(more) > 0
	}
	if agentsNext := a.Text(a.Find(a.Result, "nextCursor")); next == nil && agentsNext != "" {
		next = &cursor{Agent: agentsNext}
	}
	if !changed && next == nil {
		p.toClient(a.Line)
		return
	}
	p.toClient(a.Splice(acp.Edit{At: a.Result, With: listResult(members(a.Result.Of(a.Line)), rows, next)}))
}

// agentRows returns the rows of the agent's list that the client receives. listed has their
// ids. changed reports that the rows differ from the agent's.
func (p *proxy) agentRows(a acp.Message, records []sessionRecord, cur cursor) (
	rows []json.RawMessage, listed map[segno.SessionID]bool, changed bool) {
	clients, isUsed := p.clientRecords(records)
	listed = map[segno.SessionID]bool{}
	a.Elements(a.Find(a.Result, "sessions"), func(at acp.Span) {
		row, up := json.RawMessage(at.Of(a.Line)), segno.SessionID(a.Text(a.Find(at, "sessionId")))
		id := up
		r, isKnown := clients[up]
		if isKnown && r.Client != up {
			id, changed = r.Client, true
			row = r.renamed(row)
		}
		if isUsed[up] && !isKnown || isKnown && cur.Agent != "" || listed[id] {
			changed = true
			return
		}
		listed[id] = true
		rows = append(rows, row)
	})
	if cur.Index { // the previous page had them
		return nil, listed, true
	}
	return rows, listed, changed
}

// renamed returns a row of the agent's list with the id and the title that the client knows.
// The agent may have made its title from a preamble.
func (r *sessionRecord) renamed(row json.RawMessage) json.RawMessage {
	info := members(row)
	info["sessionId"] = acp.Encode(r.Client)
	if r.Title != "" {
		info["title"] = acp.Encode(r.Title)
	}
	return acp.Encode(info)
}

// clientRecords maps the agent's newest session of each thread to its record, and returns
// all sessions of the agent that threads have used.
func (p *proxy) clientRecords(records []sessionRecord) (clients map[segno.SessionID]sessionRecord, used map[segno.SessionID]bool) {
	clients, used = map[segno.SessionID]sessionRecord{}, map[segno.SessionID]bool{}
	for _, r := range records {
		if r.Thread == "" {
			if used[r.Upstream] = true; !r.Deleted {
				clients[r.Upstream] = r
			}
			continue
		}
		head, err := p.store.Head(p.ctx, r.Thread)
		if err != nil {
			continue
		}
		for l, err := range p.store.Chain(p.ctx, r.Thread) {
			if err == nil {
				used[l.Session] = true
			}
		}
		if _, newer := clients[head.Link.Session]; !r.Deleted && !newer {
			clients[head.Link.Session] = r
		}
	}
	return clients, used
}
