package generation

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/archive"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/internal/worlds/credential"
	"github.com/dalsegno/segno/timeline"
)

// savedFiles are the checkpoints in the store that contain the files of an agent.
type savedFiles struct {
	Workspace segno.CommitID `json:"workspace"`
	Home      segno.CommitID `json:"home,omitempty"` // "" if the home was empty
}

// saveHome makes a checkpoint of the home of an agent, without its logins and its conversation. The agent's
// own checkpoint has the conversation. saveHome returns "" if the home is empty.
func (a *attempt) saveHome(ctx context.Context, m *member, conversation string) (segno.CommitID, error) {
	if a.OpenHome == nil {
		return "", nil
	}
	if !isOwnDir(m.Home()) {
		return "", nil
	}
	entries, err := os.ReadDir(m.Home())
	if err != nil || len(entries) == 0 {
		return "", nil // the agent may also have made it unreadable
	}
	exclude := credential.Files(m.Home()) // the store must not contain logins
	if conversation != "" {
		exclude = append(exclude, conversation)
	}
	tl, err := a.OpenHome(ctx, m.Home(), exclude)
	if err != nil {
		return "", err
	}
	cp, err := tl.SaveAgent(ctx, timeline.AgentSave{Label: "home of " + m.Name + " " + a.label()})
	if err != nil {
		return "", err
	}
	return cp.ID, nil
}

// restoreFiles restores the files of the agents from a checkpoint, if this machine has the store and the
// directory of the run. The archive alone lacks the files that are never archived, such as .env and .git, the exact
// modes of the others, and everything in a home except the conversation.
//
// If that fails, the files of the archive stay, and an event reports it. On another machine an event names the files
// that the archive lacks because of secrets.
func (a *attempt) restoreFiles(ctx context.Context, from *savedRun) {
	for _, info := range from.Manifest().Agents {
		old, dir := filepath.Join(filepath.Dir(filepath.Dir(from.path)), "agents", info.Name), a.agentDir(info.Name)
		saved := from.caller.Files[info.Name]
		isWhole, err := a.restoreWorkspace(ctx, saved.Workspace, filepath.Join(old, "workspace"), filepath.Join(dir, "workspace"))
		if !isWhole {
			err = errors.Join(err, missing(from.Manifest(), info.Name))
		}
		loaded := ""
		if len(from.Manifest().Tree(info.Name, archive.Session)) > 0 {
			loaded = info.SessionID
		}
		err = errors.Join(err, a.restoreHome(ctx, saved.Home, filepath.Join(old, "home"), filepath.Join(dir, "home"), loaded))
		if err != nil {
			a.event(Event{Kind: EventIncomplete, Generation: a.generation, Run: a.id, Agent: info.Name, Path: dir, Error: err.Error()})
		}
	}
}

// restoreWorkspace replaces the loaded workspace, and reports whether it did.
func (a *attempt) restoreWorkspace(ctx context.Context, at segno.CommitID, old, workspace string) (bool, error) {
	whole := workspace + ".whole"
	made, err := a.makeTree(ctx, a.Open, at, old, whole)
	if err != nil || !made {
		return false, err
	}
	if err := os.RemoveAll(workspace); err != nil {
		return false, segno.NewError(segno.KindIO, "restore workspace", workspace, err)
	}
	err = a.FS.Rename(whole, workspace)
	return err == nil, err
}

// restoreHome adds the files of a home to its loaded conversation. It takes the present logins, because
// their agent may have renewed them.
func (a *attempt) restoreHome(ctx context.Context, at segno.CommitID, old, home, loaded string) error {
	if a.OpenHome == nil || !isOwnDir(old) {
		return nil
	}
	whole := home + ".whole"
	made, err := a.makeTree(ctx, func(ctx context.Context, dir string) (*timeline.Timeline, error) {
		return a.OpenHome(ctx, dir, credential.Files(dir))
	}, at, old, whole)
	if err != nil {
		return err
	}
	if err = vfs.MkdirAll(a.FS, home); err == nil && made {
		err = copyHome(whole, home, loaded)
	}
	if err == nil {
		err = copyLogins(old, home)
	}
	if err == nil {
		err = os.RemoveAll(whole)
	}
	if err != nil {
		return segno.NewError(segno.KindIO, "restore home", home, err)
	}
	return nil
}

// makeTree creates dir with the files of a checkpoint, and with the protected files of the directory from which it was
// made. It reports whether it did, because another machine has neither the checkpoint nor the directory.
func (a *attempt) makeTree(ctx context.Context, open func(context.Context, string) (*timeline.Timeline, error), at segno.CommitID, old, dir string) (bool, error) {
	if at == "" || !isOwnDir(old) {
		return false, nil
	}
	line, err := a.Store.Load(ctx, at, segno.Window{Last: 1})
	if segno.KindOf(err) == segno.KindNotFound {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	cp := line.Commits[0].Checkpoint
	if cp == nil || cp.Workspace == nil {
		return false, segno.Errorf(segno.KindCorrupt, "restore files", dir, "checkpoint %s has none", at)
	}
	tl, err := open(ctx, old)
	if err != nil {
		return false, err
	}
	if err := tl.CheckFork(ctx, "restore files", cp); err != nil {
		return false, err
	}
	if err := os.RemoveAll(dir); err != nil {
		return false, segno.NewError(segno.KindIO, "restore files", dir, err)
	}
	_, err = tl.Workspace.Fork(ctx, *cp.Workspace, dir)
	return err == nil, err
}

// isOwnDir reports whether path is a real directory: an agent may have replaced it by a symlink.
func isOwnDir(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.IsDir()
}

// copyLogins copies the logins that a home lacks from another one.
func copyLogins(from, to string) error {
	logins := credential.Files(from)
	return treeCopy{from: from, to: to, mode: func(m fs.FileMode) fs.FileMode { return m.Perm() },
		isLeftOut: func(rel string, d fs.DirEntry) bool {
			path := filepath.Join(from, rel)
			return !slices.ContainsFunc(logins, func(login string) bool {
				return login == path || d.IsDir() && strings.HasPrefix(login, path+"/")
			})
		}}.run()
}
