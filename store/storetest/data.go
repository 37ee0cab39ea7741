package storetest

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/saver"
)

// inventory lists the data in a store that read reads.
type inventory struct {
	threads   []segno.ThreadID
	commits   []segno.CommitID
	objects   []segno.Hash
	queries   []segno.CheckpointQuery
	sessions  []segno.SessionID
	workspace segno.WorkspaceID
	path      string
}

// The numbers of the workspaces in these tests. A dump of a sealed store must not contain them.
const device, inode = 0x6465766963652d31, 0x696e6f64652d3939

// errorMark begins the result of a failed read.
const errorMark = "error: "

// read reads all data of the inventory. It returns each result as JSON, or the kind of its error.
func (in inventory) read(ctx context.Context, s segno.Store) (results []string) {
	add := func(what string, x any, err error) {
		if err != nil {
			x = errorMark + segno.KindOf(err).String()
		}
		text, err := json.Marshal(x)
		if err != nil {
			text = []byte(err.Error())
		}
		results = append(results, what+": "+string(text))
	}
	for _, id := range in.threads {
		head, err := s.Head(ctx, id)
		add(fmt.Sprint("head of ", id), head, err)
		saved, err := saver.New(s).Load(ctx, saver.ThreadKey{Thread: string(id)})
		add(fmt.Sprint("saved checkpoint of ", id), saved, err)
		in.readAbilities(ctx, s, id, add)
	}
	for _, q := range append([]segno.CheckpointQuery{{}, {Pinned: true}}, in.queries...) {
		found, err := readList(s.Checkpoints(ctx, q))
		add(fmt.Sprintf("checkpoints with %+v", q), found, err)
	}
	for _, id := range in.commits {
		line, err := s.Load(ctx, id, segno.Window{Entries: true})
		add(fmt.Sprint("line of ", id), line, err)
	}
	for _, name := range in.objects {
		data, err := s.Objects().Get(ctx, name)
		add("object "+name.String(), data, err)
		has, err := s.Objects().Has(ctx, name)
		add("has object "+name.String(), has, err)
	}
	for _, id := range append(in.sessions, "") {
		found, err := readList(s.Threads(ctx, segno.ThreadQuery{Session: id}))
		add(fmt.Sprint("threads of session ", id), found, err)
	}
	return results
}

// readAbilities reads the data that only stores with optional interfaces have.
func (in inventory) readAbilities(ctx context.Context, s segno.Store, id segno.ThreadID, add func(string, any, error)) {
	if x, ok := s.(segno.Leaser); ok {
		lease, err := x.LeaseOf(ctx, id)
		add(fmt.Sprint("lease of ", id), lease, err)
	}
	if x, ok := s.(segno.Chains); ok {
		chain, err := readList(x.Chain(ctx, id))
		add(fmt.Sprint("chain of ", id), chain, err)
	}
	if x, ok := s.(segno.Workspaces); ok && id == in.threads[0] {
		record, err := x.Workspace(ctx, in.workspace)
		add("workspace", record, err)
		found, err := readList(x.FindWorkspaces(ctx, []string{in.path, "/"}, 0, 0))
		add("workspaces by path", found, err)
		found, err = readList(x.FindWorkspaces(ctx, nil, device, inode))
		add("workspaces by inode", found, err)
		operations, err := readList(x.Operations(ctx, in.workspace))
		add("operations", operations, err)
	}
}

// fill creates a thread with data in every field. text returns the text of a field: n bytes, or a
// valid id if n is 0.
func (f *fixture) fill(id segno.ThreadID, text func(field string, n int) string) inventory {
	f.Helper()
	body := func(field string, n int) json.RawMessage {
		return []byte(`"` + strings.ReplaceAll(text(field, n), "\x00", `\u0000`) + `"`)
	}
	link := func(session string) *segno.Link {
		return &segno.Link{Agent: text("link agent", 0), Session: segno.SessionID(session), Dir: text("link dir", 0),
			Path: text("link path", 400), Start: epoch, Reason: text("reason", 0), Fidelity: segno.Fidelity(text("fidelity", 0)),
			Note: text("note", 400), Position: &segno.Position{Path: text("link position", 0)}}
	}
	create := f.base(id, "")
	create.Create.Title, create.Create.Agent, create.Create.Name = text("title", 400), text("agent", 0), text("name", 0)
	create.Create.Workspace, create.Create.ParentThread = "w", "parent"
	head := f.commit(create)

	small, bulk := text("small file", 400), text("bulk file", 3<<20)
	turn := f.files(head, small, bulk)
	turn.Needs = []segno.Hash{hash(bulk)}
	turn.Link = link(text("session", 0))
	turn.Entries = []segno.Entry{
		{Kind: segno.EntryIntent, Turn: 1, Session: turn.Link.Session, Time: epoch, ID: text("intent", 0), Name: text("tool", 0),
			Body: body("body", 400)},
		{Kind: segno.EntryState, Turn: 1, Time: epoch, Name: text("state key", 0), Body: body("value", 400)}}
	cp := turn.Checkpoint
	cp.Agent, cp.Prompt, cp.Label, cp.Key = text("agent", 0), text("prompt", 400), text("label", 0), segno.TurnKey(text("key", 0))
	cp.Meta = pairs{text("meta key", 0): text("meta value", 400)}
	cp.Session = &segno.Position{Agent: text("agent", 0), Session: turn.Link.Session, Dir: text("dir", 0), Path: text("path", 0),
		Leaf: text("leaf", 0), Digest: []byte(text("digest", 0)), Version: text("version", 0)}
	cp.Workspace.Root, cp.Workspace.Unread = text("root", 0), []string{text("unread", 0)}
	cp.Workspace.Git = &segno.Git{Head: text("git head", 0), Branch: text("branch", 0), Operation: text("git operation", 0)}
	cp.State, cp.Members = &segno.Document{Type: text("type", 0), Data: hash(small)}, map[string]segno.CommitID{text("member", 0): create.ID}
	head = f.commit(turn)

	long := f.turn(head)
	long.Entries[0].Body, long.Link = body("long body", 600<<10), link(text("next session", 0))
	long.Pin = &segno.Pin{Checkpoint: turn.ID, Name: text("pin", 400)}
	in := inventory{threads: []segno.ThreadID{id}, workspace: segno.WorkspaceID("w of " + id),
		commits:  []segno.CommitID{create.ID, turn.ID, long.ID},
		objects:  []segno.Hash{hash(small), hash(bulk), hash(tree(small, bulk))},
		sessions: []segno.SessionID{turn.Link.Session, long.Link.Session},
		queries: []segno.CheckpointQuery{{Session: turn.Link.Session}, {Leaf: cp.Session.Leaf}, {Key: cp.Key}, {Meta: cp.Meta},
			{Workspace: "w"}}}
	if _, ok := f.store.(segno.Workspaces); ok {
		state := text("workspace file", 400)
		long.Staged = f.stage(state, tree(state))
		in.objects = append(in.objects, hash(state), hash(tree(state)))
		long.Workspace = &segno.WorkspaceState{Workspace: in.workspace, Thread: id, By: turn.ID, Time: epoch,
			Snapshot: &segno.Snapshot{Workspace: in.workspace, Root: text("root", 0), Tree: hash(tree(state))}}
		long.Operation = &segno.Operation{ID: segno.OperationID("op " + id), Workspace: in.workspace, Thread: id, Verb: segno.VerbPin,
			Args: text("operation", 400), Time: epoch, Pin: long.Pin, Unpinned: text("unpinned", 0),
			Before: segno.Pointers{Head: turn.ID, Session: turn.Link.Session}}
	}
	head = f.commit(long)
	f.commit(f.move(head, turn.ID, head.Tip))
	return in
}

// fillAround adds a workspace, and a lease of the thread that fill created.
func (f *fixture) fillAround(in *inventory, text func(field string, n int) string) {
	f.Helper()
	if x, ok := f.store.(segno.Workspaces); ok {
		in.path = "/home/" + text("workspace path", 0)
		f.ok(x.PutWorkspace(f.Context(), segno.WorkspaceRecord{ID: in.workspace, Path: in.path, Device: device, Inode: inode, Created: epoch,
			Moved: []string{text("moved", 0)}}))
	}
	if x, ok := f.store.(segno.Leaser); ok {
		lease := segno.Lease{Thread: in.threads[0], Owner: text("owner of the lease", 0), Expires: f.now().AddDate(1, 0, 0)}
		f.ok(errOf(x.Acquire(f.Context(), lease)))
	}
}
