package archive

import (
	"slices"

	"github.com/dalsegno/segno/agents"
)

// places has the places of the agents that segno knows, and of other programs.
var places = slices.Concat(agents.Denied(), otherPlaces)

// otherPlaces are paths of files and directories, at any depth. They run programs or give abilities
// when an agent, an editor, a shell or another tool starts in the directory above them, or they
// contain credentials. Everything below such a directory counts, too. A star stands for any part of
// a name. The comment of a place is its source: a page of the documentation, or a package.
var otherPlaces = []string{
	// Credentials.
	".ssh",                // man 5 ssh_config
	".aws",                // https://docs.aws.amazon.com/cli/latest/userguide/cli-configure-files.html
	".gnupg",              // man 1 gpg
	".azure",              // https://learn.microsoft.com/cli/azure/azure-cli-configuration
	".kube",               // https://kubernetes.io/docs/concepts/configuration/organize-cluster-access-kubeconfig/
	".config/gcloud",      // https://cloud.google.com/sdk/docs/configurations
	".config/gh",          // https://cli.github.com/manual/gh_config
	".docker/config.json", // https://docs.docker.com/reference/cli/docker/#configuration-files

	// The directory that several agents share.
	".agents/skills",          // https://developers.openai.com/codex/skills
	".agents/plugins",         // https://developers.openai.com/codex/plugins
	".agents/hooks.json",      // https://antigravity.google/docs
	".agents/hooks",           // https://antigravity.google/docs
	".agents/mcp_config.json", // https://antigravity.google/docs
	".agents/agents",          // https://antigravity.google/docs
	".agents/commands",        // https://antigravity.google/docs
	".agent/skills",           // https://antigravity.google/docs
	".agent/hooks.json",       // https://antigravity.google/docs

	// Qwen Code.
	".qwen/settings.json", // https://qwenlm.github.io/qwen-code-docs/en/users/configuration/settings/
	".qwen/hooks",         // npm @qwen-code/qwen-code
	".qwen/commands",      // npm @qwen-code/qwen-code
	".qwen/extensions",    // npm @qwen-code/qwen-code
	".qwen/skills",        // npm @qwen-code/qwen-code
	".qwen/agents",        // npm @qwen-code/qwen-code

	// Cursor.
	".cursor/mcp.json",         // https://cursor.com/docs/context/mcp
	".cursor/hooks.json",       // https://cursor.com/docs/agent/hooks
	".cursor/hooks",            // https://cursor.com/docs/agent/hooks
	".cursor/skills",           // https://cursor.com/docs/context/skills
	".cursor/agents",           // https://cursor.com/docs/context/subagents
	".cursor/commands",         // https://cursor.com/docs/context/commands
	".cursor/plugins",          // https://cursor.com/docs/plugins
	".cursor/cli.json",         // https://cursor.com/docs/cli/reference/configuration
	".cursor/environment.json", // https://cursor.com/docs/cloud-agent
	".cursor/worktrees.json",   // https://cursor.com/docs/configuration/worktrees
	".cursor-plugin",           // https://cursor.com/docs/plugins

	// GitHub Copilot and VS Code.
	".github/hooks",         // https://docs.github.com/en/copilot/reference/hooks-reference
	".github/skills",        // https://docs.github.com/en/copilot/concepts/agents/about-agent-skills
	".github/copilot",       // https://docs.github.com/en/copilot/reference/hooks-reference
	".github/mcp.json",      // npm @github/copilot
	".copilot",              // https://docs.github.com/en/copilot/how-tos/copilot-cli
	".vscode/tasks.json",    // https://code.visualstudio.com/docs/debugtest/tasks
	".vscode/settings.json", // https://code.visualstudio.com/docs/configure/settings
	".vscode/launch.json",   // https://code.visualstudio.com/docs/debugtest/debugging-configuration
	".vscode/mcp.json",      // https://code.visualstudio.com/docs/copilot/customization/mcp-servers
	".vscode/extensions",    // https://code.visualstudio.com/updates/v1_89#_local-workspace-extensions
	"*.code-workspace",      // https://code.visualstudio.com/docs/editing/workspaces/multi-root-workspaces
	".devcontainer.json",    // https://containers.dev/implementors/spec/
	"devcontainer.json",     // https://containers.dev/implementors/spec/

	// Other agents.
	".clinerules/hooks",         // https://docs.cline.bot/customization/hooks
	".cline",                    // https://docs.cline.bot/getting-started/config
	".windsurf/hooks.json",      // https://docs.windsurf.com/windsurf/cascade/hooks
	".windsurf/hooks",           // https://docs.windsurf.com/windsurf/cascade/hooks
	".windsurf/mcp_config.json", // https://docs.windsurf.com/windsurf/cascade/mcp
	".windsurf/skills",          // https://docs.windsurf.com/windsurf/cascade/skills
	".devin",                    // https://docs.devin.ai/
	".junie/mcp",                // https://www.jetbrains.com/help/junie/model-context-protocol-mcp.html
	".junie/hooks",              // https://junie.jetbrains.com/docs/junie-cli-hooks.html
	".junie/config.json",        // https://junie.jetbrains.com/docs/junie-cli-hooks.html
	".junie/skills",             // https://junie.jetbrains.com/docs/
	".junie/agents",             // https://junie.jetbrains.com/docs/
	".junie/commands",           // https://junie.jetbrains.com/docs/
	".air/mcp.json",             // https://www.jetbrains.com/help/air/mcp-servers.html
	".continue/mcpservers",      // https://docs.continue.dev/customize/deep-dives/mcp
	".continue/agents",          // https://docs.continue.dev/
	".continue/config.yaml",     // https://docs.continue.dev/reference
	".continue/config.json",     // https://docs.continue.dev/reference/json-reference
	".continue/config.ts",       // https://docs.continue.dev/customize/deep-dives/configuration
	".continuerc.json",          // https://docs.continue.dev/customize/deep-dives/configuration
	".factory",                  // https://docs.factory.ai/cli/configuration/settings
	".augment",                  // https://docs.augmentcode.com/cli/config
	".trae",                     // https://docs.trae.ai/ide/model-context-protocol
	".amp",                      // https://ampcode.com/manual
	".crush.json",               // https://github.com/charmbracelet/crush
	"crush.json",                // https://github.com/charmbracelet/crush
	".crush",                    // https://github.com/charmbracelet/crush
	".roo/mcp.json",             // https://docs.roocode.com/features/mcp/using-mcp-in-roo
	".roo/commands",             // https://docs.roocode.com/features/slash-commands
	".roo/skills",               // https://docs.roocode.com/features/skills
	".kilocode/mcp.json",        // https://kilo.ai/docs/features/mcp/using-mcp-in-kilo-code
	".kilocode/skills",          // https://kilo.ai/docs
	".kilo",                     // https://kilo.ai/docs
	".kiro/settings",            // https://kiro.dev/docs/mcp/configuration/
	".kiro/hooks",               // https://kiro.dev/docs/hooks/
	".kiro/agents",              // https://kiro.dev/docs/cli/custom-agents/
	".kiro/skills",              // https://kiro.dev/docs/skills/
	".amazonq/mcp.json",         // https://docs.aws.amazon.com/amazonq/latest/qdeveloper-ug/command-line-mcp.html
	".amazonq/cli-agents",       // https://docs.aws.amazon.com/amazonq/latest/qdeveloper-ug/command-line-custom-agents.html
	".amazonq/agents",           // https://docs.aws.amazon.com/amazonq/latest/qdeveloper-ug/mcp-ide.html
	".aider.conf.yml",           // https://aider.chat/docs/config/aider_conf.html
	".openhands/setup.sh",       // https://docs.openhands.dev/openhands/usage/customization/repository
	".openhands/pre-commit.sh",  // https://docs.openhands.dev/openhands/usage/customization/repository
	".openhands/hooks.json",     // https://docs.openhands.dev/openhands/usage/customization/hooks
	".openhands/hooks",          // https://docs.openhands.dev/openhands/usage/customization/hooks
	".openhands/skills",         // https://docs.openhands.dev/overview/skills
	".codebuddy",                // npm @tencent-ai/codebuddy-code
	".qoder",                    // https://docs.qoder.com/cli/hooks
	".iflow",                    // npm @iflow-ai/iflow-cli
	".grok",                     // npm @vibe-kit/grok-cli
	".pi",                       // npm @mariozechner/pi-coding-agent
	".vibe",                     // PyPI mistral-vibe
	".tabnine",                  // https://docs.tabnine.com/main/getting-started/tabnine-agent/mcp-intro-and-setup

	// Other editors.
	".idea/runconfigurations", // https://www.jetbrains.com/help/idea/run-debug-configuration.html
	".idea/workspace.xml",     // https://www.jetbrains.com/help/idea/run-debug-configuration.html
	".idea/startup.xml",       // https://www.jetbrains.com/help/idea/settings-tools-startup-tasks.html
	".idea/watchertasks.xml",  // https://www.jetbrains.com/help/idea/using-file-watchers.html
	"*.run.xml",               // https://www.jetbrains.com/help/idea/run-debug-configuration.html
	".fleet/run.json",         // https://www.jetbrains.com/help/fleet/getting-started-with-run-configurations.html
	".fleet/settings.json",    // https://www.jetbrains.com/help/fleet/settings.html
	".vs/tasks.vs.json",       // https://learn.microsoft.com/visualstudio/ide/customize-build-and-debug-tasks-in-visual-studio
	".vs/launch.vs.json",      // https://learn.microsoft.com/visualstudio/ide/customize-build-and-debug-tasks-in-visual-studio
	".zed",                    // https://zed.dev/docs/configuring-zed
	"*.sublime-project",       // https://www.sublimetext.com/docs/projects.html
	".helix",                  // https://docs.helix-editor.com/configuration.html
	".exrc",                   // https://vimhelp.org/options.txt.html#%27exrc%27
	".vimrc",                  // https://vimhelp.org/options.txt.html#%27exrc%27
	".gvimrc",                 // https://vimhelp.org/options.txt.html#%27exrc%27
	".nvimrc",                 // https://neovim.io/doc/user/options.html#'exrc'
	".nvim.lua",               // https://neovim.io/doc/user/options.html#'exrc'
	".lazy.lua",               // https://lazy.folke.io/configuration
	".dir-locals.el",          // https://www.gnu.org/software/emacs/manual/html_node/emacs/Directory-Variables.html
	".dir-locals-2.el",        // https://www.gnu.org/software/emacs/manual/html_node/emacs/Directory-Variables.html

	// Version control. A file .git can name any directory as the repository.
	".git",      // https://git-scm.com/docs/git-config
	".githooks", // https://git-scm.com/docs/githooks
	".husky",    // https://typicode.github.io/husky/
	".hg",       // https://www.mercurial-scm.org/help/topics/config
	".jj",       // https://docs.jj-vcs.dev/latest/config/

	// Tools that a shell starts when it enters the directory, and package managers.
	"mise.toml",           // https://mise.jdx.dev/configuration.html
	"mise.*.toml",         // https://mise.jdx.dev/configuration.html
	".mise.toml",          // https://mise.jdx.dev/configuration.html
	".mise.*.toml",        // https://mise.jdx.dev/configuration.html
	".mise",               // https://mise.jdx.dev/configuration.html
	"mise/config.toml",    // https://mise.jdx.dev/configuration.html
	"mise/config.*.toml",  // https://mise.jdx.dev/configuration.html
	".config/mise.toml",   // https://mise.jdx.dev/configuration.html
	".config/mise.*.toml", // https://mise.jdx.dev/configuration.html
	".config/mise",        // https://mise.jdx.dev/configuration.html
	".rtx.toml",           // https://mise.jdx.dev/configuration.html
	".cargo/config.toml",  // https://doc.rust-lang.org/cargo/reference/config.html
	".cargo/config",       // https://doc.rust-lang.org/cargo/reference/config.html
	".yarnrc.yml",         // https://yarnpkg.com/configuration/yarnrc
	".yarnrc",             // https://classic.yarnpkg.com/lang/en/docs/yarnrc/
}
