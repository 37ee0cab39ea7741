package secret

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io/fs"
	"os"
	"sync"

	"github.com/dalsegno/segno/internal/vfs"
)

// Verdicts remember which contents a scanner found clean, so that an archive of the same
// files needs no second scan. They are kept in a file that may be deleted at any time. They
// are safe for concurrent use.
type Verdicts struct {
	path  string
	head  []byte
	mu    sync.Mutex
	clean map[[verdictSize]byte]bool
	grown bool
}

const (
	verdictMagic = "segno verdicts 1\n"
	// verdictSize is how many bytes of a content's SHA-256 are kept. They are enough to make it
	// infeasible to find another content with the verdict of a clean one.
	verdictSize = 20
	// maxVerdicts bounds the file; beyond it the list starts over.
	maxVerdicts = 1 << 20
)

// OpenVerdicts reads the verdicts of scanners with the digest. It drops those of another digest. A
// missing or unreadable file counts as empty.
func OpenVerdicts(path string, digest [sha256.Size]byte) (*Verdicts, error) {
	v := &Verdicts{path: path, head: append([]byte(verdictMagic), digest[:]...), clean: map[[verdictSize]byte]bool{}}
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	rest, ok := bytes.CutPrefix(data, v.head)
	if !ok {
		return v, nil
	}
	for ; len(rest) >= verdictSize; rest = rest[verdictSize:] {
		v.clean[[verdictSize]byte(rest)] = true
	}
	return v, nil
}

// Clean reports whether the content with a SHA-256 was found clean.
func (v *Verdicts) Clean(content [sha256.Size]byte) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.clean[[verdictSize]byte(content[:])]
}

// Remember records that a content is clean.
func (v *Verdicts) Remember(content [sha256.Size]byte) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.clean) >= maxVerdicts {
		clear(v.clean)
	}
	v.clean[[verdictSize]byte(content[:])] = true
	v.grown = true
}

// Save writes the file if there are new verdicts. If two processes save, the verdicts of only one
// remain.
func (v *Verdicts) Save(fsys vfs.FS) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.grown {
		return nil
	}
	data := bytes.Clone(v.head)
	for c := range v.clean {
		data = append(data, c[:]...)
	}
	if err := vfs.Replace(fsys, v.path, data, 0o600); err != nil {
		return err
	}
	v.grown = false
	return nil
}
