// Package profile is the vocabulary in which segno describes an agent. The package of an agent, such as
// agents/claude, returns one [Profile], and package agents lists them. These packages contain data only, and import
// nothing that a hook at a tool call does not need.
package profile

// Profile is what segno knows about an agent.
type Profile struct {
	Name string // in links and checkpoints, and on the command line
	// Adapters are parts of the names with which ACP adapters of the agent introduce themselves.
	Adapters []string
	// Home is the directory of the agent's configuration.
	Home Dir
	// Data is the directory of its sessions and logins. If it has no places, they are in Home.
	Data Dir
	// Hooks is nil if segno cannot register hooks with the agent.
	Hooks *Hooks
	// ShellEnv is an environment variable that only the commands of the agent's shell tool have. It is "" if there
	// is none.
	ShellEnv string
	// SessionEnv is an environment variable that has the id of the session in the commands of the agent's shell tool. It is "" if there
	// is none.
	SessionEnv string
	// Tools are the agent's tools by their names in lower case. A tool that is not listed may do anything.
	Tools map[string]Tool
	// Failures returns the ways in which the agent reports problems over ACP. It is nil if segno knows none. It is a
	// function, because a hook does not need them.
	Failures func() []Failure
	// ReportsCalls is set if the agent certainly reports each tool call, by hooks or by messages. Another agent may call
	// tools that it does not report.
	ReportsCalls bool
	// HasAllResults is set if the agent reports the end of every call that it made before its turn ends. A call without
	// an end was then denied.
	HasAllResults bool
	// Login is nil if segno does not know where the agent keeps its logins.
	Login *Login
	// Archived describes the files of a session in an archive. It is nil if no archive contains sessions of the agent.
	Archived *Archived
	// Plugin is nil if segno makes no plugin for the agent. It is a function, because a hook does not need it.
	Plugin func() *Plugin
	// Denied are paths of files and directories, in lower case, that run programs or give abilities when the agent
	// starts in the directory above them. Archives contain neither them nor the logins.
	Denied []string
}

// DataDir returns the directory of the agent's sessions and logins.
func (p Profile) DataDir() Dir {
	if len(p.Data) == 0 {
		return p.Home
	}
	return p.Data
}

// Archived describes the files of a session in an archive.
type Archived struct {
	Format string // in archive.AgentInfo.SessionFormat
	// Files are patterns of the files of a session, relative to the directory of the agent. SESSION is the id of the session, and
	// The element @cwd means the working directory. Files with other names are neither packed nor unpacked.
	Files []string
	// Credentials are patterns of files that belong to a session, but are left out because they may contain secrets.
	Credentials []string
}
