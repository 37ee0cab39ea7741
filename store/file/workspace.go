package file

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/store/internal/threadlog"
)

func (s *disk) workspaceFile(name string) string {
	return filepath.Join(s.dir, "workspaces", name+".json")
}

// Workspaces implements [threadlog.Logs].
func (s *disk) Workspaces(id segno.WorkspaceID) (found []segno.WorkspaceRecord, err error) {
	files := []string{s.workspaceFile(nameOf(id))}
	if id == "" {
		if files, err = filepath.Glob(s.workspaceFile("*")); err != nil {
			return nil, err
		}
	}
	for _, file := range files {
		line, err := os.ReadFile(file)
		if id != "" && errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		r, err := decode(line)
		if err == nil && (r.Workspace == nil || s.workspaceFile(nameOf(r.Workspace.ID)) != file) {
			err = errors.New("it is not the record of the workspace that the file is named for")
		}
		if errors.Is(err, segno.KindNewer) {
			return nil, err
		}
		if err != nil {
			return nil, corrupt(file, err)
		}
		found = append(found, *r.Workspace)
	}
	return found, nil
}

// PutWorkspace implements [threadlog.Logs].
func (s *disk) PutWorkspace(w segno.WorkspaceRecord) error {
	line, err := encode(&threadlog.Record{Format: version, Workspace: &w}, nil)
	if err != nil {
		return segno.Errorf(segno.KindInvalid, "write workspace", string(w.ID), "cannot encode it: %w", err)
	}
	file := s.workspaceFile(nameOf(w.ID))
	if err = vfs.MkdirAllSynced(s.fs, filepath.Dir(file)); err == nil {
		err = vfs.Replace(s.fs, file, line, 0o600)
	}
	return err
}
