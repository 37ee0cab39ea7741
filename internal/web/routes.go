package web

import "slices"

// routes are the endpoints of the API.
func routes() []endpoint {
	reads := []endpoint{
		get("/store", "The store, and the thread of the directory in which the server was started", (*Server).getStore),
		get("/threads", "Threads, the most recently changed first", (*Server).listThreads),
		get("/threads/{id}", "One thread", (*Server).getThread),
		get("/threads/{id}/timeline", "A window of a thread's timeline", (*Server).getTimeline),
		get("/checkpoints/{id}", "One checkpoint with its prompt, answer, tool calls and changes", (*Server).getCheckpoint),
	}
	return slices.Concat(reads, moveRoutes())
}
