package storetest

import (
	"slices"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/saver"
)

// hostileIDs returns distinct valid ids with characters that have a meaning in paths, patterns,
// separators or terminals.
func hostileIDs() []string {
	return []string{"../../etc/passwd", "..", ".git", "/", "a/b", "a_b", "a%2Fb", "a:b", ":", "a:b:c", "a=b", "#1", "a\\b", "A", "a", "%",
		"_", "*", "?", "'", `"`, "\"; DROP TABLE threads; --", "NUL", "con", "__proto__", " ", "\n", "\x00", "a\x00", "a\x00b", "\x7f", "é",
		"e\u0301", "\u202e", "💾", "\ufeff", "\U0010ffff", "日本", "中国",
		strings.Repeat("x", segno.MaxID), strings.Repeat("x", segno.MaxID-1), strings.Repeat("é", segno.MaxID/2)}
}

// invalidIDs returns ids that are empty, too long or invalid UTF-8.
func invalidIDs() []string {
	return []string{"", strings.Repeat("x", segno.MaxID+1), "\xff", "a\xc3"}
}

// addressTests test the names of threads and of a saver's namespaces.
var addressTests = []test{
	{"hostile addresses", "threads and namespaces can be any UTF-8; no two addresses share a checkpoint", func(f *fixture) {
		all := []saver.ThreadKey{{Thread: "a", Namespace: "b"}, {Thread: "a:b", Namespace: "c"}, {Thread: "a", Namespace: "b:c"},
			{Thread: "a|b"}, {Thread: "a", Namespace: "|b"}, {Thread: "a\x00", Namespace: "b"}, {Thread: "a", Namespace: "\x00b"}}
		for _, id := range hostileIDs() {
			for _, a := range []saver.ThreadKey{{Thread: id}, {Thread: "t", Namespace: id}, {Thread: id, Namespace: "n"}} {
				if !slices.Contains(all, a) {
					all = append(all, a)
				}
			}
		}
		content := func(a saver.ThreadKey) string { return a.Thread + " in " + a.Namespace }
		listed := map[string][]saver.ThreadKey{}
		for _, a := range all {
			f.notFound(a)
			f.begin(a, content(a))
			listed[a.Namespace] = append([]saver.ThreadKey{a}, listed[a.Namespace]...)
		}
		for _, a := range all {
			got := f.latest(a)
			f.same("the address", got.ThreadKey, a)
			f.same("the message", compact(got.Messages[0]), compact(message(content(a))))
		}
		for namespace, want := range listed {
			f.same("the list of a namespace", f.addresses(namespace), want)
		}
		f.remove(saver.ThreadKey{Thread: "a/b"})
		f.exists(saver.ThreadKey{Thread: "a_b"}, true)
	}},
	{"namespaces are separate", "a namespace is saved, listed and deleted separately, or deleted with its thread", func(f *fixture) {
		root := f.begin(f.address(), "root")
		one, two, other := part(root.ThreadKey, "a:b"), part(root.ThreadKey, "two"), saver.ThreadKey{Thread: root.Thread + ":a"}
		f.notFound(one)
		child := f.begin(one, "child")
		f.same("the step of the child's first save", child.Step, 1)
		kept := []saver.Snapshot{f.begin(other, "another thread"), f.begin(part(other, "a:b"), "the child of another thread")}
		f.begin(two, "second child")
		child = f.save(with(child, "more"))
		f.isLatest(root)
		f.isLatest(child)
		f.same("the list of the threads", f.addresses(""), []saver.ThreadKey{other, root.ThreadKey})
		f.same("the list of the namespace", f.addresses("a:b"), []saver.ThreadKey{one, kept[1].ThreadKey})
		f.same("the list of another namespace", f.addresses("a"), []saver.ThreadKey(nil))
		f.remove(two)
		f.notFound(two)
		f.isLatest(root)
		f.isLatest(child)
		f.remove(root.ThreadKey)
		f.notFound(root.ThreadKey)
		f.notFound(one)
		f.same("the list of the namespace", f.addresses("a:b"), []saver.ThreadKey{kept[1].ThreadKey})
		f.isLatest(kept[0])
		f.isLatest(kept[1])
	}},
	{"invalid addresses", "a thread that is empty, and a name that is too long or invalid UTF-8, is refused", func(f *fixture) {
		for _, id := range invalidIDs() {
			for _, a := range []saver.ThreadKey{{Thread: id}, {Thread: id, Namespace: "part"}, {Thread: "t", Namespace: id}} {
				if a == (saver.ThreadKey{Thread: "t"}) {
					continue
				}
				f.kind(f.saveErr(with(saver.Snapshot{ThreadKey: a}, "x")), segno.KindInvalid)
				if ok, _ := f.saver.Exists(f.Context(), a); ok {
					f.Fatalf("%q exists", a)
				}
			}
		}
		f.same("the list", f.addresses(""), []saver.ThreadKey(nil))
	}},
}

// idTests test the ids and names that a store accepts.
var idTests = []test{
	{"hostile ids", "ids and names can be any UTF-8, and are returned unchanged", testHostileIDs},
	{"prefixes", "a prefix is compared byte by byte and is not a pattern", func(f *fixture) {
		head := f.newThread()
		for _, id := range []string{"a%b", "a_b", "aXb", "A%b", "a%c"} {
			c := f.turn(head)
			c.ID = segno.CommitID(id)
			head = f.commit(c)
		}
		for prefix, want := range map[string]string{"a%": "a%c a%b", "a_": "a_b", "a": "a%c aXb a_b a%b"} {
			f.same(prefix, joined(f.find(segno.CheckpointQuery{IDPrefix: prefix})), want)
		}
	}},
	{"invalid ids", "an id that is empty, too long, invalid UTF-8 or segno.Self is refused", func(f *fixture) {
		c := f.turn(f.newThread())
		for _, id := range invalidIDs() {
			f.kind(f.commitErr(f.base(segno.ThreadID(id), "")), segno.KindInvalid)
			c.ID = segno.CommitID(id)
			f.kind(f.commitErr(c), segno.KindInvalid)
		}
		c.ID = segno.Self
		f.kind(f.commitErr(c), segno.KindInvalid)
	}},
}

func testHostileIDs(f *fixture) {
	ws, hasWorkspaces := f.store.(segno.Workspaces)
	for _, id := range hostileIDs() {
		thread, session, workspace := segno.ThreadID(id), segno.SessionID(id), segno.WorkspaceID(id)
		create := f.base(thread, "")
		create.Create.ParentThread, create.Create.Name = thread, id
		create.Link = &segno.Link{Session: session, Start: epoch}
		c := f.turn(f.commit(create))
		c.ID, c.Checkpoint.Key, c.Checkpoint.Session = segno.CommitID(id), segno.TurnKey(id), &segno.Position{Session: session, Leaf: id}
		if hasWorkspaces {
			c.Workspace = &segno.WorkspaceState{Workspace: workspace, Thread: thread, By: c.ID, Time: epoch}
			c.Operation = &segno.Operation{ID: segno.OperationID(id), Workspace: workspace, Thread: thread, Verb: segno.VerbUndo, Time: epoch}
			f.ok(ws.PutWorkspace(f.Context(), segno.WorkspaceRecord{ID: workspace, Path: "/" + id}))
		}
		f.commit(c)
	}
	f.same("the number of threads", len(f.threads(segno.ThreadQuery{})), len(hostileIDs()))
	for _, id := range hostileIDs() {
		thread, session, workspace := segno.ThreadID(id), segno.SessionID(id), segno.WorkspaceID(id)
		head := f.head(thread)
		f.same("the head", []any{head.Thread, string(head.Head), head.Link.Session}, []any{thread, id, session})
		f.same("the line", f.line(head.Head, 1), []segno.CommitID{head.Head})
		f.same("the thread of the session", f.threads(segno.ThreadQuery{Session: session}), []segno.ThreadID{thread})
		parts := all(f, f.store.Threads(f.Context(), segno.ThreadQuery{ParentThread: thread}))
		f.same("the parts", []any{len(parts), parts[0].ID, parts[0].Name}, []any{1, thread, id})
		for _, q := range []segno.CheckpointQuery{{Thread: thread, Limit: 1}, {Session: session}, {Leaf: id}, {Key: segno.TurnKey(id)}} {
			f.same("the checkpoint", joined(f.find(q)), id)
		}
		if hasWorkspaces {
			rec := returned(ws.Workspace(f.Context(), workspace)).ok(f)
			f.same("the commit of the workspace", rec.State.By, head.Head)
			operations := all(f, ws.Operations(f.Context(), workspace))
			f.same("the operations", []any{len(operations), string(operations[0].ID)}, []any{1, id})
		}
	}
}
