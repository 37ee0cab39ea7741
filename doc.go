// Package segno is the domain of segno: checkpoints for AI agents.
//
// A [Thread] is one unit of work. It is ours and never changes its name, while
// the sessions of the agents that work on it come and go; they are the thread's
// chain of [Link]s. A thread is a tree of [Checkpoint]s: each is immutable, names
// its parent, and pins up to four tiers of one moment, the session (a [Position]
// in the agent's own transcript), the workspace (a [Snapshot] of a directory
// tree), the state of a Go agent and the world around it. A path from a leaf of
// that tree to its root is a line. The thread stands on its head; the tip is the
// newest checkpoint that redo can reach.
//
// What happens becomes durable through one door: a [Commit], applied by a [Store]
// as a compare-and-swap on the thread's head; [Wait] waits for the next one. The
// [Recorder] makes commits of what an agent does, turn by turn. The [Mover] makes
// commits of what a person asks for: undo, redo, restore and fork move pointers,
// write files and cut transcripts, and each of them is an [Operation] that can be
// taken back.
//
// A Go agent saves through a [Saver], or commits its steps itself, as package agent
// does. What it saves are entries, and its [State] at a checkpoint is what they add
// up to: [Fold]. A [NewSaver] on any store has history, forks and time travel. A
// question a run waits for is an [Interrupt], its answer a [Decision].
//
// This package imports the standard library only. What it needs from outside it
// asks for through small interfaces: [Store] and [Objects] (store/sqlite and its
// neighbours), [Workspace] (workspace), [Transcript] (transcript), [Spool] and
// [Journal] (internal/spool).
package segno
