package archive

import (
	"path"
	"slices"
	"strings"
)

// Credentials and the configuration of an agent's abilities never enter an archive and
// never leave one. The rules look at folded names. In a workspace they go by place, because
// a project may have a settings.json of its own; in a session, where no such file belongs,
// by the bare name.

// credentialNames are files of credentials, wherever they are. A star at the end stands for
// any rest of a name, one at the beginning for any beginning.
var credentialNames = strings.Fields(`.credentials.json .claude.json .netrc _netrc .npmrc .pypirc .git-credentials .envrc .env .env.*
	id_rsa id_dsa id_ecdsa id_ed25519 id_ecdsa_sk id_ed25519_sk *.pem *.p12 *.pfx *.key *.ppk *.jks *.keystore *.kdbx .pgpass .my.cnf
	.htpasswd .dockercfg .boto .s3cfg .vault-token managed-settings.json`)

// exampleNames are among credentialNames by their form, but have no credentials by convention.
var exampleNames = strings.Fields(`.env.example .env.sample .env.template .env.dist .env.defaults`)

// abilityNames are files that give an agent or a tool abilities, if they are in a session.
var abilityNames = strings.Fields(`settings.json settings.local.json auth.json config.toml *.config.toml .mcp.json mcp.json hooks.json
	permissions*.json config.json credentials.json token.json oauth.json`)

// deniedPlaces are paths of files and directories, at any depth, that run code or give
// abilities when an agent, an editor or git starts there, and homes of credentials. A file .git
// can name any directory as the repository, and its configuration runs programs.
var deniedPlaces = strings.Fields(`.ssh .aws .gnupg .azure .kube .config/gcloud .config/gh .docker/config.json .claude/settings.json
	.claude/settings.local.json .claude/hooks .claude/agents .claude/commands .claude/plugins .claude/skills .claude/.credentials.json
	.claude-plugin .mcp.json .codex .agents/skills .gemini/settings.json .gemini/oauth_creds.json .gemini/commands .gemini/extensions
	.gemini/skills .qwen/settings.json .cursor/mcp.json .cursor/hooks.json .cursor/hooks .cursor/skills .github/hooks .github/skills
	.vscode/tasks.json .vscode/settings.json .vscode/launch.json .vscode/mcp.json .idea/runConfigurations .zed .husky .githooks .git
	.opencode .roo/mcp.json .kiro/settings .kiro/hooks .amazonq/mcp.json .aider.conf.yml .crush.json .devcontainer.json`)

// startNames are files that run code when an agent or an editor starts, wherever they are.
var startNames = strings.Fields(`devcontainer.json opencode.json opencode.jsonc crush.json`)

// denied says whether a path in a tier may not be in an archive.
func denied(tier Tier, name string) bool {
	folded := fold(name)
	base := path.Base(folded)
	if isCredentialPlace(folded) || !slices.Contains(exampleNames, base) && slices.ContainsFunc(credentialNames, matches(base)) {
		return true
	}
	if slices.Contains(startNames, base) || tier == Session && slices.ContainsFunc(abilityNames, matches(base)) {
		return true
	}
	around := "/" + folded + "/"
	if !strings.Contains(around, "/.") {
		return false // all places begin with a dot, and few paths have one
	}
	return slices.ContainsFunc(deniedPlaces, func(place string) bool {
		return strings.Contains(around, "/"+strings.ToLower(place)+"/")
	})
}

// IsDenied says whether a path in a tier, relative to it, may not be in an archive: it is
// a place for credentials or for the abilities of an agent.
func IsDenied(tier Tier, name string) bool { return denied(tier, name) }

// matches returns a predicate for patterns that match a folded name.
func matches(name string) func(pattern string) bool {
	return func(pattern string) bool {
		before, after, star := strings.Cut(pattern, "*")
		if !star {
			return name == pattern
		}
		return len(name) >= len(before)+len(after) && strings.HasPrefix(name, before) && strings.HasSuffix(name, after)
	}
}

// instructionNames are files that agents read as instructions.
var instructionNames = strings.Fields(`claude.md claude.local.md agents.md agents.override.md gemini.md soul.md .cursorrules .windsurfrules
	.clinerules copilot-instructions.md semantic_memory.md episodic_memory.md agent.md qwen.md crush.md .goosehints guidelines.md`)

// instructionPlaces are directories of such files.
var instructionPlaces = strings.Fields(`.claude/rules .cursor/rules .clinerules .windsurf/rules .roo/rules .kiro/steering .amazonq/rules
	.github/instructions .github/agents .github/prompts .junie`)

// IsInstruction says whether an agent that works in the directory will read a file, whose path
// is relative to it, as words that it should follow.
func IsInstruction(name string) bool {
	folded := fold(name)
	return slices.Contains(instructionNames, path.Base(folded)) || slices.ContainsFunc(instructionPlaces, func(place string) bool {
		return strings.Contains("/"+folded, "/"+place+"/")
	})
}
