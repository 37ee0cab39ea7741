package hook

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/internal/vfs"
)

// Edit is a planned change to an agent's settings. [Edit.Apply] makes it.
type Edit struct {
	File   string // the settings file, with symlinks resolved
	Backup string // where Apply stores the present content
	Old    []byte // nil if there is no file
	New    []byte // nil if the file is to be removed
	Exact  bool   // New is the backup, byte for byte
	// Notify is the edit of the agent's other settings file, or nil. It names the command that the
	// agent runs at the end of a turn even if it runs no hooks.
	Notify *Edit

	// remove returns the content of a file without segno's additions, or the same content if there
	// is no text of segno in it. before is the content before segno edited the file, which remove
	// may use.
	remove func(content, before []byte) ([]byte, error)
}

// Changed reports whether the edit or Notify changes a file.
func (e Edit) Changed() bool { return e.ChangesFile() || e.Notify != nil && e.Notify.Changed() }

func (e Edit) ChangesFile() bool {
	return !bytes.Equal(e.Old, e.New) || (e.Old == nil) != (e.New == nil)
}

// backup is the original content of a settings file that segno edited.
type backup struct {
	File    string     `json:"file"`
	Existed bool       `json:"existed"`
	Content []byte     `json:"content"`
	Wrote   segno.Hash `json:"wrote"` // the content after the edit
}

// SettingsFile returns the file of an agent that 'segno enable' edits: the user's, or that of
// project. Of these, only Claude Code's file is kept out of version control.
func SettingsFile(p local.Place, agent, project string) (string, error) {
	a, err := agentOf(agent)
	if err != nil {
		return "", err
	}
	return a.settingsFile(p, project), nil
}

func backupFile(p local.Place, settings string) string {
	return filepath.Join(p.Store, "backup", segno.DerivedID("settings", settings)+".json")
}

// PlanEnable plans the edit that registers self, a command and its arguments before "hook AGENT".
// The command at tool calls gets the further arguments flags. It returns [segno.KindRefused] if the binary of self is
// temporary.
func PlanEnable(p local.Place, agent, settings string, self []string, flags ...string) (Edit, error) {
	a, err := agentOf(agent)
	if err != nil {
		return Edit{}, err
	}
	if err := a.checkNotTemporary(self[0]); err != nil {
		return Edit{}, err
	}
	e, err := a.readSettings(p, settings)
	if err != nil {
		return e, err
	}
	run := a.commandsFor(self)
	run.tool = slices.Concat(run.tool, flags)
	if e.New, err = a.addHooks(e.Old, run); err != nil {
		return e, e.invalid("enable "+a.Name, err)
	}
	if !a.hasNotify(p, settings) {
		return e, nil
	}
	n, err := planNotify(p)
	if err != nil {
		return e, err
	}
	if n.New, err = addNotify(n.Old, self); err != nil {
		return e, n.invalid("enable "+a.Name, err)
	}
	e.Notify = &n
	return e, nil
}

// invalid returns the error for a settings file that cannot be edited.
func (e Edit) invalid(op string, err error) error {
	return segno.NewError(segno.KindCorrupt, op, e.File, err).
		WithHint("repair the file; segno does not edit settings it cannot read")
}

// boundaryName is the command that handles events at tool boundaries. It starts faster than segno.
const boundaryName = "segno-hook"

// commandsFor returns the commands to register for self. Events at tool boundaries run segno-hook
// if it is in the same directory as self.
func (a agent) commandsFor(self []string) hookCommands {
	rest := slices.Concat(self, []string{"hook", a.Name})
	r := hookCommands{tool: rest, rest: rest}
	beside := filepath.Join(filepath.Dir(self[0]), boundaryName)
	if fi, err := os.Stat(beside); err == nil && fi.Mode().IsRegular() && fi.Mode()&0o111 != 0 {
		r.tool = slices.Concat([]string{beside}, rest[1:])
	}
	return r
}

// PlanDisable plans the edit that removes segno's hooks. It restores the backup if the file did not
// change since enable. Otherwise it removes only segno's entries.
func PlanDisable(p local.Place, agent, settings string) (Edit, error) {
	a, err := agentOf(agent)
	if err != nil {
		return Edit{}, err
	}
	e, err := a.readSettings(p, settings)
	if err = e.planRemoval(a, err); err != nil || !a.hasNotify(p, settings) {
		return e, err
	}
	n, err := planNotify(p)
	err = n.planRemoval(a, err)
	e.Notify = &n
	return e, err
}

// planRemoval plans to remove segno's additions to the file. readErr is the error of reading it. A device has no additions.
func (e *Edit) planRemoval(a agent, readErr error) (err error) {
	if errors.Is(readErr, errNotPlain) || readErr == nil && e.Old == nil {
		return nil
	}
	if readErr != nil {
		return readErr
	}
	var b backup
	data, err := os.ReadFile(e.Backup)
	if err == nil && json.Unmarshal(data, &b) == nil && segno.HashOf(e.Old) == b.Wrote {
		e.Exact = true
		if b.Existed {
			e.New = b.Content
		}
		return nil
	}
	if e.New, err = e.remove(e.Old, b.Content); err != nil {
		return e.invalid("disable "+a.Name, err)
	}
	return nil
}

// followSymlinks returns the file that path refers to, which need not exist yet. Settings that are
// a symlink to a file elsewhere are edited there. A relative link begins at the real directory of the
// link, because ".." is not the lexical parent in a directory that is a link, too.
func followSymlinks(path string) string {
	const most = 40 // as the kernel follows
	for range most {
		to, err := os.Readlink(path)
		if err != nil {
			break
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(vfs.RealPath(filepath.Dir(path)), to)
		}
		path = to
	}
	return path
}

var errNotPlain = errors.New("not a plain file")

// readSettings reads the present settings for an edit. A file that does not exist is not an error:
// the edit creates it. It returns [segno.KindRefused] for a device, such as /dev/null, to which users link settings.
func (a agent) readSettings(p local.Place, settings string) (Edit, error) {
	e := Edit{File: followSymlinks(settings), remove: func(content, _ []byte) ([]byte, error) { return a.removeHooks(content) }}
	e.Backup = backupFile(p, e.File)
	if fi, err := os.Stat(e.File); err == nil && !fi.Mode().IsRegular() {
		return e, segno.NewError(segno.KindRefused, "read settings", e.File, errNotPlain).WithHint("remove the link, or make it point to a plain file")
	}
	data, err := os.ReadFile(e.File)
	if errors.Is(err, fs.ErrNotExist) {
		return e, nil
	}
	if err != nil {
		return e, segno.NewError(segno.KindIO, "read settings", e.File, err)
	}
	e.Old = data // not nil, even if the file is empty
	return e, nil
}

// Apply makes the edit. If enable is set, it first writes a backup. That backup never contains
// segno's hooks: enabling twice keeps the content from before the first time. The error is
// [segno.KindConflict] if another process changed the file since the edit was planned: the agent
// writes to its settings, too.
func (e Edit) Apply(p local.Place, enable bool) error {
	if e.Notify != nil {
		if err := e.Notify.Apply(p, enable); err != nil {
			return err
		}
	}
	if !e.ChangesFile() {
		return nil
	}
	fsys := p.FS
	if fsys == nil {
		fsys = vfs.OS
	}
	if enable {
		if err := e.writeBackup(fsys); err != nil {
			return fmt.Errorf("write backup: %w", err)
		}
	}
	if err := e.write(fsys); err != nil {
		return fmt.Errorf("write settings: %w", err)
	}
	if enable {
		return nil
	}
	return removeFile(fsys, e.Backup)
}

// write writes the new content, or removes the file. A file that exists keeps its permissions and its owner.
func (e Edit) write(fsys vfs.FS) error {
	present, err := os.ReadFile(e.File)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err == nil && e.New != nil && bytes.Equal(present, e.New) {
		return nil // another process made the same edit
	}
	if (err == nil) != (e.Old != nil) || !bytes.Equal(present, e.Old) {
		return segno.Errorf(segno.KindConflict, "edit settings", e.File, "another process changed them meanwhile").
			WithHint("run the command again")
	}
	if e.New == nil {
		return removeFile(fsys, e.File)
	}
	if fi, err := os.Stat(e.File); err == nil {
		return vfs.ReplaceKeeping(fsys, e.File, e.New, fi)
	}
	return replaceFile(fsys, e.File, e.New, 0o600)
}

// removeFile removes a file that may be gone already.
func removeFile(fsys vfs.FS, file string) error {
	if err := fsys.Remove(file); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// replaceFile writes a file, and makes its directory if that is missing.
func replaceFile(fsys vfs.FS, file string, data []byte, mode fs.FileMode) error {
	if err := vfs.MkdirAll(fsys, filepath.Dir(file)); err != nil {
		return err
	}
	return vfs.Replace(fsys, file, data, mode)
}

// writeBackup stores the settings without segno's hooks. If hooks are already installed and the
// file did not change since, it keeps the content of the present backup.
func (e Edit) writeBackup(fsys vfs.FS) error {
	b := backup{File: e.File, Existed: e.Old != nil, Content: e.Old, Wrote: segno.HashOf(e.New)}
	var before backup
	data, readErr := os.ReadFile(e.Backup)
	isBackedUp := readErr == nil && json.Unmarshal(data, &before) == nil
	rest, err := e.remove(e.Old, before.Content)
	if err != nil {
		return err
	}
	if !bytes.Equal(rest, e.Old) {
		b.Content = rest
		if isBackedUp && before.Wrote == segno.HashOf(e.Old) {
			b.Existed, b.Content = before.Existed, before.Content
		}
	}
	if data, err = json.Marshal(b); err != nil {
		return err
	}
	return replaceFile(fsys, e.Backup, data, 0o600)
}

// checkNotTemporary returns [segno.KindRefused] for a binary that 'go run' built, which is deleted
// when the command ends, and for one in the cache of npx.
func (a agent) checkNotTemporary(binary string) error {
	refused := segno.Errorf(segno.KindRefused, "enable "+a.Name, binary, "this binary is temporary")
	if strings.Contains(binary, "/_npx/") {
		return refused.WithHint("run 'npm install --global @dalsegno/segno', then 'segno enable " + a.Name + "'")
	}
	temp := strings.Contains(binary, string(filepath.Separator)+"go-build")
	if dir, err := filepath.EvalSymlinks(os.TempDir()); err == nil && !temp {
		rel, err := filepath.Rel(dir, binary)
		temp = err == nil && strings.Contains(rel, "go-build") && !strings.HasPrefix(rel, "..")
	}
	if !temp {
		return nil
	}
	return refused.WithHint("run 'CGO_ENABLED=0 go install ./cmd/segno ./cmd/segno-hook' in the checkout, then 'segno enable " + a.Name + "'")
}
