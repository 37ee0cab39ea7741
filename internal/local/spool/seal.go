package spool

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/timeline"
)

// SealFile is the name of the file that marks a store's directory as sealed. Package internal/local/sealing reads it.
const SealFile = "seal.json"

// IsSealed reports whether the store in a directory is sealed.
func IsSealed(store string) bool {
	_, err := os.Lstat(filepath.Join(store, SealFile))
	return err == nil
}

// Sealer encrypts and authenticates the files of a sealed store. Content that was sealed for a place can be opened only
// for the same place.
type Sealer interface {
	Seal(plain []byte, place ...string) []byte
	Open(sealed []byte, place ...string) ([]byte, error)
}

// NewSealed returns the spool kept under path. The spool calls sealer for each operation that reads or writes content.
// sealer returns nil if the store is not sealed at that moment.
func NewSealed(path string, fsys vfs.FS, sealer func() (Sealer, error)) *Dir {
	return &Dir{path: path, fsys: fsys, sealer: sealer}
}

// Place returns the place for which a file of a sealed store is sealed: its directory and its name up to the first dot.
// A file that was set aside keeps its place.
func Place(name string, part ...string) []string {
	base, _, _ := strings.Cut(filepath.Base(name), ".")
	return append([]string{"file", filepath.Base(filepath.Dir(name)), base}, part...)
}

// The parts of a turn's file. Each line is sealed for its part.
const (
	partOpen  = "open"
	partEntry = "entry"
	partSaved = "saved"
)

// isPart reports whether a line has a value for a part, without decoding it.
func isPart(line []byte, part string) bool { return bytes.HasPrefix(line, []byte(`{"`+part+`"`)) }

// encodeLine returns a line of a turn's file, between two line breaks, with an encoded value. A sealed value is a string of base64.
func encodeLine(z Sealer, name, part string, value []byte) []byte {
	if z != nil {
		sealed := z.Seal(value, Place(name, part)...)
		value = []byte(`"` + base64.StdEncoding.EncodeToString(sealed) + `"`)
	}
	return slices.Concat([]byte("\n"+`{"`+part+`":`), value, []byte("}\n"))
}

// decodeLine reads a line of a turn's file. ok is false for a damaged line. open and entry are both nil for a line of a
// later version.
func decodeLine(z Sealer, name string, data []byte) (open *timeline.OpenTurn, entry *segno.Entry, ok bool) {
	part, value, ok := openLine(z, name, data)
	switch {
	case !ok:
		return nil, nil, false
	case part == partOpen:
		err := json.Unmarshal(value, &open)
		return open, nil, err == nil
	case part == partEntry:
		err := json.Unmarshal(value, &entry)
		return nil, entry, err == nil
	}
	return nil, nil, true
}

// openLine returns the encoded value of a line and its part.
func openLine(z Sealer, name string, data []byte) (part string, value []byte, ok bool) {
	var l line
	if json.Unmarshal(data, &l) != nil {
		return "", nil, false
	}
	switch {
	case l.Open != nil:
		part, value = partOpen, l.Open
	case l.Entry != nil:
		part, value = partEntry, l.Entry
	case l.Saved != nil:
		part, value = partSaved, l.Saved
	default:
		return "", nil, true
	}
	if z == nil {
		return part, value, true
	}
	var sealed []byte // a string of base64
	if json.Unmarshal(value, &sealed) != nil {
		return "", nil, false
	}
	value, err := z.Open(sealed, Place(name, part)...)
	return part, value, err == nil
}

// removeIfSealed removes an unsealed line that the caller appended to a turn's file, if the store was sealed in the
// meantime. A line that another process appends at the same time may be lost. That is acceptable, because no process of
// the turn is alive.
func (d *Dir) removeIfSealed(name string, line []byte) error {
	if z, err := d.sealer(); z == nil && err == nil {
		return nil
	}
	data, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	rest := bytes.ReplaceAll(data, line, nil)
	if len(bytes.TrimSpace(rest)) == 0 {
		return d.remove(name)
	}
	return vfs.Replace(d.fsys, name, rest, 0o600)
}

// writeFile durably creates or replaces a file, and seals its content if the store is sealed.
func (d *Dir) writeFile(name string, data []byte) error {
	z, err := d.sealer()
	if err != nil {
		return err
	}
	return d.replace(name, sealFile(z, name, data))
}

func sealFile(z Sealer, name string, data []byte) []byte {
	if z == nil {
		return data
	}
	return z.Seal(data, Place(name)...)
}

// readFile returns the unsealed content of a file.
func (d *Dir) readFile(name string) ([]byte, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	z, err := d.sealer()
	if err != nil || z == nil {
		return data, err
	}
	if data, err = z.Open(data, Place(name)...); err != nil {
		return nil, segno.NewError(segno.KindCorrupt, "read file", name, err)
	}
	return data, nil
}

// CopyTurns copies the files of turns, including those that were set aside and the empty ones beside them, to a spool with another
// key.
func (d *Dir) CopyTurns(ctx context.Context, to *Dir) (err error) {
	defer annotate(&err, "copy open turns")
	from, err := d.sealer()
	if err != nil {
		return err
	}
	z, err := to.sealer()
	if err != nil {
		return err
	}
	for _, suffix := range []string{".jsonl", ".jsonl" + failedSuffix, followedSuffix} {
		names, err := d.list("turns", suffix)
		if err != nil {
			return err
		}
		for _, name := range names {
			data, err := convertTurn(from, z, name)
			if err = errors.Join(ctx.Err(), err); err != nil {
				return err
			}
			if err := vfs.WriteSynced(to.fsys, filepath.Join(to.path, "turns", filepath.Base(name)), data, 0o600); err != nil {
				return err
			}
		}
	}
	return nil
}

// convertTurn returns the content of a turn's file for another key. Damaged lines stay damaged.
func convertTurn(from, to Sealer, name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var out bytes.Buffer
	r := bufio.NewReader(f)
	for {
		data, err := r.ReadBytes('\n')
		if data = bytes.TrimSpace(data); len(data) > 0 {
			part, value, ok := openLine(from, name, data)
			line := []byte("\ndamaged\n")
			if ok && part != "" {
				line = encodeLine(to, name, part, value)
			}
			out.Write(line)
		}
		if err == io.EOF {
			return out.Bytes(), nil
		}
		if err != nil {
			return nil, err
		}
	}
}
