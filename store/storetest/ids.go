package storetest

import (
	"strings"

	"github.com/dalsegno/segno"
)

// hostile are ids that mean something to a path, a pattern, a separator or a
// terminal. All of them are valid, and no two are one.
func hostile() []string {
	return []string{"../../etc/passwd", "..", ".git", "/", "a/b", "a_b", "a%2Fb", "a:b", "a\\b", "A", "a", "%", "_", "*", "'", `"`, "\"; DROP TABLE threads; --",
		"NUL", "con", "__proto__", " ", "\n", "\x00", "a\x00", "a\x00b", "\x7f", "é", "e\u0301", "\u202e", "💾", "\ufeff", "\U0010ffff",
		strings.Repeat("x", segno.MaxID), strings.Repeat("x", segno.MaxID-1), strings.Repeat("é", segno.MaxID/2)}
}

func ids() []clause {
	return []clause{
		{"hostile ids come back", "ids round-trip for any UTF-8, and two that differ are two", hostileIdsComeBack},
		{"hostile commit ids", "commits, operations and workspaces are named by any UTF-8 too", hostileCommitIds},
		{"prefixes", "a prefix is bytes, never a pattern", prefixes},
		{"impossible ids", "an id that is empty, too long or no UTF-8 is refused", impossibleIds},
	}
}

// cut leaves room for a prefix.
func cut(id string) string {
	if len(id) > segno.MaxID-8 {
		return id[8:]
	}
	return id
}

func hostileIdsComeBack(f *fixture) {
	for _, id := range hostile() {
		f.commit(segno.Commit{ID: segno.CommitID("base" + cut(id)), Thread: segno.ThreadID(id), Create: &segno.Thread{ID: segno.ThreadID(id)},
			Link:       &segno.Link{Session: segno.SessionID(id), Start: epoch},
			Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointBase, Key: segno.TurnKey(id), Session: &segno.Position{Session: segno.SessionID(id), Leaf: id}}})
	}
	f.same("how many threads", len(f.threads(segno.ThreadQuery{})), len(hostile()))
	for _, id := range hostile() {
		c := segno.CommitID("base" + cut(id))
		head := f.head(segno.ThreadID(id))
		f.same("the head's thread", head.Thread, segno.ThreadID(id))
		f.same("the head", head.Head, c)
		f.same("the head's session", head.Link.Session, segno.SessionID(id))
		f.same("the session's thread", f.threads(segno.ThreadQuery{Session: segno.SessionID(id)}), []segno.ThreadID{segno.ThreadID(id)})
		for _, q := range []segno.CheckpointQuery{{Thread: segno.ThreadID(id)}, {Session: segno.SessionID(id)}, {Leaf: id}, {Key: segno.TurnKey(id)}} {
			f.same("a query's answer", f.listed(q), []segno.CommitID{c})
		}
	}
}

func hostileCommitIds(f *fixture) {
	head := f.thread()
	ws, ok := f.store.(segno.Workspaces)
	for _, id := range hostile() {
		c := f.next(head)
		c.ID = segno.CommitID(id)
		if ok {
			c.Workspace = &segno.WorkspaceState{Workspace: segno.WorkspaceID(id), Thread: head.Thread, By: c.ID, Time: epoch}
			c.Operation = &segno.Operation{ID: segno.OperationID(id), Workspace: segno.WorkspaceID(id), Thread: head.Thread, Verb: segno.VerbUndo, Time: epoch}
		}
		head = f.commit(c)
		f.same("the head", f.head(head.Thread).Head, c.ID)
		f.same("the line", f.path(c.ID, 1), []segno.CommitID{c.ID})
		if !ok {
			continue
		}
		f.ok(ws.PutWorkspace(f.Context(), segno.WorkspaceRecord{ID: segno.WorkspaceID(id), Path: "/" + id}))
		rec, err := ws.Workspace(f.Context(), segno.WorkspaceID(id))
		f.ok(err)
		f.same("the workspace's commit", rec.State.By, c.ID)
		for o, err := range ws.Operations(f.Context(), segno.WorkspaceID(id)) {
			f.ok(err)
			f.same("the operation", o, *c.Operation)
		}
	}
}

func prefixes(f *fixture) {
	head := f.thread()
	for _, id := range []string{"a%b", "a_b", "aXb", "A%b", "a%c"} {
		c := f.next(head)
		c.ID = segno.CommitID(id)
		head = f.commit(c)
	}
	f.same("a%", f.listed(segno.CheckpointQuery{IDPrefix: "a%"}), []segno.CommitID{"a%c", "a%b"})
	f.same("a_", f.listed(segno.CheckpointQuery{IDPrefix: "a_"}), []segno.CommitID{"a_b"})
	f.same("a", f.listed(segno.CheckpointQuery{IDPrefix: "a"}), []segno.CommitID{"a%c", "aXb", "a_b", "a%b"})
}

func impossibleIds(f *fixture) {
	head := f.thread()
	for _, id := range []string{"", strings.Repeat("x", segno.MaxID+1), "\xff", "a\xc3"} {
		c := f.next(head)
		c.ID = segno.CommitID(id)
		_, err := f.store.Commit(f.Context(), c)
		f.kind(err, segno.KindInvalid)
		_, err = f.store.Commit(f.Context(), f.base(segno.ThreadID(id), ""))
		f.kind(err, segno.KindInvalid)
	}
	c := f.next(head)
	c.ID = segno.CommitID(segno.Self)
	_, err := f.store.Commit(f.Context(), c)
	f.kind(err, segno.KindInvalid)
}
