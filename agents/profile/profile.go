// Package profile is the vocabulary in which segno describes an agent. The package of an agent, such as
// agents/claude, returns one [Profile], and package agents lists them. These packages contain data only, and import
// nothing that a hook at a tool call does not need.
package profile

// Profile is what segno knows about an agent.
type Profile struct {
	Name string // in links and checkpoints, and on the command line
	// Tools are the agent's tools by their names in lower case. A tool that is not listed may do anything.
	Tools map[string]Tool
	// ReportsCalls is set if the agent certainly reports each tool call, by hooks or by messages. Another agent may call
	// tools that it does not report.
	ReportsCalls bool
	// HasAllResults is set if the agent reports the end of every call that it made before its turn ends. A call without
	// an end was then denied.
	HasAllResults bool
}
