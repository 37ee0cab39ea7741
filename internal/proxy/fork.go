package proxy

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/acp"
	"github.com/dalsegno/segno/timeline"
)

// forking is one request for a fork.
type forking struct {
	at       string // a checkpoint's name or id, or a message's; "" is the head
	inPlace  bool
	title    string
	dir      string // where the fork works
	inFlight bool   // a turn was under way: the fork stands on the one before it

	from *segno.Checkpoint // what it stands on
	turn *segno.Checkpoint // the newest turn there
}

// fork serves session/fork, at the head or at an earlier turn: natively where the
// agent keeps the transcript to itself, else by a cut, else by a preamble.
func (s *session) fork(m acp.Message) {
	ctx, done := s.waiting()
	defer done()
	f := forking{dir: s.dirOf(m), inFlight: s.turn != nil,
		at:    m.Text(m.Find(m.Params, "_meta", "segno", "at")),
		title: m.Text(m.Find(m.Params, "_meta", "segno", "name"))}
	f.inPlace = string(m.Find(m.Params, "_meta", "segno", "inPlace").Of(m.Line)) == "true"
	if err := s.settle(); err != nil {
		s.fail(m, err)
		return
	}
	if s.thread == "" && s.page.Foreign && s.proxy.agent.identity().Fork && f.at == "" && !f.inPlace {
		s.proxy.begin() // its turns are the agent's alone
		s.proxy.work.Go(func() { s.proxy.newSession(m) })
		return
	}
	if f.at == "" {
		f.at = m.Text(m.Find(m.Params, "_meta", "jetbrains", "air", "fork", "messageId"))
	}
	if err := s.findFork(ctx, &f); err != nil {
		s.fail(m, err)
		return
	}
	if f.inPlace {
		s.answerInPlace(ctx, m, f)
		return
	}
	fork, err := s.forkBeside(ctx, m, f)
	if err != nil {
		if fork != nil {
			fork.forget()
		}
		s.fail(m, err)
		return
	}
	// What the agent said of the fork waits in its mailbox until the client knows it.
	s.proxy.toClient(acp.Result(m.IDText(), fork.openResult(fork.about(f))))
	fork.box.put(0, fork.announceCommands)
	s.proxy.work.Go(fork.box.run)
}

// about is what the result of a fork says of it.
func (s *session) about(f forking) map[string]any {
	about := map[string]any{"thread": s.thread, "at": f.from.ID, "turn": f.from.Turn, "fidelity": s.gained, "dir": s.page.Dir}
	if f.inFlight {
		about["note"] = "a turn was under way; the fork stands on the last complete one"
	}
	return about
}

// findFork decides what the fork stands on.
func (s *session) findFork(ctx context.Context, f *forking) error {
	if err := s.settle(); err != nil {
		return err
	}
	if f.dir == "" {
		f.dir = s.page.Dir
	}
	if s.page.Dir == "" {
		s.page.Dir = f.dir
	}
	if s.thread == "" {
		if s.page.Foreign {
			if _, err := s.attach(ctx, recovery); err != nil { // the agent shows its turns
				return err
			}
		}
		if err := s.openThread(ctx, ""); err != nil {
			return err
		}
	}
	if f.at != "" {
		c, err := s.named(ctx, f.at)
		if segno.KindOf(err) == segno.KindNotFound {
			c, err = s.turnOfMessage(ctx, f.at)
		}
		if err != nil {
			return err
		}
		f.from = c
	} else {
		h, err := s.footing(ctx)
		if err != nil {
			return err
		}
		f.from = h.at
	}
	_, turn, err := s.above(ctx, f.from.ID)
	f.turn = turn
	return err
}

// forkBeside makes a thread and a session of its own; the source goes on as it was.
func (s *session) forkBeside(ctx context.Context, m acp.Message, f forking) (*session, error) {
	fork := &session{proxy: s.proxy, opened: withoutOurs(m), box: newMailbox(s.proxy.flushClient), gone: map[segno.SessionID]bool{}, left: s.left, loaded: loaded{gained: segno.FidelityNative}}
	now := s.proxy.Place.Now()
	fork.page = page{Agent: s.page.Agent, Dir: f.dir, Title: f.title, Opened: now, Used: now, Settings: s.page.Settings, Unheard: s.page.Unheard}
	if fork.page.Title == "" {
		fork.page.Title = s.page.Title
	}
	proc, err := s.proxy.agent.running(ctx)
	if err != nil {
		return nil, err
	}
	s.proxy.begin()
	defer s.proxy.done()
	link, err := fork.forkNative(ctx, proc, s, f)
	if errors.Is(err, errGone) {
		if proc, err = s.proxy.agent.running(ctx); err == nil {
			link, err = fork.forkNative(ctx, proc, s, f)
		}
	}
	if err != nil {
		return fork, err
	}
	made, err := s.forkThread(ctx, f, link)
	if err != nil {
		return fork, err
	}
	fork.thread, fork.from = made.Thread, s.page.Dir
	if fork.page.Dir != s.page.Dir {
		fork.page.Dir = made.Dir // the same subdirectory of the root
	}
	if f.turn != nil {
		fork.has = f.turn.ID
	}
	if link != nil {
		fork.up = link.Session
	} else if proc, err = fork.forkOpened(ctx, proc, made); err != nil {
		return fork, errors.Join(err, s.proxy.store.Delete(ctx, made.Thread))
	}
	fork.id = fork.up
	fork.page.Client, fork.page.Thread, fork.page.Upstream = fork.id, fork.thread, fork.id
	if err := s.proxy.book.write(fork.page); err != nil {
		return fork, err
	}
	s.proxy.announce(fork, fork.up, nil)
	return fork, fork.replaySettings(ctx, proc)
}

// forkThread makes the fork's thread, with the files where they are asked for.
func (s *session) forkThread(ctx context.Context, f forking, link *segno.Link) (*timeline.ForkResult, error) {
	site, err := s.site(ctx)
	if err != nil {
		return nil, err
	}
	ask := timeline.MoveRequest{Verb: segno.VerbFork, To: f.from.ID, Name: name(f.from), Title: f.title, Link: link}
	if f.dir != s.page.Dir {
		if err := vacate(f.dir); err != nil {
			return nil, err
		}
		ask.Dir = f.dir
	}
	return site.Fork(ctx, ask)
}

// vacate makes room for a fork's directory: one that is empty may be there already.
func vacate(dir string) error {
	if !filepath.IsAbs(dir) {
		return segno.Errorf(segno.KindInvalid, "fork", dir, "the directory is not absolute")
	}
	d, err := os.Open(dir)
	if errors.Is(err, os.ErrNotExist) {
		err = os.MkdirAll(filepath.Dir(dir), 0o755)
		if err != nil {
			return segno.NewError(segno.KindIO, "fork", dir, err)
		}
		return nil
	}
	if err != nil {
		return segno.NewError(segno.KindIO, "fork", dir, err)
	}
	defer d.Close()
	if _, err := d.Readdirnames(1); !errors.Is(err, io.EOF) {
		return segno.Errorf(segno.KindRefused, "fork", dir, "the directory is not empty").WithHint("give a directory that is empty or not there; the checkpoint's files are written to it")
	}
	return os.Remove(dir)
}

// forkOpened is forkOpen, once more if the agent ends in its midst.
func (s *session) forkOpened(ctx context.Context, proc *process, made *timeline.ForkResult) (*process, error) {
	err := s.forkOpen(ctx, proc, made)
	if !errors.Is(err, errGone) {
		return proc, err
	}
	if proc, err = s.proxy.agent.running(ctx); err != nil {
		return nil, err
	}
	return proc, s.forkOpen(ctx, proc, made)
}

// forkOpen has the agent open the session that was cut for the fork, or makes one
// that is told what happened.
func (s *session) forkOpen(ctx context.Context, proc *process, made *timeline.ForkResult) error {
	if made.Link != nil {
		err := s.reopen(ctx, proc, made.Link.Session, nil)
		if err == nil {
			s.gained = made.Link.Fidelity
			return nil
		}
		if !isAnswer(err) {
			return err
		}
		s.proxy.logf("the agent does not take the session that was cut: %v", err)
	}
	h, err := s.footing(ctx)
	if err != nil {
		return err
	}
	if err := s.tellStory(ctx, h); err != nil {
		return err
	}
	return s.startOver(ctx, proc, h, string(segno.VerbFork), "")
}

// forkNative has the agent fork its session, where that is the best there is: an
// agent whose transcript we can read is served better by a cut, which keeps what
// stands beside the transcript and what was compacted. It returns nil if the agent
// cannot, or did something else.
func (s *session) forkNative(ctx context.Context, proc *process, from *session, f forking) (*segno.Link, error) {
	id := s.proxy.agent.identity()
	site, err := from.site(ctx)
	if err != nil || site.Transcripts[s.page.Agent] != nil || !id.Fork || f.turn == nil || f.dir != from.page.Dir {
		return nil, err
	}
	if behind, err := from.behind(ctx, proc); err != nil || behind {
		return nil, err
	}
	up, err := s.forkAt(ctx, proc, f.turn, f.inFlight)
	if err != nil || up == "" {
		return nil, err
	}
	return &segno.Link{Agent: s.page.Agent, Session: up, Dir: f.dir, Start: s.proxy.Place.Now(), Reason: string(segno.VerbFork),
		Fidelity: segno.FidelityNative, At: f.from.ID}, nil
}

// branch is the rung of the ladder for a thread that stands at an earlier turn of an
// agent's session: the agent forks it there.
func (s *session) branch(ctx context.Context, proc *process, h foothold, reason string) error {
	if !s.proxy.agent.identity().Fork || h.turn == nil || s.unfinished != nil {
		return errNoRung
	}
	s.proxy.begin()
	defer s.proxy.done()
	up, err := s.forkAt(ctx, proc, h.turn, false)
	if err != nil {
		return err
	}
	if up == "" {
		return errNoRung
	}
	s.proxy.announce(s, up, nil)
	if err := s.replaySettings(context.WithoutCancel(ctx), proc); err != nil {
		return err
	}
	return s.join(ctx, segno.Link{Agent: s.page.Agent, Session: up, Dir: s.page.Dir, Start: s.proxy.Place.Now(), Reason: reason,
		Fidelity: segno.FidelityNative, At: h.at.ID})
}

// answerInPlace makes the client's id stand on a fork.
func (s *session) answerInPlace(ctx context.Context, m acp.Message, f forking) {
	if s.turn != nil {
		s.fail(m, segno.Errorf(segno.KindBusy, "fork", "", "a turn is under way").WithHint("wait for its end, or fork beside it"))
		return
	}
	made, err := s.forkInPlace(ctx, string(f.from.ID), f.title)
	if err != nil {
		s.fail(m, err)
		return
	}
	if s.gained = segno.FidelityNative; made.Link != nil {
		s.gained = made.Link.Fidelity
	}
	if _, err := s.attach(ctx, string(segno.VerbFork)); err != nil {
		s.fail(m, err)
		return
	}
	s.proxy.toClient(acp.Result(m.IDText(), s.openResult(s.about(f))))
}

// forkInPlace makes a thread at a checkpoint, on the same files, and has the
// session stand on it.
func (s *session) forkInPlace(ctx context.Context, at, title string) (*timeline.ForkResult, error) {
	f := forking{at: at, dir: s.page.Dir, title: title}
	if err := s.findFork(ctx, &f); err != nil {
		return nil, err
	}
	made, err := s.forkThread(ctx, f, nil)
	if err != nil {
		return nil, err
	}
	return made, s.standOn(ctx, made.Thread, title, s.page.Unheard)
}
