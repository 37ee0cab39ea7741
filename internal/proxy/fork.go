package proxy

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history/printable"
	"github.com/dalsegno/segno/internal/history/turns"
	"github.com/dalsegno/segno/internal/proxy/acp"
	"github.com/dalsegno/segno/timeline"
)

type forkRequest struct {
	*session
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
	f := &forkRequest{session: s, dir: cwd(m), inFlight: s.turn != nil, at: option("segno", "at"), title: option("segno", "name")}
	inPlace := string(m.Find(m.Params, "_meta", "segno", "inPlace").Of(m.Line)) == "true"
	if s.record.Thread == "" && s.record.Foreign && s.proxy.agent.identity().Fork && f.at == "" && !inPlace {
		s.proxy.newSession(m) // only the agent has its turns
		return nil
	}
	if f.at == "" {
		f.at = option("jetbrains", "air", "fork", "messageId")
	}
	if err := f.findPoint(ctx); err != nil {
		return err
	}
	if inPlace {
		return f.answerInPlace(ctx, m)
	}
	return f.answerBeside(ctx, m)
}

// meta is segno's metadata of a fork's result.
func (f *forkRequest) meta(fork *session) map[string]any {
	meta := map[string]any{"thread": fork.record.Thread, "at": f.from.ID, "turn": f.from.Turn,
		"fidelity": fork.fidelity, "dir": fork.record.Dir}
	if f.inFlight {
		meta["note"] = "a turn was in progress; the fork begins after the last complete one"
	}
	return meta
}

// findPoint finds the checkpoint at which the fork begins. If the session has no thread
// yet, findPoint makes one.
func (f *forkRequest) findPoint(ctx context.Context) (err error) {
	f.dir = cmp.Or(f.dir, f.record.Dir)
	f.record.Dir = cmp.Or(f.record.Dir, f.dir)
	if f.record.Thread == "" {
		if f.record.Foreign {
			if _, err := f.attach(ctx, reasonRecovery); err != nil { // replays the turns for the new thread
				return err
			}
		}
		if err := f.openThread(ctx, ""); err != nil {
			return err
		}
	}
	if f.at == "" {
		st, err := f.state(ctx)
		f.from = st.at
		return err
	}
	f.from, err = f.findCheckpoint(ctx, f.at)
	if kind := segno.KindOf(err); err != nil && (kind == segno.KindNotFound || kind == segno.KindInvalid) {
		f.from, err = f.turnOfMessage(ctx, f.at)
	}
	return err
}

// answerBeside makes a thread, its files and a session of the agent for it. If it cannot
// get the session, it deletes the thread again. It answers with a fork that has a separate
// client id; the source stays unchanged. The agent's updates of the fork wait in the fork's
// mailbox until the client has received the fork's id.
func (f *forkRequest) answerBeside(ctx context.Context, m acp.Message) error {
	fork := newSession(f.proxy)
	fork.openParams, fork.fidelity, fork.forkedFrom = withoutExtensions(m), segno.FidelityNative, f.record.Dir
	now := f.proxy.Place.Now()
	fork.record = sessionRecord{Agent: f.record.Agent, Dir: f.dir, Title: cmp.Or(f.title, f.record.Title), Opened: now, Used: now,
		Settings: f.record.Settings, IncompleteHistory: f.record.IncompleteHistory}
	defer f.proxy.beginOpening()()
	maps.Copy(fork.replaced, f.replaced)
	if f.inFlight {
		fork.replaced[f.up] = true
	}
	canFork, err := f.canForkNatively(ctx)
	if err != nil {
		return err
	}
	made, err := f.makeThread(ctx)
	if err != nil {
		return err
	}
	fork.record.Thread = made.Thread
	if fork.record.Dir != f.record.Dir {
		fork.record.Dir = made.Dir // the same subdirectory of the new root
	}
	_, err = fork.attachLoaded(ctx, string(segno.VerbFork), canFork)
	fork.id = fork.up
	if f.proxy.index.has(fork.up) || f.proxy.hasOtherThread(fork.up, made.Thread) {
		f.logf("the agent gave a fork the id of an earlier session; the client gets another id")
		fork.id = segno.SessionID(segno.NewID())
	}
	fork.record.Client, fork.record.Upstream = fork.id, fork.up
	if err == nil {
		err = fork.save()
	}
	if err != nil {
		f.proxy.forget(fork)
		return errors.Join(err, f.proxy.store.Delete(context.WithoutCancel(ctx), made.Thread)) // also if the client cancelled the fork
	}
	f.proxy.announce(fork, fork.up, nil)
	f.proxy.toClient(acp.Result(m.IDText(), fork.openResult(f.meta(fork))))
	fork.box.add(0, fork.announceCommands)
	f.proxy.work.Go(fork.box.run)
	return nil
}

// canForkNatively reports whether the agent may fork its session for a fork. It must not if the
// fork works in another directory, or if the agent's process has an old state of the session. It
// need not if segno recorded the transcript up to the fork point: a copy of that part also keeps
// sidecar files and the messages before a compaction.
func (f *forkRequest) canForkNatively(ctx context.Context) (bool, error) {
	if !f.proxy.agent.identity().Fork || f.canCut(f.from) || f.dir != f.record.Dir {
		return false, nil
	}
	proc := f.proxy.agent.current()
	if proc == nil || f.process != proc {
		return true, nil
	}
	st, err := f.state(ctx)
	if err != nil || f.known == st.turnID() {
		return true, err
	}
	if f.turn != nil || !f.unload(ctx, proc) {
		return false, nil
	}
	f.process = nil
	return true, nil
}

// makeThread makes the fork's thread. If the fork works in another directory, makeThread
// also writes its files.
func (f *forkRequest) makeThread(ctx context.Context) (*timeline.ForkResult, error) {
	tl, err := f.timeline(ctx)
	if err != nil {
		return nil, err
	}
	ask := timeline.MoveRequest{Verb: segno.VerbFork, To: f.from.ID, Name: printable.Label(f.from), Title: f.title}
	if f.dir != f.record.Dir {
		if err := prepareForkDir(f.dir); err != nil {
			return nil, err
		}
		ask.Dir = f.dir
	}
	return tl.Fork(ctx, ask)
}

// prepareForkDir makes the parent of a fork's directory. If the directory itself exists and
// is empty, it removes it.
func prepareForkDir(dir string) error {
	if !filepath.IsAbs(dir) {
		return segno.Errorf(segno.KindInvalid, "fork", dir, "the directory is not absolute")
	}
	names, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		err = os.MkdirAll(filepath.Dir(dir), 0o755)
	case len(names) > 0:
		return segno.Errorf(segno.KindRefused, "fork", dir, "the directory is not empty").
			WithHint("give a directory that is empty or does not exist; the checkpoint's files are written to it")
	case err == nil:
		err = os.Remove(dir)
	}
	if err != nil {
		return segno.NewError(segno.KindIO, "fork", dir, err)
	}
	return nil
}

// answerInPlace answers with a fork that takes over the client id of the source.
func (f *forkRequest) answerInPlace(ctx context.Context, m acp.Message) error {
	if _, err := f.inPlace(ctx); err != nil {
		return err
	}
	f.fidelity = segno.FidelityNative
	if _, err := f.attach(ctx, string(segno.VerbFork)); err != nil {
		return err
	}
	f.proxy.toClient(acp.Result(m.IDText(), f.openResult(f.meta(f.session))))
	return nil
}

// inPlace makes a thread at the fork point, on the same files, and switches the session to
// it. The session's previous thread gets another client id.
func (f *forkRequest) inPlace(ctx context.Context) (*timeline.ForkResult, error) {
	if f.turn != nil {
		return nil, segno.Errorf(segno.KindBusy, "fork", "", "a turn is in progress").WithHint("wait until it ends, or fork without inPlace")
	}
	f.dir = f.record.Dir
	made, err := f.makeThread(ctx)
	if err != nil {
		return nil, err
	}
	if err := f.setThread(made.Thread, f.title, f.record.IncompleteHistory); err != nil {
		return nil, errors.Join(err, f.proxy.store.Delete(context.WithoutCancel(ctx), made.Thread))
	}
	f.preface = nil
	return made, nil
}

// forkPoints lists the agents that can fork at a message, each with the first version that
// can. Older versions ignore the message and fork at the head, without an error: their npm
// packages do not contain the field.
var forkPoints = [...]struct{ agent, since string }{
	{"claude-agent-acp", "0.75.0"},
	{"codex-acp", "1.8.0"},
	{segnoAgent, "0"},
}

// supportsForkPoint reports whether an agent can fork at a message.
func supportsForkPoint(id identity) bool {
	for _, p := range forkPoints {
		if strings.Contains(id.Name, p.agent) {
			return slices.Compare(versionNumbers(id.Version), versionNumbers(p.since)) >= 0
		}
	}
	return false
}

// versionNumbers returns the numbers of a version, without the part after "-".
func versionNumbers(version string) []int {
	var out []int
	version, _, _ = strings.Cut(version, "-")
	for part := range strings.SplitSeq(version, ".") {
		n, _ := strconv.Atoi(part) // 0 if it is not a number
		out = append(out, n)
	}
	return out
}

// forkAt makes the agent fork the session of a turn at the end of that turn. It returns
// errUnsupported if the agent cannot fork there, refuses, or forked at another message.
func (s *session) forkAt(ctx context.Context, proc *process, turn *segno.Checkpoint) (segno.SessionID, error) {
	if turn.Session == nil || turn.Session.Agent != s.record.Agent || s.unusable[turn.Session.Session] {
		return "", errUnsupported
	}
	query := segno.CheckpointQuery{Session: turn.Session.Session}
	newest, err := find(s.proxy.store.Checkpoints(ctx, query), func(c *segno.Checkpoint) bool { return c.Kind == segno.CheckpointTurn })
	if err != nil {
		return "", err
	}
	point := map[string]any{}
	atHead := !s.replaced[turn.Session.Session] && newest != nil && newest.ID == turn.ID
	if !atHead {
		message, err := s.lastMessageOf(ctx, turn)
		if err != nil {
			return "", err
		}
		if message == "" || !supportsForkPoint(s.proxy.agent.identity()) {
			return "", errUnsupported
		}
		fork := map[string]any{"fork": map[string]any{"version": 1, "messageId": message}}
		point["_meta"] = map[string]any{"jetbrains": map[string]any{"air": fork}}
	}
	m, err := s.proxy.agent.call(ctx, proc, "session/fork", s.params(turn.Session.Session, point), nil)
	if isAnswer(err) {
		s.logf("the agent does not fork: %v", err)
		return "", errUnsupported
	}
	if err != nil {
		return "", err
	}
	up := segno.SessionID(m.SessionID())
	if up == "" {
		return "", errUnsupported
	}
	s.loaded(proc, m)
	if !atHead {
		err = s.verifyFork(ctx, proc, up, turn)
	}
	return up, err
}

// verifyFork makes the agent replay a fork that it made. It returns errUnsupported if the
// fork's last turn is not the turn.
func (s *session) verifyFork(ctx context.Context, proc *process, up segno.SessionID, turn *segno.Checkpoint) error {
	if !s.proxy.agent.identity().Load {
		return nil
	}
	reader := new(replayReader)
	s.proxy.announce(s, up, nil)
	_, err := s.callOpen(ctx, proc, "session/load", up, reader)
	switch {
	case isAnswer(err):
		s.logf("the agent does not load its fork: %v", err)
		return errUnsupported
	case err != nil:
		return err
	}
	ends, err := s.endsAtTurn(ctx, reader, turn)
	if err == nil && !ends {
		s.logf("the agent's fork does not end at turn t%d", turn.Turn)
		return errUnsupported
	}
	return err
}

// endsAtTurn reports whether a replay ends at a turn: the last prompt is the turn's. If later turns of the same session have the same
// prompt, the last answer must be the turn's, and must not be that of a later one.
func (s *session) endsAtTurn(ctx context.Context, replayed *replayReader, turn *segno.Checkpoint) (bool, error) {
	if replayed.endTurn(); !replayed.endsWith(turn.Prompt) {
		return false, nil
	}
	isLater := true
	repeated, err := collect(s.proxy.store.Checkpoints(ctx, segno.CheckpointQuery{Session: turn.Session.Session}), func(c *segno.Checkpoint) bool {
		isLater = isLater && c.ID != turn.ID // the newest come first
		isAmended := c.Thread == turn.Thread && c.Turn == turn.Turn
		return isLater && c.Kind == segno.CheckpointTurn && !isAmended && searchKey(c.Prompt) == searchKey(turn.Prompt)
	})
	if err != nil || len(repeated) == 0 {
		return err == nil, err
	}
	last := new(turns.Turn)
	last.Add(replayed.turns[len(replayed.turns)-1].Entries...)
	for i, c := range append([]segno.Checkpoint{*turn}, repeated...) {
		commits, err := s.entriesOf(ctx, &c)
		if err != nil {
			return false, err
		}
		if hasAnswer := normalSpace(turns.Read(commits, &c).Answer()) == normalSpace(last.Answer()); hasAnswer != (i == 0) {
			return false, nil
		}
	}
	return true, nil
}

// lastMessageOf returns the id of the agent's last message in a turn. It returns "" if the
// turn has no message, or if a tool call came after the last one, because a fork at that
// message would lack the call. A fork by segno's agent has the whole turn.
func (s *session) lastMessageOf(ctx context.Context, turn *segno.Checkpoint) (string, error) {
	commits, err := s.entriesOf(ctx, turn)
	if err != nil || len(commits) == 0 {
		return "", err
	}
	end := endNoteOf(commits[0].Entries)
	if len(end.Messages) == 0 || end.Behind && !s.proxy.agent.identity().isSegno() {
		return "", nil
	}
	return end.Messages[len(end.Messages)-1], nil
}

// turnOfMessage returns the turn of the thread's line in which the agent sent a message.
func (l *sessionStore) turnOfMessage(ctx context.Context, message string) (*segno.Checkpoint, error) {
	head, err := l.proxy.store.Head(ctx, l.record.Thread)
	if err != nil {
		return nil, err
	}
	line, err := l.proxy.store.Load(ctx, head.Tip, segno.Window{Entries: true})
	if err != nil {
		return nil, err
	}
	for _, n := range slices.Backward(line.Commits) {
		if n.Checkpoint != nil && slices.Contains(endNoteOf(n.Entries).Messages, message) {
			return n.Checkpoint, nil
		}
	}
	return nil, segno.NewError(segno.KindNotFound, "fork", message, nil).
		WithHint("give a checkpoint of 'segno log', or the id of a message of the agent")
}
