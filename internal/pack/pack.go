// Package pack connects archives with the store and with agents. [Packer.State] makes the state of
// an archive from a checkpoint. [Unpack] extracts an archive: the files of its workspace go into a
// new directory, and its conversation into the home of the agent. The agent can then resume the
// conversation in that directory.
//
// # What an archive keeps of a workspace
//
// Contents, names, modification times of files, whether a file is executable, symlinks that stay
// inside the workspace, and empty directories. Hard links become separate files. Other permission
// bits, owners and extended attributes are not kept. Paths that the snapshot protects are listed as
// omitted.
//
// # What an archive keeps of a session
//
// Only the files of one session id that match the table in backend.go. They are the files that
// [segno.Transcript.Cut] writes for the checkpoint, under the id of the checkpoint's session. The
// element of a path that the agent derives from the working directory is replaced by @cwd. The same
// checkpoint gives the same bytes on every machine.
//
// # Threads
//
// [Packer.ThreadState] makes the state of a whole thread, and [Importer.Thread] imports it into another store. Package
// archive specifies the tier. An import writes the objects first. Then it makes the directory, and the thread with its
// first commit. It writes the files of the head and makes the other commits. The last commit moves the head and gives
// the directory to the thread. All ids of commits are derived from the digest of the archive and the id of the thread.
// So the next import completes one that was killed, and repeating a complete import changes nothing. An import does not
// continue a session of the chain: the next command cuts a new session from the objects. Roots and directories in
// checkpoints stay those of the old machine, because they are history. Package timeline maps them when a session
// continues.
package pack

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/archive"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/timeline"
)

// A Packer makes states of archives from the checkpoints of a store. Its methods may be called
// concurrently.
type Packer struct {
	Store segno.Store
	// Temp is an existing directory for temporary files, which contain conversations while they are
	// packed. "" means the system's directory. State removes files that killed processes left
	// there.
	Temp string
	FS   vfs.FS // for all writes; nil means the operating system
}

// Options choose parts of a checkpoint. The zero value takes all of it.
type Options struct {
	// WorkspaceOnly leaves out sessions and the world. It is the form to give away.
	WorkspaceOnly bool
	// OmitSession leaves out sessions.
	OmitSession bool
}

// Reasons of an [archive.Omission], beside those of package archive.
const (
	// OmittedUnsupported is the session of an agent that backend.go does not list.
	OmittedUnsupported = "unsupported agent"
	// OmittedDatabase is an attached database that is neither a file of its workspace nor the only one outside.
	OmittedDatabase = "attached database"
	// OmittedNested is a member of a checkpoint that is a member itself.
	OmittedNested = "member of a member"
)

// State returns the state of a checkpoint for [archive.Write], and a function that removes the
// state's temporary files. The caller must call this function after writing the archive. It is
// never nil.
//
// A checkpoint without members becomes one agent with the name of the checkpoint's agent. For a checkpoint with
// members, each member becomes an agent. The checkpoint itself also becomes one if it has files or a session. A
// checkpoint with only a world has no agent. State.Omitted lists the parts that are left out. The same checkpoint and
// options give the same state.
//
// The state is quiet if the checkpoint, or each of its members, ends a turn that was not
// interrupted, and if no turn of another thread and no background task is known to have worked in
// its workspace. It is crash in all other cases.
//
// The error has [segno.KindNotFound] if the store has no such checkpoint, and
// [segno.KindCorrupt] if the store lost a part of it.
func (p *Packer) State(ctx context.Context, at segno.CommitID, o Options) (archive.State, func() error, error) {
	return p.build(o, func(b *builder) error { return b.build(ctx, at) })
}

func (p *Packer) build(o Options, build func(*builder) error) (archive.State, func() error, error) {
	fsys := p.FS
	if fsys == nil {
		fsys = vfs.OS
	}
	b := &builder{store: p.Store, fsys: fsys, parent: p.Temp, options: o, names: map[string]bool{}}
	if err := build(b); err != nil {
		return archive.State{}, func() error { return nil }, errors.Join(err, b.cleanup())
	}
	return b.state, b.cleanup, nil
}

// A builder makes one state.
type builder struct {
	store   segno.Store
	fsys    vfs.FS
	options Options
	parent  string   // parent directory of temp
	temp    *tempDir // made when the first session is cut
	state   archive.State
	names   map[string]bool // names of agents, in lower case
}

// cleanup removes the temporary files.
func (b *builder) cleanup() error {
	if b.temp == nil {
		return nil
	}
	temp := b.temp
	b.temp = nil
	return temp.remove()
}

func (b *builder) build(ctx context.Context, at segno.CommitID) error {
	cp, isQuiet, err := b.checkpoint(ctx, at)
	if err != nil {
		return err
	}
	b.state.Created = cp.Time
	if err := b.addWorld(ctx, cp.World); err != nil {
		return err
	}
	isWorldOnly := cp.World != nil && !hasOwnSession(cp)
	if len(cp.Members) == 0 && !isWorldOnly || cp.Workspace != nil || cp.Session != nil {
		if err := b.addAgent(ctx, b.agentName(cp.Agent), cp); err != nil {
			return err
		}
	} else {
		isQuiet = true
	}
	for _, name := range slices.Sorted(maps.Keys(cp.Members)) {
		memberIsQuiet, err := b.addMember(ctx, at, name, cp.Members[name])
		if err != nil {
			return err
		}
		isQuiet = isQuiet && memberIsQuiet
	}
	b.state.Cut = &archive.Cut{Consistency: archive.Crash}
	if isQuiet {
		b.state.Cut.Consistency = archive.Quiet
	}
	return nil
}

// addMember adds a member of a checkpoint as an agent, without the member's own members.
func (b *builder) addMember(ctx context.Context, of segno.CommitID, name string, id segno.CommitID) (isQuiet bool, err error) {
	member, isQuiet, err := b.checkpoint(ctx, id)
	if segno.KindOf(err) == segno.KindNotFound {
		err = segno.NewError(segno.KindCorrupt, "pack", string(of), err)
	}
	if err != nil {
		return false, err
	}
	name = b.agentName(name)
	for _, nested := range slices.Sorted(maps.Keys(member.Members)) {
		b.omit("agents/"+name+"/"+nested, OmittedNested)
	}
	return isQuiet, b.addAgent(ctx, name, member)
}

// checkpoint loads a checkpoint. isQuiet is true if nothing except the agent's finished turn is
// known to have worked in its workspace.
func (b *builder) checkpoint(ctx context.Context, at segno.CommitID) (*segno.Checkpoint, bool, error) {
	n, err := b.load(ctx, at)
	if err != nil {
		return nil, false, err
	}
	cp, entries := n.Checkpoint, n.Entries
	if cp == nil {
		return nil, false, segno.Errorf(segno.KindInvalid, "pack", string(at), "the commit has no checkpoint")
	}
	isQuiet := cp.Kind == segno.CheckpointTurn && !cp.Interrupted && !cp.Shared && !cp.Partial()
	for c := cp; isQuiet && c != nil && c.Amends != ""; { // a task may have begun before the amendment and ended in it
		before, err := b.load(ctx, c.Amends)
		if err != nil {
			isQuiet = false // the amended checkpoint was collected
			break
		}
		c, entries = before.Checkpoint, append(slices.Clip(before.Entries), entries...)
	}
	return cp, isQuiet && len(timeline.UnfinishedTasks(entries)) == 0, nil
}

func (b *builder) load(ctx context.Context, at segno.CommitID) (segno.Node, error) {
	line, err := b.store.Load(ctx, at, segno.Window{Last: 1, Entries: true})
	if err != nil {
		return segno.Node{}, err
	}
	return line.Commits[len(line.Commits)-1], nil
}

// addAgent adds a checkpoint as an agent.
func (b *builder) addAgent(ctx context.Context, name string, cp *segno.Checkpoint) error {
	a := archive.AgentState{Info: archive.AgentInfo{Name: name, Backend: cp.Agent}}
	if cp.Workspace != nil {
		if err := b.addFiles(ctx, &a, *cp.Workspace); err != nil {
			return err
		}
		if err := b.addDatabases(ctx, name, *cp.Workspace); err != nil {
			return err
		}
	}
	if cp.Session != nil && cp.Session.Leaf != "" { // without a leaf there is nothing to resume
		if err := b.addSession(ctx, &a, cp.Session); err != nil {
			return err
		}
	}
	if hasOwnSession(cp) {
		if err := b.addLine(ctx, &a, cp); err != nil {
			return err
		}
	}
	b.state.Agents = append(b.state.Agents, a)
	return nil
}

// agentName returns a name that an archive can have for an agent. Characters other than ASCII
// letters, digits, ".", "-" and "_" are replaced, and a name that is taken gets a number.
func (b *builder) agentName(name string) string {
	name = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.", r) {
			return r
		}
		return '-'
	}, name)
	if name = strings.Trim(name[:min(len(name), 100)], "."); name == "" {
		name = "agent"
	}
	unique := name
	for n := 2; b.names[strings.ToLower(unique)]; n++ {
		unique = name + "-" + strconv.Itoa(n)
	}
	b.names[strings.ToLower(unique)] = true
	return unique
}

// omit lists a path of the archive that is left out.
func (b *builder) omit(path, why string) {
	b.state.Omitted = append(b.state.Omitted, omission(path, why))
}

// omission converts the path to valid UTF-8, because a manifest is JSON.
func omission(path, why string) archive.Omission {
	return archive.Omission{Path: strings.ToValidUTF8(segno.QuotePath(path), "\uFFFD"), Why: why}
}

func (b *builder) addWorld(ctx context.Context, d *segno.Document) error {
	if d == nil {
		return nil
	}
	const name = "world.snapshot"
	if b.options.WorkspaceOnly {
		b.omit(name, archive.OmittedByRequest)
		return nil
	}
	data, err := getObject(ctx, b.store.Objects(), d.Data)
	if err != nil {
		return err
	}
	info := archive.WorldInfo{Format: d.Type}
	// A JSON document may contain more facts about the world. Other documents are valid, too.
	var known struct {
		Time json.RawMessage `json:"time"`
		Hash string          `json:"content_hash"`
	}
	if json.Unmarshal(data, &known) == nil {
		info.SimTime, info.Hash = strings.Trim(string(known.Time), `"`), known.Hash
	}
	b.state.World = &archive.WorldState{Info: info, Document: archive.File{Path: name, Size: int64(len(data)), Open: opener(ctx, b.store.Objects(), d.Data)}}
	return nil
}
