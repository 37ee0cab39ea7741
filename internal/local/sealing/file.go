// Package sealing reads and writes seal.json in the directory of a sealed store. The file contains the store's key,
// which age encrypted for the user's key file, and the unencrypted path of the key file.
//
// A key file is an age identity file, as age-keygen writes it, or an SSH private key without a passphrase.
// SEGNO_IDENTITY overrides the recorded path of the key file.
package sealing

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"filippo.io/age"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/local/agekey"
	"github.com/dalsegno/segno/internal/local/spool"
	"github.com/dalsegno/segno/internal/store/record"
	"github.com/dalsegno/segno/internal/vfs"
)

// version is the version of the file. Read refuses later versions.
const version = 1

// Change is a conversion that is past its deciding step, but not complete.
type Change string

// The conversions.
const (
	Seal   Change = "seal"
	Unseal Change = "unseal"
)

// File is the content of seal.json.
type File struct {
	Version int `json:"version"`
	// Change is set from the moment at which a conversion can no longer fail until it is complete.
	Change   Change `json:"change,omitempty"`
	Identity string `json:"identity"` // the absolute path of the key file
	// IdentityBytes is the path if it is not valid UTF-8.
	IdentityBytes []byte `json:"identity_bytes,omitempty"`
	Key           []byte `json:"key"`  // an age file with the 32 bytes of the store's key
	Mark          []byte `json:"mark"` // mark of the key for files beside the database, see [record.Mark]
}

// Keys are the keys of a sealed store.
type Keys struct {
	Store []byte         // key of the database
	Files *record.Sealer // sealer of the files beside the database
}

const op = "open store"

// Read returns the file of the store in a directory, or nil if there is none.
func Read(dir string) (*File, error) {
	name := filepath.Join(dir, spool.SealFile)
	data, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, segno.NewError(segno.KindIO, op, dir, err)
	}
	f := &File{}
	err = json.Unmarshal(data, f)
	switch {
	case err == nil && f.Version > version:
		return nil, segno.Errorf(segno.KindNewer, op, dir, "a newer segno sealed the store")
	case err == nil && (f.Version != version || len(f.Key) == 0 || f.Change != "" && f.Change != Seal && f.Change != Unseal):
		err = errors.New("a field is missing or unknown")
	}
	if err != nil {
		return nil, segno.Errorf(segno.KindCorrupt, op, dir, "%s is damaged: %w", spool.SealFile, err).
			WithHint("put the file back from a backup; it has the store's key")
	}
	return f, nil
}

// Write durably creates or replaces the file in a directory.
func (f *File) Write(fsys vfs.FS, dir string) error {
	data, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return err
	}
	return vfs.Replace(fsys, filepath.Join(dir, spool.SealFile), append(data, '\n'), 0o600)
}

// IdentityPath returns the recorded path of the key file.
func (f *File) IdentityPath() string {
	if f.IdentityBytes != nil {
		return string(f.IdentityBytes)
	}
	return f.Identity
}

// New makes the key of a store, and the file with it. The key file at identity and the holders of the recipients in
// more can open the store.
func New(identity string, more []age.Recipient) (*File, *Keys, error) {
	identities, err := readIdentities(identity)
	if err != nil {
		return nil, nil, segno.Errorf(segno.KindInvalid, "seal store", identity, "the key file cannot be used: %w", err).
			WithHint("give an identity file of age, or a private key of SSH without a passphrase")
	}
	recipients, err := agekey.Recipients(identities)
	if err != nil {
		return nil, nil, segno.Errorf(segno.KindInvalid, "seal store", identity, "%w", err)
	}
	f := &File{Version: version, Identity: identity, IdentityBytes: segno.PathBytes(identity)}
	keys := &Keys{Store: make([]byte, 32)}
	rand.Read(keys.Store)
	if keys.Files, f.Mark, err = unlockFiles(identity, keys.Store, nil); err != nil {
		return nil, nil, err
	}
	var out bytes.Buffer
	w, err := age.Encrypt(&out, append(recipients, more...)...)
	if err == nil {
		_, err = w.Write(keys.Store)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		return nil, nil, segno.Errorf(segno.KindInvalid, "seal store", identity, "encrypt the store's key: %w", err)
	}
	f.Key = out.Bytes()
	return f, keys, nil
}

func unlockFiles(name string, key, mark []byte) (*record.Sealer, record.Mark, error) {
	secret := make([]byte, len(key)) // a copy, because the database derives its keys with another salt
	copy(secret, key)
	return record.Unlock(name, secret, mark, mark == nil)
}

// Unlock decrypts the keys with the key file identity, or with the recorded one if identity is "". The error has
// [segno.KindRefused] if the key file cannot be read or does not belong to the store.
func (f *File) Unlock(dir, identity string) (*Keys, error) {
	const hint = "make the key file readable, or name another copy of it in SEGNO_IDENTITY"
	if identity == "" {
		identity = f.IdentityPath()
	}
	identities, err := readIdentities(identity)
	if err != nil {
		return nil, segno.Errorf(segno.KindRefused, op, dir, "the store is sealed, and its key file %s cannot be used: %w", identity, err).
			WithHint(hint)
	}
	r, err := age.Decrypt(bytes.NewReader(f.Key), identities...)
	var other *age.NoIdentityMatchError
	if errors.As(err, &other) {
		return nil, segno.Errorf(segno.KindRefused, op, dir, "the store is sealed for another key than that in %s", identity).WithHint(hint)
	}
	keys := &Keys{}
	if err == nil {
		keys.Store, err = io.ReadAll(io.LimitReader(r, 64))
	}
	if err == nil && len(keys.Store) != 32 {
		err = fmt.Errorf("the key has %d bytes", len(keys.Store))
	}
	if err == nil && len(f.Mark) == 0 {
		err = errors.New("the mark is missing")
	}
	if err == nil {
		keys.Files, _, err = unlockFiles(dir, keys.Store, f.Mark)
	}
	if err != nil {
		return nil, segno.Errorf(segno.KindCorrupt, op, dir, "%s is damaged: %w", spool.SealFile, err).
			WithHint("put the file back from a backup; it has the store's key")
	}
	return keys, nil
}

// readIdentities reads a key file.
func readIdentities(name string) ([]age.Identity, error) {
	const maxKeyFile = 1 << 20
	fi, err := os.Stat(name)
	if err == nil && (!fi.Mode().IsRegular() || fi.Size() > maxKeyFile) { // a FIFO would block
		err = errors.New("not a key file")
	}
	var data []byte
	if err == nil {
		data, err = os.ReadFile(name)
	}
	if path := (*fs.PathError)(nil); errors.As(err, &path) {
		err = path.Err // the caller adds the name of the file
	}
	if err != nil {
		return nil, err
	}
	return agekey.ParseIdentities(data)
}

// IsExposed reports whether other users may read a key file.
func IsExposed(name string) bool {
	fi, err := os.Stat(name)
	return err == nil && fi.Mode().Perm()&0o077 != 0
}
