package insightcmd

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agents"
	"github.com/dalsegno/segno/agents/profile"
	"github.com/dalsegno/segno/insight/internal/plugin"
	"github.com/dalsegno/segno/internal/cli"
	"github.com/dalsegno/segno/internal/vfs"
)

// pluginItem is one element of plugin --json.
type pluginItem struct {
	Agent    string   `json:"agent"`
	Dir      string   `json:"dir"`
	DirBytes []byte   `json:"dir_bytes,omitempty"`
	Files    []string `json:"files"`
	Install  []string `json:"install"` // the commands that install it
}

func (a *app) plugin() *cobra.Command {
	var agent string
	var readOnly bool
	var names []string
	for _, p := range agents.WithPlugins() {
		names = append(names, p.Name)
	}
	c := &cobra.Command{
		Use: "plugin DIR", Short: "write plugins with segno's commands and tools for agents",
		Long: `Writes a plugin of Claude Code, a plugin of Codex and an extension of Gemini CLI into the
directories claude, codex and gemini of DIR, or that of one agent into DIR itself. Each has the
commands undo, redo, restore, fork, save, log and search, a skill that explains them to the
model, and starts 'segno mcp'. The command prints how to install them. It changes no settings.

A plugin has no hooks: 'segno enable AGENT' records the turns.`,
		Example: "  segno plugin ~/segno-plugin --agent claude\n  claude plugin marketplace add ~/segno-plugin && claude plugin install segno@segno",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if agent != "" && !slices.Contains(names, agent) {
				return segno.Errorf(segno.KindInvalid, "plugin", agent, "segno makes no plugin for this agent").WithHint("use " + strings.Join(names, ", "))
			}
			return a.runPlugin(args[0], agent, readOnly)
		},
	}
	c.Flags().StringVar(&agent, "agent", "", "only for `AGENT`: "+strings.Join(names, ", "))
	cli.CompleteFlag(c, "agent", cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp))
	c.Flags().BoolVar(&readOnly, "read-only", false, "without the tools that move")
	return c
}

func (a *app) runPlugin(dir, agent string, readOnly bool) error {
	wd, err := a.WorkDir()
	if err != nil {
		return err
	}
	self, err := a.Self()
	if err != nil {
		return err
	}
	command := append(self, "mcp")
	if !readOnly {
		command = append(command, "--allow-moves")
	}
	var items []pluginItem
	for _, p := range agents.WithPlugins() {
		at := filepath.Join(cli.Absolute(wd, dir), p.Name)
		switch agent {
		case "":
		case p.Name:
			at = cli.Absolute(wd, dir)
		default:
			continue
		}
		item, err := a.writePlugin(p, at, command)
		if err != nil {
			return err
		}
		items = append(items, item)
	}
	return a.Print(items, func(p *cli.Printer) {
		for _, x := range items {
			p.Linef("%s: %s in %s; to install it:", x.Agent, cli.Files(len(x.Files)), cli.QuotePath(x.Dir))
			for _, line := range x.Install {
				p.Linef("  %s", line)
			}
		}
	})
}

func (a *app) writePlugin(p profile.Profile, dir string, command []string) (pluginItem, error) {
	layout := p.Plugin()
	item := pluginItem{Agent: p.Name, Dir: dir, DirBytes: segno.PathBytes(dir)}
	files, err := plugin.Files(layout, plugin.Values{Version: a.BuildVersion(), Command: command})
	if err != nil {
		return item, err
	}
	for name := range files {
		item.Files = append(item.Files, name)
	}
	slices.Sort(item.Files)
	for _, line := range layout.Install {
		item.Install = append(item.Install, strings.ReplaceAll(line, "DIR", cli.ShellQuote(dir)))
	}
	return item, plugin.Write(vfs.OS, dir, files)
}
