package postgres

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/dalsegno/segno"
	"github.com/jackc/pgx/v5"
)

// Bucket is an object store for the bodies of a [Store]: a directory of a shared file system ([DirBucket]),
// S3 (package fleet/s3) or a similar service: package store/postgres/gocloud adapts the buckets of
// gocloud.dev/blob. All methods may be called concurrently, by many processes on many machines. Package
// store/postgres/buckettest has a test for each rule of this contract.
//
// Names consist of letters, digits, "-" and "/". Each name is written at most once, and no name is the
// beginning of another one up to a "/". An error of a call whose context has ended wraps the context's error.
type Bucket interface {
	// Put writes an object and returns when it is durable. It never overwrites: if the name exists, it
	// returns an error that wraps [fs.ErrExist].
	Put(ctx context.Context, name string, data []byte) error
	// Get returns an object. The error wraps [fs.ErrNotExist] if the object does not exist.
	Get(ctx context.Context, name string) ([]byte, error)
	// List yields the names that begin with prefix, in any order. The caller may delete them meanwhile.
	List(ctx context.Context, prefix string) iter.Seq2[string, error]
	// Delete removes an object. It returns nil if the object does not exist.
	Delete(ctx context.Context, name string) error
}

const (
	// maxInRow is the largest number of bytes in a row; longer values become bodies.
	maxInRow = 256 << 10
	// bodyLife is how long a body that no row names may wait for a commit. A collection deletes it another
	// hour later, because the clocks of machines differ.
	bodyLife = 24 * time.Hour
	// rowBodyPrefix begins the names of bodies in the table, and bucketPrefix those in the bucket.
	rowBodyPrefix = "row/"
	bucketPrefix  = "segno/"
)

// bucketPrefix begins the names of the store's bodies in the bucket, because several stores may share it.
func (s *Store) bucketPrefix() string { return bucketPrefix + s.id + "/" }

func rowBodyName(h segno.Hash, born time.Time) string { return rowBodyPrefix + newBodyName(h, born) }

// newBodyName returns a unique name, so that the deletion of a body can never affect one that was written
// later.
func newBodyName(h segno.Hash, born time.Time) string {
	return fmt.Sprintf("%s-%d-%s", h, born.Unix(), segno.NewID()[:10])
}

// parseBodyName returns the hash and the time in a body's name.
func parseBodyName(name string) (h segno.Hash, born time.Time, err error) {
	last := strings.Split(name[strings.LastIndexByte(name, '/')+1:], "-")
	if len(last) == 3 && len(last[0]) == hex.EncodedLen(len(h)) {
		var seconds int64
		if seconds, err = strconv.ParseInt(last[1], 10, 64); err == nil {
			h, err = segno.ParseHash(last[0])
			return h, time.Unix(seconds, 0), err
		}
	}
	return h, born, fmt.Errorf("invalid body name %q", name)
}

// putBody stores bytes outside their row and returns their name. On return they are durable, but no row
// names them yet.
func (s *Store) putBody(ctx context.Context, h segno.Hash, data []byte) (string, error) {
	now := s.options.now()
	if s.options.Bucket == nil {
		name := rowBodyName(h, now)
		return name, s.putRowBodies(ctx, []string{name}, [][]byte{data}, now)
	}
	name := s.bucketPrefix() + h.String()[:2] + "/" + newBodyName(h, now)
	return name, bucketError("write body", name, s.options.Bucket.Put(ctx, name, data))
}

// putRowBodies stores bodies in the table.
func (s *Store) putRowBodies(ctx context.Context, names []string, datas [][]byte, now time.Time) error {
	return s.withRetry(ctx, func(ctx context.Context) error {
		_, err := s.db.Exec(s.writeContext(ctx), s.sql(`INSERT INTO {}bodies (name, born, data) SELECT x.name, $1, x.data
			FROM unnest($2::text[], $3::bytea[]) AS x(name, data) ON CONFLICT (name) DO NOTHING`), now.Unix(), names, datas)
		return err
	})
}

// getBody reads a body. Errors name its owner, an object or a commit.
func (s *Store) getBody(ctx context.Context, op, owner, name string) (data []byte, err error) {
	switch {
	case strings.HasPrefix(name, rowBodyPrefix):
		err = s.withRetry(ctx, func(ctx context.Context) error {
			return s.db.QueryRow(ctx, s.sql(`SELECT data FROM {}bodies WHERE name = $1`), name).Scan(&data)
		})
	case s.options.Bucket == nil:
		return nil, segno.Errorf(segno.KindRefused, op, owner, "its body is in a bucket, and the store was opened without one").
			WithHint("set Options.Bucket, or give --bucket")
	default:
		data, err = s.options.Bucket.Get(ctx, name)
		if !errors.Is(err, fs.ErrNotExist) {
			err = bucketError(op, owner, err)
		}
	}
	if errors.Is(err, pgx.ErrNoRows) || errors.Is(err, fs.ErrNotExist) {
		err = s.records.Corrupt(op, owner, fmt.Errorf("its body %s is missing", name))
	}
	return data, err
}

// bucketError returns an error of a bucket with its kind.
func bucketError(op, name string, err error) error {
	if err == nil {
		return nil
	}
	kind := segno.KindIO
	switch {
	case segno.KindOf(err) == segno.KindCorrupt: // the bucket verifies checksums
		return err
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		kind = segno.KindCancelled
	}
	return segno.NewError(kind, op, name, oneLine(err)).WithHint("check that the bucket can be reached, then try again")
}

// sweepBodies deletes the bodies that no row names. It keeps those that were written after old, because a
// commit may still name them.
func (s *Store) sweepBodies(ctx context.Context, old time.Time) error {
	_, err := s.db.Exec(ctx, s.sql(`DELETE FROM {}bodies b WHERE born < $1 AND NOT EXISTS (SELECT FROM {}objects o WHERE o.body = b.name)
		AND NOT EXISTS (SELECT FROM {}commits c WHERE c.body = b.name)`), old.Unix())
	if err != nil || s.options.Bucket == nil {
		return err
	}
	const op, page = "sweep bucket", 1000
	var names []string
	for name, err := range s.options.Bucket.List(ctx, s.bucketPrefix()) {
		if err != nil {
			return bucketError(op, s.id, err)
		}
		if _, born, err := parseBodyName(name); err != nil || !born.Before(old) {
			continue
		}
		if names = append(names, name); len(names) == page {
			if err := s.deleteBodies(ctx, op, names); err != nil {
				return err
			}
			names = nil
		}
	}
	return s.deleteBodies(ctx, op, names)
}

// deleteBodies deletes those of the given bodies that no row names. It deletes none of another store: see [Owner.NewID].
func (s *Store) deleteBodies(ctx context.Context, op string, names []string) error {
	var name string
	var unnamed []string
	err := querier{s, s.db}.Query(ctx, `SELECT x FROM unnest($1::text[]) x WHERE x <> ''
		AND NOT EXISTS (SELECT FROM {}objects WHERE body = x) AND NOT EXISTS (SELECT FROM {}commits WHERE body = x)`, []any{names}, []any{&name}, func() error {
		unnamed = append(unnamed, name)
		return nil
	})
	if err == nil {
		_, err = s.db.Exec(ctx, s.sql(`DELETE FROM {}bodies WHERE name = ANY($1::text[])`), unnamed)
	}
	if err != nil || s.options.Bucket == nil {
		return err
	}
	for _, name := range unnamed {
		if !strings.HasPrefix(name, s.bucketPrefix()) {
			continue
		}
		if err := s.options.Bucket.Delete(ctx, name); err != nil {
			return bucketError(op, name, err)
		}
	}
	return nil
}
