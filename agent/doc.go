// Package agent is a Go agent whose every step is a checkpoint.
//
//	store, err := sqlite.Open(ctx, "agent.db", sqlite.Options{})
//	a := agent.New(agent.Config{Model: anthropic.New("claude-sonnet-4-5"), Store: store,
//		Tools: tool.Standard(), Approve: agent.Ask("send_email")})
//	for e, err := range a.Run(ctx, agent.Input{Thread: "session-123", Prompt: "Create a project plan"}) {
//
// # Steps
//
// A run asks the model, makes the calls it wants, and asks again until it wants
// none: that is a turn, and each asking with its calls is a step. A step's
// messages, results, state, todos, files and cost are one commit, made before
// anybody hears of them. A call with consequences has its intent committed before
// it is made; see [OnLost]. So whatever ends a run, an error, a cancelled context, a
// caller that stops listening, kill -9, costs at most the step in flight, and Run
// without a prompt goes on from there.
//
// One run has a thread at a time, by a lease in the store. Another gets
// [segno.KindConflict] with the head and [ErrRunning]. A run whose process has ended
// does not hold the thread.
//
// # Retries
//
// After any error the caller may run the same input again. A prompt with an [Input.Key]
// continues the turn it began or returns that turn's outcome; a decision that is recorded
// is not recorded twice; an input without a prompt returns the outcome of a turn that is
// over. A store that fails in passing is asked again within [Config.StoreRetry]; results
// of calls that it does not take for longer are kept in the process, and the agent's next
// run of the thread saves them. [Agent.Status] tells whether a thread is running, waiting,
// broken off or done; [Agent.Find] finds the threads that are, and [Agent.Inbox] all open
// questions.
//
// # Approvals
//
// A call that [Config.Approve] wants leave for becomes a [segno.Interrupt],
// committed before anyone is asked. Without [Config.Answer] the run ends
// interrupted; later, in whatever process, [Input.Decide] answers by the
// interrupt's id, and [Agent.Decide] records an answer without a run, at any time. The first
// answer recorded wins, and what it allows is done once,
// with the arguments that were asked about or the edited ones. Questions of
// subagents are asked by the agent, under the same ids.
//
// # Time travel
//
// [Agent.Undo], [Agent.Redo], [Agent.Restore] and [Agent.Fork] move a thread to any
// of its checkpoints or begin another there. Nothing is truncated. A question that
// waits there is asked anew under another id.
//
// # Events
//
// What a run tells are [Event]s. Those with a number are in the log, and
// [Agent.Events] tells them again. [Agent.Follow] goes on with what comes, from
// whatever process.
package agent
