package local

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"filippo.io/age"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/local/agekey"
	"github.com/dalsegno/segno/internal/local/sealing"
	"github.com/dalsegno/segno/internal/local/spool"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/store/sqlite"
)

// A conversion seals the store, or removes its seal:
//
//  1. It writes the other form of the store to the directory "converting", and reads it back.
//  2. It writes seal.json with the field "change". This step decides. If the process is killed earlier, the next
//     process that opens the store removes the directory. If it is killed later, that process completes the conversion.
//  3. It renames the old files into the directory and the new ones out of it, and removes the directory.
//  4. It removes the field, or seal.json.
//
// Each step can be repeated, and no step after the second needs a key. The process holds the lock of the store's form
// exclusively, so no other process has the store open.

const convertingDir = "converting"

// The index of search is not converted: the new form of the store begins without one.

// filesDirs are the directories whose files are each sealed as a whole. The files of turns are sealed line by line.
var filesDirs = [...]string{"bases", "deferred", "journal", "unrecorded", "runners", "paused", "requested", "untrusted", "acp", "index", "databases"}

// convertedNames are the files and directories that a conversion replaces.
func convertedNames() []string {
	return append([]string{DatabaseFile, packsDir, "turns", searchDir}, filesDirs[:]...)
}

// SealOptions choose how a store is sealed.
type SealOptions struct {
	KeyFile    string   // an absolute path
	Recipients []string // further public keys that can open the store
	Progress   func(done, total int64)
}

// Conversion is the result of [Place.SealStore] and [Place.UnsealStore].
type Conversion struct {
	sqlite.Converted
	NotCovered []string // files and directories of the store that are not sealed
}

// SealStore seals the store, and creates it if it does not exist. It returns [segno.KindRefused] if the store is sealed,
// or if a turn is open whose process is alive, and [segno.KindBusy] if another process has the store open.
func (p Place) SealStore(ctx context.Context, o SealOptions) (Conversion, error) {
	const op = "seal store"
	var more []age.Recipient
	for _, text := range o.Recipients {
		r, err := agekey.ParseRecipient(text)
		if err != nil {
			return Conversion{}, segno.Errorf(segno.KindInvalid, op, text, "not a public key: %w", err).
				WithHint("give a recipient of age (age1…) or a public key of SSH")
		}
		more = append(more, r)
	}
	if rel, err := filepath.Rel(vfs.RealPath(p.Store), vfs.RealPath(o.KeyFile)); err == nil && filepath.IsLocal(rel) {
		return Conversion{}, segno.Errorf(segno.KindInvalid, op, p.Store, "the key file %s is inside the store", o.KeyFile).
			WithHint("keep the key outside of what it protects")
	}
	file, keys, err := sealing.New(o.KeyFile, more)
	if err != nil {
		return Conversion{}, err
	}
	return p.convert(ctx, conversion{op: op, progress: o.Progress, change: sealing.Seal, file: file, keys: *keys})
}

// UnsealStore is the inverse of SealStore. It returns [segno.KindRefused] if the store is not sealed.
func (p Place) UnsealStore(ctx context.Context, progress func(done, total int64)) (Conversion, error) {
	const op = "unseal store"
	if !p.Exists() {
		return Conversion{}, segno.NewError(segno.KindNotFound, op, p.Store, nil).WithHint("use --store PATH")
	}
	return p.convert(ctx, conversion{op: op, progress: progress, change: sealing.Unseal})
}

type conversion struct {
	op       string
	change   sealing.Change
	progress func(done, total int64)
	file     *sealing.File // of the new form; nil for a form without a seal
	keys     sealing.Keys  // of the new form
}

func (p Place) convert(ctx context.Context, c conversion) (res Conversion, err error) {
	if err := p.checkConvertible(c.op); err != nil {
		return res, err
	}
	if err := p.settle(ctx, c); err != nil {
		return res, err
	}
	lock, err := sealing.Exclude(ctx, p.Store, cmp.Or(p.StoreWait, lockWait))
	if err != nil {
		return res, err
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	h := &hold{}
	if h.file, err = sealing.Read(p.Store); err == nil {
		err = h.unlock(p)
	}
	if err == nil {
		err = c.check(p, h.file)
	}
	if err == nil {
		err = p.checkSettled(ctx, c.op)
	}
	if err != nil {
		return res, err
	}
	if res.Converted, err = p.build(ctx, c, h, &hold{keys: c.keys}); err != nil {
		_ = removeTree(p.fs(), filepath.Join(p.Store, convertingDir)) // the next process tries again
		return res, err
	}
	file := cmp.Or(c.file, h.file)
	file.Change = c.change
	if err := file.Write(p.fs(), p.Store); err != nil {
		return res, fmt.Errorf("%s: %w", c.op, err) // the next process checks whether seal.json was written
	}
	if err := p.complete(file); err != nil {
		return res, segno.NewError(segno.KindIO, c.op, p.Store, err).WithHint("run any segno command to complete it")
	}
	res.NotCovered, err = p.notCovered()
	return res, err
}

// checkConvertible returns an error if no conversion of the store is possible.
func (p Place) checkConvertible(op string) error {
	if p.readOnly() {
		return segno.Errorf(segno.KindRefused, op, p.Store, "the store is read-only").WithHint("make it writable, or use another store")
	}
	for _, name := range convertedNames() {
		if fi, err := os.Lstat(filepath.Join(p.Store, name)); err == nil && fi.Mode()&fs.ModeSymlink != 0 {
			return segno.Errorf(segno.KindRefused, op, p.Store, "%s is a symlink, and its target would not be deleted", name).
				WithHint("move its target into the store")
		}
	}
	return nil
}

// check returns an error if the store already has the wanted form.
func (c *conversion) check(p Place, present *sealing.File) error {
	switch {
	case c.change == sealing.Seal && present != nil:
		return segno.Errorf(segno.KindRefused, c.op, p.Store, "the store is sealed already").
			WithHint("to change its key, run 'segno store unseal' first")
	case c.change == sealing.Unseal && present == nil:
		return segno.Errorf(segno.KindRefused, c.op, p.Store, "the store is not sealed").WithHint("there is nothing to do")
	}
	return nil
}

// settle completes the work that other processes left: deferred commits, interrupted moves and incomplete forks.
func (p Place) settle(ctx context.Context, c conversion) (err error) {
	s, err := p.Open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := c.check(p, s.hold.file); err != nil {
		return err
	}
	if err := s.completeAllPending(ctx); err != nil {
		return err
	}
	if err := s.RemoveAbandonedForks(ctx); err != nil {
		return err
	}
	return p.checkSettled(ctx, c.op)
}

// checkSettled returns an error if the process of an open turn is alive.
func (p Place) checkSettled(ctx context.Context, op string) error {
	sp := p.Spool()
	turns, err := sp.Turns(ctx)
	if err != nil {
		return err
	}
	isRunning := sp.Alive(p.Now)
	for _, t := range turns {
		if isRunning(t) {
			return segno.Errorf(segno.KindRefused, op, p.Store, "a turn of %s is open (session %s, pid %d)", t.Agent, t.Source.Session, t.PID).
				WithHint("wait until the agent is done, or stop it")
		}
	}
	return nil
}

// build writes the new form of the store to its directory. It is durable when build returns nil.
func (p Place) build(ctx context.Context, c conversion, from, to *hold) (done sqlite.Converted, err error) {
	fsys, dir := p.fs(), filepath.Join(p.Store, convertingDir)
	if err := removeTree(fsys, dir); err != nil {
		return done, segno.NewError(segno.KindIO, c.op, dir, err)
	}
	for _, name := range append([]string{".", packsDir, "turns", searchDir}, filesDirs[:]...) {
		if err := vfs.MkdirAll(fsys, filepath.Join(dir, name)); err != nil {
			return done, segno.NewError(segno.KindIO, c.op, dir, err)
		}
	}
	if done, err = p.buildDatabase(ctx, c, dir, from, to); err != nil {
		return done, err
	}
	if err := p.Spool().CopyTurns(ctx, spool.NewSealed(dir, fsys, to.sealer)); err != nil {
		return done, err
	}
	for _, name := range filesDirs {
		if err := p.convertFiles(ctx, name, from, to); err != nil {
			return done, err
		}
	}
	for _, name := range append([]string{packsDir, "turns", searchDir, "."}, filesDirs[:]...) {
		if err := fsys.SyncDir(filepath.Join(dir, name)); err != nil {
			return done, segno.NewError(segno.KindIO, c.op, dir, err)
		}
	}
	if err := fsys.SyncDir(p.Store); err != nil {
		return done, segno.NewError(segno.KindIO, c.op, p.Store, err)
	}
	return done, ctx.Err()
}

// buildDatabase writes the database and its packs. Before that, it adds the objects that open turns and deferred commits
// staged to the database. A commit stays deferred if no workspace can be opened, for example because the only one is on a disk that is not
// mounted.
func (p Place) buildDatabase(ctx context.Context, c conversion, dir string, from, to *hold) (sqlite.Converted, error) {
	source, err := p.openDatabase(ctx, from.keys.Store, false)
	if err != nil {
		return sqlite.Converted{}, err
	}
	turns, err := p.Spool().Turns(ctx)
	for i := 0; i < len(turns) && err == nil; i++ {
		err = source.Objects().Keep(ctx, turns[i].Staged)
	}
	var waiting []segno.Commit
	if err == nil {
		waiting, err = p.Spool().ListDeferred(ctx)
	}
	for i := 0; i < len(waiting) && err == nil; i++ {
		err = source.Objects().Keep(ctx, waiting[i].Staged)
	}
	var done sqlite.Converted
	if err == nil {
		done, err = source.Convert(ctx, filepath.Join(dir, DatabaseFile), p.databaseOptions(dir, to.keys.Store, false), c.progress)
	}
	if err = errors.Join(err, source.Close()); err != nil {
		return done, err
	}
	// SQLite removes the log when the last process closes the database.
	if fi, err := os.Lstat(filepath.Join(p.Store, DatabaseFile+"-wal")); err == nil && fi.Size() > 0 {
		return done, segno.Errorf(segno.KindBusy, c.op, p.Store, "another program has the database open").
			WithHint("close programs that read " + DatabaseFile + ", such as sqlite3")
	}
	return done, nil
}

// convertFiles writes the files of a directory. The directory "index" is a cache, so its damaged files are left out.
func (p Place) convertFiles(ctx context.Context, name string, from, to *hold) error {
	entries, err := os.ReadDir(filepath.Join(p.Store, name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return segno.NewError(segno.KindIO, "convert store", p.Store, err)
	}
	for _, e := range entries {
		if !e.Type().IsRegular() || strings.HasPrefix(e.Name(), ".") {
			continue // an unfinished temporary file
		}
		file := filepath.Join(p.Store, name, e.Name())
		data, err := os.ReadFile(file)
		if err != nil {
			return segno.NewError(segno.KindIO, "convert store", file, err)
		}
		plain, err := from.keys.Files.Open(data, spool.Place(file)...)
		if err != nil && name == "index" {
			continue
		}
		if err == nil && name == "deferred" && strings.HasSuffix(e.Name(), ".json") {
			plain = spool.WithoutStagedBytes(plain)
		}
		if err != nil {
			return segno.NewError(segno.KindCorrupt, "convert store", file, err).WithHint("move the file aside, then try again")
		}
		data = to.keys.Files.Seal(plain, spool.Place(file)...)
		if err := vfs.WriteSynced(p.fs(), filepath.Join(p.Store, convertingDir, name, e.Name()), data, 0o600); err != nil {
			return segno.NewError(segno.KindIO, "convert store", file, err)
		}
		if ctx.Err() != nil {
			return segno.NewError(segno.KindCancelled, "convert store", "", ctx.Err())
		}
	}
	return nil
}

// hasConversion reports whether files or the seal of an unfinished conversion exist.
func (p Place) hasConversion(f *sealing.File) bool {
	_, err := os.Lstat(filepath.Join(p.Store, convertingDir))
	return err == nil || f != nil && f.Change != ""
}

// recover completes a conversion after its deciding step, or removes the files of one that was
// interrupted before that step.
func (p Place) recover(ctx context.Context, readOnly bool, wait time.Duration) (err error) {
	isDecided := func() (*sealing.File, bool, error) {
		f, err := sealing.Read(p.Store)
		return f, err == nil && f != nil && f.Change != "", err
	}
	_, decided, err := isDecided()
	switch {
	case err != nil:
		return err
	case readOnly && decided:
		return segno.Errorf(segno.KindRefused, "open store", p.Store, "the store is read-only, and a conversion of it was interrupted").
			WithHint("make the store writable")
	case readOnly:
		return nil
	}
	lock, err := sealing.Exclude(ctx, p.Store, wait)
	if err != nil {
		if !decided {
			return nil // other processes use the store in its present form
		}
		return err
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	f, decided, err := isDecided()
	if err != nil {
		return err
	}
	if !decided {
		_ = removeTree(p.fs(), filepath.Join(p.Store, convertingDir)) // the next process tries again
		return nil
	}
	if err := p.complete(f); err != nil {
		return segno.NewError(segno.KindIO, "complete the conversion of the store", p.Store, err)
	}
	return nil
}

// complete replaces the old form of the store by the new one. The caller holds the lock.
func (p Place) complete(f *sealing.File) error {
	fsys, dir := p.fs(), filepath.Join(p.Store, convertingDir)
	for _, name := range convertedNames() {
		if err := p.replace(name); err != nil {
			return err
		}
	}
	if err := fsys.SyncDir(p.Store); err != nil {
		return err
	}
	if err := removeTree(fsys, dir); err != nil {
		return err
	}
	if f.Change == sealing.Seal {
		f.Change = ""
		return f.Write(fsys, p.Store)
	}
	if err := fsys.Remove(filepath.Join(p.Store, spool.SealFile)); err != nil {
		return err
	}
	return fsys.SyncDir(p.Store)
}

// replace renames a new file or directory into its place, unless that is already done. A rename cannot replace an old
// directory, so replace moves that aside first.
func (p Place) replace(name string) error {
	fsys, dir := p.fs(), filepath.Join(p.Store, convertingDir)
	from, to := filepath.Join(dir, name), filepath.Join(p.Store, name)
	if _, err := os.Lstat(from); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if name == DatabaseFile {
		for _, suffix := range []string{"-shm", "-wal"} { // files of the old database, which contains the whole log
			if err := fsys.Remove(to + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		return fsys.Rename(from, to)
	}
	if err := fsys.Rename(to, filepath.Join(dir, "old-"+name+"-"+rand.Text())); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return fsys.Rename(from, to)
}

// removeTree removes a directory with its content. A missing directory is not an error.
func removeTree(fsys vfs.FS, dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		name := filepath.Join(dir, e.Name())
		if e.IsDir() {
			err = errors.Join(err, removeTree(fsys, name))
		} else if removeErr := fsys.Remove(name); !errors.Is(removeErr, fs.ErrNotExist) {
			err = errors.Join(err, removeErr)
		}
	}
	if err != nil {
		return err
	}
	return fsys.Remove(dir)
}

// notCovered returns the files and directories of the store that a seal does not cover.
func (p Place) notCovered() (names []string, err error) {
	known := append(convertedNames(), DatabaseFile+"-wal", DatabaseFile+"-shm", spool.SealFile, "locks", convertingDir)
	entries, err := os.ReadDir(p.Store)
	for _, e := range entries {
		if slices.Contains(known, e.Name()) {
			continue
		}
		if e.IsDir() {
			if inside, err := os.ReadDir(filepath.Join(p.Store, e.Name())); err == nil && len(inside) == 0 {
				continue
			}
		}
		names = append(names, e.Name())
	}
	if err != nil {
		return nil, segno.NewError(segno.KindIO, "list store", p.Store, err)
	}
	return names, nil
}
