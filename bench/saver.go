package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/testing/serverrig"
	"github.com/dalsegno/segno/saver"
	"github.com/dalsegno/segno/store/file"
	"github.com/dalsegno/segno/store/kv/redis"
	"github.com/dalsegno/segno/store/memory"
	"github.com/dalsegno/segno/store/postgres"
	"github.com/dalsegno/segno/store/sqlite"
)

// saverSteps is the number of steps of the thread. A step is one message of 2 KB.
const saverSteps = 1000

// savers measures segno's savers and LangGraph's in one run, with the same thread and the
// same messages.
func savers(ctx context.Context, b *bench) (err error) {
	dir, err := b.scratch("savers")
	if err != nil {
		return err
	}
	messages := make([]json.RawMessage, saverSteps)
	payload := 0
	for i := range messages {
		if messages[i], err = saverMessage(i); err != nil {
			return err
		}
		payload += len(messages[i])
	}
	servers, err := startServers(ctx, dir)
	if err != nil {
		return err
	}
	defer func() { servers.stop() }()
	all, err := langGraphSavers(ctx, dir, servers.postgres.URL, messages)
	if err != nil {
		return err
	}
	for _, e := range servers.engines(dir) {
		fmt.Fprintf(b.talk, "  %s\n", e.name)
		m, err := measureSaver(ctx, dir, e, messages)
		if err != nil {
			return fmt.Errorf("%s: %w", e.name, err)
		}
		b.addSaver(e, m, all, payload)
	}
	for _, p := range all {
		p.report(b, payload)
	}
	return nil
}

// saverMessage returns a message of 2,000 characters in LangGraph's format.
func saverMessage(i int) (json.RawMessage, error) {
	r := rand.New(rand.NewPCG(uint64(i), 3))
	role := "human"
	if i%2 == 1 {
		role = "ai"
	}
	return json.Marshal(map[string]string{"type": role, "id": fmt.Sprintf("msg-%06d", i), "content": string(prose(r, 2000))})
}

// engine is one kind of segno store.
type engine struct {
	name       string
	durability string
	commits    segno.Durability
	peer       string // LangGraph's engine for the comparison, "" if there is none
	synced     bool   // the thread is on disk once the store is closed
	open       func(ctx context.Context) (segno.Store, error)
	bytes      func(ctx context.Context) (int64, error)
	served     bool // bytes queries a server
	packed     bool // it compresses its data, so the limit on bytes applies
}

// saverTimes are the measurements of one saver.
type saverTimes struct {
	put, added       puts // by Save, which is given all messages, and by Append, which is given the new one
	head, cold, list sample
	bytes, empty     int64 // the size of the two threads, and that of a server's empty tables
}

// puts are the times of one thread's puts, and those of an append and fsync of the same bytes before each.
type puts struct{ took, bare sample }

// measureSaver runs the workload, for Save and for Append.
func measureSaver(ctx context.Context, dir string, e engine, messages []json.RawMessage) (m saverTimes, err error) {
	store, err := e.open(ctx)
	if err != nil {
		return m, err
	}
	if e.served {
		if m.empty, err = e.bytes(ctx); err != nil {
			return m, err
		}
	}
	at := saver.ThreadKey{Thread: "t"}
	sv := saver.New(store)
	sv.Durability = e.commits
	save := func(now saver.Snapshot, msg json.RawMessage) (saver.Snapshot, error) {
		now.Messages = append(now.Messages, msg)
		return sv.Save(ctx, now)
	}
	add := func(now saver.Snapshot, msg json.RawMessage) (saver.Snapshot, error) { return sv.Append(ctx, now, msg) }
	if m.put, err = measurePuts(dir, at, messages, save); err != nil {
		return m, err
	}
	added := saver.ThreadKey{Thread: "added"}
	if m.added, err = measurePuts(dir, added, messages, add); err != nil {
		return m, err
	}
	if err := load(ctx, new(sample), store, added, messages); err != nil {
		return m, err
	}
	for range 7 {
		if err := load(ctx, &m.head, store, at, messages); err != nil {
			return m, err
		}
		if err := m.lists(ctx, store, at); err != nil {
			return m, err
		}
	}
	if e.served {
		m.bytes, err = e.bytes(ctx)
		m.bytes -= m.empty
	}
	if err := errors.Join(err, store.Close()); err != nil {
		return m, err
	}
	if e.bytes != nil && !e.served {
		if m.bytes, err = e.bytes(ctx); err != nil { // measured on disk after the store is closed
			return m, err
		}
	}
	if e.synced {
		err = m.reopened(ctx, e, at, messages)
	}
	return m, err
}

func measurePuts(dir string, at saver.ThreadKey, messages []json.RawMessage, save func(saver.Snapshot, json.RawMessage) (saver.Snapshot, error)) (p puts, err error) {
	log, err := os.CreateTemp(dir, "log-")
	if err != nil {
		return p, err
	}
	defer log.Close()
	now := saver.Snapshot{ThreadKey: at}
	for _, msg := range messages {
		began := time.Now()
		if _, err := log.Write(msg); err != nil {
			return p, err
		}
		if err := log.Sync(); err != nil {
			return p, err
		}
		p.bare = append(p.bare, time.Since(began))
		began = time.Now()
		if now, err = save(now, msg); err != nil {
			return p, err
		}
		p.took = append(p.took, time.Since(began))
	}
	return p, nil
}

// load times a load of the whole thread.
func load(ctx context.Context, into *sample, store segno.Store, at saver.ThreadKey, messages []json.RawMessage) error {
	began := time.Now()
	got, err := saver.New(store).Load(ctx, at)
	*into = append(*into, time.Since(began))
	if err != nil || len(got.Messages) != len(messages) || string(got.Messages[len(messages)-1]) != string(messages[len(messages)-1]) {
		return fmt.Errorf("the head has %d messages: %w", len(got.Messages), err)
	}
	return nil
}

func (m *saverTimes) lists(ctx context.Context, store segno.Store, at saver.ThreadKey) error {
	began, n := time.Now(), 0
	for _, err := range saver.New(store).History(ctx, at, segno.CheckpointQuery{Limit: 100}) {
		if err != nil {
			return err
		}
		n++
	}
	m.list = append(m.list, time.Since(began))
	if n != 100 {
		return fmt.Errorf("%d checkpoints listed", n)
	}
	return nil
}

// reopened measures loads of the thread in newly opened stores.
func (m *saverTimes) reopened(ctx context.Context, e engine, at saver.ThreadKey, messages []json.RawMessage) error {
	for range 7 {
		store, err := e.open(ctx)
		if err != nil {
			return err
		}
		if err := errors.Join(load(ctx, &m.cold, store, at, messages), store.Close()); err != nil {
			return err
		}
	}
	return nil
}

const edge = 20 // the number of puts that count as the first and as the last

func (s sample) growth() float64 { return s[len(s)-edge:].over(s[:edge]) }

// addSaver adds the rows of one of segno's engines.
func (b *bench) addSaver(e engine, m saverTimes, all []peer, payload int) {
	name := fmt.Sprintf("saver %s (%s)", e.name, e.durability)
	var size []claim
	switch ratio := func(n int64) float64 { return float64(n) / float64(2*payload) }; {
	case e.packed:
		size = append(size, atMost(0.7, ratio(m.bytes), "× payload bytes"))
	case e.bytes != nil:
		size = append(size, is(ratio(m.bytes), "× payload bytes, readable"))
	}
	if m.empty > 0 {
		size = append(size, is(float64(m.bytes+m.empty)/float64(2*payload), "× payload bytes with what the empty tables take"))
	}
	b.add("", name+": put", m.put.took, append(e.putClaims(m.put, all), size...)...)
	b.add("", name+": put of an added message", m.added.took, e.putClaims(m.added, all)...)
	b.add("", name+": head of 2 MB", m.head, best(all, e.peer, 1, m.head, func(p peer) sample { return p.times.head })...)
	if m.cold != nil {
		b.add("", name+": head of 2 MB, store just opened", m.cold)
	}
	b.add("", name+": list 100 infos", m.list, best(all, e.peer, 1, m.list, func(p peer) sample { return p.times.list })...)
}

// putClaims compares puts with the append and fsync beside them, and with LangGraph's.
func (e engine) putClaims(m puts, all []peer) []claim {
	claims := []claim{is(m.took[:edge].over(m.bare[:edge]), "× append + fsync, first 20")}
	if !e.synced || e.commits == segno.Batched {
		claims = append(claims, atMost(1.3, m.took.growth(), "× last 20 to first 20"))
	} else {
		claims = append(claims, atMost(1.3, m.took.growth()/m.bare.growth(), "× last 20 to first 20, the append's own drift taken out"), atMost(2, m.took.over(m.bare), "× append + fsync"))
	}
	fastest := 1.0
	if strings.HasPrefix(e.peer, "sqlite") {
		fastest = 0.8
	}
	return append(claims, best(all, e.peer, fastest, m.took, func(p peer) sample { return p.times.put.took })...)
}

// best compares with the fastest of LangGraph's configurations of the same engine. bar is the limit of the ratio.
func best(all []peer, engine string, bar float64, ours sample, of func(peer) sample) []claim {
	var fastest *peer
	for i := range all {
		if all[i].Engine == engine && (fastest == nil || of(all[i]).median() < of(*fastest).median()) {
			fastest = &all[i]
		}
	}
	if fastest == nil {
		return nil
	}
	return []claim{atMost(bar, ours.over(of(*fastest)), fmt.Sprintf("× LangGraph's fastest, %s", fastest.Mode))}
}

// servers are real database servers that only this run uses.
type servers struct{ postgres, redis *serverrig.Server }

func startServers(ctx context.Context, dir string) (s servers, err error) {
	// PostgreSQL runs as another user than root, who must be able to enter its directory.
	for _, way := range []string{filepath.Dir(dir), dir} {
		if err := os.Chmod(way, 0o755); err != nil {
			return s, err
		}
	}
	for _, name := range []string{"pg", "redis"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			return s, err
		}
	}
	if s.postgres, err = serverrig.Postgres(ctx, filepath.Join(dir, "pg")); err != nil {
		return s, err
	}
	if s.redis, err = serverrig.Redis(ctx, filepath.Join(dir, "redis")); err != nil {
		s.stop()
	}
	return s, err
}

func (s servers) stop() {
	for _, one := range []*serverrig.Server{s.postgres, s.redis} {
		if one != nil {
			one.Stop()
		}
	}
}

// engines returns segno's stores, the simplest first.
func (s servers) engines(dir string) []engine {
	db, batched, threads := filepath.Join(dir, "agent.db"), filepath.Join(dir, "batched.db"), filepath.Join(dir, "threads")
	return []engine{
		{name: "memory", durability: "none: it ends with the process", peer: "memory",
			open: func(context.Context) (segno.Store, error) { return memory.New(time.Now), nil }},
		{name: "file", durability: "fsync before return", synced: true,
			open:  func(ctx context.Context) (segno.Store, error) { return file.Open(ctx, threads, file.Options{}) },
			bytes: func(context.Context) (int64, error) { return diskBytes(threads) }},
		{name: "sqlite", durability: "fsync before return", synced: true, packed: true, peer: "sqlite FULL",
			open:  func(ctx context.Context) (segno.Store, error) { return sqlite.Open(ctx, db, sqlite.Options{}) },
			bytes: func(context.Context) (int64, error) { return fileBytes(db + "*") }},
		{name: "sqlite, batched", durability: "survives its process, not a power failure", commits: segno.Batched, synced: true, packed: true, peer: "sqlite NORMAL",
			open:  func(ctx context.Context) (segno.Store, error) { return sqlite.Open(ctx, batched, sqlite.Options{}) },
			bytes: func(context.Context) (int64, error) { return fileBytes(batched + "*") }},
		{name: "postgres", durability: "fsync before return", synced: true, packed: true, served: true, peer: "postgres",
			open: func(ctx context.Context) (segno.Store, error) {
				return postgres.Open(ctx, s.postgres.URL, postgres.Options{})
			},
			bytes: func(ctx context.Context) (int64, error) { return postgresBytes(ctx, s.postgres.URL) }},
		{name: "redis", durability: "appendfsync always: fsync before return", synced: true, packed: true, served: true,
			open:  func(ctx context.Context) (segno.Store, error) { return redis.Open(ctx, s.redis.URL, redis.Options{}) },
			bytes: func(ctx context.Context) (int64, error) { return redisBytes(ctx, s.redis.Addr) }},
	}
}

func fileBytes(pattern string) (sum int64, err error) {
	names, err := filepath.Glob(pattern)
	for _, name := range names {
		if strings.HasSuffix(name, "-shm") {
			continue
		}
		n, err := diskBytes(name)
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, err
}
