package redis

import (
	"context"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/store/kv"
	goredis "github.com/redis/go-redis/v9"
)

// Options say how a store keeps threads. The zero value keeps them for ever.
type Options struct {
	// TTL, if it is not 0, is how long a thread lives after its newest commit, a
	// second at least. All programs that open one store should have the same.
	TTL time.Duration
	// Clock is what leases and lists go by; nil is time.Now. The server has its own
	// for the TTL.
	Clock func() time.Time
	// Prefix begins each key, so that stores can share a server; "" is "segno:".
	Prefix string
	// Key, if it is not nil, seals all values: 32 random bytes. What stays in the clear
	// [kv.Options] says. A key that is not the store's is [segno.KindRefused].
	Key []byte
}

// Store is a [segno.Store], and [segno.Chains] and [segno.Leaser].
type Store struct {
	*kv.Store
	client goredis.UniversalClient // nil if it is not the store's own
}

// Open connects to the server that url names, "redis://user:password@host:port/db"
// or "rediss://" for TLS. The error has [segno.KindIO] if it does not answer.
func Open(ctx context.Context, url string, o Options) (*Store, error) {
	options, err := goredis.ParseURL(url)
	if err != nil {
		return nil, segno.NewError(segno.KindInvalid, "open store", "", errURL) // the cause may hold a password
	}
	options.ContextTimeoutEnabled = true
	client := goredis.NewClient(options)
	s, err := New(ctx, client, o)
	if err != nil {
		client.Close()
		return nil, err
	}
	s.client = client
	return s, nil
}

// New returns a store on a client that the caller made and will close: one for a
// cluster, for sentinels, or with options of its own.
func New(ctx context.Context, client goredis.UniversalClient, o Options) (*Store, error) {
	if o.Prefix == "" {
		o.Prefix = "segno:"
	}
	in, err := NewKV(client, o.Prefix)
	if err != nil {
		return nil, err
	}
	s, err := kv.Open(ctx, in, kv.Options{TTL: o.TTL, Clock: o.Clock, Key: o.Key})
	if err != nil {
		return nil, err
	}
	return &Store{Store: s}, nil
}

type errText string

func (e errText) Error() string { return string(e) }

const errURL = errText("the address is no redis:// or rediss:// URL")

// Close implements [segno.Store].
func (s *Store) Close() error {
	err := s.Store.Close()
	if s.client != nil {
		if errClient := s.client.Close(); err == nil && errClient != goredis.ErrClosed {
			err = fail("close store", "", errClient)
		}
	}
	return err
}
