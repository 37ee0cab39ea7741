// Package fleet runs the threads of one store on many machines.
//
//	f, err := fleet.Open(ctx, fleet.Config{Pool: pool, Bucket: bucket})
//	sent, err := f.Send(ctx, fleet.Prompt{Thread: "t", Agent: "support", Text: "…", Key: "order-17"})
//
//	w := f.Worker(map[string]*agent.Agent{"support": agent.New(agent.Config{Store: f.Store(), Model: m})})
//	err = w.Run(ctx) // on as many machines as you like; it drains when ctx ends
//
// The fleet needs PostgreSQL and no other server. Its queue is River (github.com/riverqueue/river), whose tables are in
// the schema of the store. A program that uses the library without the fleet links neither.
//
// # Mailboxes
//
// Each thread has a mailbox. Its prompts run in the order in which they were sent, one at a time. [Fleet.Send] is durable
// on return: one transaction writes the prompt and a job that wakes a worker. [Prompt.Key] makes Send repeatable,
// permanently. The prompt's turn runs under the same key, so a prompt is answered once even if its worker dies after the
// turn and before it marked the prompt as done.
//
// # Waiting
//
// A turn that waits for a decision, a time, a signal or another thread consists of rows in the database. Nothing of it is
// in memory. A commit that answers the question inserts the job that continues the turn in its own transaction, so any worker
// continues it.
//
// # Failures
//
// The lease of the store limits a thread to one run. Workers record that they are alive; the jobs of a worker that was not
// seen for [Worker.LeaseTime] are given to others. A turn that fails is tried again with growing pauses. After
// [Worker.MaxAttempts] it is parked with its error, and later prompts of the thread wait until [Fleet.Retry] or
// [Fleet.Cancel].
package fleet
