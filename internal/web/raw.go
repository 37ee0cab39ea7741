package web

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"iter"
	"net/http"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/web/wire"
)

// linesMedia is the type of a list of [wire.Item].
const linesMedia = "application/x-ndjson"

// rawRoutes returns the endpoints through which package client reads a store.
func rawRoutes() []endpoint {
	return []endpoint{
		get("/raw/head", "The head of a thread", (*Server).rawHead),
		get("/raw/wait", "The head of a thread once it has changed, or null after some seconds", (*Server).rawWait),
		stream("/raw/line", "The line of a commit", linesMedia, (*Server).rawLine),
		stream("/raw/threads", "Threads", linesMedia, (*Server).rawThreads),
		stream("/raw/checkpoints", "Checkpoints", linesMedia, (*Server).rawCheckpoints),
		stream("/raw/chain", "The chain of a thread", linesMedia, (*Server).rawChain),
		stream("/raw/workspaces", "Workspaces", linesMedia, (*Server).rawWorkspaces),
		stream("/raw/operations", "The operations on a workspace, newest first", linesMedia, (*Server).rawOperations),
		stream("/raw/objects/{hash}", "The bytes of an object", "application/octet-stream", (*Server).rawObject),
	}
}

// threadParam names a thread. The id is a query parameter and not part of the path, because it
// may be any text.
type threadParam struct {
	Thread segno.ThreadID `query:"thread" required:"true"`
}

func (s *Server) rawHead(ctx context.Context, p *threadParam) (wire.Head, error) {
	h, err := s.Store.Head(ctx, p.Thread)
	return wire.NewHead(h), err
}

// waitTime is the time for which a request waits for a commit. After it, the client sends
// another request.
const waitTime = 20 * time.Second

type waitParams struct {
	threadParam
	After int64 `query:"after" min:"-1"`
}

// waitItem is the result of a wait.
type waitItem struct {
	Head *wire.Head `json:"head"`
}

func (s *Server) rawWait(ctx context.Context, p *waitParams) (waitItem, error) {
	wait, cancel := context.WithTimeout(ctx, waitTime)
	defer cancel()
	go func() {
		select {
		case <-s.closing:
			cancel()
		case <-wait.Done():
		}
	}()
	h, err := segno.Wait(wait, s.Store, p.Thread, p.After)
	if err != nil && wait.Err() != nil && ctx.Err() == nil {
		return waitItem{}, nil
	}
	head := wire.NewHead(h)
	return waitItem{&head}, err
}

// maxLightLine is the longest line, in commits, that a request may load without
// [Server.acquireHeavy].
const maxLightLine = 200

type lineParams struct {
	At      segno.CommitID `query:"at" required:"true"`
	Last    int            `query:"last"`
	Entries int            `query:"entries" max:"1"` // 1 also returns the entries
}

func (s *Server) rawLine(w http.ResponseWriter, r *http.Request, p *lineParams) error {
	if p.Last == 0 || p.Last > maxLightLine {
		release, err := s.acquireHeavy(r.Context())
		if err != nil {
			return err
		}
		defer release()
	}
	line, err := s.Store.Load(r.Context(), p.At, segno.Window{Last: p.Last, Entries: p.Entries == 1})
	if err != nil {
		return err
	}
	return writeItems(w, r, func(yield func(segno.Node, error) bool) {
		for i := range line.Commits {
			if !yield(line.Commits[i], nil) {
				return
			}
		}
	}, wire.NewNode)
}

// queryParams has a query of the store in JSON.
type queryParams struct {
	Query string `query:"q" required:"true"`
}

// decode decodes the query into v.
func (p *queryParams) decode(v any) error {
	d := json.NewDecoder(bytes.NewReader([]byte(p.Query)))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil || d.More() {
		return invalidParameter("q", "not a query in JSON")
	}
	return nil
}

func (s *Server) rawThreads(w http.ResponseWriter, r *http.Request, p *queryParams) error {
	var q segno.ThreadQuery
	if err := p.decode(&q); err != nil {
		return err
	}
	return writeItems(w, r, s.Store.Threads(r.Context(), q), wire.NewThread)
}

func (s *Server) rawCheckpoints(w http.ResponseWriter, r *http.Request, p *queryParams) error {
	var q wire.CheckpointQuery
	if err := p.decode(&q); err != nil {
		return err
	}
	return writeItems(w, r, s.Store.Checkpoints(r.Context(), q.Decode()), wire.NewCheckpoint)
}

func (s *Server) rawChain(w http.ResponseWriter, r *http.Request, p *threadParam) error {
	chains, ok := s.Store.(segno.Chains)
	if !ok {
		return errAbility("chains")
	}
	return writeItems(w, r, chains.Chain(r.Context(), p.Thread), wire.NewLink)
}

func (s *Server) rawWorkspaces(w http.ResponseWriter, r *http.Request, p *queryParams) error {
	var q wire.WorkspaceQuery
	if err := p.decode(&q); err != nil {
		return err
	}
	all, ok := s.Store.(segno.Workspaces)
	if !ok {
		return errAbility("workspaces")
	}
	if q.ID != "" {
		rec, err := all.Workspace(r.Context(), q.ID)
		if err != nil {
			return err
		}
		return writeItems(w, r, func(yield func(segno.WorkspaceRecord, error) bool) { yield(rec, nil) }, wire.NewWorkspace)
	}
	var paths []string
	for _, path := range q.Paths {
		paths = append(paths, string(path))
	}
	return writeItems(w, r, all.FindWorkspaces(r.Context(), paths, q.Device, q.Inode), wire.NewWorkspace)
}

type operationParams struct {
	Workspace segno.WorkspaceID `query:"workspace" required:"true"`
}

func (s *Server) rawOperations(w http.ResponseWriter, r *http.Request, p *operationParams) error {
	all, ok := s.Store.(segno.Workspaces)
	if !ok {
		return errAbility("operations")
	}
	return writeItems(w, r, all.Operations(r.Context(), p.Workspace), wire.NewOperation)
}

// errAbility returns the error for a kind of records that the store does not keep.
func errAbility(what string) error {
	return segno.Errorf(segno.KindInvalid, "read store", what, "the store does not keep them")
}

type objectParams struct {
	Hash string `path:"hash" max:"64"`
}

// rawObject writes an object. For HEAD, it does not read the object and writes no body.
func (s *Server) rawObject(w http.ResponseWriter, r *http.Request, p *objectParams) error {
	var name segno.Hash
	if n, err := hex.Decode(name[:], []byte(p.Hash)); err != nil || n != len(name) {
		return invalidParameter("hash", "not a SHA-256")
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	if r.Method == http.MethodHead {
		has, err := s.Store.Objects().Has(r.Context(), name)
		if err == nil && !has {
			err = segno.NewError(segno.KindNotFound, "read object", p.Hash, nil)
		}
		if err == nil {
			w.WriteHeader(http.StatusOK)
		}
		return err
	}
	data, err := s.Store.Objects().Get(r.Context(), name)
	if err != nil {
		return err
	}
	return writeBytes(w, r, http.StatusOK, data)
}

// flushBytes is the number of bytes of a list that the server writes at once.
const flushBytes = 64 << 10

// writeItems writes records while it reads them. An error before the first record is the
// response; a later error is the last item of the list.
func writeItems[T any](w http.ResponseWriter, r *http.Request, all iter.Seq2[T, error], encode func(T) wire.Item) error {
	control := http.NewResponseController(w)
	var b bytes.Buffer
	isBegun := false
	flush := func() error {
		if !isBegun {
			w.Header().Set("Content-Type", linesMedia)
			_ = control.SetReadDeadline(time.Time{}) // the end of the deadline would cancel the request
			isBegun = true
		}
		_ = control.SetWriteDeadline(time.Now().Add(writeTimeout)) // a list may take long, but a single write must not
		_, err := b.WriteTo(w)
		return err
	}
	var failed error
	for x, err := range all {
		if err != nil {
			failed = err
			break
		}
		if err := appendItem(&b, encode(x)); err != nil {
			return err
		}
		if b.Len() >= flushBytes && flush() != nil {
			return nil // the client is gone
		}
	}
	last := wire.Item{End: true}
	if failed != nil {
		if !isBegun {
			return failed
		}
		last = wire.Item{Problem: newProblem(failed)}
	}
	if err := appendItem(&b, last); err != nil {
		return err
	}
	_ = flush() // the client is gone
	return nil
}

func appendItem(b *bytes.Buffer, i wire.Item) error {
	line, err := segno.Encode(i)
	if err != nil {
		return segno.NewError(segno.KindInternal, "encode record", i.ID, err)
	}
	b.Write(line)
	b.WriteByte('\n')
	return nil
}
