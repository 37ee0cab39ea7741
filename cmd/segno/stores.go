package main

import (
	"context"

	goredis "github.com/redis/go-redis/v9"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/store/kv/redis"
	"github.com/dalsegno/segno/store/postgres"
)

// openPostgres opens an existing store. This command has no client for object storage, so it cannot read
// the large objects of a store with a bucket.
func openPostgres(ctx context.Context, url string) (segno.Store, error) {
	s, err := postgres.Open(ctx, url, postgres.Options{MustExist: true})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// quiet discards the driver's own log, which it writes to standard error. The store returns the same errors.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

func openRedis(ctx context.Context, url string) (segno.Store, error) {
	goredis.SetLogger(quiet{})
	s, err := redis.Open(ctx, url, redis.Options{})
	if err != nil {
		return nil, err
	}
	return s, nil
}
