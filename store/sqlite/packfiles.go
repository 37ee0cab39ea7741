package sqlite

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/dalsegno/segno"
)

// maxOpenPacks is the largest number of packs that stay open.
const maxOpenPacks = 64

// packFiles keeps packs open for reading. All methods may be called concurrently. A file may be closed while
// another goroutine reads it: the current read finishes, and the next one gets [os.ErrClosed] and opens the
// file again.
type packFiles struct {
	dir string

	mu   sync.Mutex
	open map[string]*os.File
}

func newPackFiles(dir string) *packFiles { return &packFiles{dir: dir, open: map[string]*os.File{}} }

// use calls f with a pack open for reading. It may call f again if another goroutine closed the pack
// meanwhile.
func (p *packFiles) use(name string, f func(file *os.File) error) error {
	for {
		file, err := p.get(name)
		if err != nil {
			return err
		}
		if err := f(file); !errors.Is(err, os.ErrClosed) {
			return err
		}
	}
}

// get returns an open pack. It refuses names that are paths, because the name of a pack may come from a
// staged batch that was stored outside the database.
func (p *packFiles) get(name string) (*os.File, error) {
	if name != filepath.Base(name) || name == "" || name == "." || name == ".." {
		return nil, segno.Errorf(segno.KindInvalid, "open pack", name, "invalid pack name")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if file := p.open[name]; file != nil {
		return file, nil
	}
	file, err := os.Open(filepath.Join(p.dir, name+packSuffix))
	if err != nil {
		return nil, err
	}
	for other := range p.open { // a random pack, by the order of maps
		if len(p.open) < maxOpenPacks {
			break
		}
		_ = p.closeLocked(other) // it was only read, so nothing is lost
	}
	p.open[name] = file
	return file, nil
}

func (p *packFiles) closeLocked(name string) error {
	file := p.open[name]
	delete(p.open, name)
	return file.Close()
}

// forget closes a pack that was deleted, if it is open.
func (p *packFiles) forget(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open[name] != nil {
		_ = p.closeLocked(name)
	}
}

func (p *packFiles) close() (err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name := range p.open {
		err = errors.Join(err, p.closeLocked(name))
	}
	return err
}

// index reads the index of a pack. The error is [segno.KindNotFound] if the pack does not exist, and
// [segno.KindCorrupt] if the pack was not finished or is damaged.
func (p *packFiles) index(op, name string) (x *packIndex, err error) {
	err = p.use(name, func(file *os.File) error {
		fi, err := file.Stat()
		if err != nil {
			return err
		}
		x, err = readPackIndex(file, fi.Size())
		return err
	})
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, notFound(op, "pack "+name)
	case errors.Is(err, errPack):
		return nil, corrupt(op, "pack "+name, err)
	case err != nil:
		return nil, err
	}
	x.name = name
	return x, nil
}
