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
// files costs no second scan. They are kept in a file that may be deleted at any time. They
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
	// verdictSize is how much of a content's SHA-256 is kept: enough that nobody finds a
	// second content for a clean one.
	verdictSize = 20
	// maxVerdicts bounds the file; beyond it the list begins again.
	maxVerdicts = 1 << 20
)

// OpenVerdicts reads the verdicts of a scanner with the digest. Those of another digest are
// dropped, and a file that is not there or not readable has none.
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

// Clean says whether a content, named by its SHA-256, was found clean.
func (v *Verdicts) Clean(content [sha256.Size]byte) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.clean[[verdictSize]byte(content[:])]
}

// Remember notes that a content is clean.
func (v *Verdicts) Remember(content [sha256.Size]byte) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.clean) >= maxVerdicts {
		clear(v.clean)
	}
	v.clean[[verdictSize]byte(content[:])] = true
	v.grown = true
}

// Save writes the file, if there is anything new. Of two processes that save, the verdicts
// of one stay.
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
