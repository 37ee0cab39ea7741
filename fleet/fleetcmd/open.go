package fleetcmd

import (
	"context"
	"errors"
	"log/slog"
	"net/url"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/fleet"
	"github.com/dalsegno/segno/internal/cli"
	"github.com/dalsegno/segno/internal/web"
	"github.com/dalsegno/segno/store/postgres"
)

// openedFleet is an open fleet with its connections and its bucket.
type openedFleet struct {
	*fleet.Fleet
	pool   *pgxpool.Pool
	bucket Bucket // or nil
}

// close closes the fleet, its bucket and its connections.
func (o *openedFleet) close() error {
	err := errors.Join(o.Fleet.Close(), closeBucket(o.bucket))
	o.pool.Close()
	return err
}

// newPool returns a pool for the connections to the database of a URL.
func newPool(ctx context.Context, url string) (*pgxpool.Pool, error) {
	const op = "open fleet"
	name := cli.RedactURL(url)
	if scheme, ok := cli.URLScheme(url); !ok || scheme != "postgres" && scheme != "postgresql" {
		return nil, segno.Errorf(segno.KindInvalid, op, name, "a fleet is in a PostgreSQL database").WithHint("use --store postgres://…")
	}
	config, err := pgxpool.ParseConfig(url)
	if err != nil { // its text may contain the password
		return nil, segno.Errorf(segno.KindInvalid, op, name, "the URL is malformed").WithHint("use a URL like postgres://user@host:5432/database")
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, segno.NewError(segno.KindInvalid, op, name, err)
	}
	return pool, nil
}

// cutTenant removes the parameter segno_tenant from the URL of a database and returns it, or else tenant. Not all programs that open
// a store have a flag for the tenant.
func cutTenant(text, tenant string) (withoutTenant, _ string, err error) {
	u, err := url.Parse(text)
	if err != nil || !u.Query().Has("segno_tenant") {
		return text, tenant, nil // the driver parses it, which accepts more
	}
	q := u.Query()
	named := q.Get("segno_tenant")
	if tenant != "" && tenant != named {
		return "", "", segno.Errorf(segno.KindInvalid, "open fleet", cli.RedactURL(text), "the URL names the tenant %q, and --tenant %q", named, tenant)
	}
	q.Del("segno_tenant")
	u.RawQuery = q.Encode()
	return u.String(), named, nil
}

// openFleet opens the fleet in a database and a bucket, and creates or upgrades its tables.
func openFleet(ctx context.Context, url, bucketURL, tenant string, log *slog.Logger) (*openedFleet, error) {
	url, tenant, err := cutTenant(url, tenant)
	if err != nil {
		return nil, err
	}
	pool, err := newPool(ctx, url)
	if err != nil {
		return nil, err
	}
	bucket, err := OpenBucket(ctx, bucketURL)
	if err != nil {
		pool.Close()
		return nil, err
	}
	opened, err := fleet.Open(ctx, fleet.Config{Pool: pool, Bucket: bucket, Tenant: tenant, Log: log})
	if err != nil {
		pool.Close()
		return nil, errors.Join(err, closeBucket(bucket))
	}
	return &openedFleet{opened, pool, bucket}, nil
}

// hasFleet reports whether the database of a URL contains a fleet.
func hasFleet(ctx context.Context, url string) (bool, error) {
	url, _, err := cutTenant(url, "")
	if err != nil {
		return false, err
	}
	pool, err := newPool(ctx, url)
	if err != nil {
		return false, err
	}
	defer pool.Close()
	return fleet.Exists(ctx, pool, "")
}

// Store is the store of a fleet: its commits wake the threads, and it has their mailboxes.
type Store struct {
	*postgres.Store
	fleet *openedFleet
}

// OpenStore opens the store in a database, or the tenant of it that the parameter segno_tenant of the URL names. It is a
// [*Store] if the store is that of a fleet. A store that is missing is not created.
func OpenStore(ctx context.Context, url, bucket string) (segno.Store, error) {
	url, tenant, err := cutTenant(url, "")
	if err != nil {
		return nil, err
	}
	if exists, err := hasFleet(ctx, url); err != nil || !exists {
		if segno.KindOf(err) == segno.KindInvalid {
			return nil, err // the URL
		}
		return openPlain(ctx, url, bucket, tenant)
	}
	o, err := openFleet(ctx, url, bucket, tenant, nil)
	if err != nil {
		return nil, err
	}
	return &Store{o.Store().(*postgres.Store), o}, nil
}

// Mailboxes returns the mailboxes of the threads.
func (s *Store) Mailboxes() web.Fleet { return API(s.fleet.Fleet) }

// Close closes the store, its bucket and its connections.
func (s *Store) Close() error { return s.fleet.close() }

// plainStore is a store whose threads no workers run, with its bucket.
type plainStore struct {
	*postgres.Store
	bucket Bucket // or nil
}

// Close closes the store and its bucket.
func (s *plainStore) Close() error { return errors.Join(s.Store.Close(), closeBucket(s.bucket)) }

func openPlain(ctx context.Context, url, bucketURL, tenant string) (segno.Store, error) {
	bucket, err := OpenBucket(ctx, bucketURL)
	if err != nil {
		return nil, err
	}
	s, err := postgres.Open(ctx, url, postgres.Options{MustExist: true, Tenant: tenant, Bucket: bucket})
	if err != nil {
		return nil, errors.Join(err, closeBucket(bucket))
	}
	return &plainStore{s, bucket}, nil
}
