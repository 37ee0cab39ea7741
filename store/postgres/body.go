package postgres

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"github.com/dalsegno/segno"
	"github.com/jackc/pgx/v5"
)

const (
	// mostInRow is how many bytes a row holds; what is longer is a body.
	mostInRow = 256 << 10
	// bodyLife is how long a body that no row names may wait for a commit. A
	// collection leaves it an hour more, for clocks that differ.
	bodyLife = 24 * time.Hour
	// rowBody begins the names of bodies that are kept in the table. Those of the
	// bucket begin with "segno/".
	rowBody = "row/"
)

// bodyName is where the bytes with a hash are put. No two are the same, so that a body
// that is dropped is never one that was written meanwhile. A bucket may be shared by
// stores.
func (s *Store) bodyName(h segno.Hash, born time.Time) string {
	if s.options.Bucket == nil {
		return rowName(h, born)
	}
	return s.inBucketOf() + h.String()[:2] + "/" + lastName(h, born)
}

// inBucketOf begins the names of the store's bodies in the bucket.
func (s *Store) inBucketOf() string { return "segno/" + s.id + "/" }

func rowName(h segno.Hash, born time.Time) string { return rowBody + lastName(h, born) }

func lastName(h segno.Hash, born time.Time) string {
	return fmt.Sprintf("%s-%d-%s", h, born.Unix(), segno.NewID()[:10])
}

// readBodyName is what a body's name says.
func readBodyName(name string) (h segno.Hash, born time.Time, err error) {
	last := strings.Split(name[strings.LastIndexByte(name, '/')+1:], "-")
	if len(last) == 3 && len(last[0]) == hex.EncodedLen(len(h)) {
		var seconds int64
		if seconds, err = strconv.ParseInt(last[1], 10, 64); err == nil {
			h, err = segno.ParseHash(last[0])
			return h, time.Unix(seconds, 0), err
		}
	}
	return h, born, fmt.Errorf("%q is not the name of a body", name)
}

// putBody keeps bytes outside their row and returns their name. They are durable, and
// nobody's yet.
func (s *Store) putBody(ctx context.Context, h segno.Hash, data []byte) (string, error) {
	now := s.options.now()
	name := s.bodyName(h, now)
	if s.options.Bucket != nil {
		return name, s.inBucket("write body", name, s.options.Bucket.Put(ctx, name, data))
	}
	return name, s.putRows(ctx, []string{name}, [][]byte{data}, now)
}

// putRows keeps bodies in the table.
func (s *Store) putRows(ctx context.Context, names []string, datas [][]byte, now time.Time) error {
	return s.patiently(ctx, func(ctx context.Context) error {
		_, err := s.pool.Exec(ctx, s.sql(`INSERT INTO {}bodies (name, born, data) SELECT x.name, $1, x.data
			FROM unnest($2::text[], $3::bytea[]) AS x(name, data) ON CONFLICT (name) DO NOTHING`), now.Unix(), names, datas)
		return err
	})
}

// getBody reads a body; what names it is asked about in errors.
func (s *Store) getBody(ctx context.Context, op, of, name string) (data []byte, err error) {
	if strings.HasPrefix(name, rowBody) {
		err = s.patiently(ctx, func(ctx context.Context) error {
			return s.pool.QueryRow(ctx, s.sql(`SELECT data FROM {}bodies WHERE name = $1`), name).Scan(&data)
		})
		if errors.Is(err, pgx.ErrNoRows) {
			return nil, corrupt(op, of, fmt.Errorf("its body %s is missing", name))
		}
		return data, err
	}
	if s.options.Bucket == nil {
		return nil, segno.Errorf(segno.KindRefused, op, of, "its body is in a bucket, and the store was opened without one").WithHint("set Options.Bucket")
	}
	data, err = s.options.Bucket.Get(ctx, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, corrupt(op, of, fmt.Errorf("its body %s is missing", name))
	}
	return data, s.inBucket(op, of, err)
}

// inBucket gives a bucket's errors their kind.
func (s *Store) inBucket(op, name string, err error) error {
	if err == nil {
		return nil
	}
	kind := segno.KindIO
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		kind = segno.KindCancelled
	}
	return segno.NewError(kind, op, name, oneLine(err)).WithHint("check that the bucket can be reached, then try again")
}

// sweepBucket deletes the bodies of the bucket that no row names, a page at a time.
func (s *Store) sweepBucket(ctx context.Context, old time.Time) error {
	const op, page = "sweep bucket", 1000
	var names []string
	deletePage := func() error {
		dead, err := s.unnamedBodies(ctx, names)
		names = names[:0]
		if err != nil {
			return err
		}
		return s.deleteFromBucket(ctx, op, dead)
	}
	for name, err := range s.options.Bucket.List(ctx, s.inBucketOf()) {
		if err != nil {
			return s.inBucket(op, s.id, err)
		}
		if _, born, err := readBodyName(name); err != nil || !born.Before(old) {
			continue
		}
		if names = append(names, name); len(names) == page {
			if err := deletePage(); err != nil {
				return err
			}
		}
	}
	return deletePage()
}
