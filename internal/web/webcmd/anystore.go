package webcmd

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/cli"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/store/file"
	"github.com/dalsegno/segno/store/sqlite"
)

// anyStore is an open store of any kind.
type anyStore struct {
	segno.Store
	Kind string // "sqlite", "file", "postgres" or "redis"
	Name string // for messages: a path, or a URL without its password
	// Local is the store if it belongs to a directory of this machine, which also has the spool and the workspaces.
	// Only such a store can make moves. For any other store, local is nil.
	Local *local.Store
}

// openAnyStore opens the store that --store names, for a verb that can show stores of any kind. The flag names the
// directory of a store of this machine, a SQLite file, a directory of store/file, or the URL of a server. A named store
// must exist. The default is the user's own store.
func (a *app) openAnyStore(ctx context.Context) (*anyStore, error) {
	const op = "open store"
	scheme, isURL := cli.URLScheme(a.StorePath)
	if a.BucketURL != "" && scheme != "postgres" && scheme != "postgresql" {
		return nil, segno.Errorf(segno.KindInvalid, op, "", "only a store in PostgreSQL has a bucket").WithHint("give --store postgres://… too, or omit --bucket")
	}
	if isURL {
		return a.openStoreURL(ctx, scheme)
	}
	if a.StorePath == "" {
		s, err := a.OpenOrMakeStore(ctx)
		return localStore(s, err)
	}
	wd, err := a.Getwd()
	if err != nil {
		return nil, segno.NewError(segno.KindIO, op, "", err)
	}
	path := cli.Absolute(wd, a.StorePath)
	fi, err := os.Stat(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, segno.NewError(segno.KindIO, op, path, err)
	}
	isFile := err == nil && fi.Mode().IsRegular()
	switch {
	case isFile && filepath.Base(path) != local.DatabaseFile:
		return openSQLiteStore(ctx, path)
	case exists(filepath.Join(path, "format.json")):
		return openFileStore(ctx, path)
	case isFile: // the database in the directory of a store
		path = filepath.Dir(path)
	}
	a.StorePath = path
	s, err := a.OpenStore(ctx)
	return localStore(s, err)
}

// localStore returns a store on this machine as any store.
func localStore(s *local.Store, err error) (*anyStore, error) {
	if err != nil {
		return nil, err
	}
	return &anyStore{Store: s, Kind: "sqlite", Name: s.Place().Store, Local: s}, nil
}

func (a *app) openStoreURL(ctx context.Context, scheme string) (*anyStore, error) {
	name := cli.RedactURL(a.StorePath)
	if scheme == "file" {
		path, ok := filePath(a.StorePath)
		if !ok {
			return nil, segno.Errorf(segno.KindInvalid, "open store", name, "the URL names no directory of this machine").
				WithHint("give a URL like file:///path/of/a/directory")
		}
		return openFileStore(ctx, path)
	}
	open := a.Stores[scheme]
	if open == nil {
		known := append(slices.Collect(maps.Keys(a.Stores)), "file")
		slices.Sort(known)
		return nil, segno.Errorf(segno.KindInvalid, "open store", name, "unknown kind of store %q", scheme).
			WithHint("use a path, or a URL that begins with one of " + strings.Join(known, ", "))
	}
	s, err := open(ctx, a.StorePath, a.BucketURL)
	if err != nil {
		return nil, err
	}
	kind := map[string]string{"postgresql": "postgres", "rediss": "redis"}[scheme]
	if kind == "" {
		kind = scheme
	}
	return &anyStore{Store: s, Kind: kind, Name: name}, nil
}

func openFileStore(ctx context.Context, dir string) (*anyStore, error) {
	if !exists(filepath.Join(dir, "format.json")) {
		return nil, segno.NewError(segno.KindNotFound, "open store", dir, nil).WithHint("give the directory of a store")
	}
	s, err := file.Open(ctx, dir, file.Options{})
	if err != nil {
		return nil, err
	}
	return &anyStore{Store: s, Kind: "file", Name: dir}, nil
}

// openSQLiteStore opens a file that store/sqlite wrote for a Go program, without the directory of a
// local store.
func openSQLiteStore(ctx context.Context, path string) (*anyStore, error) {
	head, err := readHead(path, 16)
	if err == nil && string(head) != "SQLite format 3\x00" { // sqlite.Open would make a store of an empty file
		err = errors.New("the file is not a store")
	}
	if err != nil {
		return nil, segno.NewError(segno.KindInvalid, "open store", path, err).WithHint("give the file of a SQLite store, or the directory of a store")
	}
	s, err := sqlite.Open(ctx, path, sqlite.Options{})
	if err != nil {
		return nil, err
	}
	return &anyStore{Store: s, Kind: "sqlite", Name: path}, nil
}

// readHead returns the first n bytes of a file, or fewer.
func readHead(path string, n int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, n))
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// filePath returns the path of a URL like file:///path, file://localhost/path or file:path.
func filePath(text string) (string, bool) {
	u, err := url.Parse(text)
	if err != nil || u.Host != "" && u.Host != "localhost" || u.RawQuery != "" || u.Fragment != "" {
		return "", false
	}
	path := u.Path
	if u.Opaque != "" {
		if path, err = url.PathUnescape(u.Opaque); err != nil {
			return "", false
		}
	}
	if path, err = filepath.Abs(path); err != nil || u.Path+u.Opaque == "" {
		return "", false
	}
	return path, true
}
