package pack

import (
	"bytes"
	"context"
	"io"
	"path"
	"time"
	"unicode/utf8"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/archive"
	"github.com/dalsegno/segno/internal/database"
	"github.com/dalsegno/segno/workspace"
)

func (b *builder) addFiles(ctx context.Context, a *archive.AgentState, s segno.Snapshot) error {
	l := &lister{builder: b, ctx: ctx, agent: a, root: "agents/" + a.Info.Name + "/" + string(archive.Workspace) + "/",
		used: map[string]bool{}, times: map[string]time.Time{}, firstNames: map[int]string{}}
	var err error
	if l.databases, err = l.builder.databases(ctx, s); err != nil {
		return err
	}
	if err := workspace.List(ctx, b.store.Objects(), s, l.visit); err != nil {
		err = missingIsCorrupt(err)
		return segno.NewError(segno.KindOf(err), "pack workspace", a.Info.Name, err)
	}
	for i, first := range l.firstNames {
		a.Workspace[i].Modified = l.times[first]
	}
	for _, d := range l.dirs {
		if !l.used[d] {
			a.Dirs = append(a.Dirs, d)
		}
	}
	return nil
}

// A lister adds the entries of one snapshot to an agent.
type lister struct {
	*builder
	ctx        context.Context
	agent      *archive.AgentState
	root       string // root of the workspace in the archive
	databases  []database.Export
	dirs       []string
	used       map[string]bool      // directories with an entry in the archive
	times      map[string]time.Time // modification times of files
	firstNames map[int]string       // first names of hard links, which determine their times
}

func (l *lister) visit(name string, e segno.Entity, modified time.Time) error {
	switch e.Type {
	case segno.EntityDir:
		l.dirs = append(l.dirs, name)
	case segno.EntityProtected:
		if e.Why == segno.WhyDatabase && l.addDatabase(name) {
			break
		}
		l.omit(l.root+name, reason(e.Why))
		return nil
	case segno.EntitySymlink:
		if !utf8.ValidString(e.Target) { // a manifest is text, so it cannot have this target
			l.omit(l.root+name, archive.OmittedLink)
			return nil
		}
		l.agent.Links = append(l.agent.Links, archive.Link{Path: name, Target: e.Target})
	case segno.EntityFile, segno.EntityHardLink:
		if e.Type == segno.EntityHardLink {
			l.firstNames[len(l.agent.Workspace)] = e.Target
		} else {
			l.times[name] = modified
		}
		l.agent.Workspace = append(l.agent.Workspace, archive.File{Path: name, Size: e.Size, Executable: e.Mode&0o100 != 0,
			Modified: modified, Sum: e.Hash, Open: opener(l.ctx, l.store.Objects(), e.Hash)})
	}
	l.used[path.Dir(name)] = true
	return nil
}

// reason returns the reason why an archive lacks an entry that a snapshot protects. why is the
// reason that the snapshot records.
func reason(why string) string {
	switch why {
	case "can be made again", "cache directory":
		return archive.OmittedRebuildable
	case "fifo", "socket", "device":
		return archive.OmittedSpecial
	}
	return archive.OmittedProtected
}

// opener returns the Open function of a file whose content is an object.
func opener(ctx context.Context, objects segno.Objects, name segno.Hash) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) {
		data, err := getObject(ctx, objects, name)
		return io.NopCloser(bytes.NewReader(data)), err
	}
}

// getObject reads an object that a checkpoint names.
func getObject(ctx context.Context, objects segno.Objects, name segno.Hash) ([]byte, error) {
	data, err := objects.Get(ctx, name)
	return data, missingIsCorrupt(err)
}

// missingIsCorrupt converts an error about a missing object to KindCorrupt, because a checkpoint
// names the object. It returns other errors unchanged.
func missingIsCorrupt(err error) error {
	if segno.KindOf(err) == segno.KindNotFound {
		return segno.NewError(segno.KindCorrupt, "read object", "", err)
	}
	return err
}
