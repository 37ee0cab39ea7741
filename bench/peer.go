package main

import (
	"bufio"
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/jackc/pgx/v5"
)

//go:embed langgraph
var langgraph embed.FS

// peer is one of LangGraph's savers in one configuration.
type peer struct {
	Engine string
	Mode   string
	Put    []float64
	Head   []float64
	List   []float64
	Bytes  int64

	times saverTimes
}

// langGraphSavers measures LangGraph's savers. The first call installs their packages from npm.
func langGraphSavers(ctx context.Context, dir, url string, messages []json.RawMessage) (all []peer, err error) {
	home, err := installPeers(ctx)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, "node", "--max-old-space-size=8192", filepath.Join(home, "peer.mjs"), dir, url)
	cmd.Stdin, cmd.Stderr = bytes.NewReader(bytes.Join(raw(messages), []byte("\n"))), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("run LangGraph's savers: %w", err)
	}
	lines := bufio.NewScanner(bytes.NewReader(out))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var p peer
		if err := json.Unmarshal(lines.Bytes(), &p); err != nil {
			return nil, fmt.Errorf("read LangGraph's figures: %w", err)
		}
		p.times = saverTimes{put: puts{took: durations(p.Put)}, head: durations(p.Head), list: durations(p.List), bytes: p.Bytes}
		all = append(all, p)
	}
	return all, lines.Err()
}

func raw(messages []json.RawMessage) (lines [][]byte) {
	for _, m := range messages {
		lines = append(lines, m)
	}
	return lines
}

func durations(ms []float64) (s sample) {
	for _, x := range ms {
		s = append(s, time.Duration(x*float64(time.Millisecond)))
	}
	return s
}

// installPeers puts the script and its packages into the user's cache.
func installPeers(ctx context.Context) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	home := filepath.Join(cache, "segno-bench", "langgraph")
	if err := os.MkdirAll(home, 0o755); err != nil {
		return "", err
	}
	err = fs.WalkDir(langgraph, "langgraph", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := langgraph.ReadFile(name)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(home, filepath.Base(name)), data, 0o644)
	})
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(filepath.Join(home, "node_modules", "better-sqlite3", "build", "Release", "better_sqlite3.node")); err == nil {
		return home, nil
	}
	for _, args := range [][]string{{"install", "--no-audit", "--no-fund", "--legacy-peer-deps"}, {"rebuild", "better-sqlite3"}} {
		cmd := exec.CommandContext(ctx, "npm", args...)
		cmd.Dir = home
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("npm %s of LangGraph's savers: %w: %s", args[0], err, out)
		}
	}
	return home, nil
}

// report adds a peer's rows.
func (p peer) report(b *bench, payload int) {
	name := fmt.Sprintf("LangGraph %s, %s", p.Engine, p.Mode)
	b.add("", name+": put + putWrites", p.times.put.took, is(p.times.put.took.growth(), "× last 20 to first 20"), is(float64(p.Bytes)/float64(payload), "× payload bytes"))
	b.add("", name+": head of 2 MB", p.times.head)
	b.add("", name+": list 100", p.times.list)
}

func postgresBytes(ctx context.Context, url string) (n int64, err error) {
	c, err := pgx.Connect(ctx, url)
	if err != nil {
		return 0, err
	}
	defer c.Close(ctx)
	err = c.QueryRow(ctx, `SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c JOIN pg_namespace s ON s.oid = c.relnamespace
		WHERE c.relkind = 'r' AND s.nspname !~ '^(pg_|lg_|information_schema)'`).Scan(&n)
	return n, err
}

// redisBytes returns the length of all values, without the server's overhead for each.
func redisBytes(ctx context.Context, addr string) (sum int64, err error) {
	c := goredis.NewClient(&goredis.Options{Addr: addr})
	defer c.Close()
	keys := c.Scan(ctx, 0, "*", 1000).Iterator()
	for keys.Next(ctx) {
		n, err := c.MemoryUsage(ctx, keys.Val()).Result()
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, keys.Err()
}
