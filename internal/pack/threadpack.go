package pack

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/archive"
	"github.com/dalsegno/segno/internal/history/reachable"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/transcript/claude"
	"github.com/dalsegno/segno/workspace"
)

// ThreadState returns the state of a whole thread: all its commits on all lines, those of other
// threads that it was forked from, and the objects that they reach. The other results are those of
// State. Options.OmitSession leaves out transcripts and entries. Options.WorkspaceOnly also leaves
// out prompts and the documents of state and world.
func (p *Packer) ThreadState(ctx context.Context, thread segno.ThreadID, o Options) (archive.State, func() error, error) {
	return p.build(o, func(b *builder) error { return b.buildThread(ctx, thread) })
}

func (b *builder) buildThread(ctx context.Context, thread segno.ThreadID) error {
	t, ok, err := segno.FindThread(ctx, b.store, thread)
	if err == nil && !ok {
		err = segno.NewError(segno.KindNotFound, "find thread", string(thread), nil)
	}
	if err != nil {
		return err
	}
	w := newThreadWriter(b, &t)
	if err := w.collect(ctx); err != nil {
		return err
	}
	_, isQuiet, err := b.checkpoint(ctx, w.newest)
	if err != nil {
		return err
	}
	b.state.Cut = &archive.Cut{Consistency: archive.Crash}
	if isQuiet {
		b.state.Cut.Consistency = archive.Quiet
	}
	a := archive.AgentState{Info: archive.AgentInfo{Name: b.agentName(t.Agent), Backend: t.Agent}}
	dropped := newDroppedList(a.Info.Name)
	w.redactor.Dropped = dropped.add
	if a.Thread, err = w.write(ctx, a.Info.Name); err != nil {
		return err
	}
	b.state.Omitted = append(b.state.Omitted, dropped.omissions()...)
	a.Scanned = w.transcripts(ctx)
	b.state.Agents = append(b.state.Agents, a)
	return nil
}

// A threadWriter writes the files of one thread.
type threadWriter struct {
	*builder
	info   threadInfo
	order  []segno.CommitID // parents first; the thread's own commits in order of arrival
	newest segno.CommitID   // the newest commit with a checkpoint at or below the head
	// parents has the parent of each commit that the archive lacks because all its content is left
	// out.
	parents map[segno.CommitID]segno.CommitID

	redactor *workspace.Redactor
	kept     map[segno.Hash]int64 // objects of the store, and their sizes or -1
	follow   reachable.Follower
	traced   [][]segno.Hash        // objects of transcripts in the order of their bytes; lists separate the runs
	isList   map[segno.Hash]bool   // objects that list other objects
	made     map[segno.Hash][]byte // objects that are not in the store
	lines    vfs.File
	size     int64
	onlyLine bool // for a session of segno's own agent: no files and no documents
}

func newThreadWriter(b *builder, t *segno.Thread) *threadWriter {
	w := &threadWriter{builder: b, info: threadInfo{ID: t.ID, Created: t.Created, Title: t.Title, Agent: t.Agent},
		parents: map[segno.CommitID]segno.CommitID{}, kept: map[segno.Hash]int64{}, isList: map[segno.Hash]bool{}, made: map[segno.Hash][]byte{}}
	if b.options.WorkspaceOnly {
		w.info.Title = ""
	}
	w.redactor = &workspace.Redactor{Objects: b.store.Objects(), Visit: w.keep, Put: w.make,
		Drop: func(name string, e segno.Entity, siblings func() []string) bool {
			return WhyDropped(name, e, siblings) != ""
		}}
	return w
}

// keep adds an object of the store.
func (w *threadWriter) keep(name segno.Hash, size int64) {
	if known, ok := w.kept[name]; !ok || known < 0 {
		w.kept[name] = size
	}
}

func (w *threadWriter) make(data []byte) { w.made[segno.HashOf(data)] = data }

// collect finds the commits of the thread.
func (w *threadWriter) collect(ctx context.Context) error {
	t, err := reachable.Commits(ctx, w.store, w.info.ID)
	if err != nil {
		return err
	}
	w.info.Head, w.info.Tip = t.Head.Head, t.Head.Tip
	w.state.Created = w.info.Created
	for _, n := range t.Nodes {
		if c := n.Checkpoint; c != nil && c.Thread == w.info.ID && c.Time.After(w.state.Created) {
			w.state.Created = c.Time
		}
	}
	found := t.Nodes
	for at := found[t.Head.Head]; at != nil && w.newest == ""; at = found[at.Parent] {
		if at.Checkpoint != nil {
			w.newest = at.ID
		}
	}
	for _, n := range t.Order() {
		w.order = append(w.order, n.ID)
	}
	for c, err := range w.store.Checkpoints(ctx, segno.CheckpointQuery{Thread: w.info.ID, Pinned: true}) {
		if err != nil {
			return err
		}
		w.info.Pins = append(w.info.Pins, segno.Pin{Checkpoint: c.ID, Name: c.Label})
	}
	slices.SortFunc(w.info.Pins, func(a, b segno.Pin) int { return strings.Compare(string(a.Checkpoint), string(b.Checkpoint)) })
	return nil
}

// write makes the files of the thread's tier.
func (w *threadWriter) write(ctx context.Context, agent string) (files []archive.File, err error) {
	home, err := w.tempHome(ctx, agent)
	if err != nil {
		return nil, err
	}
	name := filepath.Join(home, commitsFile)
	if w.lines, err = w.fsys.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600); err != nil {
		return nil, err
	}
	out := bufio.NewWriterSize(w.lines, 1<<20)
	for _, id := range w.order {
		if err = w.writeCommit(ctx, out, id); err != nil {
			break
		}
	}
	if err = errors.Join(err, out.Flush(), w.lines.Close()); err != nil {
		return nil, err
	}
	w.info.Head, w.info.Tip = w.left(w.info.Head), w.left(w.info.Tip)
	info, err := encodeLine(&w.info)
	if err != nil {
		return nil, err
	}
	files = []archive.File{inMemory(threadFile, info),
		{Path: commitsFile, Size: w.size, Open: func() (io.ReadCloser, error) { return os.Open(name) }}}
	for name, data := range w.made {
		files = append(files, inMemory(objectPath(name), data))
		delete(w.kept, name)
	}
	for name, size := range w.kept {
		if size < 0 {
			data, err := getObject(ctx, w.store.Objects(), name)
			if err != nil {
				return nil, err
			}
			size = int64(len(data))
			w.kept[name], w.isList[name] = size, bytes.HasPrefix(data, []byte("segno-"))
		}
		files = append(files, archive.File{Path: objectPath(name), Size: size, Open: opener(ctx, w.store.Objects(), name)})
	}
	return files, nil
}

func inMemory(name string, data []byte) archive.File {
	return archive.File{Path: name, Size: int64(len(data)), Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }}
}

// left returns the nearest commit, at or below id, that is in the archive.
func (w *threadWriter) left(id segno.CommitID) segno.CommitID {
	for {
		below, gone := w.parents[id]
		if !gone {
			return id
		}
		id = below
	}
}

// writeCommit writes the line of one commit.
func (w *threadWriter) writeCommit(ctx context.Context, out *bufio.Writer, id segno.CommitID) error {
	line, err := w.store.Load(ctx, id, segno.Window{Last: 1, Entries: true})
	if err != nil {
		return missingIsCorrupt(err)
	}
	from := line.Commits[len(line.Commits)-1]
	n := node{ID: id, Parent: w.left(from.Parent)}
	if n.Checkpoint, err = w.checkpointOf(ctx, from.Checkpoint); err != nil {
		return err
	}
	for _, e := range from.Entries {
		if !w.omitsWords() || hasPathsOnly(e.Kind) {
			n.Entries = append(n.Entries, packEntry(e))
		}
	}
	if n.Checkpoint == nil && len(n.Entries) == 0 {
		w.parents[id] = from.Parent
		return nil
	}
	if n.Checkpoint != nil {
		n.Checkpoint.Amends = w.left(n.Checkpoint.Amends)
	}
	data, err := encodeLine(&n)
	if err != nil {
		return err
	}
	if len(data) > maxLine {
		return segno.Errorf(segno.KindRefused, "pack thread", string(id), "the commit has more than %d bytes", maxLine)
	}
	w.size += int64(len(data))
	_, err = out.Write(data)
	return err
}

// omitsWords reports whether the conversation is left out.
func (w *threadWriter) omitsWords() bool { return w.options.OmitSession || w.options.WorkspaceOnly }

// checkpointOf converts a checkpoint to its form in the archive, and adds its objects.
func (w *threadWriter) checkpointOf(ctx context.Context, from *segno.Checkpoint) (*segno.Checkpoint, error) {
	if from == nil {
		return nil, nil
	}
	cp := *from
	cp.ID, cp.Thread, cp.Parent, cp.Seq, cp.Members, cp.Points = "", "", "", 0, nil, segno.Hash{}
	if w.onlyLine {
		cp.Workspace, cp.Session = nil, nil
	}
	if cp.Workspace != nil {
		s, err := w.redactor.Snapshot(ctx, *cp.Workspace)
		if err != nil {
			return nil, missingIsCorrupt(err)
		}
		s.Workspace, s.Unread, s.Held = "", nil, nil
		if w.options.WorkspaceOnly {
			s.Root, s.Git = neutralDir, nil
		}
		cp.Workspace = &s
	}
	if w.onlyLine {
		cp.State, cp.World = nil, nil
	}
	if w.options.WorkspaceOnly {
		cp.Prompt, cp.State, cp.World, cp.Meta = "", nil, nil, nil
	}
	for _, d := range []*segno.Document{cp.State, cp.World} {
		if d != nil {
			w.keep(d.Data, -1)
		}
	}
	var err error
	cp.Session, err = w.position(ctx, cp.Session)
	return &cp, err
}

// position converts a position to its form in the archive, and adds its objects.
func (w *threadWriter) position(ctx context.Context, from *segno.Position) (*segno.Position, error) {
	if from == nil || w.omitsWords() {
		return nil, nil
	}
	be := backendOf(from.Agent)
	if be == nil || !isSession(from.Session) || from.Leaf != "" && from.Log.IsZero() {
		return nil, nil
	}
	p := *from
	p.Path, p.Digest = "", nil
	if p.Leaf == "" {
		return &segno.Position{Agent: p.Agent, Session: p.Session, Dir: p.Dir, Version: p.Version}, nil
	}
	objects := w.store.Objects()
	if !p.Sidecars.IsZero() {
		data, err := claude.FilterSidecars(ctx, objects, p.Sidecars, isAllowedSidecar)
		if err != nil {
			return nil, missingIsCorrupt(err)
		}
		p.Sidecars = segno.Hash{}
		if data != nil {
			w.make(data)
			p.Sidecars = segno.HashOf(data)
		}
	}
	return &p, missingIsCorrupt(traceSession(ctx, w, p))
}

// isAllowedSidecar reports whether an archive may have a file that belongs to a session. The
// files of session-env are dumps of the environment.
func isAllowedSidecar(name string) bool {
	return !claude.IsRun(name) && !archive.IsDenied(archive.Session, name)
}

// traceSession adds the objects of a position. Some of them are made only for the archive.
func traceSession(ctx context.Context, w *threadWriter, p segno.Position) error {
	be := backendOf(p.Agent)
	objects := madeObjects{w.store.Objects(), w.made}
	var order []segno.Hash
	defer func() { w.traced = append(w.traced, order) }()
	visit := func(name segno.Hash) bool {
		_, known := w.kept[name]
		order = append(order, name)
		if _, isMade := w.made[name]; !isMade {
			w.keep(name, -1)
		}
		return !known
	}
	return w.follow.Follow(objects, visit, func(o segno.Objects, visit func(segno.Hash) bool) error {
		return be.open("", w.fsys).Trace(ctx, p, o, visit)
	})
}

// transcripts returns one file for each transcript part that is stored in several objects, because a value or a line
// may begin in one object and end in the next.
func (w *threadWriter) transcripts(ctx context.Context) (files []archive.File) {
	done := map[string]bool{} // keyed by all objects, because two files can have the same beginning
	add := func(run []segno.Hash) {
		key := fmt.Sprint(run)
		if len(run) < 2 || done[key] {
			return
		}
		done[key] = true
		f := archive.File{Path: objectPath(run[0])}
		for _, name := range run {
			f.Size += w.kept[name]
		}
		f.Open = func() (io.ReadCloser, error) {
			return &objectsReader{ctx: ctx, objects: w.store.Objects(), names: run}, nil
		}
		files = append(files, f)
	}
	for _, order := range w.traced {
		run := []segno.Hash{}
		for _, name := range order {
			if w.isList[name] || w.made[name] != nil {
				add(run)
				run = []segno.Hash{}
			} else {
				run = append(run, name)
			}
		}
		add(run)
	}
	return files
}

// An objectsReader reads the concatenation of objects.
type objectsReader struct {
	ctx     context.Context
	objects segno.Objects
	names   []segno.Hash
	rest    []byte
}

func (r *objectsReader) Read(p []byte) (n int, err error) {
	for len(r.rest) == 0 {
		if len(r.names) == 0 {
			return 0, io.EOF
		}
		if r.rest, err = getObject(r.ctx, r.objects, r.names[0]); err != nil {
			return 0, err
		}
		r.names = r.names[1:]
	}
	n = copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

func (r *objectsReader) Close() error { return nil }

// madeObjects combines the objects of a store with those that were made for an archive.
type madeObjects struct {
	segno.Objects
	made map[segno.Hash][]byte
}

// Get implements [segno.Objects].
func (m madeObjects) Get(ctx context.Context, name segno.Hash) ([]byte, error) {
	if data, ok := m.made[name]; ok {
		return bytes.Clone(data), nil
	}
	return m.Objects.Get(ctx, name)
}

// hasPathsOnly reports whether an entry of a kind lists paths, and no words of anyone.
func hasPathsOnly(kind segno.EntryKind) bool {
	return kind == segno.EntryDoubt || kind == segno.EntryOthers || kind == segno.EntryUnnamed
}
