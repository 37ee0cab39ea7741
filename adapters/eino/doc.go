// Package segnoeino keeps the runs of Eino (github.com/cloudwego/eino) in a store of segno.
//
// [Checkpoints] is a [compose.CheckPointStore] in which every Set is a version: versions have a
// history, they can be undone, restored and forked, and a writer that read an older version gets
// [segno.KindConflict] instead of replacing a newer one.
//
// Eino writes a checkpoint only if a run is interrupted. [Invoke] and [Stream] run a graph so that
// it also writes one after each step, which is a node, or the nodes that run at the same time. If
// the process is killed, the next Invoke with the same thread continues after the last step. A node
// that had begun, or that the end of the context stopped, is not repeated silently: Invoke returns a
// [LostError], unless the node only reads or [Call.Repeat] allows it.
//
// A run records its prompt, answers and calls as the entries of a Go agent, so `segno log`, `show`,
// search and the page show it. A node that is not a model or a tool is shown as a call with its
// input and output.
//
// A nested graph is one node. A node whose component calls no callbacks is not recorded; Eino's own
// components do.
package segnoeino
