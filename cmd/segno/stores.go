package main

import (
	"context"

	goredis "github.com/redis/go-redis/v9"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/store/kv/redis"
	"github.com/dalsegno/segno/store/postgres"
)

// openPostgres opens a store that exists. The command has no client of a bucket, so the large objects of a
// store with a bucket cannot be read.
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
