package database

import (
	"encoding/json"
	"io/fs"
	"os"

	"github.com/dalsegno/segno/internal/vfs"
)

// Sealer encrypts the small files of a sealed store.
type Sealer interface {
	SealFile(name string, plain []byte) []byte
	OpenFile(name string, data []byte) ([]byte, error)
}

// Cache is the file with the newest states of the databases of one workspace. If it is missing or cannot be read, a
// snapshot reads all databases.
type Cache struct {
	FS     vfs.FS
	File   string
	Sealer Sealer
}

type cacheEntries map[string]cacheEntry // by name

type cacheEntry struct {
	Fingerprint fingerprint `json:"fingerprint"` // "" if it would prove nothing
	State       saved       `json:"state"`
	Sums        *groupSums  `json:"sums,omitempty"` // of a SQLite database
	Mode        fs.FileMode `json:"mode,omitempty"` // the permissions of its file
}

func (c Cache) read() cacheEntries {
	entries := cacheEntries{}
	data, err := os.ReadFile(c.File)
	if err == nil {
		data, err = c.Sealer.OpenFile(c.File, data)
	}
	if err != nil || json.Unmarshal(data, &entries) != nil {
		return cacheEntries{}
	}
	return entries
}

func (c Cache) write(entries cacheEntries) {
	data, err := json.Marshal(entries)
	if err == nil {
		_ = vfs.Replace(c.FS, c.File, c.Sealer.SealFile(c.File, data), 0o600)
	}
}
