package web

import "slices"

// routes are the endpoints of the API.
func routes() []endpoint {
	reads := []endpoint{
		get("/store", "The store, and the thread of the directory in which the server was started", (*Server).getStore),
		get("/threads", "Threads, the most recently changed first", (*Server).listThreads),
		get("/threads/{id}", "One thread", (*Server).getThread),
		get("/threads/{id}/timeline", "A window of a thread's timeline", (*Server).getTimeline),
		get("/threads/{id}/file", "The checkpoints of a thread that changed one path, newest first", (*Server).getFileHistory),
		get("/checkpoints/{id}", "One checkpoint with its prompt, answer, tool calls and changes", (*Server).getCheckpoint),
		get("/threads/{id}/usage", "What the turns of a thread used together: tokens and cost", (*Server).getThreadUsage),
		get("/checkpoints/{id}/usage", "What a turn used: tokens and cost", (*Server).getCheckpointUsage),
		get("/checkpoints/{id}/text", "A window of a long text of a checkpoint", (*Server).getText),
		stream("/checkpoints/{id}/export", "One turn as a page or as Markdown, without secrets", "application/octet-stream", (*Server).getShare),
		get("/changes", "The paths that differ between two checkpoints, or one and the present", (*Server).listChanges),
		get("/diff", "A window of the difference of one path", (*Server).getDiff),
		stream("/file", "The content of a file at a checkpoint", "application/octet-stream", (*Server).getFile),
		get("/operations", "The operations on a workspace, newest first", (*Server).listOperations),
		get("/search", "Prompts, answers, tool calls and paths that contain a text", (*Server).search),
		get("/experiments", "The experiments in the directory of the runs", (*Server).listExperiments),
		get("/experiments/{name}", "One experiment with a window of its attempts to run generations", (*Server).getChain),
		stream("/experiments/{name}/outcomes.svg", "The outcomes of an experiment over its generations, as a drawing", "image/svg+xml", (*Server).getPlot),
		stream("/experiments/{name}/archive", "An archive of an attempt", "application/octet-stream", (*Server).getArchive),
		stream("/openapi.json", "This document", "application/json", (*Server).getOpenAPI),
		stream("/events", "Events about threads that change, as a stream of server-sent events", "text/event-stream", (*Server).streamEvents),
	}
	return slices.Concat(reads, moveRoutes(), fleetRoutes(), rawRoutes(), copyRoutes())
}
