package pack

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/archive"
	"github.com/dalsegno/segno/internal/history/reachable"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/transcript/claude"
	"github.com/dalsegno/segno/workspace"
)

// A threadReader reads one thread of an archive. Its content is untrusted until check returns nil.
type threadReader struct {
	r       *archive.Reader
	root    string // root of the files in the archive
	info    *threadInfo
	objects map[segno.Hash]int64 // objects of the archive, with their sizes
	first   segno.CommitID
	// files is the snapshot of the newest checkpoint at or below the head, or nil.
	files   *segno.Snapshot
	reached map[segno.Hash]bool
	follow  reachable.Follower
	cache   map[segno.Hash][]byte
	cached  int   // size of the cache in bytes
	missing error // reports the first object that a commit names and the archive lacks
	// parents has the parent of each commit.
	parents map[segno.CommitID]segno.CommitID

	// hasDenied is set if a snapshot has paths that an archive must not have; see dropDenied.
	hasDenied bool
	dropped   *droppedList
	copies    map[copyKey]segno.Snapshot // snapshots without these paths, by the snapshots of the archive
	made      map[segno.Hash][]byte      // objects of copies
}

// newThreadReader reads thread.json and lists the objects.
func newThreadReader(r *archive.Reader, agent string, tier archive.Tier) (*threadReader, error) {
	t := &threadReader{r: r, root: "agents/" + agent + "/" + string(tier) + "/", objects: map[segno.Hash]int64{}, cache: map[segno.Hash][]byte{},
		reached: map[segno.Hash]bool{}, parents: map[segno.CommitID]segno.CommitID{}, dropped: newDroppedList(agent)}
	hasCommits := false
	for _, e := range r.Manifest().Tree(agent, tier) {
		switch {
		case e.Path == threadFile:
			if e.Size > maxInfo {
				return nil, fmt.Errorf("%s has %d bytes, more than %d", threadFile, e.Size, maxInfo)
			}
			data, err := t.read(threadFile)
			if err == nil {
				t.info, err = decodeLine[threadInfo](data)
			}
			if err != nil {
				return nil, fmt.Errorf("%s: %w", threadFile, err)
			}
		case e.Path == commitsFile:
			hasCommits = true
		case strings.HasPrefix(e.Path, objectsDir+"/"):
			name, err := segno.ParseHash(e.Path[strings.LastIndexByte(e.Path, '/')+1:])
			if err != nil || name.IsZero() || objectPath(name) != e.Path || name.String() != e.SHA256 || e.Size > maxObject {
				return nil, fmt.Errorf("%q is not the name of such an object", e.Path)
			}
			t.objects[name] = e.Size
		default:
			return nil, fmt.Errorf("%q is no file of a thread", e.Path)
		}
	}
	if t.info == nil || !hasCommits {
		return nil, fmt.Errorf("%s or %s is missing", threadFile, commitsFile)
	}
	return t, nil
}

// read returns the content of a small file.
func (t *threadReader) read(name string) ([]byte, error) {
	var b bytes.Buffer
	err := t.r.ReadFile(t.root+name, &b)
	return b.Bytes(), err
}

func (t *threadReader) commits(ctx context.Context, visit func(*node) error) error {
	in, out := io.Pipe()
	go func() { out.CloseWithError(t.r.ReadFile(t.root+commitsFile, out)) }()
	defer func() { _ = in.Close() }() // stops the writing goroutine
	lines := &lineReader{from: bufio.NewReaderSize(in, 1<<20)}
	for {
		n, err := lines.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = ctx.Err()
		}
		if err == nil {
			if n.Checkpoint != nil {
				t.replace(n.Checkpoint.Workspace)
			}
			err = visit(n)
		}
		if err != nil {
			return err
		}
	}
}

// check checks that the files are a thread, and that every object that the thread names is in the archive and has the
// form of a packed one. Then it drops the paths that an archive must not have.
func (t *threadReader) check(ctx context.Context) error {
	if err := t.checkForm(ctx); err != nil || !t.hasDenied {
		return err
	}
	return t.dropDenied(ctx)
}

// checkForm makes the checks of check except the rules about denied places.
func (t *threadReader) checkForm(ctx context.Context) error {
	if err := segno.CheckID("read thread", string(t.info.ID)); err != nil {
		return err
	}
	redactor := &workspace.Redactor{Objects: threadObjects{t}, MaxEntries: maxTreeEntries, MaxDirs: maxTreeDirs,
		Drop: func(name string, e segno.Entity, siblings func() []string) bool {
			why := WhyDropped(name, e, siblings)
			t.hasDenied = t.hasDenied || why == archive.OmittedCredential
			return why != "" && why != archive.OmittedCredential
		},
		Visit: func(name segno.Hash, size int64) { t.reach(name, size) },
		Put:   func([]byte) {}}
	checkpoints := map[segno.CommitID]*segno.Snapshot{}
	err := t.commits(ctx, func(n *node) error {
		if err := t.checkPlace(n); err != nil {
			return fmt.Errorf("commit %q: %w", n.ID, err)
		}
		if err := t.checkTiers(ctx, redactor, n.Checkpoint); err != nil {
			return fmt.Errorf("commit %q: %w", n.ID, err)
		}
		if n.Checkpoint != nil {
			checkpoints[n.ID] = n.Checkpoint.Workspace
		}
		return nil
	})
	if err != nil {
		return err
	}
	for at, isCheckpoint := t.info.Head, false; at != "" && !isCheckpoint; at = t.parents[at] {
		t.files, isCheckpoint = checkpoints[at]
	}
	return t.checkRefs(checkpoints)
}

// checkRefs checks that the commits of the head, the tip and the pins are there, and that each object has a commit.
func (t *threadReader) checkRefs(checkpoints map[segno.CommitID]*segno.Snapshot) error {
	for _, id := range []segno.CommitID{t.info.Head, t.info.Tip} {
		if _, ok := t.parents[id]; !ok {
			return fmt.Errorf("%s: there is no commit %q", threadFile, id)
		}
	}
	for i, p := range t.info.Pins {
		if _, ok := checkpoints[p.Checkpoint]; !ok || p.Name == "" || len(p.Name) > segno.MaxID || i > 0 && t.info.Pins[i-1].Checkpoint >= p.Checkpoint {
			return fmt.Errorf("%s: there is no pin of %q", threadFile, p.Checkpoint)
		}
	}
	for name := range t.objects {
		if !t.reached[name] {
			return fmt.Errorf("no commit names the object %s", name)
		}
	}
	return nil
}

// maxCommits limits the commits of a thread, because a reader keeps their ids in memory.
const maxCommits = 1 << 20

// Limits of the distinct entries and directories of all snapshots. A reader keeps the paths of the
// directories in memory.
const (
	maxTreeEntries = 1 << 26
	maxTreeDirs    = 1 << 18
)

// reach records that a commit names an object. It reports whether this is the first time. size is
// the object's size, or -1 if that is not known.
func (t *threadReader) reach(name segno.Hash, size int64) bool {
	has, ok := t.objects[name]
	if t.missing == nil && !ok {
		t.missing = fmt.Errorf("object %s is missing", name)
	}
	if t.missing == nil && size >= 0 && size != has {
		t.missing = fmt.Errorf("object %s has %d bytes and not %d", name, has, size)
	}
	known := t.reached[name]
	t.reached[name] = true
	return !known
}

// checkPlace checks the place of a commit in the tree. Parents must come first, so the tree has no
// cycles.
func (t *threadReader) checkPlace(n *node) error {
	if _, twice := t.parents[n.ID]; twice {
		return errors.New("it is there twice")
	}
	_, ok := t.parents[n.Parent]
	switch {
	case t.first == "" && n.Parent == "":
		t.first = n.ID
	case !ok:
		return fmt.Errorf("its parent %q is not before it", n.Parent)
	}
	if n.Checkpoint != nil && n.Checkpoint.Amends != "" {
		if _, ok := t.parents[n.Checkpoint.Amends]; !ok {
			return fmt.Errorf("the checkpoint %q that it amends is not before it", n.Checkpoint.Amends)
		}
	}
	if len(t.parents) == maxCommits {
		return fmt.Errorf("there are more than %d", maxCommits)
	}
	t.parents[n.ID] = n.Parent
	return nil
}

func (t *threadReader) checkTiers(ctx context.Context, redactor *workspace.Redactor, cp *segno.Checkpoint) error {
	if cp == nil {
		return nil
	}
	if cp.Workspace != nil {
		s, err := redactor.Snapshot(ctx, *cp.Workspace)
		if err != nil {
			return err
		}
		if s.Tree != cp.Workspace.Tree || s.Times != cp.Workspace.Times || s.Files != cp.Workspace.Files || s.Bytes != cp.Workspace.Bytes || cp.Workspace.World != nil {
			return errors.New("its files are not those that an archive may have")
		}
	}
	for _, d := range []*segno.Document{cp.State, cp.World} {
		if d != nil {
			t.reach(d.Data, -1)
		}
	}
	if p := cp.Session; p != nil && p.Leaf != "" {
		be := backendOf(p.Agent)
		err := t.follow.Follow(threadObjects{t}, func(name segno.Hash) bool { return t.reach(name, -1) },
			func(o segno.Objects, visit func(segno.Hash) bool) error {
				return be.open("", vfs.OS).Trace(ctx, *p, o, visit)
			})
		if err != nil {
			return err
		}
		if err := t.checkSidecars(ctx, p); err != nil {
			return err
		}
	}
	return t.missing
}

// checkSidecars checks that an archive may have the files beside a transcript. It refuses session-env, for example,
// because Claude Code runs those files before each command.
func (t *threadReader) checkSidecars(ctx context.Context, p *segno.Position) error {
	if p.Sidecars.IsZero() {
		return nil
	}
	if p.Agent != claude.Agent {
		return fmt.Errorf("a session of %s has no files beside the transcript", p.Agent)
	}
	if t.missing != nil {
		return t.missing
	}
	data, err := claude.FilterSidecars(ctx, threadObjects{t}, p.Sidecars, isAllowedSidecar)
	if err == nil && segno.HashOf(data) != p.Sidecars {
		err = errors.New("the files of its session are not those that an archive may have")
	}
	return err
}

// threadObjects are the objects of a thread in an archive.
type threadObjects struct{ t *threadReader }

func (o threadObjects) Get(_ context.Context, name segno.Hash) ([]byte, error) {
	if _, ok := o.t.objects[name]; !ok {
		return nil, segno.NewError(segno.KindCorrupt, "read object of archive", name.String(), errors.New("it is missing"))
	}
	if data, ok := o.t.cache[name]; ok {
		return bytes.Clone(data), nil
	}
	if data, ok := o.t.made[name]; ok {
		return bytes.Clone(data), nil
	}
	data, err := o.t.read(objectPath(name)) // no hash check: the name is the hash in the manifest, which ReadFile checks
	if err == nil && len(data) < maxCached && o.t.cached < cacheSize {
		o.t.cache[name] = bytes.Clone(data)
		o.t.cached += len(data)
	}
	return data, err
}

// Limits of the cache of small objects. Directories are read several times, so the first objects
// are kept.
const (
	maxCached = 64 << 10
	cacheSize = 32 << 20
)

func (o threadObjects) Has(_ context.Context, name segno.Hash) (bool, error) {
	_, ok := o.t.objects[name]
	return ok, nil
}

// Batch returns nil: an archive takes no objects.
func (o threadObjects) Batch() segno.Batch { return nil }

func (o threadObjects) Keep(context.Context, segno.Staged) error { return nil }
