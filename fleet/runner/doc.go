// Package runner runs turns of agents with files on the machines of a fleet. [ACP] runs any agent that speaks the Agent
// Client Protocol, such as claude-agent-acp and codex-acp, and [Go] runs Go agents that have a workspace.
//
// A runner needs the store and a cache of directories. For each turn it takes the lease on the thread, makes a directory
// equal to the head's snapshot, runs the agent there, and commits the conversation and the files. After that, the
// directory may be removed: the next turn of the thread can run on any machine.
//
//	cache, err := workspaces.Open("/var/cache/agents", workspaces.Options{Objects: store.Objects()})
//	…
//	r := &runner.ACP{Command: []string{"claude-agent-acp"}, Store: store, Cache: cache, Env: []string{"ANTHROPIC_API_KEY=" + key}}
//	result, err := r.Run(ctx, fleet.Work{Thread: "t", Prompt: fleet.Prompt{Thread: "t", Key: "order-17", Text: "…"}})
//
// # Attempts
//
// A turn may be tried several times, because workers die. Each attempt is recorded in the store before the agent receives
// the prompt, and each of the agent's tool calls as soon as the agent announces it: see attempt. The files and the
// conversation of an attempt whose worker died are gone, but its calls may have had effects elsewhere. The next
// attempt therefore begins with a note to the agent that lists these calls, which is also recorded in the turn.
//
// No process of an agent outlives its turn. On systems without /proc, one that left the agent's process group may.
//
// # Permission
//
// An agent's process cannot wait for weeks until a user permits a call. If [ACP.Permissions] is [Ask], the runner
// answers such a request as cancelled, ends the turn, and records an [segno.Interrupt]. The result then has the phase
// waiting, and no process is left. After the decision, the same work sends the agent a prompt with the decision. If
// the agent then asks for the same call again, with the same input, the runner answers as the user decided.
//
// A decision is valid for one call. The runner records the call before the agent receives the permission. If the worker dies
// before the call ended, the call may have had its effect, so the next attempt first asks the user whether to make it again: an
// interrupt with [segno.ReasonUnknown]. With the policy [Allow], the runner asks if the agent asks for permission for the
// same call again, unless the call only reads or changes files, which are lost with the attempt. A call for which the
// agent asks no permission cannot be held back. The note lists it.
package runner
