// Package spool keeps what must survive a process but needs no database: open
// turns, commits that found the store busy, and the plans of moves under way.
//
// A turn is one file of JSON lines, appended to with one write each, so that a
// hook at a tool boundary costs little more than its process:
//
//	turns/<id>.jsonl     {"open": OpenTurn} once or more, the last counts; {"entry": Entry} …
//	deferred/<n>.json    one list of commits each, in order of n
//	journal/<id>.json    the plan of a move under way
//	unrecorded/<id>.json a session that is not recorded, and why
//	locks/<id>           held with flock(2) while a workspace is snapshotted or moved; never removed
//
// <id> is derived from the key and never holds its text. Each line begins with a
// newline as well as ending in one, so that a line torn by a crash spoils itself
// only. The directory and everything in it belong to the store.
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
	"sort"
	"strings"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/timeline"
)

// Dir implements [timeline.Spool] and [timeline.Journal] in a directory.
type Dir struct {
	path string
	fsys vfs.FS
}

// New returns the spool kept under path, which need not exist yet. fsys is
// [vfs.OS] outside fault tests.
func New(path string, fsys vfs.FS) *Dir { return &Dir{path: path, fsys: fsys} }

type line struct {
	Open  *timeline.OpenTurn `json:"open,omitempty"`
	Entry *segno.Entry       `json:"entry,omitempty"`
}

func (d *Dir) turnFile(key segno.TurnKey) string {
	return filepath.Join(d.path, "turns", segno.DerivedID("turn", string(key))+".jsonl")
}

// Open makes an open turn durable.
func (d *Dir) Open(ctx context.Context, t timeline.OpenTurn) error {
	name := d.turnFile(t.Key)
	if err := vfs.MkdirAll(d.fsys, filepath.Dir(name)); err != nil {
		return fmt.Errorf("make spool: %w", err)
	}
	if err := d.append(ctx, name, line{Open: &t}, true); err != nil {
		return fmt.Errorf("open turn: %w", err)
	}
	if err := d.fsys.SyncDir(filepath.Dir(name)); err != nil {
		return fmt.Errorf("open turn: %w", err)
	}
	return nil
}

// Note appends an entry with one write, not synced: what a power cut may take is
// a tool call of a turn that the same power cut interrupts.
func (d *Dir) Note(ctx context.Context, key segno.TurnKey, e segno.Entry) error {
	name := d.turnFile(key)
	err := d.append(ctx, name, line{Entry: &e}, false)
	if errors.Is(err, fs.ErrNotExist) {
		if err := vfs.MkdirAll(d.fsys, filepath.Dir(name)); err != nil {
			return fmt.Errorf("make spool: %w", err)
		}
		err = d.append(ctx, name, line{Entry: &e}, false)
	}
	if err != nil {
		return fmt.Errorf("note entry: %w", err)
	}
	return nil
}

// Has reports whether there is anything of a turn.
func (d *Dir) Has(key segno.TurnKey) bool {
	_, err := os.Lstat(d.turnFile(key))
	return err == nil
}

func (d *Dir) append(ctx context.Context, name string, l line, sync bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	data, err := json.Marshal(l)
	if err != nil {
		return err
	}
	f, err := d.fsys.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	buf := make([]byte, 0, len(data)+2)
	buf = append(append(append(buf, '\n'), data...), '\n')
	if _, err := f.Write(buf); err != nil {
		f.Close()
		return err
	}
	if sync {
		if err := f.Sync(); err != nil {
			f.Close()
			return err
		}
	}
	return f.Close()
}

// Turns returns the open turns, oldest first.
func (d *Dir) Turns(ctx context.Context) ([]timeline.OpenTurn, error) {
	names, err := list(filepath.Join(d.path, "turns"), ".jsonl")
	if err != nil {
		return nil, fmt.Errorf("list open turns: %w", err)
	}
	var turns []timeline.OpenTurn
	for _, name := range names {
		t, _, _, err := read(ctx, name, false)
		if errors.Is(err, fs.ErrNotExist) {
			continue // closed by somebody else meanwhile
		}
		if err != nil {
			return nil, fmt.Errorf("read open turn: %w", err)
		}
		if t != nil {
			turns = append(turns, *t)
		}
	}
	sort.SliceStable(turns, func(i, j int) bool { return turns[i].Start.Before(turns[j].Start) })
	return turns, nil
}

// Entries returns a turn's entries in the order they were noted.
func (d *Dir) Entries(ctx context.Context, key segno.TurnKey) ([]segno.Entry, int, error) {
	_, entries, bad, err := read(ctx, d.turnFile(key), true)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, fmt.Errorf("read entries: %w", err)
	}
	return newest(entries), bad, nil
}

// newest keeps, of messages with the same id, the one noted last, where the first was: a
// message is noted several times while its sender goes on.
func newest(entries []segno.Entry) []segno.Entry {
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

// Close forgets a turn and its entries.
func (d *Dir) Close(ctx context.Context, key segno.TurnKey) error {
	name := d.turnFile(key)
	if err := d.fsys.Remove(name); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return fmt.Errorf("close turn: %w", err)
	}
	if err := d.fsys.SyncDir(filepath.Dir(name)); err != nil {
		return fmt.Errorf("close turn: %w", err)
	}
	return nil
}

// SetAside keeps a turn's file under another name, for whoever wants to know why
// it could not be recorded.
func (d *Dir) SetAside(_ context.Context, key segno.TurnKey) error {
	name := d.turnFile(key)
	if err := d.fsys.Rename(name, name+failedSuffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("set turn aside: %w", err)
	}
	return nil
}

// read reads a turn's file; without its entries, which may be large, if they are
// not asked for.
func read(ctx context.Context, name string, whole bool) (open *timeline.OpenTurn, entries []segno.Entry, bad int, err error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, nil, 0, err
	}
	defer f.Close()
	r := bufio.NewReader(f)
	for {
		data, err := r.ReadBytes('\n')
		if data = bytes.TrimSpace(data); len(data) > 0 && (whole || !bytes.HasPrefix(data, []byte(`{"entry"`))) {
			var l line
			switch {
			case json.Unmarshal(data, &l) != nil:
				bad++
			case l.Open != nil:
				open = l.Open
			case l.Entry != nil:
				entries = append(entries, *l.Entry)
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

// list returns the files of dir with a suffix, in order of name; none if dir is
// not there.
func list(dir, suffix string) ([]string, error) {
	des, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var names []string
	for _, de := range des {
		if strings.HasSuffix(de.Name(), suffix) && !strings.HasPrefix(de.Name(), ".") {
			names = append(names, filepath.Join(dir, de.Name()))
		}
	}
	return names, nil
}

// Sweep forgets entries that no turn was ever opened for, nor noted since before, and
// sessions that were not recorded until then.
func (d *Dir) Sweep(ctx context.Context, before time.Time) error {
	if err := d.sweepUnrecorded(before); err != nil {
		return err
	}
	names, err := list(filepath.Join(d.path, "turns"), ".jsonl")
	if err != nil {
		return fmt.Errorf("sweep spool: %w", err)
	}
	for _, name := range names {
		open, _, _, err := read(ctx, name, false)
		if errors.Is(err, fs.ErrNotExist) || (err == nil && open != nil) {
			continue
		}
		if err != nil {
			return fmt.Errorf("sweep spool: %w", err)
		}
		if fi, err := os.Stat(name); err == nil && fi.ModTime().Before(before) {
			if err := d.fsys.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("sweep spool: %w", err)
			}
		}
	}
	return nil
}
