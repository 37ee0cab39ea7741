package local

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/secret"
)

// Archives is this installation's record of the archives that it wrote. It is the directory
// "archives" of the store:
//
//	key       32 random bytes, with which the fingerprints of secrets are made
//	verdicts  the contents that the secret scan found clean; a cache
//	allowed   the fingerprints of findings that the user allowed, one a line
//	written   the state digests of the archives that were written here, one a line
//
// No archive depends on these files. If key or allowed is lost, segno asks the user again about the
// same findings. If written is lost, segno treats archives from here as those of another machine.
type Archives struct {
	dir  string
	fsys vfs.FS
	lock func(context.Context) (unlock func(), err error)
}

// Archives returns the record. It needs no open store, and its files need not exist.
func (p Place) Archives() Archives {
	return Archives{filepath.Join(p.Store, "archives"), p.fs(), func(ctx context.Context) (func(), error) {
		return p.Spool().Lock(ctx, "archives")
	}}
}

// Dir returns the directory. It exists after the first call of Key. Temporary files of archives can
// be in it, because agents have no more reason to read it than to read the rest of the store.
func (a Archives) Dir() string { return a.dir }

// keySize is the length of the key in bytes.
const keySize = 32

// Key returns the key of the fingerprints. The first call creates the key. If several processes
// make the first call at the same time, all of them get the same key.
func (a Archives) Key() ([]byte, error) {
	name := filepath.Join(a.dir, "key")
	key, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		if err = a.createKey(name); err == nil || errors.Is(err, fs.ErrExist) {
			key, err = os.ReadFile(name)
		} else if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
			return nil, segno.Errorf(segno.KindRefused, "make key", name, "the store is read-only: %w", err).
				WithHint("make the store writable, or use another with --store")
		}
	}
	if err != nil {
		return nil, segno.NewError(segno.KindIO, "read key", name, err)
	}
	if len(key) != keySize {
		return nil, segno.Errorf(segno.KindCorrupt, "read key", name, "it has %d bytes instead of %d", len(key), keySize).
			WithHint("delete the file; the next 'segno pack' makes a new key and asks again about findings that you allowed")
	}
	return key, nil
}

func (a Archives) createKey(name string) error {
	if err := vfs.MkdirAllSynced(a.fsys, a.dir); err != nil {
		return err
	}
	key := make([]byte, keySize)
	_, _ = rand.Read(key) // it never fails
	temp := filepath.Join(a.dir, ".segno-"+rand.Text())
	err := vfs.WriteSynced(a.fsys, temp, key, 0o600)
	if err == nil {
		err = a.fsys.Link(temp, name) // fails if another process was first
	}
	if removeErr := a.fsys.Remove(temp); err == nil {
		err = removeErr
	}
	if err == nil {
		err = a.fsys.SyncDir(a.dir)
	}
	return err
}

// Verdicts returns the verdicts of a scanner with this digest.
func (a Archives) Verdicts(digest [sha256.Size]byte) (*secret.Verdicts, error) {
	name := filepath.Join(a.dir, "verdicts")
	v, err := secret.OpenVerdicts(name, digest)
	if err != nil {
		return nil, segno.NewError(segno.KindIO, "read verdicts", name, err).WithHint("delete the file; it is a cache")
	}
	return v, nil
}

// SaveVerdicts saves the hashes of the contents that a scan found clean.
func (a Archives) SaveVerdicts(v *secret.Verdicts) error {
	if err := v.Save(a.fsys); err != nil {
		return segno.NewError(segno.KindIO, "save verdicts", a.dir, err)
	}
	return nil
}

func isFingerprint(text string) bool { return isHex(text, 16) }

func isDigest(text string) bool {
	sum, ok := strings.CutPrefix(text, "sha256:")
	return ok && isHex(sum, 64)
}

// isHex reports whether text has n lower-case hexadecimal digits.
func isHex(text string, n int) bool {
	return len(text) == n && strings.Trim(text, "0123456789abcdef") == ""
}

// Allowed returns the fingerprints that the user allowed. If lines of the file are damaged, it
// returns the others and an error with KindCorrupt.
func (a Archives) Allowed() ([]string, error) { return a.read("allowed", isFingerprint) }

// Allow records fingerprints. It returns KindInvalid for a text that is not a fingerprint.
func (a Archives) Allow(ctx context.Context, fingerprints []string) error {
	return a.add(ctx, "allowed", isFingerprint, fingerprints)
}

// Wrote reports whether an archive with this state digest was written here. If lines of the file
// are damaged and no other line has the digest, it returns false and an error with KindCorrupt.
func (a Archives) Wrote(digest string) (bool, error) {
	digests, err := a.read("written", isDigest)
	if slices.Contains(digests, digest) {
		return true, nil
	}
	return false, err
}

// RecordWritten records the state digest of an archive, durably.
func (a Archives) RecordWritten(ctx context.Context, digest string) error {
	return a.add(ctx, "written", isDigest, []string{digest})
}

// read returns the valid lines of a file, which need not exist.
func (a Archives) read(base string, valid func(string) bool) (lines []string, err error) {
	name := filepath.Join(a.dir, base)
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, segno.NewError(segno.KindIO, "read record of archives", name, err)
	}
	n := 0
	for line := range strings.Lines(string(text)) {
		n++
		switch line = strings.TrimSuffix(line, "\n"); {
		case valid(line):
			lines = append(lines, line)
		case err == nil:
			err = segno.Errorf(segno.KindCorrupt, "read record of archives", name, "line %d is damaged", n).
				WithHint("delete the line")
		}
	}
	return lines, err
}

// add adds lines to a file. It keeps the present lines, even damaged ones.
func (a Archives) add(ctx context.Context, base string, valid func(string) bool, lines []string) error {
	name := filepath.Join(a.dir, base)
	for _, line := range lines {
		if !valid(line) {
			return segno.Errorf(segno.KindInvalid, "record archive", line, "it is not an entry of %s", name)
		}
	}
	unlock, err := a.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		err = vfs.MkdirAllSynced(a.fsys, a.dir)
	}
	if err == nil {
		if added := withLines(text, lines); !bytes.Equal(added, text) {
			err = vfs.Replace(a.fsys, name, added, 0o600)
		}
	}
	if err != nil {
		return segno.NewError(segno.KindIO, "record archive", name, err)
	}
	return nil
}

// withLines appends to text the lines that it lacks.
func withLines(text []byte, lines []string) []byte {
	have := strings.Split(string(text), "\n")
	if len(text) > 0 && text[len(text)-1] != '\n' {
		text = append(text, '\n')
	}
	for _, line := range lines {
		if !slices.Contains(have, line) {
			text, have = append(text, line+"\n"...), append(have, line)
		}
	}
	return text
}
