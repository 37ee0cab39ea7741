package proxy

import (
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/acp"
	"github.com/dalsegno/segno/timeline"
)

// forkRequest is one request for a fork.
type forkRequest struct {
	at       string // the name or id of a checkpoint, or the id of a message; "" is the head
	title    string
	dir      string // where the fork works; "" is the session's directory
	inFlight bool   // a turn is under way: the fork begins at the one before it

	from *segno.Checkpoint // where the fork begins
}

// fork serves session/fork, at the head or at an earlier turn.
func (s *session) fork(m acp.Message) error {
	ctx, end := s.wait()
	defer end()
	if err := s.load(); err != nil {
		return err
	}
	option := func(path ...string) string { return m.Text(m.Find(m.Params, append([]string{"_meta"}, path...)...)) }
	f := forkRequest{dir: cwd(m), inFlight: s.turn != nil, at: option("segno", "at"), title: option("segno", "name")}
	inPlace := string(m.Find(m.Params, "_meta", "segno", "inPlace").Of(m.Line)) == "true"
	if s.thread == "" && s.record.Foreign && s.proxy.agent.identity().Fork && f.at == "" && !inPlace {
		s.proxy.newSession(m) // only the agent has its turns
		return nil
	}
	if f.at == "" {
		f.at = option("jetbrains", "air", "fork", "messageId")
	}
	if err := s.findForkPoint(ctx, &f); err != nil {
		return err
	}
	if inPlace {
		return s.answerInPlace(ctx, m, f)
	}
	return s.answerBeside(ctx, m, f)
}

// forkMeta is segno's metadata of a fork's result.
func (s *session) forkMeta(f forkRequest) map[string]any {
	meta := map[string]any{"thread": s.thread, "at": f.from.ID, "turn": f.from.Turn, "fidelity": s.fidelity, "dir": s.record.Dir}
	if f.inFlight {
		meta["note"] = "a turn was under way; the fork begins after the last complete one"
	}
	return meta
}

// findForkPoint finds the checkpoint at which the fork begins. The session gets a thread if
// it has none.
func (s *session) findForkPoint(ctx context.Context, f *forkRequest) (err error) {
	if err := s.load(); err != nil {
		return err
	}
	if f.dir == "" {
		f.dir = s.record.Dir
	}
	if s.record.Dir == "" {
		s.record.Dir = f.dir
	}
	if s.thread == "" {
		if s.record.Foreign {
			if _, err := s.attach(ctx, reasonRecovery); err != nil { // the agent replays its turns
				return err
			}
		}
		if err := s.openThread(ctx, ""); err != nil {
			return err
		}
	}
	if f.at == "" {
		st, err := s.state(ctx)
		f.from = st.at
		return err
	}
	f.from, err = s.findCheckpoint(ctx, f.at)
	if segno.KindOf(err) == segno.KindNotFound {
		f.from, err = s.turnOfMessage(ctx, f.at)
	}
	return err
}

// answerBeside answers with a fork that has a separate client id; the source continues as
// it was. The agent's updates of the fork wait in its mailbox until the client knows it.
func (s *session) answerBeside(ctx context.Context, m acp.Message, f forkRequest) error {
	fork := newSession(s.proxy)
	fork.openParams, fork.fidelity, fork.forkedFrom = withoutExtensions(m), segno.FidelityNative, s.record.Dir
	now := s.proxy.Place.Now()
	fork.record = sessionRecord{Agent: s.record.Agent, Dir: f.dir, Title: f.title, Opened: now, Used: now, Settings: s.record.Settings,
		IncompleteHistory: s.record.IncompleteHistory}
	if fork.record.Title == "" {
		fork.record.Title = s.record.Title
	}
	defer s.proxy.beginOpening()()
	maps.Copy(fork.replaced, s.replaced)
	if f.inFlight {
		fork.replaced[s.up] = true
	}
	canFork, err := s.canForkNatively(ctx, f)
	if err != nil {
		return err
	}
	made, err := s.forkThread(ctx, f)
	if err != nil {
		return err
	}
	fork.thread = made.Thread
	if fork.record.Dir != s.record.Dir {
		fork.record.Dir = made.Dir // the same subdirectory of the new root
	}
	_, err = fork.attachLoaded(ctx, string(segno.VerbFork), canFork)
	fork.id = fork.up
	fork.record.Client, fork.record.Thread, fork.record.Upstream = fork.id, fork.thread, fork.id
	if err == nil {
		err = fork.save()
	}
	if err != nil {
		s.proxy.forget(fork)
		return errors.Join(err, s.proxy.store.Delete(ctx, made.Thread))
	}
	s.proxy.announce(fork, fork.up, nil)
	s.proxy.toClient(acp.Result(m.IDText(), fork.openResult(fork.forkMeta(f))))
	fork.box.add(0, fork.announceCommands)
	s.proxy.work.Go(fork.box.run)
	return nil
}

// canForkNatively reports whether the agent may fork its session for a fork. It must not if
// the fork works in another directory, or if the agent's process has an old state of the
// session. It need not if its transcript can be read here: a cut of the transcript also
// keeps sidecar files and what was compacted.
func (s *session) canForkNatively(ctx context.Context, f forkRequest) (bool, error) {
	if !s.proxy.agent.identity().Fork || s.proxy.store.Transcripts()[s.record.Agent] != nil || f.dir != s.record.Dir {
		return false, nil
	}
	proc := s.proxy.agent.current()
	if proc == nil || s.process != proc {
		return true, nil
	}
	st, err := s.state(ctx)
	if err != nil || s.known == st.turnID() {
		return true, err
	}
	if s.turn != nil || !s.unload(ctx, proc) {
		return false, nil
	}
	s.process = nil
	return true, nil
}

// forkThread makes the fork's thread, and its files if it works in another directory.
func (s *session) forkThread(ctx context.Context, f forkRequest) (*timeline.ForkResult, error) {
	tl, err := s.timeline(ctx)
	if err != nil {
		return nil, err
	}
	ask := timeline.MoveRequest{Verb: segno.VerbFork, To: f.from.ID, Name: checkpointName(f.from), Title: f.title}
	if f.dir != s.record.Dir {
		if err := prepareForkDir(f.dir); err != nil {
			return nil, err
		}
		ask.Dir = f.dir
	}
	return tl.Fork(ctx, ask)
}

// prepareForkDir makes the parent of a fork's directory, and removes the directory if it
// is empty.
func prepareForkDir(dir string) error {
	if !filepath.IsAbs(dir) {
		return segno.Errorf(segno.KindInvalid, "fork", dir, "the directory is not absolute")
	}
	d, err := os.Open(dir)
	if errors.Is(err, os.ErrNotExist) {
		err = os.MkdirAll(filepath.Dir(dir), 0o755)
	} else if err == nil {
		defer d.Close()
		if _, err := d.Readdirnames(1); !errors.Is(err, io.EOF) {
			return segno.Errorf(segno.KindRefused, "fork", dir, "the directory is not empty").
				WithHint("give a directory that is empty or does not exist; the checkpoint's files are written to it")
		}
		err = os.Remove(dir)
	}
	if err != nil {
		return segno.NewError(segno.KindIO, "fork", dir, err)
	}
	return nil
}

// answerInPlace answers with a fork that gets the client id of the source.
func (s *session) answerInPlace(ctx context.Context, m acp.Message, f forkRequest) error {
	if s.turn != nil {
		return segno.Errorf(segno.KindBusy, "fork", "", "a turn is under way").WithHint("wait for its end, or fork without inPlace")
	}
	if _, err := s.forkInPlace(ctx, string(f.from.ID), f.title); err != nil {
		return err
	}
	s.fidelity = segno.FidelityNative
	if _, err := s.attach(ctx, string(segno.VerbFork)); err != nil {
		return err
	}
	s.proxy.toClient(acp.Result(m.IDText(), s.openResult(s.forkMeta(f))))
	return nil
}

// forkInPlace makes a thread at a checkpoint, on the same files, and makes it the session's.
// The session's thread before gets another client id.
func (s *session) forkInPlace(ctx context.Context, at, title string) (*timeline.ForkResult, error) {
	f := forkRequest{at: at, dir: s.record.Dir, title: title}
	if err := s.findForkPoint(ctx, &f); err != nil {
		return nil, err
	}
	made, err := s.forkThread(ctx, f)
	if err != nil {
		return nil, err
	}
	s.preface = nil
	return made, s.setThread(ctx, made.Thread, title, s.record.IncompleteHistory)
}
