package export

import (
	"context"
	"iter"
	"slices"
	"strconv"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history"
	"github.com/dalsegno/segno/internal/history/printable"
	"github.com/dalsegno/segno/internal/history/turns"
	"github.com/dalsegno/segno/timeline"
	"github.com/dalsegno/segno/transcript"
)

// Reader reads threads for an export.
type Reader struct {
	Store segno.Store
	// Transcripts has the readers of agents' sessions, by agent. Turns of an agent without a reader are exported from
	// their entries, which lack the texts between calls and have only the ends of long results.
	Transcripts map[string]segno.Transcript
	// Diffs adds the diffs of changed files.
	Diffs bool
	// Ranges, with Diffs, adds the ranges of lines that changed files have and did not have before.
	Ranges bool
}

// Selection selects turns of a thread.
type Selection struct {
	Thread segno.ThreadID
	At     segno.CommitID // the last turn; "" means the head
	Single bool           // selects only At
	All    bool           // also selects undone lines
}

// Thread is an open selection.
type Thread struct {
	Header
	r        *Reader
	units    []unit
	sessions map[segno.SessionID][]segno.Position // the selected positions of each session, in order
}

// unit has the commits of one turn.
type unit struct {
	at     segno.Checkpoint // without its prompt
	commit segno.CommitID   // the newest commit
	count  int
	before tree
	after  tree
	undone bool
}

// tree has the files of a checkpoint, if it has any.
type tree struct {
	hash  segno.Hash
	isSet bool
}

// Open selects turns of a thread. The error has [segno.KindNotFound] if the store has no such thread or
// checkpoint.
func (r *Reader) Open(ctx context.Context, s Selection) (*Thread, error) {
	t := &Thread{r: r, sessions: map[segno.SessionID][]segno.Position{}}
	head, err := r.Store.Head(ctx, s.Thread)
	if err != nil && (s.At == "" || segno.KindOf(err) != segno.KindNotFound) { // a fork keeps checkpoints of a deleted thread
		return nil, err
	}
	if err := t.readHeader(ctx, s.Thread, head); err != nil {
		return nil, err
	}
	at := head.Head
	if s.At != "" {
		at = s.At
	}
	l := lines{store: r.Store, trees: map[segno.CommitID]tree{}}
	if err := l.add(ctx, at, false); err != nil {
		return nil, err
	}
	if s.Single {
		l.units = l.units[max(0, len(l.units)-1):]
	}
	if s.All && !s.Single {
		if err := l.addOthers(ctx, s.Thread); err != nil {
			return nil, err
		}
	}
	t.units, t.Whole = l.units, !s.Single
	for i := range t.units {
		c := &t.units[i].at
		if c.Kind == segno.CheckpointTurn || c.Kind == segno.CheckpointStep {
			t.Count++
		}
		if p := c.Session; p != nil {
			t.sessions[p.Session] = append(t.sessions[p.Session], *p)
		}
	}
	return t, nil
}

func (t *Thread) readHeader(ctx context.Context, id segno.ThreadID, head segno.Head) error {
	t.Thread = id
	for x, err := range t.r.Store.Threads(ctx, segno.ThreadQuery{IDPrefix: string(id)}) {
		if err != nil {
			return err
		}
		if x.ID != id {
			continue
		}
		t.Title, t.Agent, t.Created, t.Parent = x.Title, x.Agent, x.Created, x.ParentThread
		if x.Parent != "" {
			t.Fork = &Fork{Checkpoint: x.Parent}
			if line, err := t.r.Store.Load(ctx, x.Parent, segno.Window{Last: 1}); err == nil {
				t.Fork.Thread = line.Commits[0].Thread
			}
		}
		break
	}
	chains, ok := t.r.Store.(segno.Chains)
	if !ok {
		if head.Link.Session != "" {
			t.addLink(head.Link)
		}
		return nil
	}
	for link, err := range chains.Chain(ctx, id) {
		if segno.KindOf(err) == segno.KindNotFound {
			return nil
		}
		if err != nil {
			return err
		}
		t.addLink(link)
	}
	return nil
}

func (t *Thread) addLink(l segno.Link) {
	t.Chain = append(t.Chain, Session{Agent: l.Agent, Session: l.Session, Start: l.Start, Reason: l.Reason})
}

// lines collects the units of several lines.
type lines struct {
	store segno.Store
	units []unit
	trees map[segno.CommitID]tree // the trees of all commits so far
}

// add adds the units of the line that ends at a commit, except units that an earlier line already
// added.
func (l *lines) add(ctx context.Context, at segno.CommitID, undone bool) error {
	var nodes []segno.Node
	for n, err := range segno.Ancestors(ctx, l.store, at, segno.Window{Last: 64}) {
		if err != nil {
			return err
		}
		if _, known := l.trees[n.ID]; known {
			break
		}
		nodes = append(nodes, withoutText(n))
	}
	slices.Reverse(nodes)
	first := 0
	for i := range nodes {
		n := &nodes[i]
		l.trees[n.ID] = l.treeOf(n)
		if n.Checkpoint == nil && i < len(nodes)-1 || isInner(nodes, i) {
			continue
		}
		u := unit{commit: n.ID, count: i - first + 1, undone: undone, before: l.trees[nodes[first].Parent], after: l.trees[n.ID]}
		if n.Checkpoint != nil {
			u.at = *n.Checkpoint
		} else {
			u.at = segno.Checkpoint{ID: n.ID, Thread: n.Thread, Parent: n.Parent, Seq: n.Seq, Kind: segno.CheckpointStep, Step: 1, Interrupted: true}
		}
		l.units = append(l.units, u)
		first = i + 1
	}
	return nil
}

// withoutText returns a copy of n without the prompt, which may be long.
func withoutText(n *segno.Node) segno.Node {
	out := *n
	if n.Checkpoint != nil {
		c := *n.Checkpoint
		c.Prompt = ""
		out.Checkpoint = &c
	}
	return out
}

// treeOf returns the files at a commit. A step of a session has no files, so treeOf returns those
// of the nearest commit before it that has files.
func (l *lines) treeOf(n *segno.Node) tree {
	switch {
	case !n.Checkpoint.Tree().IsZero():
		return tree{n.Checkpoint.Tree(), true}
	case n.Checkpoint == nil || n.Checkpoint.Kind == segno.CheckpointStep:
		return l.trees[n.Parent]
	}
	return tree{}
}

// isInner reports whether the step i is followed by a later checkpoint of its turn.
func isInner(nodes []segno.Node, i int) bool {
	c := nodes[i].Checkpoint
	if c == nil || c.Kind != segno.CheckpointStep {
		return false
	}
	for _, n := range nodes[i+1:] {
		if next := n.Checkpoint; next != nil {
			return next.Turn == c.Turn && (next.Kind == segno.CheckpointStep || next.Kind == segno.CheckpointTurn)
		}
	}
	return i < len(nodes)-1
}

// addOthers adds the lines of a thread that are not in l, and sorts all units in order of arrival.
func (l *lines) addOthers(ctx context.Context, thread segno.ThreadID) error {
	amended := map[segno.CommitID]bool{}
	var leaves []segno.CommitID
	hasChild := map[segno.CommitID]bool{}
	for c, err := range l.store.Checkpoints(ctx, segno.CheckpointQuery{Thread: thread}) {
		if err != nil {
			return err
		}
		amended[c.Amends] = true
		if !hasChild[c.ID] && !amended[c.ID] {
			leaves = append(leaves, c.ID)
		}
		hasChild[c.Parent] = true
	}
	for _, leaf := range leaves {
		if _, known := l.trees[leaf]; known {
			continue
		}
		if err := l.add(ctx, leaf, true); err != nil {
			return err
		}
	}
	l.units = slices.DeleteFunc(l.units, func(u unit) bool { return u.undone && amended[u.at.ID] })
	slices.SortStableFunc(l.units, func(a, b unit) int {
		if a.at.Thread != thread || b.at.Thread != thread {
			return 0 // units before a fork come first, in the order of their line
		}
		return int(a.at.Seq - b.at.Seq)
	})
	return nil
}

// Turns yields the selected turns, oldest first. It lists damaged parts in Turn.Missing.
func (t *Thread) Turns(ctx context.Context) iter.Seq2[*Turn, error] {
	return func(yield func(*Turn, error) bool) {
		talks := conversations{t: t}
		used, err := t.readUsage(ctx)
		if err != nil {
			yield(nil, err)
			return
		}
		for i := range t.units {
			turn, err := t.turn(ctx, &t.units[i], &talks)
			if parts := used[t.units[i].at.ID]; err == nil && parts != nil {
				turn.Usage = parts
			}
			if !yield(turn, err) || err != nil {
				return
			}
		}
	}
}

// readUsage reads what the transcripts record about the selected turns, by their ids.
func (t *Thread) readUsage(ctx context.Context) (map[segno.CommitID][]transcript.Usage, error) {
	h, err := history.Read(ctx, t.r.Store, t.Thread)
	if err != nil {
		return nil, ignoreUnreadable(ctx, err)
	}
	of := make([]segno.Checkpoint, len(t.units))
	for i := range t.units {
		of[i] = t.units[i].at
	}
	r := history.UsageReader{Source: &turns.Source{Store: t.r.Store, Transcripts: t.r.Transcripts}}
	used, err := r.ReadTranscripts(ctx, h, of)
	return used, ignoreUnreadable(ctx, err)
}

// ignoreUnreadable returns nil for an error that concerns parts of an export: these are then missing.
func ignoreUnreadable(ctx context.Context, err error) error {
	if kind := segno.KindOf(err); ctx.Err() == nil && (kind == segno.KindCorrupt || kind == segno.KindNotFound) {
		return nil
	}
	return err
}

func (t *Thread) turn(ctx context.Context, u *unit, talks *conversations) (*Turn, error) {
	turn := &Turn{Name: nameOf(&u.at), Checkpoint: u.at, End: u.at.Time, Undone: u.undone, Inherited: u.at.Thread != t.Thread}
	line, err := t.r.Store.Load(ctx, u.commit, segno.Window{Last: u.count, Entries: true})
	switch {
	case segno.KindOf(err) == segno.KindCorrupt:
		turn.miss("the record of this turn", err)
		return turn, nil
	case err != nil:
		return nil, err
	}
	if c := line.Commits[len(line.Commits)-1].Checkpoint; c != nil {
		turn.Checkpoint = *c
		turn.End = c.Time
	}
	turn.Turn = *turns.Read(line.Commits, &turn.Checkpoint)
	turn.Items = slices.DeleteFunc(turn.Items, func(it turns.Item) bool { return it.Name == timeline.NoteTaskBegin })
	for _, damaged := range turn.Damage {
		turn.miss("a message of commit "+damaged.Name, damaged.Err)
	}
	if !turns.IsOfGoAgent(&turn.Checkpoint) {
		if err := talks.complete(ctx, turn); err != nil {
			return nil, err
		}
	}
	if turn.IsTurn() && !turn.hasWork() {
		turn.Items = append(turn.Items, turns.Item{Author: turns.Segno, Text: "No answer of the agent is recorded."})
	}
	turn.separateSubagents()
	return turn, t.r.addFiles(ctx, turn, u)
}

// hasWork reports whether the agent did or said anything.
func (t *Turn) hasWork() bool {
	return slices.ContainsFunc(t.Items, func(it turns.Item) bool { return it.Author == turns.Agent })
}

// miss records that a part could not be read.
func (t *Turn) miss(what string, err error) {
	t.Missing = append(t.Missing, what+" could not be read: "+err.Error())
}

// nameOf returns the name of a checkpoint for text output. A step gets the name of its turn.
func nameOf(c *segno.Checkpoint) string {
	if c.Kind == segno.CheckpointStep && c.Turn > 0 {
		return "t" + strconv.Itoa(c.Turn)
	}
	return printable.Label(c)
}

// Source returns a thread for [Write]. f searches all its content. version is segno's version.
func (r *Reader) Source(ctx context.Context, s Selection, f *Filter, version string) (Source, error) {
	return r.source(ctx, s, f, version, map[segno.ThreadID]bool{})
}

func (r *Reader) source(ctx context.Context, s Selection, f *Filter, version string, seen map[segno.ThreadID]bool) (Source, error) {
	seen[s.Thread] = true
	t, err := r.Open(ctx, s)
	if err != nil {
		return Source{}, err
	}
	out := Source{Header: f.header(t.Header), Version: version}
	out.Turns = func() iter.Seq2[*Turn, error] { return f.turns(t.Turns(ctx)) }
	if s.Single {
		return out, nil
	}
	for child, err := range r.Store.Threads(ctx, segno.ThreadQuery{ParentThread: s.Thread}) {
		if err != nil {
			return Source{}, err
		}
		if seen[child.ID] {
			continue
		}
		inner, err := r.source(ctx, Selection{Thread: child.ID, All: s.All}, f, version, seen)
		if err != nil {
			return Source{}, err
		}
		out.Children = append(out.Children, inner)
	}
	return out, nil
}
