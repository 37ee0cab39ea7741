// Package client reads a store and moves its threads through the HTTP API of 'segno web' and 'segno
// serve'.
//
//	store, err := client.New("http://127.0.0.1:7777", token)
//	if err != nil { … }
//	defer store.Close()
//	head, err := store.Head(ctx, thread)
//
// A [Store] is a [segno.Store] that can only be read, so it works where a program takes any store. It is also
// [segno.Chains], [segno.Workspaces] and [segno.Watcher]. Records arrive without loss, and
// objects are checked against their names. Its methods that write return [segno.KindRefused].
//
// A thread moves by two calls. [Store.Preview] works the move out. [Store.Apply] makes it, unless the
// plan has changed since:
//
//	p, err := store.Preview(ctx, client.Move{Verb: "undo", Thread: thread, Turns: 1})
//	if err != nil { … }
//	fmt.Println(strings.Join(p.Summary, "\n"))
//	done, err := store.Apply(ctx, p.ID, segno.NewID(), false)
//
// The key, here [segno.NewID], makes a call repeatable: with the same key it returns the same answer.
package client
