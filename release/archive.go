package main

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// entry is a file, in memory. Its name has slashes and is relative to the archive or directory that contains the file.
type entry struct {
	name string
	mode fs.FileMode // zero means 0o644
	data []byte
}

// in returns the entries under a directory.
func in(dir string, entries []entry) (moved []entry) {
	for _, e := range entries {
		e.name = path.Join(dir, e.name)
		moved = append(moved, e)
	}
	return moved
}

// archives returns the archive of each platform.
func (r *release) archives() (files []entry, err error) {
	for _, p := range r.platforms {
		name := fmt.Sprintf("segno_%s_%s", r.version, p)
		data, err := tarball(in(name, slices.Concat(r.binaries[p], r.manuals, r.completed, r.texts)), r.time)
		if err != nil {
			return nil, err
		}
		files = append(files, entry{name: name + ".tar.gz", data: data})
	}
	return files, nil
}

// tarball returns a compressed tar file of the entries and their directories. Equal entries give equal bytes: the order is that
// of the names, every file has the same time, and the owner is root.
func tarball(entries []entry, at time.Time) ([]byte, error) {
	entries = slices.SortedFunc(slices.Values(entries), func(a, b entry) int { return cmp.Compare(a.name, b.name) })
	var plain bytes.Buffer
	w := tar.NewWriter(&plain)
	made := map[string]bool{".": true}
	for _, e := range entries {
		prefix, name := "", e.name
		if rest, ok := strings.CutPrefix(e.name, "./"); ok { // the form of Debian's packages
			prefix, name = "./", rest
		}
		for n, c := range name {
			if dir := name[:n]; c == '/' && !made[dir] {
				made[dir] = true
				if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: prefix + dir + "/", Mode: 0o755, ModTime: at, Uname: "root", Gname: "root"}); err != nil {
					return nil, err
				}
			}
		}
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: e.name, Mode: int64(0o644 | e.mode), Size: int64(len(e.data)), ModTime: at,
			Uname: "root", Gname: "root"}); err != nil {
			return nil, err
		}
		if _, err := w.Write(e.data); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return compress(plain.Bytes())
}

// untar returns the files of a compressed tar file.
func untar(data []byte) (entries []entry, err error) {
	plain, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	for r := tar.NewReader(plain); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return entries, nil
		}
		if err != nil {
			return nil, err
		}
		data, err := io.ReadAll(r)
		if err != nil {
			return nil, err
		}
		if h.Typeflag == tar.TypeReg {
			entries = append(entries, entry{h.Name, h.FileInfo().Mode().Perm(), data})
		}
	}
}

// compress returns data in the form of gzip, without a name and a time.
func compress(data []byte) ([]byte, error) {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(data); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func checksum(data []byte) string { return fmt.Sprintf("%x", sha256.Sum256(data)) }

// checksums returns the file that 'sha256sum --check' reads.
func checksums(files []entry) []byte {
	var b bytes.Buffer
	for _, f := range files {
		fmt.Fprintf(&b, "%s  %s\n", checksum(f.data), f.name)
	}
	return b.Bytes()
}

// readFiles returns the files that match a pattern, sorted by name, with the base of their name below dir.
func readFiles(dir, pattern string) (entries []entry, err error) {
	names, err := filepath.Glob(pattern)
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("no file %s", pattern)
	}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		entries = append(entries, entry{name: path.Join(dir, filepath.Base(name)), data: data})
	}
	return entries, nil
}
