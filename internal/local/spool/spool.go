// Package spool keeps small files beside the store that must survive a process but need no database: open turns,
// commits that were deferred because the store was busy, and the plans of moves under way.
//
// A turn is one file of JSON lines. A hook at a tool boundary appends a line with one write, so it costs little more
// than starting its process:
//
//	turns/<id>.jsonl     {"open": OpenTurn} once or more, the last counts; {"entry": Entry} … {"saved": SavedCall} …
//	turns/<id>.followed  empty; the events under the key of that turn belong to a later turn
//	deferred/<n>.json    one list of commits each, in order of n
//	bases/<id>.json      the state of a workspace when an agent was enabled there
//	journal/<id>.json    the plan of a move under way
//	unrecorded/<id>.json a session that is not recorded, and why
//	runners/<id>.json    a process of segno that runs an agent, and the threads of that agent
//	requested/<id>.json  a move that waits for the end of a turn
//	paused/<id>.json     a thread that a user paused
//	untrusted/<id>.json  what a thread brought from another machine and the user has not trusted
//	locks/<id>           held with flock(2) while a workspace is snapshotted or moved; never removed
//
// <id> is derived from the key and does not contain its text. Each line begins with a line break and
// ends with one, so that a line torn by a crash damages no other line.
//
// In a sealed store the content is encrypted: see seal.go.
package spool

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/timeline"
)

// Dir implements [timeline.Spool] in a directory.
type Dir struct {
	path   string
	fsys   vfs.FS
	sealer func() (Sealer, error)
}

// New returns the spool of a store that is not sealed, kept under path, which need not exist yet.
// fsys is [vfs.OS] except in fault tests.
func New(path string, fsys vfs.FS) *Dir {
	return NewSealed(path, fsys, func() (Sealer, error) { return nil, nil })
}

// line is one line of a turn's file. It contains a [timeline.OpenTurn], a [segno.Entry] or a [timeline.SavedCall]. In a
// sealed store, the value is a string with the sealed content.
type line struct {
	Open  json.RawMessage `json:"open,omitempty"`
	Entry json.RawMessage `json:"entry,omitempty"`
	Saved json.RawMessage `json:"saved,omitempty"`
}

// file returns the file for a key in a directory of the spool. kind keeps keys of different
// kinds apart.
func (d *Dir) file(dir, kind, key, ext string) string {
	return filepath.Join(d.path, dir, segno.DerivedID(kind, key)+ext)
}

func (d *Dir) turnFile(key segno.TurnKey) string {
	return d.file("turns", "turn", string(key), ".jsonl")
}

// SaveTurn saves an open turn durably.
func (d *Dir) SaveTurn(ctx context.Context, t timeline.OpenTurn) (err error) {
	defer annotate(&err, "open turn")
	name := d.turnFile(t.Key)
	err = vfs.MkdirAllSynced(d.fsys, filepath.Dir(name))
	if err == nil && t.EventKey != "" && d.Has(t.EventKey) {
		err = d.markFollowed(t.EventKey)
	}
	if err == nil {
		err = d.append(ctx, name, partOpen, &t)
	}
	if err == nil {
		err = d.fsys.SyncDir(filepath.Dir(name))
	}
	return err
}

// followedSuffix is the end of the name of a file which shows that the events under a turn's key belong to a later turn.
const followedSuffix = ".followed"

func (d *Dir) followedFile(key segno.TurnKey) string {
	return d.file("turns", "turn", string(key), followedSuffix)
}

// markFollowed records that the events under a turn's key belong to a later turn.
func (d *Dir) markFollowed(key segno.TurnKey) error {
	f, err := d.fsys.OpenFile(d.followedFile(key), os.O_WRONLY|os.O_CREATE, 0o600)
	if err == nil {
		err = f.Close()
	}
	return err
}

// AppendEntry appends an entry with one write. It does not sync the file, because a power cut that loses the entry also
// interrupts its turn.
func (d *Dir) AppendEntry(ctx context.Context, key segno.TurnKey, e segno.Entry) (err error) {
	defer annotate(&err, "note entry")
	name := d.turnFile(key)
	err = d.append(ctx, name, partEntry, &e)
	if errors.Is(err, fs.ErrNotExist) {
		if err = vfs.MkdirAllSynced(d.fsys, filepath.Dir(name)); err == nil {
			err = d.append(ctx, name, partEntry, &e)
		}
	}
	return err
}

// Has reports whether a turn has a file.
func (d *Dir) Has(key segno.TurnKey) bool {
	_, err := os.Lstat(d.turnFile(key))
	return err == nil
}

// ReceivesEvents reports whether a turn has a file and the events under its key belong to it.
func (d *Dir) ReceivesEvents(key segno.TurnKey) bool {
	if !d.Has(key) {
		return false
	}
	_, err := os.Lstat(d.followedFile(key))
	return errors.Is(err, fs.ErrNotExist)
}

// append appends a line with one write. It syncs an open turn, but not an entry.
func (d *Dir) append(ctx context.Context, name, part string, value any) error {
	z, err := d.sealer()
	if err != nil {
		return err
	}
	data, err := json.Marshal(value)
	data = encodeLine(z, name, part, data)
	if err = errors.Join(ctx.Err(), err); err != nil {
		return err
	}
	f, err := d.fsys.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil && part == partOpen {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if z == nil {
		err = errors.Join(err, d.removeIfSealed(name, data))
	}
	return err
}

// Turns returns the open turns, oldest first. It skips lines that were torn by a crash, and files
// with entries of a turn that was never opened.
func (d *Dir) Turns(ctx context.Context) (turns []timeline.OpenTurn, err error) {
	defer annotate(&err, "list open turns")
	names, err := d.list("turns", ".jsonl")
	if err != nil || len(names) == 0 {
		return nil, err
	}
	z, err := d.sealer()
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		t, _, _, err := read(ctx, z, name, false)
		if errors.Is(err, fs.ErrNotExist) {
			continue // another process has closed the turn in the meantime
		}
		if err != nil {
			return nil, err
		}
		if t != nil {
			turns = append(turns, *t)
		}
	}
	slices.SortStableFunc(turns, func(a, b timeline.OpenTurn) int { return a.Start.Compare(b.Start) })
	return turns, nil
}

// Entries returns a turn's entries in the order in which they were recorded. bad is the number of
// damaged lines.
func (d *Dir) Entries(ctx context.Context, key segno.TurnKey) (entries []segno.Entry, bad int, err error) {
	defer annotate(&err, "read entries")
	z, err := d.sealer()
	if err != nil {
		return nil, 0, err
	}
	_, entries, bad, err = read(ctx, z, d.turnFile(key), true)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, nil
	}
	return Newest(entries), bad, err
}

// Intent returns the newest beginning of a call, or nil if it is not near the end of the turn's file. It reads only that end, because an agent
// waits for the hook that calls it.
func (d *Dir) Intent(key segno.TurnKey, call string) (*segno.Entry, error) {
	z, err := d.sealer()
	if err != nil {
		return nil, err
	}
	name := d.turnFile(key)
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	const most = 256 << 10
	fi, err := f.Stat()
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.NewSectionReader(f, max(0, fi.Size()-most), most))
	if err != nil {
		return nil, err
	}
	for _, line := range slices.Backward(bytes.Split(data, []byte("\n"))) {
		if !isPart(line, partEntry) || z == nil && !bytes.Contains(line, []byte(call)) {
			continue
		}
		if _, e, ok := decodeLine(z, name, line); ok && e != nil && e.Kind == segno.EntryIntent && e.ID == call {
			return e, nil
		}
	}
	return nil, nil
}

// Newest keeps the last of several messages with the same id, at the position of the first. A message is recorded again
// each time that its sender adds to it. It changes entries.
func Newest(entries []segno.Entry) []segno.Entry {
	first := map[string]int{}
	kept := entries[:0]
	for _, e := range entries {
		if e.Kind == segno.EntryMessage && e.ID != "" {
			if at, again := first[e.ID]; again {
				kept[at] = e
				continue
			}
			first[e.ID] = len(kept)
		}
		kept = append(kept, e)
	}
	return kept
}

// DeleteTurn removes a turn and its entries.
func (d *Dir) DeleteTurn(_ context.Context, key segno.TurnKey) (err error) {
	defer annotate(&err, "close turn")
	return errors.Join(d.remove(d.turnFile(key)), d.remove(d.followedFile(key)))
}

// SetAside renames a turn's file, so that the user can find out why it could not be recorded.
func (d *Dir) SetAside(_ context.Context, key segno.TurnKey) error {
	name := d.turnFile(key)
	if err := d.fsys.Rename(name, name+failedSuffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("set turn aside: %w", err)
	}
	return d.remove(d.followedFile(key))
}

// remove durably removes a file, which need not exist.
func (d *Dir) remove(name string) error {
	err := d.fsys.Remove(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = d.fsys.SyncDir(filepath.Dir(name))
	}
	return err
}

// replace durably creates or replaces a file.
func (d *Dir) replace(name string, data []byte) error {
	err := vfs.MkdirAllSynced(d.fsys, filepath.Dir(name))
	if err == nil {
		err = vfs.Replace(d.fsys, name, data, 0o600)
	}
	return err
}

// annotate adds the failed operation to an error.
func annotate(err *error, op string) {
	if *err != nil {
		*err = fmt.Errorf("%s: %w", op, *err)
	}
}

// read reads a turn's file. Entries may be large, and are read only if whole is set.
func read(ctx context.Context, z Sealer, name string, whole bool) (open *timeline.OpenTurn, entries []segno.Entry, bad int, err error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, nil, 0, err
	}
	defer f.Close()
	r := bufio.NewReader(f)
	for {
		_, _ = skipSaved(r) // the next line reports the error
		data, err := r.ReadBytes('\n')
		if data = bytes.TrimSpace(data); len(data) > 0 && !isPart(data, partSaved) && (whole || !isPart(data, partEntry)) {
			t, e, ok := decodeLine(z, name, data)
			switch {
			case !ok:
				bad++
			case t != nil:
				open = t
			case e != nil:
				entries = append(entries, *e)
			}
		}
		if err == io.EOF {
			return open, entries, bad, ctx.Err()
		}
		if err != nil {
			return nil, nil, 0, err
		}
	}
}

// list returns the files with a suffix in a directory of the spool, in the order of their names.
func (d *Dir) list(dir, suffix string) (names []string, err error) {
	entries, err := os.ReadDir(filepath.Join(d.path, dir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, entry := range entries {
		if strings.HasSuffix(entry.Name(), suffix) && !strings.HasPrefix(entry.Name(), ".") {
			names = append(names, filepath.Join(d.path, dir, entry.Name()))
		}
	}
	return names, nil
}

// Sweep removes files that were last written before a time: entries of turns that were never
// opened, and the files of [Dir.KeepUnrecorded].
func (d *Dir) Sweep(ctx context.Context, before time.Time) (err error) {
	defer annotate(&err, "sweep spool")
	turns, err := d.list("turns", ".jsonl")
	sessions, listErr := d.list("unrecorded", ".json")
	if err = errors.Join(err, listErr); err != nil {
		return err
	}
	z, err := d.sealer()
	if err != nil {
		return err
	}
	for _, name := range slices.Concat(turns, sessions) {
		info, err := os.Stat(name)
		if err != nil || !info.ModTime().Before(before) {
			continue
		}
		open, _, _, err := read(ctx, z, name, false) // open is nil for a file about a session
		if err == nil && open == nil {
			err = d.remove(name)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
