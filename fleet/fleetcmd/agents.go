package fleetcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/agent/tool"
	"github.com/dalsegno/segno/internal/chat"
)

// toolKinds has the values of the setting tools for a thread without a workspace.
func toolKinds() map[string]func() []agent.Tool {
	return map[string]func() []agent.Tool{
		"todos": func() []agent.Tool { return []agent.Tool{tool.Todos()} },
		"files": func() []agent.Tool { return tool.Files(tool.InState()) }, // in every checkpoint, so they are on every machine
	}
}

// builder makes the agents of a file.
type builder struct {
	file   *agentsFile
	models chat.Models
	getenv func(string) string
	store  segno.Store
}

// own returns segno's own agents without a workspace, by name. It opens the models of all, and checks that this machine has their
// sandboxes, and the variables of commands.
func (b *builder) own(ctx context.Context) (map[string]*agent.Agent, error) {
	all := map[string]*agent.Agent{}
	for i := range b.file.Agents {
		spec := &b.file.Agents[i]
		if spec.isACP() {
			if _, err := b.environment(spec); err != nil {
				return nil, err
			}
			continue
		}
		model, err := b.model(spec)
		if err != nil {
			return nil, err
		}
		if err := spec.checkCommands(ctx); err != nil {
			return nil, err
		}
		if spec.Workspace {
			continue
		}
		all[spec.Name] = agent.New(b.config(spec, model, toolKinds()))
	}
	return all, nil
}

// commands returns the options of the tool execute.
func (a *agentSpec) commands() (tool.ExecuteOptions, error) {
	sandbox, err := tool.ParseSandbox(cmp.Or(a.Sandbox, "none"))
	return tool.ExecuteOptions{Sandbox: sandbox}, err
}

// checkCommands returns an error if commands cannot run on this machine as the agent's settings require.
func (a *agentSpec) checkCommands(ctx context.Context) error {
	options, err := a.commands()
	if err == nil {
		err = options.Check(ctx)
	}
	if err != nil {
		return segno.Errorf(segno.KindOf(err), "start agent", a.Name, "sandbox %s: %s", a.Sandbox, reasonOf(err)).WithHint(segno.HintOf(err))
	}
	return a.checkUser()
}

// checkUser returns an error if the worker is not the user as whom the agent's commands run. The directories of threads belong to the user
// of the worker, so no other user can work in them.
func (a *agentSpec) checkUser() error {
	if a.User == "" {
		return nil
	}
	const op = "start agent"
	u, err := tool.LookupUser(a.User)
	if segno.KindOf(err) == segno.KindNotFound {
		return segno.Errorf(segno.KindNotFound, op, a.Name, "this machine has no user %q", a.User).WithHint(segno.HintOf(err))
	}
	if err != nil && segno.KindOf(err) != segno.KindRefused {
		return err
	}
	if int(u.UID) != os.Geteuid() {
		return segno.Errorf(segno.KindRefused, op, a.Name, "commands cannot run as the user %q: the files of a workspace belong to the user of the worker", a.User).
			WithHint("start the worker as this user")
	}
	return nil
}

// config returns the configuration of an agent.
func (b *builder) config(spec *agentSpec, model agent.Model, kinds map[string]func() []agent.Tool) agent.Config {
	c := agent.Config{Name: spec.Name, Model: model, System: spec.Instructions, Store: b.store, MaxSteps: spec.MaxSteps, MaxTokens: spec.MaxTokens,
		LeaseTime: time.Duration(b.file.Worker.Lease)}
	for _, name := range spec.Tools {
		c.Tools = append(c.Tools, kinds[name]()...)
	}
	if len(spec.Approve) > 0 {
		c.Approve = agent.RequireApproval(spec.Approve...)
	}
	return c
}

// model opens the model of an agent. Its key comes from a variable or a file, which the agent names, or from the variable that
// the provider usually uses.
func (b *builder) model(spec *agentSpec) (agent.Model, error) {
	invalid := func(format string, args ...any) error {
		return segno.Errorf(segno.KindInvalid, "open model", spec.Model, "agent %q: %s", spec.Name, fmt.Sprintf(format, args...))
	}
	key := ""
	switch {
	case spec.KeyEnv != "":
		if key = b.getenv(spec.KeyEnv); key == "" {
			return nil, segno.NewError(segno.KindInvalid, "", "", invalid("the variable %s is not set", spec.KeyEnv)).WithHint("set " + spec.KeyEnv + " for the worker")
		}
	case spec.KeyFile != "":
		text, err := b.file.read(spec.KeyFile, 64<<10)
		if key = strings.TrimSpace(text); err == nil && key == "" {
			err = errors.New("it is empty")
		}
		if err != nil {
			return nil, segno.NewError(segno.KindInvalid, "", "", invalid("key_file %s: %s", segno.QuotePath(spec.KeyFile), err)).WithHint("write the key into the file")
		}
	}
	model, err := b.models.Open(spec.Model, func(name string) string {
		switch {
		case strings.HasSuffix(name, "_API_KEY") && key != "":
			return key
		case strings.HasSuffix(name, "_BASE_URL"):
			return cmp.Or(spec.BaseURL, b.getenv(name))
		}
		return b.getenv(name)
	})
	if err != nil {
		return nil, segno.NewError(segno.KindInvalid, "", "", invalid("%s", reasonOf(err))).WithHint(hintOfModel(err))
	}
	return model, nil
}

// reasonOf returns why an error happened, without its operation and name, which the caller's error has.
func reasonOf(err error) error {
	if e := (*segno.Error)(nil); errors.As(err, &e) && e.Err != nil {
		return e.Err
	}
	return err
}

// hintOfModel returns the hint of an error of a model for the settings of a file instead of the flags of a command.
func hintOfModel(err error) string {
	hint := strings.ReplaceAll(segno.HintOf(err), ", or use --model offline", "; or name another one with key_env or key_file")
	return strings.Replace(hint, "use --model ", "use model = one of ", 1)
}

// names returns the names of the agents in the file, in order.
func (f *agentsFile) names() []string {
	names := map[string]bool{}
	for i := range f.Agents {
		names[f.Agents[i].Name] = true
	}
	return slices.Sorted(maps.Keys(names))
}
