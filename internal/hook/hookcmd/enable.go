package hookcmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agents"
	"github.com/dalsegno/segno/internal/cli"
	"github.com/dalsegno/segno/internal/hook"
	"github.com/dalsegno/segno/internal/hook/event"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/transcript/codex"
)

func (a *app) enable() *cobra.Command {
	var project, trust, noSteps bool
	c := &cobra.Command{
		Use: "enable AGENT", Short: "record every turn of an agent from now on",
		Long: `Adds segno's hooks to the agent's settings, keeps the other settings, and takes a first
snapshot of this directory. By default it edits the user's settings, so that every
session of the agent is recorded in every directory; --project limits that to this
directory. It prints the name of the edited file, keeps a backup, and lists the paths that
segno protects here, which it neither stores nor changes. 'segno disable AGENT' removes
the hooks. AGENT is ` + anyOf(agents.WithHooks()) + `. OpenCode has no hooks for commands: it gets
a plugin file, and its settings stay as they are.

Codex runs new hooks only after you reviewed them: start codex and trust them there. segno
never does that for you; 'segno doctor' shows what is missing. Until then, and in versions
without hooks, Codex notifies segno of the end of each turn, by the setting notify in
config.toml. A command that you have there is run as before.

After each call of a tool that writes the files that it names, the hook saves these files, so
that 'segno restore t7.3' can write them as they were after the third call of turn 7.
--no-steps leaves that out.

A directory that another user owns is not recorded, just as git refuses it without
safe.directory: its files could mislead you. --trust accepts its owner.`,
		Example: "  segno enable claude\n  segno enable claude --project\n  segno enable codex\n  segno enable opencode",
		Args:    agentArg, ValidArgs: agents.WithHooks(),
		RunE: func(c *cobra.Command, args []string) error {
			return a.runEnable(c.Context(), args[0], project, trust, noSteps)
		},
	}
	c.Flags().BoolVar(&project, "project", false, "in this project only ("+strings.Join(agents.ProjectFiles(), ", ")+")")
	c.Flags().BoolVar(&noSteps, "no-steps", false, "save no files after the tool calls of a turn")
	c.Flags().BoolVar(&trust, "trust", false, "record this directory although another user owns it")
	a.WriteFlags(c)
	return c
}

func (a *app) disable() *cobra.Command {
	var project bool
	c := &cobra.Command{
		Use: "disable AGENT", Short: "stop recording an agent's turns",
		Long: `Removes segno's hooks from the agent's settings. If the file was not edited since 'segno
enable', it becomes byte for byte what it was before. The setting notify of Codex becomes
what it was before. Recorded turns stay.`,
		Example: "  segno disable claude\n  segno disable codex",
		Args:    agentArg, ValidArgs: agents.WithHooks(),
		RunE: func(c *cobra.Command, args []string) error { return a.runDisable(args[0], project) },
	}
	c.Flags().BoolVar(&project, "project", false, "in this project only")
	a.WriteFlags(c)
	return c
}

func agentArg(c *cobra.Command, args []string) error {
	if len(args) == 1 && slices.Contains(agents.WithHooks(), args[0]) {
		return nil
	}
	if len(args) == 1 {
		if similar := cli.Similar(args[0], agents.WithHooks()); similar != "" {
			return segno.Errorf(segno.KindInvalid, c.Name(), "", "unknown agent %q", args[0]).WithHint("did you mean 'segno " + c.Name() + " " + similar + "'?")
		}
	}
	return errors.New("name the agent: " + anyOf(agents.WithHooks()))
}

// anyOf lists words as alternatives.
func anyOf(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// settings returns the agent's settings file that enable and disable edit.
func (a *app) settings(agent string, project bool) (local.Place, string, error) {
	dir := ""
	place, err := a.OpenPlace()
	if err == nil && project {
		dir, err = a.WorkDir()
	}
	if err != nil {
		return place, "", err
	}
	file, err := hook.SettingsFile(place, agent, dir)
	return place, file, err
}

type enableResult struct {
	Agent   string     `json:"agent"`
	File    string     `json:"file"`
	Backup  string     `json:"backup"`
	Changed bool       `json:"changed"`
	Exact   bool       `json:"exact,omitempty"` // disable: the file equals the one before enable
	Command []string   `json:"command,omitempty"`
	Dir     string     `json:"dir,omitempty"`
	Files   int        `json:"files,omitempty"`
	Tree    segno.Hash `json:"snapshot,omitzero"`
	Project bool       `json:"project"` // only sessions in this directory are recorded
	// Protected are the paths in Dir that segno neither stores nor changes.
	Protected []protectedItem `json:"protected,omitempty"`
	Refused   string          `json:"refused,omitempty"` // why this directory is not recorded
	DryRun    bool            `json:"dry_run,omitempty"`

	// Probe is the check that the hooks run, as 'segno doctor' makes it.
	Probe *hook.Probe `json:"probe,omitempty"`

	// Notify is the agent's other settings file, with the command for the end of a turn.
	Notify *notifyResult `json:"notify,omitempty"`

	FileBytes   []byte `json:"file_bytes,omitempty"`
	BackupBytes []byte `json:"backup_bytes,omitempty"`
	DirBytes    []byte `json:"dir_bytes,omitempty"`
}

// notifyResult describes the edit of the file with the command for the end of a turn.
type notifyResult struct {
	File    string `json:"file"`
	Backup  string `json:"backup"`
	Changed bool   `json:"changed"`
	Exact   bool   `json:"exact,omitempty"`

	FileBytes   []byte `json:"file_bytes,omitempty"`
	BackupBytes []byte `json:"backup_bytes,omitempty"`
}

func (a *app) newEnableResult(agent string, edit hook.Edit) enableResult {
	res := enableResult{Agent: agent, File: edit.File, Backup: edit.Backup, Changed: edit.ChangesFile(), Exact: edit.Exact, DryRun: a.DryRun,
		FileBytes: segno.PathBytes(edit.File), BackupBytes: segno.PathBytes(edit.Backup)}
	if n := edit.Notify; n != nil {
		res.Notify = &notifyResult{File: n.File, Backup: n.Backup, Changed: n.Changed(), Exact: n.Exact,
			FileBytes: segno.PathBytes(n.File), BackupBytes: segno.PathBytes(n.Backup)}
	}
	return res
}

// protectedItem is one path that segno does not store.
type protectedItem struct {
	Path string `json:"path"`
	Why  string `json:"why"`
}

func (a *app) runEnable(ctx context.Context, agent string, project, trust, noSteps bool) error {
	place, file, err := a.settings(agent, project)
	if err != nil {
		return err
	}
	self, err := a.Self()
	if err != nil {
		return err
	}
	var flags []string
	if noSteps {
		flags = append(flags, event.NoStepsArg)
	}
	edit, err := hook.PlanEnable(place, agent, file, self, flags...)
	if err != nil {
		return err
	}
	res := a.newEnableResult(agent, edit)
	res.Command, res.Project = append(self, "hook", agent), project
	if a.DryRun {
		return a.Print(res, func(p *cli.Printer) {
			if res.Changed {
				a.printEdit(p.Linef, "would edit", res.File, res.Backup)
			} else {
				p.Linef("%s has segno's hooks already", a.homePath(res.File))
			}
			if n := res.Notify; n != nil && n.Changed {
				a.printEdit(p.Linef, "would edit", n.File, n.Backup)
			}
		})
	}
	if edit.Changed() {
		if res.Changed {
			a.printEdit(a.Notef, "editing", edit.File, edit.Backup)
		}
		if n := res.Notify; n != nil && n.Changed {
			a.printEdit(a.Notef, "editing", n.File, n.Backup)
		}
		if err := edit.Apply(place, true); err != nil {
			return editError("enable "+agent, edit.File, err)
		}
	}
	if err := a.firstSnapshot(ctx, &res, trust); err != nil {
		return fmt.Errorf("the hooks are installed, but the first snapshot was not taken: %w", err)
	}
	probe := hook.ProbeHooks(ctx, place, agent, file, res.Dir, a.Environ())
	res.Probe = &probe
	return a.Print(res, func(p *cli.Printer) { a.writeEnabled(p, res) })
}

// editError returns the error for settings that could not be written. It keeps the kind of an error that has one.
func editError(op, file string, err error) error {
	kind := segno.KindOf(err)
	if kind == segno.KindInternal {
		kind = segno.KindIO
	}
	return segno.NewError(kind, op, file, err)
}

// writeEnabled prints which sessions are recorded from now on, and what the first snapshot of this
// directory contains and leaves out.
func (a *app) writeEnabled(p *cli.Printer, res enableResult) {
	is := "is enabled"
	if !res.Changed {
		is = "was enabled already"
	}
	if res.Project {
		p.Linef("%s %s in this project", res.Agent, is)
	} else {
		p.Linef("%s %s in all directories; --project enables it in one", res.Agent, is)
	}
	if !res.Changed {
		p.Linef("its hooks are in %s", a.homePath(res.File))
	}
	if res.Dir != "" {
		p.Linef("first snapshot of %s: %s", a.homePath(res.Dir), cli.Files(res.Files))
	}
	if res.Refused != "" {
		p.Linef("sessions that start in this directory are not recorded: %s", cli.Inline(res.Refused))
	}
	const most = 10
	for i, x := range res.Protected {
		if i == most {
			p.Linef("  and %d more, see --json", len(res.Protected)-most)
			break
		}
		if i == 0 {
			p.Linef("protected here (not stored, never changed):")
		}
		p.Linef("  %s (%s)", cli.Inline(x.Path), cli.Inline(x.Why))
	}
	a.writeProbe(p, res)
}

// writeProbe prints whether the hooks work, or what is missing.
func (a *app) writeProbe(p *cli.Printer, res enableResult) {
	switch probe := res.Probe; {
	case probe.Fires && res.Refused != "":
		p.Linef("the hooks work in other directories")
		return
	case probe.Fires:
		p.Linef("the hooks work; use %s as before, and 'segno undo' undoes its last turn", res.Agent)
		return
	case res.Agent == codex.Agent && (len(probe.Review) > 0 || probe.Error != ""):
		p.Linef("codex runs these hooks only once you trust them:")
		p.Linef("  start it, and review them when it asks, or type /hooks")
	default:
		p.Linef("%s %s", p.Warn("the hooks do not work yet:"), cli.Inline(probe.Error))
	}
	if n := res.Notify; n != nil {
		p.Linef("until then only the ends of turns are recorded, by notify in %s", a.homePath(n.File))
	}
	p.Linef("'segno doctor' checks that the hooks run")
}

// printEdit prints which file is edited, and its backup, on lines that fit a terminal.
func (a *app) printEdit(linef func(format string, args ...any), what, file, backup string) {
	linef("%s %s", what, a.homePath(file))
	linef("  backup: %s", a.homePath(backup))
}

// homePath shortens a path in the user's home, as a shell accepts it.
func (a *app) homePath(path string) string {
	if rest, ok := strings.CutPrefix(path, a.Getenv("HOME")+"/"); ok && a.Getenv("HOME") != "" {
		path = "~/" + rest
	}
	return cli.Inline(path)
}

// firstSnapshot takes the first snapshot of the directory. If the directory cannot be a workspace,
// only the hooks are enabled. trust accepts that another user owns the directory.
func (a *app) firstSnapshot(ctx context.Context, res *enableResult, trust bool) error {
	d, err := a.OpenOrRegister(ctx)
	if err != nil && trust {
		place, placeErr := a.OpenPlace()
		if placeErr != nil {
			return placeErr
		}
		root, trustErr := place.Trust(ctx, err)
		if trustErr != nil {
			return trustErr
		}
		if root != "" {
			a.Notef("recording %s although another user owns it", cli.Inline(root))
			d, err = a.OpenOrRegister(ctx)
		}
	}
	if segno.KindOf(err) == segno.KindRefused {
		res.Refused = err.Error()
		if hint := segno.HintOf(err); hint != "" {
			a.Notef("hint: %s", hint)
		}
		return nil
	}
	if err != nil {
		return err
	}
	defer d.Close()
	snap, err := d.Timeline.SnapshotBase(ctx)
	if err != nil {
		return err
	}
	res.Dir, res.DirBytes, res.Files, res.Tree = d.Rec.Path, segno.PathBytes(d.Rec.Path), snap.Files, snap.Tree
	all, err := d.Timeline.Workspace.Diff(ctx, segno.Hash{}, snap.Tree)
	for _, c := range all {
		if c.To.Type == segno.EntityProtected {
			res.Protected = append(res.Protected, protectedItem{c.Path, c.To.Why})
		}
	}
	return err
}

func (a *app) runDisable(agent string, project bool) error {
	place, file, err := a.settings(agent, project)
	if err != nil {
		return err
	}
	edit, err := hook.PlanDisable(place, agent, file)
	if err != nil {
		return err
	}
	res := a.newEnableResult(agent, edit)
	if !a.DryRun && edit.Changed() {
		if err := edit.Apply(place, false); err != nil {
			return editError("disable "+agent, edit.File, err)
		}
	}
	return a.Print(res, func(p *cli.Printer) {
		p.Linef("%s %s", cli.Inline(res.File), a.disabled(res.Changed, res.Exact, "has no hooks of segno", "hooks"))
		if n := res.Notify; n != nil && n.Changed {
			p.Linef("%s %s", cli.Inline(n.File), a.disabled(n.Changed, n.Exact, "", "command"))
		}
	})
}

// disabled describes what disable did with a file that contained entries of segno. It returns none for a file without
// such entries.
func (a *app) disabled(changed, exact bool, none, what string) string {
	switch {
	case a.DryRun && changed:
		return "would no longer have segno's " + what
	case changed && exact:
		return "is byte for byte the same as before 'segno enable'"
	case changed:
		return "no longer has segno's " + what + "; other edits are kept"
	}
	return none
}
