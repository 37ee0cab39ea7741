// Package worldagent runs single turns of agents in a world, each in a process that ends when the agent is
// idle. [Turn] runs segno's own agent; [TurnACP] runs any agent that speaks the Agent Client Protocol.
//
// The conversation is a thread of a store in files, package store/file, which the caller names. The thread
// grows during the turn, so that an interrupted turn keeps its conversation so far. Nothing else of segno is
// in the payloads, the environment or the files of the agent.
package worldagent
