// Package memory is a [segno.Store] that ends with the process. Use it in tests, and for agents whose
// threads need not survive. It is the store of store/kv over a map, with workspaces and collection.
//
//	store := memory.New(nil)
//	defer store.Close()
package memory

import (
	"time"

	"github.com/dalsegno/segno/store/kv"
)

// Store is a [segno.Store], and [segno.Chains], [segno.Workspaces], [segno.Leaser], [segno.Collector],
// [segno.Eraser] and [segno.Watcher].
type Store = kv.Memory

// New returns an empty store. clock tells the age of objects and leases; nil is time.Now.
func New(clock func() time.Time) *Store { return kv.NewMemory(clock) }
