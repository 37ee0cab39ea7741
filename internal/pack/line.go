package pack

import (
	"context"
	"errors"
	"slices"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/archive"
)

// segno's own agent keeps its conversation in the store. Its session tier, segno-v1, is the
// line of the checkpoint: the files thread.json and commits.jsonl of a thread without objects.

const (
	ownAgent = "segno"

	// OwnFormat is the format of these sessions, in archive.AgentInfo.SessionFormat.
	OwnFormat = "segno-v1"
)

// hasOwnSession reports whether the store's thread itself is the conversation of a checkpoint.
func hasOwnSession(cp *segno.Checkpoint) bool { return cp.Agent == ownAgent && cp.Session == nil }

// addLine adds the conversation of a checkpoint of segno's own agent.
func (b *builder) addLine(ctx context.Context, a *archive.AgentState, cp *segno.Checkpoint) error {
	if b.options.OmitSession || b.options.WorkspaceOnly {
		b.omit("agents/"+a.Info.Name+"/"+string(archive.Session), archive.OmittedByRequest)
		return nil
	}
	t, ok, err := segno.FindThread(ctx, b.store, cp.Thread)
	if err != nil {
		return err
	}
	if !ok { // a fork keeps the checkpoint of a deleted thread
		t = segno.Thread{ID: cp.Thread, Agent: ownAgent, Created: cp.Time}
	}
	w := newThreadWriter(b, &t)
	w.onlyLine = true
	w.info.Head, w.info.Tip = cp.ID, cp.ID
	for n, err := range segno.Ancestors(ctx, b.store, cp.ID, segno.Window{Last: 16}) {
		if err != nil {
			return missingIsCorrupt(err)
		}
		w.order = append(w.order, n.ID)
	}
	slices.Reverse(w.order)
	a.Session, err = w.write(ctx, a.Info.Name)
	a.Info.Backend, a.Info.SessionFormat, a.Info.SessionID = ownAgent, OwnFormat, string(cp.Thread)
	return err
}

// Sessions imports the conversations of segno's own agent, which [Unpack] leaves out, into the
// store. It adds them to the result of Unpack. Each becomes a thread of its agent's new workspace.
func (m *Importer) Sessions(ctx context.Context, r *archive.Reader, into Into, done *Unpacked) error {
	if into.trusts(r) != nil || len(into.Tiers) > 0 && !slices.Contains(into.Tiers, archive.Session) {
		return nil
	}
	for _, info := range r.Manifest().Agents {
		i := slices.IndexFunc(done.Agents, func(a UnpackedAgent) bool { return a.Name == info.Name })
		if i < 0 || info.SessionFormat != OwnFormat || len(r.Manifest().Tree(info.Name, archive.Session)) == 0 {
			continue
		}
		thread, err := m.session(ctx, r, info.Name, done.Agents[i].Dir, into.NewSession)
		if err != nil {
			return segno.Errorf(segno.KindOf(err), opImport, done.Agents[i].Dir, "the files are there, but the conversation could not be loaded: %w", err)
		}
		done.Agents[i].Session, done.Agents[i].Command = segno.SessionID(thread), []string{ownAgent, "chat", "--session", string(thread)}
		root := "agents/" + info.Name + "/" + string(archive.Session)
		done.Skipped = slices.DeleteFunc(done.Skipped, func(o archive.Omission) bool { return o.Path == root && o.Why == SkippedUnsupported })
	}
	return nil
}

// session imports one line as a thread in dir. The head of the thread gets the present files.
func (m *Importer) session(ctx context.Context, r *archive.Reader, agent, dir string, isRenamed bool) (thread segno.ThreadID, err error) {
	x := newThreadImport(m, r)
	x.isRenamed = isRenamed
	if x.t, err = newThreadReader(r, agent, archive.Session); err == nil {
		err = x.t.check(ctx)
	}
	if err != nil {
		return "", corrupt(err, dir)
	}
	if len(x.t.objects) > 0 || len(x.t.info.Pins) > 0 || x.t.info.Tip != x.t.info.Head {
		return "", segno.Errorf(segno.KindCorrupt, opImport, dir, "a session has one line and no objects")
	}
	if x.rec, err = x.Register(ctx, dir); err != nil {
		return "", err
	}
	x.ids.digest += string(x.rec.ID) // each directory gets its own copy of a session
	known, err := x.findEarlier(ctx, dir)
	if err != nil || x.out.WasComplete {
		return x.out.Thread, err
	}
	if err := x.takeSnapshot(ctx); err != nil {
		return "", err
	}
	if err := x.createThread(ctx, known != nil); err != nil {
		return "", err
	}
	return x.out.Thread, x.putCommits(ctx)
}

// takeSnapshot saves the present files.
func (x *threadImport) takeSnapshot(ctx context.Context) (err error) {
	ws, err := x.Open(x.rec)
	if err != nil {
		return err
	}
	batch := x.Store.Objects().Batch()
	defer func() { err = errors.Join(err, batch.Close()) }()
	s, err := ws.Snapshot(ctx, batch)
	if err != nil {
		return err
	}
	staged, err := batch.Stage(ctx)
	if err != nil {
		return err
	}
	x.present = &s
	return x.Store.Objects().Keep(ctx, staged)
}
