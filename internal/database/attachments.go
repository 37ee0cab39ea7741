package database

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
)

// Attachment is a database that segno saves and restores together with a workspace.
type Attachment struct {
	// Name is the database's name in checkpoints. A fork keeps the name.
	Name string `json:"name"`
	Kind string `json:"kind"`
	Path string `json:"path,omitempty"` // the path of a file; relative to the root if it is in the workspace
	URL  string `json:"url,omitempty"`  // the URL of a database on a server; may contain a password
}

// File returns the absolute path of the database, in the workspace at root.
func (a Attachment) File(root string) string {
	if filepath.IsAbs(a.Path) {
		return a.Path
	}
	return filepath.Join(root, a.Path)
}

// ServerName returns the name of a database on a server by its URL, without the user and the password. In a fork it is the
// copy, while Name is still the name of the source.
func (a Attachment) ServerName() string {
	u, err := url.Parse(a.URL)
	if a.Kind != KindPostgres || err != nil {
		return ""
	}
	q := u.Query()
	port, err := strconv.ParseUint(q.Get("port"), 10, 16)
	if err != nil || q.Get("host") == "" {
		return ""
	}
	return PostgresTarget{Hosts: []string{q.Get("host")}, Port: uint16(port), Database: strings.TrimPrefix(u.Path, "/")}.name()
}

// isBelowRoot reports whether the database is a file of the workspace.
func (a Attachment) isBelowRoot() bool { return a.Kind == KindSQLite && !filepath.IsAbs(a.Path) }

// New returns an attachment for the SQLite database at an absolute path. The error has
// [segno.KindNotFound] or [segno.KindInvalid] if there is no such database.
func New(root, path string) (Attachment, error) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return Attachment{}, segno.NewError(segno.KindNotFound, "attach database", path, err).WithHint("name the file of a SQLite database")
	}
	if err := checkSQLite(real); err != nil {
		return Attachment{}, err
	}
	if rel, err := filepath.Rel(root, real); err == nil && filepath.IsLocal(rel) {
		real = rel
	}
	return Attachment{Name: filepath.ToSlash(real), Kind: KindSQLite, Path: real}, nil
}

// List is the file that lists the databases of one workspace.
type List struct {
	FS     vfs.FS
	File   string
	Sealer Sealer
}

// Read returns the attached databases, sorted by name.
func (l List) Read() (all []Attachment, err error) {
	data, err := os.ReadFile(l.File)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		data, err = l.Sealer.OpenFile(l.File, data)
	}
	if err == nil {
		err = json.Unmarshal(data, &all)
	}
	if err != nil {
		return nil, segno.NewError(segno.KindCorrupt, "read attached databases", l.File, err).
			WithHint("delete the file and attach the databases again")
	}
	return all, nil
}

// Write replaces the list, durably.
func (l List) Write(all []Attachment) error {
	slices.SortFunc(all, func(a, b Attachment) int { return strings.Compare(a.Name, b.Name) })
	data, err := json.Marshal(all)
	if err == nil {
		err = vfs.MkdirAll(l.FS, filepath.Dir(l.File))
	}
	if err == nil {
		err = vfs.Replace(l.FS, l.File, l.Sealer.SealFile(l.File, data), 0o600)
	}
	if err != nil {
		return segno.NewError(segno.KindIO, "write attached databases", l.File, err)
	}
	return nil
}

// Files returns the paths of the databases at root, and of the files that SQLite keeps beside them.
func Files(root string, all []Attachment) (databases, beside []string) {
	for _, a := range all {
		if a.Kind != KindSQLite {
			continue
		}
		file := a.File(root)
		databases = append(databases, file)
		for _, suffix := range sidecars() {
			beside = append(beside, file+suffix)
		}
	}
	return databases, beside
}

// inFork returns the attachments for the copies of databases in a fork, in the same order. The copy of a database outside
// the workspace is beside the directory of the fork. If several have one name, the others get a number.
func inFork(all []Attachment, root string) (copies []Attachment) {
	taken := map[string]bool{}
	for _, a := range all {
		switch {
		case a.Kind == KindPostgres:
			a = a.inFork(root)
		case filepath.IsAbs(a.Path):
			name := filepath.Base(a.Path)
			a.Path = root + "." + name
			for n := 2; taken[a.Path]; n++ {
				a.Path = fmt.Sprintf("%s.%d.%s", root, n, name)
			}
			taken[a.Path] = true
		}
		copies = append(copies, a)
	}
	return copies
}
