package sqlite

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/dalsegno/segno"
)

// packFiles keeps packs open for reading. All methods may be called at once.
type packFiles struct {
	dir string

	mu   sync.Mutex
	open map[string]*packFile
}

// packFile is an open pack and the number of those who read it.
type packFile struct {
	*os.File
	uses int
}

// mostOpen is how many packs stay open while nobody reads them.
const mostOpen = 64

func newPackFiles(dir string) *packFiles {
	return &packFiles{dir: dir, open: map[string]*packFile{}}
}

// use calls f with a pack open for reading.
func (p *packFiles) use(name string, f func(file *os.File) error) error {
	file, err := p.take(name)
	if err != nil {
		return err
	}
	defer p.give(name, file)
	return f(file.File)
}

func (p *packFiles) take(name string) (*packFile, error) {
	if name != filepath.Base(name) || name == "" || name == "." || name == ".." {
		return nil, segno.Errorf(segno.KindInvalid, "open pack", name, "that is no name of a pack")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if file := p.open[name]; file != nil {
		file.uses++
		return file, nil
	}
	f, err := os.Open(filepath.Join(p.dir, name+packSuffix))
	if err != nil {
		return nil, err
	}
	file := &packFile{File: f, uses: 1}
	p.open[name] = file
	return file, nil
}

func (p *packFiles) give(name string, file *packFile) {
	p.mu.Lock()
	defer p.mu.Unlock()
	file.uses--
	if file.uses == 0 && (p.open[name] != file || len(p.open) > mostOpen) {
		if p.open[name] == file {
			delete(p.open, name)
		}
		file.Close() // read only: nothing is lost with it
	}
}

// forget closes a pack that was deleted, once nobody reads it.
func (p *packFiles) forget(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	file := p.open[name]
	delete(p.open, name)
	if file != nil && file.uses == 0 {
		file.Close() // read only
	}
}

func (p *packFiles) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var errs []error
	for name, file := range p.open {
		errs = append(errs, file.Close())
		delete(p.open, name)
	}
	return errors.Join(errs...)
}

// index reads a pack's index: [segno.KindNotFound] if there is no such pack,
// [segno.KindCorrupt] if it was not finished or is damaged.
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
