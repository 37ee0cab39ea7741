package kv_test

import (
	"context"
	"fmt"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/store/kv"
	"github.com/dalsegno/segno/store/kv/kvtest"
)

// A store can use any key-value store. This one is in the memory of the process.
func ExampleOpen() {
	ctx := context.Background()
	store, err := kv.Open(ctx, kvtest.NewMap(nil), kv.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	head, err := store.Commit(ctx, segno.Commit{ID: "first", Thread: "session:123", Create: &segno.Thread{ID: "session:123"},
		Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointBase}})
	if err != nil {
		fmt.Println(err)
		return
	}
	for thread, err := range store.Threads(ctx, segno.ThreadQuery{}) {
		fmt.Println(thread.ID, head.Head, err)
	}
	// Output: session:123 first <nil>
}
