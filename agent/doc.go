// Package agent runs Go agents and makes every step a checkpoint.
//
//	store, err := sqlite.Open(ctx, "agent.db", sqlite.Options{})
//	a := agent.New(agent.Config{Model: anthropic.New("claude-sonnet-4-5", anthropic.Options{}),
//		Store: store, Tools: tool.Standard(), Approve: agent.RequireApproval("send_email")})
//	out, err := a.Run(ctx, agent.Input{Thread: "session-123", Prompt: "Create a project plan"})
//
// Use it for an agent that must survive crashes, wait for people, or move back in time. A
// program with a separate loop uses package saver instead.
//
// # Steps
//
// A turn begins with a prompt and ends with an answer without tool calls. A step of a turn is
// one answer of the model and its calls. The messages, results, state, todos, files and cost
// of a step are one commit, which is durable before the caller sees its events. The intent of
// a call with consequences is committed before the call runs; see [OnLost]. An error, a
// cancelled context, a caller that stops receiving, or kill -9 therefore lose at most the step
// in progress, and [Agent.Run] without a prompt continues the turn.
//
// A run holds a lease on its thread. Another run of the thread returns [ErrRunning], with the
// kind [segno.KindConflict]. A run does not hold the thread after its process has ended. A store without leases,
// as that of package client, cannot keep two runs apart: both call the tools. There the caller must make
// sure that only one run at a time has a thread.
//
// # Retries
//
// After any error the caller may run the same input again. A prompt with an [Input.Key]
// continues the turn that it began, or returns the turn's outcome. A repeated decision is
// recorded once. An input without a prompt returns the outcome of a turn that has ended.
// [Config.StoreRetry] bounds the retries after transient failures of the store. If results
// still could not be saved, they stay in memory, and the agent's next run of the thread saves
// them. [Agent.Status] reports whether a thread is running, waiting, unfinished or done.
// [Agent.Find] lists the threads in one of these phases, and [Agent.Inbox] all open questions.
//
// # Approvals
//
// A call for which [Config.Approve] requires approval becomes a [segno.Interrupt], which is
// committed before the question is asked. If there is no [Config.Answer], the run ends interrupted. Later,
// in any process, [Agent.Decide] or [Input.Decide] answers the interrupt by its id. The first
// recorded decision counts. An approved call runs once, with the arguments in the question or
// the edited ones. Questions of subagents are asked under the same ids.
//
// # Waits
//
// A tool can wait with [Sleep], [Interrupt], [Await] and [Child]. What it waits for is committed, the
// run ends interrupted, and nothing stays in memory. [Outcome.Wake] is the time to run the thread
// again, if no decision or signal comes before. Run earlier, the thread waits on.
//
// When the wait has ended, the tool runs again from its start, with the same arguments and
// idempotency key, and each of its earlier waits returns its recorded reply at once. Code between
// the waits runs again, too. An effect belongs in a step of [Do], which does not run again. Changes
// of the state outside of steps are reverted when the tool waits, and its events are dropped,
// because the tool makes them again. The tool must make the same steps and waits in the same order
// each time, one after the other: a tool that makes another one ends the run with
// [segno.KindRefused], and the thread waits for the code that began the call.
//
// A call that is killed while its tool runs has lost its result, whether it waited before or not, and
// its [OnLost] decides. A tool whose effects are all in steps uses [LostRetry].
//
// # Time travel
//
// [Agent.Undo], [Agent.Redo] and [Agent.Restore] move a thread to one of its checkpoints, and
// [Agent.Fork] creates another thread there. Nothing is deleted. A question that is open at
// that checkpoint is asked again under another id.
//
// # Events
//
// [Agent.Stream] yields [Event]s. Those with a number are in the log: [Agent.Events] yields
// them again, and [Agent.Follow] also waits for new events of runs in any process.
package agent
