package transfercmd

import (
	"path"
	"strconv"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/pack"
)

// checkTrust refuses files that another machine wrote and that 'segno unpack' would not write here: they run programs when an
// agent, git or an editor starts in the directory, they may contain credentials, or they are links that leave the directory. It
// refuses all files: without these, the next turn would record them as deleted, and a push would delete them on the server.
// isNew is set if the directory will contain nothing but the changes.
func (p *puller) checkTrust(changes []segno.Change, isNew bool) error {
	if p.trust {
		return nil
	}
	names := map[string][]string{} // by directory
	for _, c := range changes {
		dir, name := path.Split(c.Path)
		names[dir] = append(names[dir], name)
	}
	var found []string
	for _, c := range changes {
		dir, _ := path.Split(c.Path)
		var siblings func() []string
		if isNew {
			siblings = func() []string { return names[dir] }
		}
		if c.To.Type == "" || c.To.Type == segno.EntityProtected {
			continue // it is not written
		}
		if pack.WhyDropped(c.Path, c.To, siblings) != "" {
			found = append(found, segno.QuotePath(c.Path))
		}
	}
	if len(found) == 0 {
		return nil
	}
	const most = 5
	if rest := len(found) - most; rest > 0 {
		found = append(found[:most], strconv.Itoa(rest)+" more")
	}
	return segno.Errorf(segno.KindRefused, "pull", string(p.thread), "it has files that could run programs or lead elsewhere: %s", strings.Join(found, ", ")).
		WithHint("pull with --trust if you trust every machine that wrote the thread")
}
