package main

import (
	"context"

	goredis "github.com/redis/go-redis/v9"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/fleet/fleetcmd"
	"github.com/dalsegno/segno/store/kv/redis"
)

// openPostgres opens an existing store, or that of a fleet. bucket is the URL of its bucket, or "".
func openPostgres(ctx context.Context, url, bucket string) (segno.Store, error) {
	return fleetcmd.OpenStore(ctx, url, bucket)
}

// quiet discards the driver's own log, which it writes to standard error. The store returns the same errors.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

func openRedis(ctx context.Context, url, _ string) (segno.Store, error) {
	goredis.SetLogger(quiet{})
	s, err := redis.Open(ctx, url, redis.Options{})
	if err != nil {
		return nil, err
	}
	return s, nil
}
