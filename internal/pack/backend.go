package pack

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
	"github.com/google/uuid"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agents"
	"github.com/dalsegno/segno/agents/profile"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/transcript/filelog"
	"github.com/dalsegno/segno/transcript/readers"
)

// A backend describes how archives keep the sessions of one agent.
type backend struct {
	profile.Archived
	agent string                  // in checkpoints and in archive.AgentInfo.Backend
	slug  func(dir string) string // see [readers.Reader]
	open  func(home string, fsys vfs.FS) segno.Transcript
}

// cwd is the element of a path in an archive that stands for the working directory.
const cwd = "@cwd"

// backends returns the agents whose profile describes archived sessions, and the runner of generations.
func backends() (all []backend) {
	for _, r := range readers.All() {
		if p, _ := agents.Of(r.Agent); p.Archived != nil {
			all = append(all, backend{Archived: *p.Archived, agent: r.Agent, slug: r.Slug,
				open: func(home string, fsys vfs.FS) segno.Transcript { return r.Open(home, readers.Options{FS: fsys}) }})
		}
	}
	// The runner of generations keeps this home beside the home of the agent, so no user has one.
	return append(all, backend{Archived: profile.Archived{Format: "segno-log-v1", Files: []string{"threads/SESSION/log.jsonl"}}, agent: filelog.Agent,
		open: func(home string, fsys vfs.FS) segno.Transcript { return filelog.New(home, fsys) }})
}

// backendOf returns the backend of an agent, or nil.
func backendOf(agent string) *backend {
	all := backends()
	if i := slices.IndexFunc(all, func(b backend) bool { return b.agent == agent }); i >= 0 {
		return &all[i]
	}
	return nil
}

// DefaultHome returns the directory in which an agent of this user keeps its sessions, according to
// the environment. It returns "" if sessions of that agent cannot be unpacked. [Into.Home] takes
// it.
func DefaultHome(agent string, getenv func(string) string) string {
	if backendOf(agent) == nil {
		return ""
	}
	p, _ := agents.Of(agent)
	return p.DataDir().Path(getenv)
}

// HomeVariable returns the environment variable that names the directory of an agent, and that directory below a home.
// The name is "" if an archive cannot have sessions of the agent.
func HomeVariable(agent, home string) (name, dir string) {
	if p, known := agents.Of(agent); known && backendOf(agent) != nil {
		return p.Home[0].Variable, filepath.Join(home, p.Home.InHome())
	}
	return "", ""
}

// isSession reports whether an id can be the name of a session in an archive. The check is strict,
// because the id becomes a part of patterns and paths.
func isSession(id segno.SessionID) bool { return len(id) == 36 && uuid.Validate(string(id)) == nil }

// matches reports whether the name of a file in an archive matches one of the patterns.
func matches(patterns []string, session segno.SessionID, name string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		return doublestar.MatchUnvalidated(strings.ReplaceAll(pattern, "SESSION", string(session)), name)
	})
}

// replaceElement replaces the first element of a slash-separated path that equals from.
func replaceElement(name, from, to string) string {
	elements := strings.Split(name, "/")
	if i := slices.Index(elements, from); i >= 0 {
		elements[i] = to
	}
	return strings.Join(elements, "/")
}

// toArchive converts the name of a file in a home to its name in an archive, for a session in dir.
func (b *backend) toArchive(rel, dir string) string {
	if b.slug == nil {
		return rel
	}
	return replaceElement(rel, b.slug(dir), cwd)
}

// fromArchive is the inverse of toArchive.
func (b *backend) fromArchive(name, dir string) string {
	if b.slug == nil {
		return name
	}
	return replaceElement(name, cwd, b.slug(dir))
}

// sessionFiles returns the files in a home that belong to a session, whatever its working directory
// was. The paths are relative to the home.
func (b *backend) sessionFiles(home string, session segno.SessionID) ([]string, error) {
	var found []string
	for _, pattern := range slices.Concat(b.Files, b.Credentials) {
		pattern = replaceElement(strings.ReplaceAll(pattern, "SESSION", string(session)), cwd, "*")
		names, err := doublestar.Glob(os.DirFS(home), pattern, doublestar.WithFilesOnly(), doublestar.WithNoFollow())
		if err != nil {
			return nil, err
		}
		found = append(found, names...)
	}
	slices.Sort(found)
	return slices.Compact(found), nil
}
