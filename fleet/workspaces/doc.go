// Package workspaces gives each turn of a fleet a private directory with the files of its thread, on whichever machine
// runs the turn.
//
// A [Cache] is a directory on a worker's disk. [Cache.Checkout] makes a directory equal to a snapshot. If the worker
// still has a directory of the same workspace, the cache takes that one and writes only the difference. The cache also
// keeps the objects that it read, by hash, so that a new directory with known files needs no network:
//
//	cache, err := workspaces.Open(dir, workspaces.Options{Objects: store.Objects(), MaxBytes: 50 << 30})
//	…
//	c, err := cache.Checkout(ctx, snapshot)
//	…
//	defer c.Release(ctx)
//	run(c.Files())
//
// # Layout
//
//	objects/ab/<hash>            a content or a tree; read only if it has that hash
//	dirs/<workspace>/1/          one directory; others for the same workspace are 2, 3, …
//	  lock                       held with flock(2) while a process uses the directory
//	  state.json                 see state
//	  index                      the result of the last scan; a cache
//	  files/                     the workspace of the agent
//	  home/                      home directories of agents, if they need one
//	  run/                       for temporary files
//	  segno/                     what package timeline keeps beside a store
//	dirs/<workspace>/1.retired   the number is not used again before the machine restarts
//	trash/                       directories that are being removed
//
// Everything in the cache may be deleted while no worker runs: the store has all of it.
//
// # Processes that die
//
// A directory is in use from Checkout until Release, and its state records this. The processes that a killed worker
// started may still write in its directory. The cache therefore never uses a directory again that was not released. It
// moves such a directory to trash, and retires its number. The same is done after a restart of the machine, because the cache syncs nothing.
//
// # Tenants
//
// A directory contains more than the snapshot: protected paths, such as node_modules, stay in it between turns. Give
// each tenant a separate cache.
package workspaces
