package fleetcmd

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/agent/tool"
	"github.com/dalsegno/segno/fleet"
	"github.com/dalsegno/segno/fleet/runner"
	"github.com/dalsegno/segno/fleet/workspaces"
	"github.com/dalsegno/segno/internal/vfs"
)

// permissions has the values of the setting permissions.
func permissions() []string {
	return []string{string(runner.Ask), string(runner.Allow), string(runner.Refuse)}
}

// runners returns the runners of the agents whose threads have files, by name: those that speak ACP, and segno's own ones with a
// workspace.
func (b *builder) runners(f *fleet.Fleet) (map[string]fleet.Runner, error) {
	all := map[string]fleet.Runner{}
	caches := &tenantCaches{dir: b.file.Worker.Cache, store: b.store, bytes: b.file.Worker.CacheSize << 30, open: map[string]*workspaces.Cache{}}
	for i := range b.file.Agents {
		spec := &b.file.Agents[i]
		if spec.Workspace {
			model, err := b.model(spec)
			if err != nil {
				return nil, err
			}
			commands, err := spec.commands()
			if err != nil {
				return nil, err
			}
			all[spec.Name] = &goRunner{caches, runner.Go{Name: spec.Name, Store: b.store, Runner: f.AgentRunner,
				New: func(dir string, root *os.Root) agent.Config {
					return b.config(spec, model, b.dirTools(commands, dir, root))
				}}}
		}
		if !spec.isACP() {
			continue
		}
		env, err := b.environment(spec)
		if err != nil {
			return nil, err
		}
		all[spec.Name] = &acpRunner{caches, func(cache *workspaces.Cache) *runner.ACP {
			return &runner.ACP{Name: spec.Name, Command: spec.Command, Store: b.store, Cache: cache, Env: env,
				Permissions: runner.Permissions(cmp.Or(spec.Permissions, string(runner.Ask))), LeaseTime: time.Duration(b.file.Worker.Lease)}
		}}
	}
	if len(all) == 0 || caches.dir != "" {
		return all, nil
	}
	base := b.getenv("XDG_CACHE_HOME")
	if base == "" {
		home := b.getenv("HOME")
		if home == "" {
			return nil, segno.Errorf(segno.KindInvalid, "open cache", "", "there is no directory for the files of agents").WithHint("set cache in the table [worker]")
		}
		base = filepath.Join(home, ".cache")
	}
	caches.dir = filepath.Join(base, "segno", "workspaces")
	return all, nil
}

// environment returns the variables of the worker that the command of an agent receives.
func (b *builder) environment(spec *agentSpec) (env []string, err error) {
	for _, name := range spec.Env {
		value := b.getenv(name)
		if value == "" {
			return nil, segno.Errorf(segno.KindInvalid, "start agent", spec.Name, "the variable %s is not set", name).WithHint("set " + name + " for the worker")
		}
		env = append(env, name+"="+value)
	}
	return env, nil
}

// dirTools returns the tools that work in a directory, by their names in the setting tools. Commands receive no variable of the worker
// but these, because the others may be secrets.
func (b *builder) dirTools(commands tool.ExecuteOptions, dir string, root *os.Root) map[string]func() []agent.Tool {
	commands.Env = []string{"HOME=" + dir}
	for _, name := range []string{"PATH", "LANG", "TZ"} {
		if value := b.getenv(name); value != "" {
			commands.Env = append(commands.Env, name+"="+value)
		}
	}
	kinds := toolKinds()
	kinds["files"] = func() []agent.Tool { return tool.Files(tool.InDir(root)) }
	kinds["execute"] = func() []agent.Tool { return []agent.Tool{tool.Execute(dir, commands)} }
	return kinds
}

// tenantCaches has one cache for each tenant, because protected paths of a tenant stay in its directories between turns.
type tenantCaches struct {
	dir   string
	store segno.Store
	bytes int64

	mu   sync.Mutex
	open map[string]*workspaces.Cache
}

// of returns the cache of a tenant.
func (t *tenantCaches) of(tenant string) (*workspaces.Cache, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c := t.open[tenant]; c != nil {
		return c, nil
	}
	sum := sha256.Sum256([]byte(tenant))
	dir := filepath.Join(t.dir, hex.EncodeToString(sum[:8]))
	if err := vfs.MkdirAll(vfs.OS, t.dir); err != nil {
		return nil, segno.NewError(segno.KindIO, "open cache", t.dir, plainPathError(err))
	}
	c, err := workspaces.Open(dir, workspaces.Options{Objects: t.store.Objects(), MaxBytes: t.bytes})
	if err == nil {
		t.open[tenant] = c
	}
	return c, err
}

// acpRunner runs an agent that speaks ACP, with a copy of the thread's files in the cache of its tenant: [fleet.Runner].
type acpRunner struct {
	caches *tenantCaches
	agent  func(*workspaces.Cache) *runner.ACP
}

// Run implements [fleet.Runner].
func (r *acpRunner) Run(ctx context.Context, w fleet.Work) (fleet.Result, error) {
	cache, err := r.caches.of(w.Tenant)
	if err != nil {
		return fleet.Result{}, err
	}
	return r.agent(cache).Run(ctx, w)
}

// goRunner runs segno's own agent with a copy of the thread's files: [fleet.Runner].
type goRunner struct {
	caches *tenantCaches
	agent  runner.Go
}

// Run implements [fleet.Runner].
func (r *goRunner) Run(ctx context.Context, w fleet.Work) (fleet.Result, error) {
	cache, err := r.caches.of(w.Tenant)
	if err != nil {
		return fleet.Result{}, err
	}
	run := r.agent
	run.Cache = cache
	return run.Run(ctx, w)
}
