package profile

// Plugin describes the plugin, or extension, in which an agent gets commands and tools of segno.
type Plugin struct {
	// Files are the JSON files of the plugin by their paths. VERSION, DESCRIPTION, COMMAND and ARGS in them stand for the JSON
	// values of the plugin's version and description, and of the program and arguments of its MCP server.
	Files map[string]string
	// Skill is the path of the file that explains segno to the model.
	Skill string
	// Verb is the path of the file for each verb, with NAME for the name of the verb.
	Verb string
	// Form is the form of these files.
	Form VerbForm
	// The agent replaces Arguments in these files by what the user typed after the verb.
	Arguments string
	// Install has the commands that install the plugin. segno replaces DIR by its directory.
	Install []string
}

// VerbForm is the form of a file that describes a verb to an agent.
type VerbForm string

// The forms.
const (
	MarkdownCommand VerbForm = "markdown" // a command, as Markdown with a header
	TOMLCommand     VerbForm = "toml"     // a command, as TOML
	SkillCommand    VerbForm = "skill"    // a skill, in an agent whose plugins have no commands
)
