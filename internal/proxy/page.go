package proxy

import (
	"encoding/json"
	"path/filepath"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/acp"
)

// settle reads what the book and the store know of the session, once. A page that
// cannot be read is an error: taken for none it would be written over.
func (s *session) settle() error {
	if s.page.Client != "" {
		return nil
	}
	pg, err := s.proxy.book.read(s.id)
	if err != nil && segno.KindOf(err) != segno.KindNotFound {
		return err
	}
	if err != nil {
		pg = page{Client: s.id, Agent: s.proxy.agent.name(), Upstream: s.id, Opened: s.proxy.Place.Now(), Foreign: true}
		for t, err := range s.proxy.store.Threads(s.proxy.ctx, segno.ThreadQuery{Session: s.id, Limit: 1}) {
			if err != nil {
				return err
			}
			pg.Thread, pg.Title = t.ID, t.Title
		}
		if pg.Dir, err = s.proxy.store.SessionDir(s.proxy.ctx, s.id); err != nil {
			return err
		}
	}
	pg.Agent = s.proxy.agent.name() // which the client may have changed
	s.page, s.thread = pg, pg.Thread
	return nil
}

// begunAs makes the session that of a client's request to open one.
func (s *session) begunAs(m acp.Message, up segno.SessionID) {
	now := s.proxy.Place.Now()
	s.opened = withoutOurs(m)
	s.page = page{Client: s.id, Agent: s.proxy.agent.name(), Upstream: up, Dir: s.dirOf(m), Opened: now, Used: now}
	if up != s.id {
		s.page.Name = string(s.id)
	}
}

// dirOf is the directory a request names.
func (s *session) dirOf(m acp.Message) string { return realDir(m.Text(m.Find(m.Params, "cwd"))) }

// realDir is a directory with symlinks resolved: what agents and workspaces are named
// by.
func realDir(dir string) string {
	if real, err := filepath.EvalSymlinks(dir); err == nil && dir != "" {
		return real
	}
	return dir
}

// withoutOurs are a request's params without what is meant for us.
func withoutOurs(m acp.Message) json.RawMessage {
	var params, meta map[string]json.RawMessage
	if m.Decode(m.Params, &params) != nil {
		return nil
	}
	if json.Unmarshal(params["_meta"], &meta) == nil && meta != nil {
		delete(meta, "segno")
		delete(meta, "jetbrains")
		params["_meta"] = acp.Encode(meta)
	}
	return acp.Encode(params)
}

// remember writes the session's page. That it could not be written matters to the
// next run only, and is logged.
func (s *session) remember() {
	s.page.Used = s.proxy.Place.Now()
	if err := s.proxy.book.write(s.page); err != nil {
		s.proxy.logf("%v", err)
	}
}

// info is the page as a row of session/list.
func (pg page) info() map[string]any {
	info := map[string]any{"sessionId": pg.Client, "cwd": pg.Dir, "updatedAt": pg.Used.UTC().Format("2006-01-02T15:04:05.000Z07:00")}
	if pg.Title != "" {
		info["title"] = pg.Title
	}
	return info
}
