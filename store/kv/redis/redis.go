package redis

import (
	"context"
	"errors"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/store/kv"
	goredis "github.com/redis/go-redis/v9"
)

// Options configure a store. The zero value never expires threads.
type Options struct {
	// TTL, if not 0, is how long a thread lives after its newest commit. It must be at least a second. All
	// programs that open one store should use the same TTL.
	TTL time.Duration
	// Clock returns the time for leases and lists; nil means time.Now. The server expires threads by its own
	// clock.
	Clock func() time.Time
	// Prefix begins each key, so that several stores can share a server; "" means "segno:".
	Prefix string
	// Key, if not nil, seals all values. It is 32 random bytes. [kv.Options] lists the facts that a reader
	// learns without the key. If the key is not the store's, Open returns [segno.KindRefused].
	Key []byte
}

// Store is a [segno.Store]. It also implements [segno.Chains], [segno.Leaser], [segno.Eraser],
// [segno.Checker] and [segno.Watcher].
type Store struct {
	*kv.Store
	client *goredis.Client // nil if the caller closes the client
}

// Open connects to the server of a URL, "redis://user:password@host:port/db", or "rediss://" for TLS. The
// error has [segno.KindIO] if the server does not answer. The client that Open makes logs nothing about
// connections; with OpenClient, the caller's client decides that.
func Open(ctx context.Context, url string, o Options) (*Store, error) {
	options, err := goredis.ParseURL(url)
	if err != nil { // the cause may contain a password
		return nil, segno.Errorf(segno.KindInvalid, "open store", "", "the address is not a redis:// or rediss:// URL")
	}
	options.ContextTimeoutEnabled = true
	silence(options)
	client := goredis.NewClient(options)
	s, err := OpenClient(ctx, client, o)
	if err != nil {
		_ = client.Close() // the caller needs err
		return nil, err
	}
	s.client = client
	return s, nil
}

// OpenClient is Open with a client that the caller made, for example for a cluster, for sentinels, or with
// other options. The caller closes the client after the store.
func OpenClient(ctx context.Context, client goredis.UniversalClient, o Options) (*Store, error) {
	if o.Prefix == "" {
		o.Prefix = "segno:"
	}
	in, err := newKV(client, o.Prefix)
	if err != nil {
		return nil, err
	}
	s, err := kv.Open(ctx, in, kv.Options{TTL: o.TTL, Clock: o.Clock, Key: o.Key})
	if err != nil {
		return nil, err
	}
	return &Store{Store: s}, nil
}

// Close implements [segno.Store].
func (s *Store) Close() error {
	err := s.Store.Close()
	if s.client != nil {
		if errClient := s.client.Close(); err == nil && !errors.Is(errClient, goredis.ErrClosed) {
			err = fail("close store", "", errClient)
		}
	}
	return err
}
