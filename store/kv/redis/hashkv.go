package redis

import (
	"context"
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"errors"
	"iter"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/store/kv"
	goredis "github.com/redis/go-redis/v9"
)

// hashKV is a [kv.KV] in Redis or Valkey. A group is one hash, and its keys are the fields of the hash, so
// that one EXPIRE applies to all of them and one HMGET reads them. The revision of a value is its
// SHA-1.
type hashKV struct {
	client  goredis.UniversalClient
	cluster bool
	prefix  string
}

var (
	_ kv.KV      = (*hashKV)(nil)
	_ kv.Batcher = (*hashKV)(nil)
)

// newKV returns a key-value store on a client; the caller closes the client. All keys begin with prefix,
// which must not contain a brace.
func newKV(client goredis.UniversalClient, prefix string) (*hashKV, error) {
	if strings.ContainsAny(prefix, "{}") {
		return nil, segno.Errorf(segno.KindInvalid, "open store", prefix, "the prefix contains a brace")
	}
	_, cluster := client.(*goredis.ClusterClient)
	return &hashKV{client: client, cluster: cluster, prefix: prefix}, nil
}

func (r *hashKV) split(key string) (hash, field string) {
	group := kv.Group(key)
	return r.prefix + group, key[len(group):]
}

func revOf(val []byte) kv.Rev {
	sum := sha1.Sum(val)
	return kv.Rev(hex.EncodeToString(sum[:]))
}

// Get implements [kv.KV].
func (r *hashKV) Get(ctx context.Context, key string) ([]byte, kv.Rev, error) {
	hash, field := r.split(key)
	val, err := r.client.HGet(ctx, hash, field).Bytes()
	if err != nil {
		return nil, "", fail("read key", key, err)
	}
	return val, revOf(val), nil
}

// Put implements [kv.KV].
func (r *hashKV) Put(ctx context.Context, key string, val []byte, ifRev kv.Rev) (kv.Rev, error) {
	revs, err := r.Batch(ctx, []kv.Op{{Key: key, Val: val, If: ifRev}})
	if err != nil {
		return "", err
	}
	return revs[0], nil
}

// Delete implements [kv.KV].
func (r *hashKV) Delete(ctx context.Context, key string, ifRev kv.Rev) error {
	_, err := r.Batch(ctx, []kv.Op{{Delete: true, Key: key, If: ifRev}})
	return err
}

// GetAll implements [kv.Batcher] with one command for each group, in one pipeline.
func (r *hashKV) GetAll(ctx context.Context, keys []string) ([][]byte, error) {
	var hashes []string
	fields, places := map[string][]string{}, map[string][]int{}
	for i, key := range keys {
		hash, field := r.split(key)
		if fields[hash] == nil {
			hashes = append(hashes, hash)
		}
		fields[hash], places[hash] = append(fields[hash], field), append(places[hash], i)
	}
	replies := make([]*goredis.SliceCmd, len(hashes))
	_, err := r.client.Pipelined(ctx, func(p goredis.Pipeliner) error {
		for i, hash := range hashes {
			replies[i] = p.HMGet(ctx, hash, fields[hash]...)
		}
		return nil
	})
	if err != nil && len(keys) > 0 {
		return nil, fail("read keys", keys[0], err)
	}
	vals := make([][]byte, len(keys))
	for i, hash := range hashes {
		for j, x := range replies[i].Val() {
			if text, there := x.(string); there {
				vals[places[hash][j]] = []byte(text)
			}
		}
	}
	return vals, nil
}

// batchText is the script that makes the changes of one call, either all or none.
//
//go:embed batch.lua
var batchText string

var batchScript = sync.OnceValue(func() *goredis.Script { return goredis.NewScript(batchText) })

// Batch implements [kv.Batcher] with one script on one server. In a cluster, where the keys of a script must
// be in one slot, it uses one script for each sequence of changes of the same group.
func (r *hashKV) Batch(ctx context.Context, ops []kv.Op) ([]kv.Rev, error) {
	for rest := ops; len(rest) > 0; {
		n := len(rest)
		if r.cluster {
			n = 1
			for n < len(rest) && kv.Group(rest[n].Key) == kv.Group(rest[0].Key) {
				n++
			}
		}
		if err := r.runScript(ctx, rest[:n]); err != nil {
			return nil, err
		}
		rest = rest[n:]
	}
	revs := make([]kv.Rev, len(ops))
	for i, o := range ops {
		if o.Val != nil {
			revs[i] = revOf(o.Val)
		}
	}
	return revs, nil
}

func (r *hashKV) runScript(ctx context.Context, ops []kv.Op) error {
	var keys []string
	index := map[string]int{}
	args := make([]any, 0, 7*len(ops))
	for _, o := range ops {
		hash, field := r.split(o.Key)
		if index[hash] == 0 {
			keys = append(keys, hash)
			index[hash] = len(keys)
		}
		act, alone := "check", ""
		switch {
		case o.Delete:
			act = "delete"
		case o.Val != nil:
			act = "put"
		}
		if o.Alone {
			alone = "alone"
		}
		args = append(args, index[hash], act, field, string(o.If), alone, o.TTL.Milliseconds(), o.Val)
	}
	failed, err := batchScript().Run(ctx, r.client, keys, args...).Int()
	if err != nil {
		return fail("write keys", ops[len(ops)-1].Key, err)
	}
	if failed > 0 {
		return segno.NewError(segno.KindConflict, "write key", ops[failed-1].Key, nil)
	}
	return nil
}

// List implements [kv.KV]. If a prefix does not contain a whole group, List searches the whole server and
// reads the groups one by one, so that their keys are in the order of the groups.
func (r *hashKV) List(ctx context.Context, prefix, after string, limit int) iter.Seq2[kv.Item, error] {
	return func(yield func(kv.Item, error) bool) {
		groups := []string{kv.Group(prefix)}
		if !strings.HasSuffix(groups[0], "}") {
			var err error
			if groups, err = r.groups(ctx, prefix); err != nil {
				yield(kv.Item{}, err)
				return
			}
		}
		n := 0
		for _, group := range groups {
			if group < kv.Group(after) {
				continue
			}
			keys, vals, err := r.list(ctx, group, prefix, after, max(0, limit-n))
			if err != nil {
				yield(kv.Item{}, err)
				return
			}
			for i, key := range keys {
				if vals[i] == nil {
					continue // the key was deleted meanwhile
				}
				if !yield(kv.Item{Key: key, Val: vals[i], Rev: revOf(vals[i])}, nil) {
					return
				}
				if n++; n == limit {
					return
				}
			}
		}
	}
}

// list reads the names of a group's fields, and then the values that it needs. If it needs the whole group,
// it reads both together.
func (r *hashKV) list(ctx context.Context, group, prefix, after string, limit int) (keys []string, vals [][]byte, err error) {
	if limit == 0 && !strings.HasPrefix(after, group) {
		return r.listGroup(ctx, group, prefix)
	}
	fields, err := r.client.HKeys(ctx, r.prefix+group).Result()
	if err != nil {
		return nil, nil, fail("list keys", group, err)
	}
	for _, field := range fields {
		if key := group + field; strings.HasPrefix(key, prefix) && key > after {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	if limit > 0 && len(keys) > limit {
		keys = keys[:limit]
	}
	if len(keys) > 0 {
		vals, err = r.GetAll(ctx, keys)
	}
	return keys, vals, err
}

// listGroup returns the keys of a group that begin with prefix, in one round trip.
func (r *hashKV) listGroup(ctx context.Context, group, prefix string) (keys []string, vals [][]byte, err error) {
	values, err := r.client.HGetAll(ctx, r.prefix+group).Result()
	for _, field := range slices.Sorted(maps.Keys(values)) {
		if key := group + field; strings.HasPrefix(key, prefix) {
			keys, vals = append(keys, key), append(vals, []byte(values[field]))
		}
	}
	return keys, vals, fail("list keys", group, err)
}

// groups returns the groups that begin with prefix.
func (r *hashKV) groups(ctx context.Context, prefix string) (groups []string, err error) {
	var mu sync.Mutex
	scan := func(ctx context.Context, c goredis.Cmdable) error {
		found := c.Scan(ctx, 0, pattern(r.prefix+prefix)+"*", 1000).Iterator()
		for found.Next(ctx) {
			mu.Lock()
			groups = append(groups, strings.TrimPrefix(found.Val(), r.prefix))
			mu.Unlock()
		}
		return found.Err()
	}
	if c, ok := r.client.(*goredis.ClusterClient); ok {
		err = c.ForEachMaster(ctx, func(ctx context.Context, c *goredis.Client) error { return scan(ctx, c) })
	} else {
		err = scan(ctx, r.client)
	}
	slices.Sort(groups)
	return slices.Compact(groups), fail("list keys", prefix, err)
}

// pattern returns a SCAN pattern that matches only text.
func pattern(text string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(text)
}

// busy matches the errors of a server that temporarily cannot answer.
var busy = regexp.MustCompile(`^(LOADING|BUSY|TRYAGAIN|CLUSTERDOWN|MASTERDOWN) `)

// fail converts an error of the client or the server to an error with a kind.
func fail(op, key string, err error) error {
	kind := segno.KindIO
	switch {
	case err == nil:
		return nil
	case errors.Is(err, goredis.Nil):
		return segno.NewError(segno.KindNotFound, op, key, nil)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		kind = segno.KindCancelled
	case strings.Contains(err.Error(), "WRONGTYPE"):
		kind = segno.KindCorrupt // the key is not one that segno wrote
	case busy.MatchString(err.Error()):
		kind = segno.KindBusy
	}
	return segno.NewError(kind, op, key, err)
}
