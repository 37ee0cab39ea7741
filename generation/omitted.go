package generation

import (
	"path"
	"slices"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/archive"
)

// omittedSecrets returns the conversations and the files that an archive lacks because of secrets.
func omittedSecrets(m *archive.Manifest) (sessions, files []string) {
	for _, o := range m.Omitted {
		switch {
		case o.Why != archive.OmittedSecret:
		case path.Base(o.Path) == string(archive.Session) && strings.Count(o.Path, "/") == 2: // agents/NAME/session
			sessions = append(sessions, o.Path)
		default:
			files = append(files, o.Path)
		}
	}
	slices.Sort(files)
	return sessions, slices.Compact(files)
}

// reportOmitted reports the conversations and files that the archive of a checkpoint lacks because of secrets. It
// reports each file only once, because the file stays in its workspace and has the secret at each checkpoint.
func (a *attempt) reportOmitted(m *archive.Manifest, archivePath string) {
	sessions, files := omittedSecrets(m)
	e := Event{Generation: a.generation, Run: a.id, Tick: a.ticks, Path: archivePath, Error: "the scan found a secret"}
	if len(sessions) > 0 {
		a.status.SessionsOmitted++
		e.Kind, e.Text = EventOmitted, strings.Join(sessions, ", ")
		a.event(e)
	}
	a.status.FilesOmitted = files
	unreported := slices.DeleteFunc(slices.Clone(files), func(file string) bool { return slices.Contains(a.reported, file) })
	if len(unreported) > 0 {
		a.reported = append(a.reported, unreported...)
		e.Kind, e.Text = EventFileOmitted, strings.Join(unreported, ", ")
		a.event(e)
	}
}

// missing returns an error that names the files of an agent that an archive lacks because of secrets, or nil.
func missing(m *archive.Manifest, agent string) error {
	_, files := omittedSecrets(m)
	files = slices.DeleteFunc(files, func(file string) bool { return !strings.HasPrefix(file, "agents/"+agent+"/") })
	if len(files) == 0 {
		return nil
	}
	return segno.Errorf(segno.KindNotFound, "restore files", "", "the archive leaves out %s because of a secret", strings.Join(files, ", "))
}
