// Package client reads a store, and writes and moves its threads, through the HTTP API of 'segno web' and 'segno
// serve'.
//
//	store, err := client.New("http://127.0.0.1:7777", token)
//	if err != nil { … }
//	defer store.Close()
//	head, err := store.Head(ctx, thread)
//
// A [Store] is a [segno.Store], so a program can use it in place of any store. It also implements [segno.Chains],
// [segno.Workspaces] and [segno.Watcher]. Records arrive without loss. The client checks objects against their names.
// Commits and objects can be written if the server was started with 'segno serve --tokens' and the token has the scope
// write; package transfer copies threads this way. Delete and PutWorkspace return [segno.KindRefused].
// The Store has no leases, so package agent cannot keep two runs of a thread apart on it.
//
// A move of a thread takes two calls. [Store.Preview] works out a plan. [Store.Apply] makes the move, unless
// the plan has changed since:
//
//	p, err := store.Preview(ctx, client.Move{Verb: "undo", Thread: thread, Turns: 1})
//	if err != nil { … }
//	fmt.Println(strings.Join(p.Summary, "\n"))
//	done, err := store.Apply(ctx, p.ID, segno.NewID(), false)
//
// The key, here [segno.NewID], makes Apply repeatable: another call with the same key returns the same answer.
//
// If workers run the threads of the store, [Store.Send] sends a prompt to a thread, and [Store.Prompts] has its answer:
//
//	_, err := store.Send(ctx, "order-17", "question-1", client.SendPrompt{Text: "Where is my order?"})
package client
