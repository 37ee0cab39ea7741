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

// Edit is a change to an agent's settings, worked out and not yet made.
type Edit struct {
	File   string // the settings file, symlinks resolved
	Backup string // where its present content goes
	Old    []byte // nil if there is no file
	New    []byte // nil if the file is to be removed
	Exact  bool   // New is the backup, byte for byte
}

// Changed reports whether the edit changes anything.
func (e Edit) Changed() bool { return !bytes.Equal(e.Old, e.New) || (e.Old == nil) != (e.New == nil) }

// backup is what the store keeps of a settings file it edited.
type backup struct {
	File    string     `json:"file"`
	Existed bool       `json:"existed"`
	Content []byte     `json:"content"`
	Wrote   segno.Hash `json:"wrote"` // what the file held after the edit
}

// SettingsFile is the file that enable edits: the user's, or with project the
// local one of a project, which Claude Code keeps out of version control.
func SettingsFile(p local.Place, project string) string {
	if project != "" {
		return filepath.Join(project, ".claude", "settings.local.json")
	}
	return filepath.Join(p.Claude, "settings.json")
}

func backupFile(p local.Place, settings string) string {
	return filepath.Join(p.Store, "backup", segno.DerivedID("settings", settings)+".json")
}

// PlanEnable works out the edit that registers self, a command and its arguments
// before "hook claude". It refuses a binary that will not be there tomorrow.
func PlanEnable(p local.Place, settings string, self []string) (Edit, error) {
	if err := lasting(self[0]); err != nil {
		return Edit{}, err
	}
	e, err := readSettings(p, settings)
	if err != nil {
		return e, err
	}
	e.New, err = merge(e.Old, runsOf(self))
	if err != nil {
		return e, segno.NewError(segno.KindCorrupt, "enable claude", e.File, err).WithHint("repair the file; segno does not edit settings it cannot read")
	}
	return e, nil
}

// boundaryName is the command that does at tool boundaries what segno would, and
// starts faster.
const boundaryName = "segno-hook"

// runsOf are the commands to register for self: at tool boundaries segno-hook, if
// it is installed beside.
func runsOf(self []string) runs {
	rest := slices.Concat(self, []string{"hook", agentClaude})
	r := runs{tool: rest, rest: rest}
	beside := filepath.Join(filepath.Dir(self[0]), boundaryName)
	if fi, err := os.Stat(beside); err == nil && fi.Mode().IsRegular() && fi.Mode()&0o111 != 0 {
		r.tool = slices.Concat([]string{beside}, rest[1:])
	}
	return r
}

// PlanDisable works out the edit that takes our hooks out again: the backup if
// nobody edited the file since, else only our entries.
func PlanDisable(p local.Place, settings string) (Edit, error) {
	e, err := readSettings(p, settings)
	if err != nil || e.Old == nil {
		return e, err
	}
	var b backup
	data, err := os.ReadFile(e.Backup)
	if err == nil && json.Unmarshal(data, &b) == nil && segno.HashOf(e.Old) == b.Wrote {
		e.Exact = true
		if b.Existed {
			e.New = b.Content
		}
		return e, nil
	}
	if e.New, err = strip(e.Old); err != nil {
		return e, segno.NewError(segno.KindCorrupt, "disable claude", e.File, err).WithHint("repair the file; segno does not edit settings it cannot read")
	}
	return e, nil
}

// target follows symlinks to the file they mean, which need not be there yet: a
// file kept elsewhere and linked here is edited there.
func target(path string) string {
	const most = 40 // as the kernel follows
	for range most {
		to, err := os.Readlink(path)
		if err != nil {
			break
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(path), to)
		}
		path = to
	}
	return path
}

func readSettings(p local.Place, settings string) (Edit, error) {
	e := Edit{File: target(settings)}
	e.Backup = backupFile(p, e.File)
	data, err := os.ReadFile(e.File)
	if errors.Is(err, fs.ErrNotExist) {
		return e, nil
	}
	if err != nil {
		return e, segno.NewError(segno.KindIO, "read settings", e.File, err)
	}
	if data == nil {
		data = []byte{}
	}
	e.Old = data
	return e, nil
}

// Apply makes the edit. An enabling one keeps a backup first, but never replaces
// the backup of the state before segno by one that has our hooks in it.
func (e Edit) Apply(p local.Place, enable bool) error {
	fsys := p.FS
	if fsys == nil {
		fsys = vfs.OS
	}
	if enable {
		if err := e.keep(fsys); err != nil {
			return err
		}
	}
	if e.New == nil {
		if err := fsys.Remove(e.File); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove settings: %w", err)
		}
	} else {
		mode := fs.FileMode(0o600)
		if fi, err := os.Stat(e.File); err == nil {
			mode = fi.Mode().Perm()
		}
		if err := vfs.MkdirAll(fsys, filepath.Dir(e.File)); err != nil {
			return fmt.Errorf("make settings directory: %w", err)
		}
		if err := vfs.Replace(fsys, e.File, e.New, mode); err != nil {
			return fmt.Errorf("write settings: %w", err)
		}
	}
	if !enable {
		if err := fsys.Remove(e.Backup); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove backup: %w", err)
		}
	}
	return nil
}

func (e Edit) keep(fsys vfs.FS) error {
	b := backup{File: e.File, Existed: e.Old != nil, Content: e.Old, Wrote: segno.HashOf(e.New)}
	if run, err := installed(e.Old, "Stop"); err == nil && run != nil {
		var before backup
		if data, err := os.ReadFile(e.Backup); err == nil && json.Unmarshal(data, &before) == nil && before.Wrote == segno.HashOf(e.Old) {
			b.Existed, b.Content = before.Existed, before.Content
		} else if b.Content, err = strip(e.Old); err != nil {
			return fmt.Errorf("keep backup: %w", err)
		}
	}
	data, err := json.Marshal(b)
	if err != nil {
		return fmt.Errorf("keep backup: %w", err)
	}
	if err := vfs.MkdirAll(fsys, filepath.Dir(e.Backup)); err != nil {
		return fmt.Errorf("keep backup: %w", err)
	}
	return vfs.Replace(fsys, e.Backup, data, 0o600)
}

// lasting refuses a binary that 'go run' built: it is gone when the command ends.
func lasting(binary string) error {
	temp := strings.Contains(binary, string(filepath.Separator)+"go-build")
	if dir, err := filepath.EvalSymlinks(os.TempDir()); err == nil && !temp {
		rel, err := filepath.Rel(dir, binary)
		temp = err == nil && strings.Contains(rel, "go-build") && !strings.HasPrefix(rel, "..")
	}
	if !temp {
		return nil
	}
	return segno.Errorf(segno.KindRefused, "enable claude", binary, "this binary is temporary").WithHint("run 'CGO_ENABLED=0 go install ./cmd/segno ./cmd/segno-hook' in the checkout, then 'segno enable claude'")
}
