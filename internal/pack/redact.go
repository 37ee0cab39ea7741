package pack

import (
	"cmp"
	"context"
	"path"
	"slices"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/archive"
	"github.com/dalsegno/segno/workspace"
)

// WhyDropped returns the reason why an archive must not have an entry of a snapshot, or "". Files from another machine must not have it
// either, unless the user trusts that machine. siblings returns the names in its directory. It is nil if they are not known.
func WhyDropped(name string, e segno.Entity, siblings func() []string) string {
	isLink := e.Type == segno.EntitySymlink
	switch {
	case archive.IsDenied(archive.Workspace, name), isLink && archive.IsDeniedLink(name):
		return archive.OmittedCredential
	case isLink && !staysInside(name, e.Target):
		return archive.OmittedLink
	case e.Type == segno.EntityProtected:
		return reason(e.Why)
	case e.Type != segno.EntityDir && archive.IsBareHead(name, siblings):
		return archive.OmittedCredential
	}
	return ""
}

// staysInside reports whether the target of a symlink is in its workspace. The target may contain
// ".." only at its beginning, and must not go above the root. If all links follow this rule, a path
// through several of them also stays inside.
func staysInside(name, target string) bool {
	up := strings.Count(name, "/")
	if path.IsAbs(target) {
		return false
	}
	down := false
	for e := range strings.SplitSeq(target, "/") {
		switch e {
		case "..":
			if up--; down || up < 0 {
				return false
			}
		case "", ".":
		default:
			down = true
		}
	}
	return true
}

// A droppedList has the paths that snapshots of a thread lose in an archive, with the reasons.
type droppedList struct {
	root  string // of the workspace in the archive
	whys  map[string]string
	count int // number of paths that are not listed
}

// maxDropped limits a list, because a hostile thread can have any number of such paths.
const maxDropped = 10_000

func newDroppedList(agent string) *droppedList {
	return &droppedList{root: "agents/" + agent + "/" + string(archive.Workspace), whys: map[string]string{}}
}

// add adds a path. A hard link whose own path is allowed is dropped if the first name of its file is dropped.
func (d *droppedList) add(name string, e segno.Entity) {
	if _, known := d.whys[name]; known {
		return
	}
	if len(d.whys) == maxDropped {
		d.count++
		return
	}
	d.whys[name] = cmp.Or(WhyDropped(name, e, nil), archive.OmittedCredential)
}

// omissions returns the list in the order of the paths.
func (d *droppedList) omissions() (list []archive.Omission) {
	for name, why := range d.whys {
		list = append(list, omission(d.root+"/"+name, why))
	}
	slices.SortFunc(list, func(a, b archive.Omission) int { return cmp.Compare(a.Path, b.Path) })
	if d.count > 0 {
		list = append(list, archive.Omission{Path: d.root, Why: archive.OmittedProtected, Files: d.count})
	}
	return list
}

// A copyKey names a snapshot by its objects.
type copyKey struct{ tree, times segno.Hash }

func keyOf(s *segno.Snapshot) copyKey { return copyKey{s.Tree, s.Times} }

// dropDenied copies all snapshots without the paths that an archive must not have. Such paths are
// in archives of another program, or of a version with a shorter list of denied places. After
// dropDenied, commits returns the copies.
func (t *threadReader) dropDenied(ctx context.Context) error {
	made := map[segno.Hash][]byte{}
	redactor := &workspace.Redactor{Objects: threadObjects{t}, MaxEntries: maxTreeEntries, MaxDirs: maxTreeDirs, Dropped: t.dropped.add,
		Drop: func(name string, e segno.Entity, siblings func() []string) bool {
			return WhyDropped(name, e, siblings) != ""
		},
		Visit: func(segno.Hash, int64) {},
		Put:   func(data []byte) { made[segno.HashOf(data)] = data }}
	copies := map[copyKey]segno.Snapshot{}
	err := t.commits(ctx, func(n *node) error {
		if n.Checkpoint == nil || n.Checkpoint.Workspace == nil {
			return nil
		}
		s, err := redactor.Snapshot(ctx, *n.Checkpoint.Workspace)
		copies[keyOf(n.Checkpoint.Workspace)] = s
		return err
	})
	if err != nil {
		return err
	}
	t.copies, t.made = copies, made
	for name, data := range made {
		t.objects[name] = int64(len(data))
	}
	t.replace(t.files)
	return nil
}

// replace replaces a snapshot of the archive by its copy without denied paths.
func (t *threadReader) replace(s *segno.Snapshot) {
	if s == nil {
		return
	}
	if c, ok := t.copies[keyOf(s)]; ok {
		s.Tree, s.Times, s.Files, s.Bytes = c.Tree, c.Times, c.Files, c.Bytes
	}
}
