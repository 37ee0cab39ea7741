package fleetcmd

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/cli"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/store/postgres"
)

// openedBucket is a bucket, or none.
type openedBucket struct {
	postgres.Bucket
	close func() error
}

// Close closes the bucket.
func (b openedBucket) Close() error {
	if b.close == nil {
		return nil
	}
	return b.close()
}

// openBucket opens the bucket of a URL. "" is no bucket: the database then has the large objects, too.
func openBucket(ctx context.Context, text string) (openedBucket, error) {
	const op = "open bucket"
	if text == "" {
		return openedBucket{}, nil
	}
	name := cli.RedactURL(text)
	switch scheme, _ := cli.URLScheme(text); scheme {
	case "file":
		u, err := url.Parse(text)
		if err != nil || u.Host != "" && u.Host != "localhost" || !filepath.IsAbs(u.Path) || u.RawQuery != "" || u.Fragment != "" {
			return openedBucket{}, segno.Errorf(segno.KindInvalid, op, name, "the URL names no directory of this machine").WithHint("use a URL like file:///srv/segno")
		}
		if info, err := os.Stat(u.Path); err != nil || !info.IsDir() {
			return openedBucket{}, segno.Errorf(segno.KindNotFound, op, name, "there is no such directory").WithHint("make the directory, on a file system that all workers share")
		}
		return openedBucket{Bucket: dirBucket(filepath.Clean(u.Path))}, nil
	}
	return openedBucket{}, segno.Errorf(segno.KindInvalid, op, name, "unknown kind of bucket").WithHint("use file:///DIRECTORY or s3://BUCKET/PREFIX?endpoint=…")
}

// dirBucket is a bucket in a directory, which all processes share: [postgres.Bucket].
type dirBucket string

func (d dirBucket) path(name string) string {
	return filepath.Join(string(d), filepath.FromSlash(name))
}

// Put implements [postgres.Bucket].
func (d dirBucket) Put(ctx context.Context, name string, data []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	path := d.path(name)
	if err := vfs.MkdirAllSynced(vfs.OS, filepath.Dir(path)); err != nil {
		return err
	}
	return vfs.WriteNew(vfs.OS, path, strings.NewReader(string(data)), 0o600)
}

// Get implements [postgres.Bucket].
func (d dirBucket) Get(ctx context.Context, name string) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return os.ReadFile(d.path(name))
}

// Delete implements [postgres.Bucket].
func (d dirBucket) Delete(ctx context.Context, name string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := vfs.OS.Remove(d.path(name)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// List implements [postgres.Bucket].
func (d dirBucket) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		from := d.path(prefix)
		if !strings.HasSuffix(prefix, "/") {
			from = filepath.Dir(from)
		}
		stop := errors.New("the caller stopped")
		err := filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil // deleted meanwhile, or nothing has the prefix
			}
			if err = errors.Join(err, ctx.Err()); err != nil {
				return err
			}
			name, err := filepath.Rel(string(d), path)
			if name = filepath.ToSlash(name); err != nil || e.IsDir() || !strings.HasPrefix(name, prefix) || strings.HasPrefix(e.Name(), ".") {
				return err
			}
			if !yield(name, nil) {
				return stop
			}
			return nil
		})
		if err != nil && !errors.Is(err, stop) {
			yield("", err)
		}
	}
}
