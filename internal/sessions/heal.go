package sessions

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/cli"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/timeline"
	"github.com/dalsegno/segno/transcript"
	"github.com/dalsegno/segno/transcript/claude"
	"github.com/dalsegno/segno/transcript/codex"
)

func (a *app) heal() *cobra.Command {
	var dry bool
	var o transcript.LintOptions
	c := &cobra.Command{
		Use:   "heal SESSION",
		Short: "repair a copy of a damaged session",
		Long: `Checks the transcript of a session against what its agent and the API of its model accept:
lines that the agent skips, records whose loss hides all earlier turns, values that make the agent
refuse the session, calls of tools without a result, images that the API rejects, turns that two
processes wrote at once. Each finding shows its line, what the agent does with it, and what the
repair does. The end shows how many messages of the session and of the copy the agent reads.

The repair writes a copy under a new id; the session itself stays as it is. Lines without damage
keep their bytes. If the session belongs to a thread, 'segno resume' continues with the copy.
SESSION is the id of a session, the first letters of it, or the path of a transcript. The copy
continues in the directory of the session, or in the current one if that is gone.
With --dry-run nothing is written, and damage is exit code 6.`,
		Example: "  segno sessions heal 0b6a1f3e --dry-run\n  segno sessions heal 0b6a1f3e",
		Args:    cobra.ExactArgs(1),
		RunE:    func(c *cobra.Command, args []string) error { return a.runHeal(c.Context(), args[0], dry, o) },
	}
	c.Flags().BoolVar(&o.Join, "join", false, "also bring back turns that another process, or going back to an earlier message, left beside the conversation")
	c.Flags().BoolVar(&dry, "dry-run", false, "only show the damage")
	return c
}

// healResult is the JSON output of segno sessions heal.
type healResult struct {
	Agent    string               `json:"agent"`
	Session  segno.SessionID      `json:"session"`
	Path     string               `json:"path"`
	Findings []transcript.Finding `json:"findings"`
	Reads    transcript.Reading   `json:"reads"`  // the part of the session that the agent reads
	Healed   *healedItem          `json:"healed"` // null if heal wrote no copy

	PathBytes []byte `json:"path_bytes,omitempty"`
}

// healedItem is the repaired copy of a session.
type healedItem struct {
	Session segno.SessionID `json:"session"`
	Thread  segno.ThreadID  `json:"thread"` // "" if the session belongs to none
	Path    string          `json:"path"`
	Dir     string          `json:"dir"`
	Command []string        `json:"command"`

	Reads transcript.Reading `json:"reads"` // the part of the copy that the agent reads

	PathBytes []byte `json:"path_bytes,omitempty"`
	DirBytes  []byte `json:"dir_bytes,omitempty"`
}

func (a *app) runHeal(ctx context.Context, name string, dry bool, o transcript.LintOptions) error {
	place, err := a.OpenPlace()
	if err != nil {
		return err
	}
	d, err := a.sessionToHeal(ctx, place, name)
	if err != nil {
		return err
	}
	res := healResult{Agent: d.Agent, Session: d.Session, Path: d.Path, PathBytes: segno.PathBytes(d.Path)}
	src := segno.Source{Session: d.Session, Path: d.Path, Dir: d.Dir}
	found, err := place.CheckSession(ctx, d.Agent, src, o)
	if err != nil {
		return err
	}
	res.Findings, res.Reads = found.Findings, found.Before
	if len(res.Findings) > 0 && !dry && found.CanContinue() {
		h, err := a.healSession(ctx, d, o)
		if err != nil {
			return err
		}
		res.Findings = h.Findings
		res.Healed = &healedItem{Session: h.To.Session, Thread: h.Thread, Path: h.To.Path, Dir: h.To.Dir, Command: h.Run, Reads: h.After,
			PathBytes: segno.PathBytes(h.To.Path), DirBytes: segno.PathBytes(h.To.Dir)}
	}
	if res.Findings == nil {
		res.Findings = []transcript.Finding{}
	}
	err = a.PrintLong(res, func(p *cli.Printer) { a.writeHealed(p, res) })
	switch {
	case err != nil:
		return err
	case !found.CanContinue():
		return segno.Errorf(segno.KindCorrupt, "heal session", string(d.Session), "%s cannot continue it: %s", agentName(d.Agent), cmp.Or(found.After.Refusal, "no message is left")).
			WithHint("if segno recorded the session, continue it with 'segno resume' at a checkpoint, which has its own copy")
	case !dry || len(res.Findings) == 0:
		return nil
	}
	again := cli.Short(d.Session)
	if isPath(name) {
		again = cli.ShellQuote(name)
	}
	return segno.Errorf(segno.KindCorrupt, "check session", string(d.Session), "%s", cli.Plural(len(res.Findings), "finding")).
		WithHint("run 'segno sessions heal " + again + "' to repair a copy")
}

// healSession writes a repaired copy of a session. The timeline has the workspace of the session's
// directory if that workspace is known.
func (a *app) healSession(ctx context.Context, d local.SessionDetail, o transcript.LintOptions) (timeline.Healed, error) {
	store, err := a.OpenOrMakeStore(ctx)
	if err != nil {
		return timeline.Healed{}, err
	}
	defer store.Close()
	tl := store.SessionTimeline()
	if rec, err := store.Find(ctx, d.Dir); err == nil {
		if tl, err = store.Timeline(rec, nil); err != nil {
			return timeline.Healed{}, err
		}
	}
	return tl.HealSession(ctx, cli.KeepRequest(ctx, store, d), o)
}

// sessionToHeal returns the session with an id, a prefix of an id, or a path. Its directory is the
// one that its transcript records. It is the current directory if the transcript is too damaged to
// record one, if the recorded directory is gone, or if the project was moved here together with its
// transcripts.
func (a *app) sessionToHeal(ctx context.Context, place local.Place, name string) (d local.SessionDetail, err error) {
	if d.FoundSession, err = a.sessionFile(ctx, place, name); err != nil {
		return d, err
	}
	if all, err := place.Details(ctx, nil, []local.FoundSession{d.FoundSession}); err == nil {
		d = all[0]
	}
	wd, err := a.WorkDir()
	if err != nil {
		return d, err
	}
	if fi, err := os.Stat(d.Dir); !filepath.IsAbs(d.Dir) || err != nil || !fi.IsDir() || d.Agent == claude.Agent && isSessionOf(d.Path, wd) && !isSessionOf(d.Path, d.Dir) {
		d.Dir = wd
	}
	return d, nil
}

// isSessionOf reports whether Claude Code, when it runs in dir, finds the transcript at path.
func isSessionOf(path, dir string) bool {
	return filepath.Base(filepath.Dir(path)) == claude.Slug(dir)
}

// isPath reports whether the user named a session by the path of its transcript.
func isPath(name string) bool {
	return strings.ContainsRune(name, filepath.Separator) || strings.HasSuffix(name, ".jsonl")
}

// sessionFile returns the transcript at a path, or the session of an agent with the id or the prefix name.
func (a *app) sessionFile(ctx context.Context, place local.Place, name string) (local.FoundSession, error) {
	if !isPath(name) {
		return a.SessionNamed(ctx, place, nil, name)
	}
	_, wd, err := a.PlaceAndDir()
	if err != nil {
		return local.FoundSession{}, err
	}
	path := cli.Absolute(wd, name)
	found, _ := place.FindSessions(ctx)
	if i := slices.IndexFunc(found, func(s local.FoundSession) bool { return s.Path == path || slices.Contains(s.Copies, path) }); i >= 0 {
		found[i].Path = path
		return found[i], nil
	}
	fi, err := os.Stat(path)
	if err != nil || !fi.Mode().IsRegular() {
		return local.FoundSession{}, segno.NewError(segno.KindNotFound, "find session", name, nil).WithHint("run 'segno sessions'")
	}
	s := local.FoundSession{Agent: claude.Agent, SessionFile: transcript.SessionFile{Path: path, Bytes: fi.Size(), Modified: fi.ModTime()}}
	base := strings.TrimSuffix(filepath.Base(path), ".jsonl")
	if s.Session = segno.SessionID(base); strings.HasPrefix(base, "rollout-") {
		s.Agent, s.Session = codex.Agent, segno.SessionID(base[max(0, len(base)-36):])
	}
	return s, nil
}

func (a *app) writeHealed(p *cli.Printer, res healResult) {
	if len(res.Findings) == 0 {
		if res.Reads.Refusal == "" {
			p.Linef("no damage found in %s; %s", cli.Inline(string(res.Session)), readsText(res.Agent, res.Reads, ""))
		}
		return
	}
	for i, f := range res.Findings {
		if i == maxFindings {
			p.Linef("and %s; --json lists all", cli.Plural(len(res.Findings)-i, "more finding"))
			break
		}
		p.Linef("line %d, byte %d: %s\n  %s\n  repair: %s", f.Line, f.Offset, p.Warn(f.Code), cli.Clean(f.Why), cli.Clean(f.Repair))
	}
	p.Linef("%s", readsText(res.Agent, res.Reads, ", or damaged"))
	if res.Healed == nil {
		return
	}
	p.Linef("wrote the repaired copy %s; %s stays as it is", cli.Inline(string(res.Healed.Session)), cli.Inline(string(res.Session)))
	p.Linef("of the copy, %s", readsText(res.Agent, res.Healed.Reads, ""))
	p.Linef("to continue there:\n  %s", a.RunIn(res.Healed.Dir, res.Healed.Command))
}

// readsText describes how much of a session its agent reads, and why it does not read the other messages.
// elsewhere is one more possible reason, or "".
func readsText(agent string, r transcript.Reading, elsewhere string) string {
	switch {
	case r.Refusal != "":
		return agentName(agent) + " does not continue the session: " + cli.Clean(r.Refusal)
	case r.Messages == r.Total:
		return fmt.Sprintf("%s reads all %s", agentName(agent), cli.Plural(r.Total, "message"))
	}
	return fmt.Sprintf("%s reads %d of %s; the others are beside the conversation or before a compaction%s", agentName(agent), r.Messages, cli.Plural(r.Total, "message"), elsewhere)
}

// agentName is the name of an agent whose sessions can be healed.
func agentName(agent string) string {
	return map[string]string{claude.Agent: "Claude Code", codex.Agent: "Codex"}[agent]
}

// maxFindings is the number of findings that heal prints without --json.
const maxFindings = 50
