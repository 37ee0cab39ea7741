// Package worldagent runs single turns of agents in a world, each in a process that ends when the agent is
// idle: of segno's own agent ([Turn]), and of any agent that speaks the Agent Client Protocol ([TurnACP]).
//
// The conversation is a thread of a store in files, package store/file, which the caller names. It grows while
// the turn is in progress, so that a turn which is cut off has its conversation so far. Nothing else of
// segno is in the payloads, the environment or the files of the agent.
package worldagent
