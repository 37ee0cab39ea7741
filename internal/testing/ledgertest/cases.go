package ledgertest

import "github.com/dalsegno/segno"

// head is the result of a commit to thread t that is at a commit.
func head(at, tip segno.CommitID, seq int64, turn int) segno.Head {
	return segno.Head{Head: at, Tip: tip, Seq: seq, Turn: turn, Link: segno.Link{Session: "s1"}}
}

// onHead is a commit that follows the head of thread t.
func onHead(change func(*segno.Commit)) segno.Commit {
	c := segno.Commit{ID: "x", Thread: "t", Parent: "t2", Expect: "t2", Entries: entries("x")}
	change(&c)
	return c
}

func cases() []testCase {
	missing := segno.HashOf([]byte("missing"))
	plain := onHead(func(*segno.Commit) {})
	moved := onHead(func(c *segno.Commit) {
		c.ID, c.Entries, c.Parent, c.Move = "m", nil, "", &segno.Move{Head: "t1", Tip: "t2"}
	})
	logged := onHead(func(c *segno.Commit) { c.Operation = &segno.Operation{ID: "op", Workspace: "w", Verb: segno.VerbUndo} })
	return []testCase{
		// The rules about the commit's thread.
		{name: "a node becomes head and tip", commit: plain, head: head("x", "x", 3, 2)},
		{name: "a missing thread", commit: segno.Commit{ID: "x", Thread: "missing", Entries: entries("x")}, want: segno.KindNotFound},
		{name: "a deleted thread", commit: segno.Commit{ID: "x", Thread: "gone", Parent: "gone1", Expect: "gone1", Entries: entries("x")}, want: segno.KindNotFound},
		{name: "creating a deleted thread", commit: segno.Commit{ID: "x", Thread: "gone", Create: create("gone"), Entries: entries("x")}, want: segno.KindNotFound},
		{name: "creating a thread that exists", commit: segno.Commit{ID: "x", Thread: "t", Create: create("t"), Entries: entries("x")},
			want: segno.KindConflict, actual: "t2"},
		{name: "an old head", commit: onHead(func(c *segno.Commit) { c.Parent, c.Expect = "t1", "t1" }), want: segno.KindConflict, actual: "t2"},
		{name: "no head", commit: onHead(func(c *segno.Commit) { c.Expect = "" }), want: segno.KindConflict, actual: "t2"},
		{name: "a head that does not exist", commit: onHead(func(c *segno.Commit) { c.Expect = "wrong" }), want: segno.KindConflict, actual: "t2"},
		{name: "an old head before a missing parent", commit: onHead(func(c *segno.Commit) { c.Parent, c.Expect = "wrong", "t1" }),
			want: segno.KindConflict, actual: "t2"},

		// The rules about repeated ids.
		{name: "the same commit again", before: []segno.Commit{plain}, commit: plain, head: head("x", "x", 3, 2)},
		{name: "the same commit again after another", before: []segno.Commit{plain, {ID: "y", Thread: "t", Parent: "x", Expect: "x", Checkpoint: turn(9)}},
			commit: plain, head: head("x", "x", 3, 2)},
		{name: "the same commit with another expectation", before: []segno.Commit{plain},
			commit: onHead(func(c *segno.Commit) { c.Expect = "x" }), head: head("x", "x", 3, 2)},
		{name: "a move again", before: []segno.Commit{moved}, commit: moved, head: head("t1", "t2", 3, 2)},
		{name: "another commit of that id", before: []segno.Commit{plain},
			commit: onHead(func(c *segno.Commit) { c.Entries = entries("other") }), want: segno.KindConflict},
		{name: "another commit of that id in another thread",
			commit: segno.Commit{ID: "t2", Thread: "leased", Parent: "leased1", Expect: "leased1", Entries: entries("x")}, want: segno.KindConflict},
		{name: "a commit of a deleted thread again", commit: segno.Commit{ID: "gone1", Thread: "gone", Create: create("gone"), Entries: entries("gone")},
			want: segno.KindNotFound},

		// The rules about other things that the commit names.
		{name: "a parent that does not exist", commit: onHead(func(c *segno.Commit) { c.Parent = "wrong" }), want: segno.KindNotFound},
		{name: "a parent that is no node", before: []segno.Commit{moved},
			commit: onHead(func(c *segno.Commit) { c.Parent, c.Expect = "m", "t1" }), want: segno.KindNotFound},
		{name: "a move to what does not exist", commit: onHead(func(c *segno.Commit) { c.Move = &segno.Move{Head: "wrong", Tip: "t2"} }), want: segno.KindNotFound},
		{name: "a tip that does not exist", commit: onHead(func(c *segno.Commit) { c.Move = &segno.Move{Head: "t2", Tip: "wrong"} }), want: segno.KindNotFound},
		{name: "a move to what is no node", before: []segno.Commit{moved},
			commit: onHead(func(c *segno.Commit) { c.Parent, c.Expect, c.Move = "t1", "t1", &segno.Move{Head: "m", Tip: "t2"} }), want: segno.KindNotFound},
		{name: "an object that does not exist", commit: onHead(func(c *segno.Commit) { c.Needs = []segno.Hash{missing} }), want: segno.KindNotFound},
		{name: "an object that its batch found and that does not exist",
			commit: onHead(func(c *segno.Commit) { c.Staged.Objects = []segno.Object{{Name: missing}} }), want: segno.KindNotFound},
		{name: "a pin of what does not exist", commit: onHead(func(c *segno.Commit) { c.Pin = &segno.Pin{Checkpoint: "wrong", Name: "p"} }), want: segno.KindNotFound},
		{name: "a pin of a commit without a checkpoint", before: []segno.Commit{plain},
			commit: segno.Commit{ID: "y", Thread: "t", Expect: "x", Pin: &segno.Pin{Checkpoint: "x", Name: "p"}}, want: segno.KindNotFound},
		{name: "a pin of the commit's own checkpoint", commit: onHead(func(c *segno.Commit) { c.Checkpoint, c.Pin = turn(3), &segno.Pin{Checkpoint: "x", Name: "p"} }),
			want: segno.KindNotFound},
		{name: "a pin of a checkpoint", commit: segno.Commit{ID: "y", Thread: "t", Expect: "t2", Pin: &segno.Pin{Checkpoint: "t1", Name: "p"}},
			head: head("t2", "t2", 3, 2)},
		{name: "an operation", commit: logged, head: head("x", "x", 3, 2)},
		{name: "another operation of that id", before: []segno.Commit{logged},
			commit: segno.Commit{ID: "y", Thread: "t", Parent: "x", Expect: "x", Entries: entries("y"), Operation: logged.Operation}, want: segno.KindConflict},

		// The thread after the commit.
		{name: "a move", commit: moved, head: head("t1", "t2", 3, 2)},
		{name: "a move to itself", commit: onHead(func(c *segno.Commit) { c.Move = &segno.Move{Head: segno.Self, Tip: segno.Self} }), head: head("x", "x", 3, 2)},
		{name: "a move of the head to itself", commit: onHead(func(c *segno.Commit) { c.Move = &segno.Move{Head: segno.Self, Tip: "t1"} }), head: head("x", "t1", 3, 2)},
		{name: "a node beside the head", commit: onHead(func(c *segno.Commit) { c.Parent, c.Move = "t1", &segno.Move{Head: "t2", Tip: "t2"} }),
			head: head("t2", "t2", 3, 2)},
		{name: "a commit that is no node", commit: onHead(func(c *segno.Commit) { c.Entries, c.Parent = nil, "" }), head: head("t2", "t2", 3, 2)},
		{name: "a new line at an older commit", commit: onHead(func(c *segno.Commit) { c.Parent = "t1" }), head: head("x", "x", 3, 2)},
		{name: "a second root", commit: onHead(func(c *segno.Commit) { c.Parent = "" }), head: head("x", "x", 3, 2)},
		{name: "a higher turn", commit: onHead(func(c *segno.Commit) { c.Checkpoint = turn(5) }), head: head("x", "x", 3, 5)},
		{name: "a lower turn", commit: onHead(func(c *segno.Commit) { c.Checkpoint = turn(1) }), head: head("x", "x", 3, 2)},
		{name: "a link", commit: onHead(func(c *segno.Commit) { c.Link = link("s2", false) }),
			head: segno.Head{Head: "x", Tip: "x", Seq: 3, Turn: 2, Link: segno.Link{Session: "s2"}}},
		{name: "a detached link", commit: onHead(func(c *segno.Commit) { c.Link = link("s2", true) }), head: head("x", "x", 3, 2)},
		{name: "a thread without a node", commit: segno.Commit{ID: "x", Thread: "new", Create: create("new")}, head: segno.Head{Seq: 1}},
		{name: "a fork", commit: segno.Commit{ID: "x", Thread: "fork", Create: create("fork"), Parent: "t1", Move: &segno.Move{Head: "t1", Tip: "t1"}},
			head: segno.Head{Head: "t1", Tip: "t1", Seq: 1, Turn: 1}},
		{name: "a fork with a turn", commit: segno.Commit{ID: "x", Thread: "fork", Create: create("fork"), Parent: "t2", Checkpoint: turn(3)},
			head: segno.Head{Head: "x", Tip: "x", Seq: 1, Turn: 3}},
		{name: "a fork with entries", commit: segno.Commit{ID: "x", Thread: "fork", Create: create("fork"), Parent: "t2", Entries: entries("x")},
			head: segno.Head{Head: "x", Tip: "x", Seq: 1, Turn: 2}},
	}
}
