// Package segno is the vocabulary of segno, which makes checkpoints of the work of AI agents.
//
// A [Thread] is one unit of work. It never changes its id, while
// the sessions of the agents that work on it come and go; they are the thread's
// chain of [Link]s. A thread is a tree of [Checkpoint]s: each is immutable, names
// its parent, and pins up to four tiers of one moment, the session (a [Position]
// in the agent's own transcript), the workspace (a [Snapshot] of a directory
// tree), the state of a Go agent and the world around it. A path from a leaf of
// that tree to its root is a line. The head is the checkpoint a thread is at; the tip is the
// newest checkpoint that redo can reach.
//
// A [Commit] makes changes durable: a [Store] applies it as a compare-and-swap on the
// thread's head, and [Wait] waits for the next one. Package timeline commits the turns of
// agents, and undo, redo, restore and fork, each of which is an [Operation] that can be
// undone. A Go program's own loop saves through package saver; package
// agent commits its own steps. The [State] of a Go agent at a checkpoint is the [Fold] of
// the checkpoint's line. An [Interrupt] is a question that a run waits for, and a
// [Decision] its answer.
//
// This package imports the standard library only. Its interfaces are implemented by other
// packages: [Store] and [Objects] by those below store, [Workspace] by package workspace,
// [Transcript] by those below transcript, and [World] by those below world.
package segno
