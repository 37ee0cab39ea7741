package credential

import (
	"path/filepath"

	"github.com/dalsegno/segno/agents"
	"github.com/dalsegno/segno/agents/profile"
)

// file is the file in which an agent keeps its logins.
type file struct {
	homeDir string // its directory below a home
	name    string
	parts   []profile.LoginPart
}

// fileOf returns the file of an agent.
func fileOf(agent string) (file, bool) {
	p, _ := agents.Of(agent)
	if p.Login == nil {
		return file{}, false
	}
	return file{homeDir: p.DataDir().InHome(), name: p.Login.File, parts: p.Login.Parts}, true
}

// Files returns the paths of the files in which all agents keep their logins in a home.
func Files(home string) (paths []string) {
	for _, p := range agents.All() {
		if f, ok := fileOf(p.Name); ok {
			paths = append(paths, filepath.Join(home, f.homeDir, f.name))
		}
	}
	return paths
}

// UserFile returns the path of the file in which an agent of this user keeps its logins, according
// to the environment, with this home. It returns "" for an agent whose file is not known.
func UserFile(agent, home string, getenv func(string) string) string {
	p, _ := agents.Of(agent)
	if p.Login == nil {
		return ""
	}
	dir := p.DataDir().Path(func(variable string) string {
		if variable == profile.UserHome {
			return home
		}
		return getenv(variable)
	})
	if dir == "" {
		return ""
	}
	return filepath.Join(dir, p.Login.File)
}
