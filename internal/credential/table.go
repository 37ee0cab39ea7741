package credential

import (
	"path/filepath"
	"slices"
)

// file describes where an agent keeps its logins, and which members belong to a login.
type file struct {
	agent   string // the name of the agent in checkpoints
	homeVar string // the environment variable that names the agent's directory
	homeDir string // the agent's directory below the user's home if that variable is not set
	name    string // the name of the file in the agent's directory
	logins  []login
}

// login is the unit that a merge copies as a whole from one of two files, so that it never mixes
// tokens of two accounts.
type login struct {
	parent string // the key of the object that has the login; "" is the document
	// keys are the members of the object that belong to the login. If there are none, each member
	// is a login.
	keys []string
	// expiry lists the places of the times that decide between two logins. The first time that
	// both logins have, with different values, decides.
	expiry []expiry
}

// expiry is a place in the object of a login with keys, or in the login if it is one member.
type expiry struct {
	path []string
	form form
}

// form is the format of a time in a file.
type form int

const (
	number form = iota // a number of seconds or milliseconds
	jwt                // a JSON Web Token, with the expiry in seconds
	date               // RFC 3339
)

// table lists the files of all agents. The forms are those that the agents wrote in 2026.
func table() []file {
	return []file{{
		agent: "claude", homeVar: "CLAUDE_CONFIG_DIR", homeDir: ".claude", name: ".credentials.json",
		logins: []login{
			{keys: []string{"claudeAiOauth", "organizationUuid"}, expiry: []expiry{{[]string{"claudeAiOauth", "expiresAt"}, number}}},
			{parent: "mcpOAuth", expiry: []expiry{{[]string{"expiresAt"}, number}}},
		},
	}, {
		agent: "codex", homeVar: "CODEX_HOME", homeDir: ".codex", name: "auth.json",
		logins: []login{{keys: []string{"OPENAI_API_KEY", "auth_mode", "tokens", "last_refresh"},
			expiry: []expiry{{[]string{"tokens", "access_token"}, jwt}, {[]string{"last_refresh"}, date}}}},
	}, {
		agent: "gemini", homeDir: ".gemini", name: "oauth_creds.json",
		logins: []login{{keys: []string{"access_token", "refresh_token", "id_token", "token_type", "scope", "expiry_date"},
			expiry: []expiry{{[]string{"expiry_date"}, number}}}},
	}, {
		agent: "opencode", homeDir: filepath.Join(".local", "share", "opencode"), name: "auth.json",
		logins: []login{{expiry: []expiry{{[]string{"expires"}, number}}}},
	}}
}

// fileOf returns the file of an agent.
func fileOf(agent string) (file, bool) {
	all := table()
	i := slices.IndexFunc(all, func(f file) bool { return f.agent == agent })
	if i < 0 {
		return file{}, false
	}
	return all[i], true
}

// Files returns the paths of the files in which all agents keep their logins in a home.
func Files(home string) (paths []string) {
	for _, f := range table() {
		paths = append(paths, filepath.Join(home, f.homeDir, f.name))
	}
	return paths
}

// UserFile returns the path of the file in which an agent of this user keeps its logins, according
// to the environment. It returns "" for an agent that is not in the table.
func UserFile(agent, home string, getenv func(string) string) string {
	f, known := fileOf(agent)
	if !known {
		return ""
	}
	if f.homeVar != "" {
		if dir := getenv(f.homeVar); dir != "" {
			return filepath.Join(dir, f.name)
		}
	}
	if home == "" {
		return ""
	}
	return filepath.Join(home, f.homeDir, f.name)
}
