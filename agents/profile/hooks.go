package profile

// Hooks describes how an agent runs hooks: where they are registered, and what its events mean.
type Hooks struct {
	// Registrations are the events that segno registers for.
	Registrations []Registration
	// Events maps the agent's names of events to Claude Code's, which segno uses for all agents. A name that it does not
	// list is the same.
	Events map[string]string
	// UserFile and ProjectFile are the settings files of the user and of a project, relative to
	// the agent's home and to the project.
	UserFile, ProjectFile string
	// Config is the user's file with the command that the agent runs at the end of a turn even if it
	// runs no hooks. It is "" if there is no such setting.
	Config string
	// Sessions is the directory of the session files, relative to the agent's home. If it is "", segno ignores the
	// transcript paths in events.
	Sessions string
	// DirVariable is the environment variable with the directory in which a session started. It is "" if
	// the events contain that directory.
	DirVariable string
	// RunsShell is set if the agent runs one string in a shell, instead of a program with arguments.
	RunsShell bool
	// WritesAfterStop is set if the agent writes its last message to the transcript at the same
	// time as it runs the hook for the end of a turn.
	WritesAfterStop bool
	// HasSubagentPrompts is set if the agent sends the same events for a subagent as for a user's
	// prompt, and does not list the running tasks at the end of a turn.
	HasSubagentPrompts bool
	// TimeIsPromptID is set if events have no id of the prompt, and the field timestamp of a prompt is its id. Without
	// ids and timestamps, each prompt after the end of a turn begins a turn.
	TimeIsPromptID bool
	// HidesInterruptions is set if neither an event nor the session file shows that the user interrupted a turn. A turn that is
	// open when the session ends may then have ended long before.
	HidesInterruptions bool
	// IsReviewed is set if the agent runs a hook only after the user reviewed it.
	IsReviewed bool
	// InMilliseconds is set if timeouts in the agent's settings are milliseconds, not seconds.
	InMilliseconds bool
	// ShowsNames is set if the agent shows the name of a running hook, or the command of a hook without a name.
	ShowsNames bool
	// Switch is the setting with which the user turns off all hooks, or nil if there is none.
	Switch *Switch
	// IsPlugin is set if the file is a plugin, which is a program that segno wrote, and not the
	// user's settings.
	IsPlugin bool
}

// Switch is a boolean setting. Path has the names of the objects that contain it, and its own name. With the value Off, the
// agent runs no hooks.
type Switch struct {
	Path []string
	Off  bool
}

// Registration is one event for which segno registers. Matcher is the pattern of the tools, which is left out of the
// settings if it is "". Timeout is the number of seconds that the agent waits for the hook.
type Registration struct {
	Event, Matcher string
	Timeout        int
}

// NameOf returns Claude Code's name of an event, which segno uses for the events of all agents.
func (h *Hooks) NameOf(event string) string {
	if name, ok := h.Events[event]; ok {
		return name
	}
	return event
}
