package redis

import (
	"github.com/dalsegno/segno/store/kv"
	goredis "github.com/redis/go-redis/v9"
)

// NewKV lets tests use the key-value store without a [Store] on top of it.
func NewKV(client goredis.UniversalClient, prefix string) (kv.KV, error) {
	return newKV(client, prefix)
}
