// Package world makes a [segno.World] from the rules of a simulation, and contains what all worlds share.
//
// A world in Go is a type S for its state and a [Rules] for it. [New] adds everything else:
// sessions, sequence numbers, time, a random source whose state is saved, chat, and documents
// that [Simulation.Load] checks completely before it changes anything. Package world/grid is the
// smallest example. Package world/worldtest tests any world, also one in another language,
// and docs/worlds.md is the guide.
//
// The state S must contain everything that the rules remember. encoding/json must read back exactly what it wrote: use
// integers, slices, strings and maps with string keys. A field must have the same omitempty, or none, in the state and
// in an observation. Rules must not use the host's clock, a random source other than [Moment.Rand], or the order in
// which Go iterates over a map.
//
// Rules that implement [Measurer] measure how well a simulation goes. Documents contain these numbers, and
// generations of agents are compared by them.
package world
