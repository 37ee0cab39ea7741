package spool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
)

// Unrecorded is a session without recorded turns, and the reason.
type Unrecorded struct {
	Session segno.SessionID `json:"session"`
	Dir     string          `json:"dir"`
	Refused bool            `json:"refused"` // Dir is the reason; else the store is
	Why     string          `json:"why"`
	Hint    string          `json:"hint,omitempty"`
	Time    time.Time       `json:"time"`
}

func (d *Dir) unrecordedFile(session segno.SessionID) string {
	return d.file("unrecorded", "unrecorded", string(session), ".json")
}

// KeepUnrecorded records that a session is not recorded. first is true if there was no such note. If the store cannot
// be written, it returns the result of [Dir.FirstTime].
func (d *Dir) KeepUnrecorded(u Unrecorded) (first bool, err error) {
	data, err := json.Marshal(u)
	if err != nil {
		return true, fmt.Errorf("keep unrecorded session: %w", err)
	}
	name := d.unrecordedFile(u.Session)
	z, err := d.sealer() // fails if the key cannot be read
	if err == nil {
		err = vfs.MkdirAllSynced(d.fsys, filepath.Dir(name))
	}
	if err == nil {
		first, err = d.create(name, sealFile(z, name, data))
	}
	if err == nil && z == nil {
		if now, sealerErr := d.sealer(); now != nil || sealerErr != nil { // the store was sealed in the meantime
			err = errors.Join(sealerErr, d.remove(name))
		}
	}
	if err != nil {
		first = d.FirstTime(u.Session)
	}
	return first, nil
}

// FirstTime reports whether this is the first call for a session and an occasion. It creates an empty file in the
// directory for temporary files. If it cannot, it returns true every time.
func (d *Dir) FirstTime(session segno.SessionID, occasion ...string) bool {
	id := segno.DerivedID(append([]string{"unrecorded", d.path, string(session)}, occasion...)...)
	first, err := d.create(filepath.Join(os.TempDir(), "segno-"+id), nil)
	return first || err != nil
}

// create creates a file, and reports false if it existed.
func (d *Dir) create(name string, data []byte) (created bool, err error) {
	f, err := d.fsys.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	_, err = f.Write(data)
	return true, errors.Join(err, f.Close())
}

// ClearUnrecorded removes the notes that are no longer true once a session is recorded in dir: that
// this session is not recorded, that other sessions in dir were refused, and that the store could
// not be written.
func (d *Dir) ClearUnrecorded(ctx context.Context, session segno.SessionID, dir string) error {
	all, err := d.Unrecorded(ctx, time.Time{})
	for _, u := range all {
		if !u.Refused || u.Session == session || u.Dir == dir {
			err = errors.Join(err, d.remove(d.unrecordedFile(u.Session)))
		}
	}
	return err
}

// Unrecorded returns the sessions that were not recorded after a time.
func (d *Dir) Unrecorded(ctx context.Context, since time.Time) (all []Unrecorded, err error) {
	defer annotate(&err, "list unrecorded sessions")
	err = readAll(d, "unrecorded", func(u Unrecorded) {
		if u.Time.After(since) {
			all = append(all, u)
		}
	})
	return all, errors.Join(err, ctx.Err())
}
