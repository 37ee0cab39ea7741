package web

import (
	"bufio"
	"context"
	"errors"
	"io"
	"iter"
	"net/http"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history/reachable"
	"github.com/dalsegno/segno/internal/web/wire"
)

// bytesMedia is the type of frames of objects, and of lists of their names; see package wire.
const bytesMedia = "application/octet-stream"

// The limits of the bodies of endpoints that handle many objects.
const (
	maxAskedNames = 65_536    // names in a question
	maxReadNames  = 4096      // objects in one response
	maxObjects    = 256 << 20 // bytes of the objects of a request
	maxUploads    = 4         // bodies that are received at once
	smallCommit   = 4 << 20   // bytes; of larger commits, one is received at once, because its JSON is decoded as a whole
)

// copyRoutes returns the endpoints through which package transfer copies threads.
func copyRoutes() []endpoint {
	return []endpoint{
		receive[struct{}]("/raw/objects/missing", "Those of the named objects that the store lacks", bytesMedia, bytesMedia, (*Server).rawMissing),
		receive[struct{}]("/raw/objects/read", "The bytes of many objects", bytesMedia, bytesMedia, (*Server).rawRead),
		receive[struct{}]("/raw/objects/reached", "The names of the objects that commits reach", "application/json", bytesMedia, (*Server).rawReached),
		receive[receivedObjects]("/raw/objects", "Store objects", bytesMedia, "", (*Server).rawPutObjects),
		receive[wire.Head]("/raw/commit", "Make a commit, once for each id", "application/json", "", (*Server).rawCommit),
	}
}

// minRate is the number of bytes that a client must send each second, over the time bodyTimeout.
const minRate = 4 << 10

// patientBody reads the body of a request. The client may take long, but must make progress: a few bytes at a time would
// hold a place of [Server.uploads] as long as the client likes.
type patientBody struct {
	io.Reader
	control *http.ResponseController
	now     func() time.Time
	left    time.Duration // that reads may wait
}

func (b *patientBody) Read(p []byte) (int, error) {
	start := b.now()
	_ = b.control.SetReadDeadline(start.Add(b.left)) // a recorder has no deadlines
	n, err := b.Reader.Read(p)
	b.left = min(bodyTimeout, b.left-b.now().Sub(start)+time.Duration(n)*time.Second/minRate)
	return n, err
}

// receiveUpload returns the body of a request, up to a limit, and a function that the caller calls once it has read it.
func (s *Server) receiveUpload(w http.ResponseWriter, r *http.Request, media string, most int64) (io.Reader, func(), error) {
	if err := checkMedia(r, media); err != nil {
		return nil, nil, err
	}
	if r.ContentLength > most {
		return nil, nil, errTooLarge(most)
	}
	release, err := acquire(r.Context(), s.uploads)
	if err != nil {
		return nil, nil, err
	}
	control := http.NewResponseController(w)
	done := func() {
		_ = control.SetReadDeadline(time.Time{}) // the end of the deadline would cancel the request
		release()
	}
	return &patientBody{http.MaxBytesReader(w, r.Body, most), control, time.Now, bodyTimeout}, done, nil
}

// errUpload returns the error of a body that could not be read.
func errUpload(err error) error {
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return errTooLarge(tooLarge.Limit)
	}
	if segno.KindOf(err) != segno.KindInternal {
		return err
	}
	return segno.NewError(segno.KindInvalid, "read request", "", err)
}

// readNames reads a list of names.
func (s *Server) readNames(w http.ResponseWriter, r *http.Request, most int) ([]segno.Hash, error) {
	body, done, err := s.receiveUpload(w, r, bytesMedia, int64(most)*int64(len(segno.Hash{})))
	if err != nil {
		return nil, err
	}
	defer done()
	data, err := io.ReadAll(body)
	if err != nil {
		return nil, errUpload(err)
	}
	return wire.ParseNames(data)
}

// rawMissing writes those of the names that the store lacks. For a client that may write, the store keeps the others until the
// client commits what reaches them.
func (s *Server) rawMissing(w http.ResponseWriter, r *http.Request) error {
	names, err := s.readNames(w, r, maxAskedNames)
	if err != nil {
		return err
	}
	missing, err := s.findMissing(r.Context(), names)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", bytesMedia)
	w.Header().Set("Content-Encoding", "identity") // hashes do not compress
	return writeBytes(w, r, http.StatusOK, wire.AppendNames(nil, missing))
}

func (s *Server) findMissing(ctx context.Context, names []segno.Hash) (missing []segno.Hash, err error) {
	granted, _ := ctx.Value(scopesKey{}).(Scopes)
	if granted.require(ScopeWrite) == nil && s.checkWrites() == nil {
		return reachable.Missing(ctx, s.Store.Objects(), names)
	}
	for _, name := range names {
		has, err := s.Store.Objects().Has(ctx, name)
		if err != nil {
			return nil, err
		}
		if !has {
			missing = append(missing, name)
		}
	}
	return missing, nil
}

func (s *Server) rawRead(w http.ResponseWriter, r *http.Request) error {
	names, err := s.readNames(w, r, maxReadNames)
	if err != nil {
		return err
	}
	return writeFrames(w, func(yield func(segno.Hash, []byte) bool) error {
		for _, name := range names {
			data, err := s.Store.Objects().Get(r.Context(), name)
			if err != nil || !yield(name, data) {
				return err
			}
		}
		return nil
	})
}

// reachedBody selects objects: those that the commits in At reach and those in Without do not.
type reachedBody struct {
	Thread  segno.ThreadID   `json:"thread,omitempty"` // also the objects of the sessions in its chain
	At      []segno.CommitID `json:"at,omitempty"`
	Without []segno.CommitID `json:"without,omitempty"`
}

func (s *Server) rawReached(w http.ResponseWriter, r *http.Request) error {
	body, done, err := s.receiveUpload(w, r, "application/json", maxBody)
	if err != nil {
		return err
	}
	defer done()
	var q reachedBody
	if err := decodeBody(body, &q); err != nil {
		return errUpload(err)
	}
	release, err := s.acquireHeavy(r.Context())
	if err != nil {
		return err
	}
	defer release()
	return writeFrames(w, func(yield func(segno.Hash, []byte) bool) error {
		return each(reachable.Objects(r.Context(), s.Store, reachable.Query{Thread: q.Thread, At: q.At, Without: q.Without}),
			func(name segno.Hash) bool { return yield(name, nil) })
	})
}

// each calls f for the values until f returns false, and returns the error that ended them.
func each[T any](values iter.Seq2[T, error], f func(T) bool) error {
	for x, err := range values {
		if err != nil || !f(x) {
			return err
		}
	}
	return nil
}

// writeFrames writes frames as they are made. An error before the first frame is the response; a later one is the last
// frame.
func writeFrames(w http.ResponseWriter, send func(yield func(segno.Hash, []byte) bool) error) error {
	control := http.NewResponseController(w)
	isBegun := false
	var b []byte
	flush := func() bool {
		if !isBegun {
			isBegun = true
			w.Header().Set("Content-Type", bytesMedia)
		}
		_ = control.SetWriteDeadline(time.Now().Add(writeTimeout)) // the whole may take long, but a single write must not
		_, err := w.Write(b)
		b = b[:0]
		return err == nil
	}
	isGone := false
	err := send(func(name segno.Hash, data []byte) bool {
		b = wire.AppendFrame(b, name, data)
		isGone = len(b) >= flushBytes && !flush()
		return !isGone
	})
	if isGone {
		return nil
	}
	if err != nil && !isBegun {
		return err
	}
	var problem *wire.Problem
	if err != nil {
		problem = newProblem(err)
	}
	b = wire.AppendEnd(b, problem)
	flush()
	return nil
}

// receivedObjects counts the objects of a request. They are durable.
type receivedObjects struct {
	Objects int `json:"objects"`
}

// rawPutObjects stores objects. It checks each against its name. If the body is damaged or truncated, nothing of it is kept.
func (s *Server) rawPutObjects(w http.ResponseWriter, r *http.Request) error {
	if err := s.checkWrites(); err != nil {
		return err
	}
	body, done, err := s.receiveUpload(w, r, bytesMedia, maxObjects+maxAskedNames*64)
	if err != nil {
		return err
	}
	defer done()
	ctx := r.Context()
	batch := s.Store.Objects().Batch()
	defer batch.Close()
	n, err := putFrames(ctx, bufio.NewReaderSize(body, flushBytes), batch)
	if err != nil {
		return errUpload(err)
	}
	staged, err := batch.Stage(ctx)
	if err == nil {
		err = s.Store.Objects().Keep(ctx, staged)
	}
	if err != nil {
		return err
	}
	return writeJSON(w, r, http.StatusOK, receivedObjects{n})
}

// putFrames puts the objects of a stream into a batch.
func putFrames(ctx context.Context, body io.Reader, batch segno.Batch) (n int, err error) {
	for {
		name, data, err := wire.ReadFrame(body)
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, err
		}
		got, err := batch.Put(ctx, data)
		if err != nil {
			return n, err
		}
		if got != name {
			return n, errOtherHash(name)
		}
		n++
	}
}

// checkWrites refuses to write into the store, unless the server accepts threads from elsewhere.
func (s *Server) checkWrites() error {
	if s.Tokens == nil {
		return segno.Errorf(segno.KindRefused, "write store", "", "this server accepts no threads from elsewhere").
			WithHint("start it with 'segno serve --tokens FILE'")
	}
	if s.Local != nil && s.Local.ReadOnly() {
		return segno.Errorf(segno.KindRefused, "write store", "", "this user can only read the store")
	}
	return nil
}

// rawCommit makes a commit. The id makes a repeated request safe.
func (s *Server) rawCommit(w http.ResponseWriter, r *http.Request) error {
	if err := s.checkWrites(); err != nil {
		return err
	}
	if r.ContentLength < 0 || r.ContentLength > smallCommit {
		release, err := acquire(r.Context(), s.largeCommits)
		if err != nil {
			return err
		}
		defer release()
	}
	body, done, err := s.receiveUpload(w, r, "application/json", wire.MaxCommit)
	if err != nil {
		return err
	}
	defer done()
	var sent wire.Commit
	if err := decodeBody(body, &sent); err != nil {
		return errUpload(err)
	}
	c, err := sent.Decode()
	if err != nil {
		return segno.NewError(segno.KindInvalid, "commit", string(sent.ID), err)
	}
	if err := s.refuseCommit(r.Context(), &c); err != nil {
		return err
	}
	if err := s.stageNew(r.Context(), &sent, &c); err != nil {
		return err
	}
	if err := s.announce(r.Context(), &c); err != nil {
		return err
	}
	head, err := s.Store.Commit(r.Context(), c)
	if err != nil {
		return err
	}
	return writeJSON(w, r, http.StatusOK, wire.NewHead(head))
}

// announce calls Arriving with a commit. It first keeps the objects that came with the commit, so that they can be read.
func (s *Server) announce(ctx context.Context, c *segno.Commit) error {
	if s.Arriving == nil || !c.IsNode() && c.Link == nil {
		return nil
	}
	if err := s.Store.Objects().Keep(ctx, c.Staged); err != nil {
		return err
	}
	return s.Arriving(ctx, c.Thread, []segno.Commit{*c})
}

// stageNew stages the new objects of a commit, after it has checked their bytes against the names.
func (s *Server) stageNew(ctx context.Context, sent *wire.Commit, c *segno.Commit) error {
	batch := s.Store.Objects().Batch()
	defer batch.Close()
	for _, o := range sent.Objects {
		if !o.New {
			continue
		}
		got, err := batch.Put(ctx, o.Data)
		if err != nil {
			return err
		}
		if got != o.Name {
			return errOtherHash(o.Name)
		}
	}
	staged, err := batch.Stage(ctx)
	c.Staged.Objects = append(c.Staged.Objects, staged.Objects...)
	c.Staged.Packs = staged.Packs
	return err
}

func errOtherHash(name segno.Hash) error {
	return segno.Errorf(segno.KindInvalid, "store object", name.String(), "the bytes have another hash")
}

// refuseCommit refuses a commit of another machine that would leave the files of a directory of this machine behind, or
// the run that holds the thread.
func (s *Server) refuseCommit(ctx context.Context, c *segno.Commit) error {
	if s.Local != nil && (c.Workspace != nil || c.Operation != nil) {
		return segno.Errorf(segno.KindRefused, "commit", string(c.ID), "it changes a directory of this machine")
	}
	if movesHead := c.Move == nil && c.IsNode() || c.Move != nil && c.Move.Head != c.Expect; !movesHead || c.Create != nil {
		return nil
	}
	if l, ok := s.Store.(segno.Leaser); ok {
		lease, err := l.LeaseOf(ctx, c.Thread)
		if err != nil {
			return err
		}
		if lease.Owner != "" {
			return segno.Errorf(segno.KindBusy, "commit", string(c.Thread), "a run of the thread is in progress there")
		}
	}
	if s.Local == nil {
		return nil
	}
	for rec, err := range s.Local.FindWorkspaces(ctx, nil, 0, 0) {
		if err != nil {
			return err
		}
		if rec.State.Thread == c.Thread {
			return segno.Errorf(segno.KindRefused, "commit", string(c.Thread), "the directory %s of that machine is at the thread", segno.QuotePath(rec.Path)).
				WithHint("restore the new checkpoint there, so that the files move, too")
		}
	}
	return nil
}
