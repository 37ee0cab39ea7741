package webcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/cli"
	"github.com/dalsegno/segno/internal/cli/secretscan"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/internal/web/export"
)

type exportFlags struct {
	format, output, endpoint string
	all, redact              bool
	allow                    []string
}

func (f *exportFlags) add(c *cobra.Command) {
	c.Flags().StringVarP(&f.output, "output", "o", "", "the `FILE` to write; it must not exist")
	c.Flags().BoolVar(&f.all, "all", false, "with the lines of the thread that were undone")
	c.Flags().BoolVar(&f.redact, "redact", false, "leave out the secrets that the scan finds")
	c.Flags().StringArrayVar(&f.allow, "allow", nil, "allow the finding with this `FINGERPRINT`, now and later; repeatable")
}

const secretsHelp = `The text is scanned for secrets first. A finding refuses, and the message names the ways
to go on. The scan knows forms of credentials and cannot find every secret: give away only
what you have looked at.`

func (a *app) export() *cobra.Command {
	var flags exportFlags
	c := &cobra.Command{
		Use:   "export [CHECKPOINT|THREAD|COMMIT] --format FORMAT",
		Short: "write a thread or a turn in a format of other programs",
		Long: `Writes the turns of a thread (default: that of the directory), or one turn, to standard
output or to a file. The formats are

    markdown     to read, for example in a pull request
    jsonl        one JSON object a line: the thread, then each turn
    atif         a trajectory of the Agent Trajectory Interchange Format, version 1.7
    agent-trace  which lines of which files came from which turn: Agent Trace 0.1.0
    otlp         spans of OpenTelemetry, with the conventions for generative AI
    git-ai       the note of git-ai for a commit (default: HEAD): authorship/3.0.0

` + secretsHelp + `

With --endpoint the spans are sent to a collector, by HTTP. docs/export.md describes the
formats.`,
		Example: "  segno export --format markdown -o work.md\n  segno export t3 --format atif\n" +
			"  segno export --format otlp --endpoint http://127.0.0.1:4318",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: a.CompleteCheckpointsAndThreads(),
		RunE: func(c *cobra.Command, args []string) error {
			if flags.format == formatGitAI {
				if flags.all || flags.redact || len(flags.allow) > 0 || flags.endpoint+flags.output != "" {
					return cli.Usage(errors.New("--format git-ai takes no other flags"))
				}
				return a.InWorkspace(a.runExportNote)(c, args)
			}
			return a.runExport(c.Context(), append(args, "")[0], flags)
		},
	}
	flags.add(c)
	a.BucketFlag(c)
	c.Flags().StringVar(&flags.format, "format", "", "one of "+formatNames())
	c.Flags().StringVar(&flags.endpoint, "endpoint", "", "send spans to the collector at this `URL`")
	cli.CompleteFlag(c, "format", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return append(export.Formats(), formatGitAI), cobra.ShellCompDirectiveNoFileComp
	})
	return c
}

func (a *app) share() *cobra.Command {
	flags := exportFlags{format: "html"}
	c := &cobra.Command{
		Use:   "share [CHECKPOINT|THREAD] -o FILE",
		Short: "write a thread or a turn as one page, to give to others",
		Long: `Writes the turns of a thread (default: that of the directory), or one turn, as one HTML
file: prompts, answers, tool calls, differences and images. The page loads nothing, can be
read without scripts, and does nothing but unfold. It can be mailed, printed, or put on any
server.

` + secretsHelp,
		Example:           "  segno share -o work.html\n  segno share t3 -o turn.html --redact",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: a.CompleteCheckpointsAndThreads(),
		RunE: func(c *cobra.Command, args []string) error {
			if flags.output == "" {
				return cli.Usage(errors.New("share needs -o FILE"))
			}
			return a.runExport(c.Context(), append(args, "")[0], flags)
		},
	}
	flags.add(c)
	a.BucketFlag(c)
	return c
}

// exported is the result of export with -o or --endpoint, and of share.
type exported struct {
	File       string         `json:"file,omitempty"`
	FileBytes  []byte         `json:"file_bytes,omitempty"`
	Endpoint   string         `json:"endpoint,omitempty"`
	Format     string         `json:"format"`
	Thread     segno.ThreadID `json:"thread"`
	Checkpoint segno.CommitID `json:"checkpoint,omitempty"` // set for a single turn
	Turns      int            `json:"turns"`
	Bytes      int64          `json:"bytes"`
	Redacted   int            `json:"redacted"` // secrets that were left out
	Rejected   int64          `json:"rejected"` // spans that the collector did not take
	Missing    []string       `json:"missing"`  // parts that could not be read
}

// formatNames lists the formats of export.
func formatNames() string { return strings.Join(append(export.Formats(), formatGitAI), ", ") }

func (f *exportFlags) check() (to *url.URL, err error) {
	switch {
	case f.format == "":
		return nil, cli.Usage(errors.New("export needs --format: one of " + formatNames()))
	case f.format != "html" && !slices.Contains(export.Formats(), f.format):
		return nil, cli.Usage(fmt.Errorf("--format %q is not one of %s", f.format, formatNames()))
	case f.endpoint != "" && (f.format != "otlp" || f.output != ""):
		return nil, cli.Usage(errors.New("--endpoint is for --format otlp without -o"))
	case f.endpoint != "":
		to, err = export.Endpoint(f.endpoint)
	}
	return to, errors.Join(err, secretscan.CheckAllowed(f.allow))
}

func (a *app) runExport(ctx context.Context, name string, flags exportFlags) error {
	to, err := flags.check()
	if err != nil {
		return err
	}
	path := ""
	if flags.output != "" {
		dir, err := a.WorkDir()
		if err != nil {
			return err
		}
		path = cli.Absolute(dir, flags.output)
		if err := cli.CheckOutput("export", path); err != nil {
			return err
		}
	}
	store, err := a.openExportStore(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	sel, err := a.selection(ctx, store, name)
	if err != nil {
		return err
	}
	sel.All = flags.all
	return a.exportSelection(ctx, store, sel, flags, path, to)
}

// scannedExport is an export in an unnamed file, which was scanned for secrets.
type scannedExport struct {
	vfs.File
	source export.Source
	filter *export.Filter
	used   []string // the allowed fingerprints that the scan found
}

// scanExport writes an export into an unnamed file and scans it. The caller closes the file.
func (a *app) scanExport(ctx context.Context, store *exportStore, sel export.Selection, flags exportFlags) (*scannedExport, error) {
	scanner, allowed, err := secretscan.Open(a.App, store.place.Archives(), flags.allow)
	if err != nil {
		return nil, err
	}
	out := &scannedExport{}
	out.filter = &export.Filter{Scanner: scanner, Redact: flags.redact, Allowed: func(x string) bool {
		if !slices.Contains(allowed, x) {
			return false
		}
		out.used = append(out.used, x)
		return true
	}}
	reader := &export.Reader{Store: store.under(), Transcripts: store.transcripts(), Diffs: true, Ranges: flags.format == "agent-trace"}
	if out.source, err = reader.Source(ctx, sel, out.filter, a.BuildVersion()); err != nil {
		return nil, err
	}
	dir := store.place.Archives().Dir()
	if out.File, err = vfs.Scratch(cmp.Or[vfs.FS](store.place.FS, vfs.OS), dir); err != nil {
		return nil, segno.NewError(segno.KindIO, "export", dir, err)
	}
	if err := writeScanned(out.File, flags.format, out.source, out.filter); err != nil {
		out.Close()
		return nil, cli.WrapWriteError(err)
	}
	return out, nil
}

// exportSelection copies an export to the destination only if the scan finds no secret.
func (a *app) exportSelection(ctx context.Context, store *exportStore, sel export.Selection, flags exportFlags, path string, to *url.URL) error {
	out, err := a.scanExport(ctx, store, sel, flags)
	if err != nil {
		return err
	}
	defer out.Close()
	if findings := out.filter.Findings; len(findings) > 0 && !flags.redact {
		return secretscan.Refuse(a.App, "export", cmp.Or(path, flags.format), findings, secretscan.ExportHint(findings))
	}
	secretscan.RecordAllowed(ctx, a.App, store.place.Archives(), flags.allow, out.used)
	res := exported{File: path, FileBytes: segno.PathBytes(path), Format: flags.format, Thread: sel.Thread, Turns: out.source.Header.Count,
		Redacted: len(out.filter.Findings), Missing: append([]string{}, out.filter.Missing...)}
	if sel.Single {
		res.Checkpoint = sel.At
	}
	return a.deliver(ctx, cmp.Or[vfs.FS](store.place.FS, vfs.OS), out.File, to, res)
}

// writeScanned writes the export into f and leaves f at its beginning. It also scans the written bytes, in case one of
// them bypassed the filter.
func writeScanned(f vfs.File, format string, source export.Source, filter *export.Filter) error {
	scan := filter.Scanner.Start("output")
	if err := export.Write(io.MultiWriter(f, scan), format, source); err != nil {
		return err
	}
	found := len(filter.Findings)
	known := map[string]bool{}
	for _, x := range filter.Findings {
		known[x.Fingerprint] = true
	}
	for _, x := range scan.Close() {
		if filter.Redact || !known[x.Fingerprint] {
			filter.Found(x)
		}
	}
	if filter.Redact && len(filter.Findings) > found {
		return segno.Errorf(segno.KindInternal, "redact", format, "a secret is still in the output: %s", filter.Findings[found].About)
	}
	_, err := f.Seek(0, io.SeekStart)
	return err
}

// deliver copies the export to where the user wants it, and prints the result.
func (a *app) deliver(ctx context.Context, fsys vfs.FS, scratch vfs.File, to *url.URL, res exported) error {
	info, err := scratch.Stat()
	if err != nil {
		return err
	}
	res.Bytes = info.Size()
	for _, x := range res.Missing {
		a.Notef("missing: %s", cli.Inline(x))
	}
	switch {
	case to != nil:
		res.Endpoint = to.String()
		if res.Rejected, err = export.Send(ctx, to, scratch); err != nil {
			return err
		}
	case res.File != "":
		err = vfs.WriteNew(fsys, res.File, scratch, 0o600)
		switch {
		case errors.Is(err, fs.ErrExist):
			return segno.Errorf(segno.KindConflict, "export", res.File, "already exists").WithHint("give a new file with -o")
		case err != nil:
			return segno.NewError(segno.KindIO, "export", res.File, err)
		}
	default:
		if _, err := io.Copy(a.Stdout, scratch); err != nil {
			return segno.NewError(segno.KindIO, "write result", "", err)
		}
		if res.Redacted > 0 {
			a.Notef("left out: %s", cli.Plural(res.Redacted, "secret"))
		}
		return missingError(res.Missing)
	}
	return errors.Join(a.Print(res, func(p *cli.Printer) { a.writeExported(p, res) }), missingError(res.Missing))
}

func (a *app) writeExported(p *cli.Printer, res exported) {
	if res.File != "" {
		p.Linef("wrote %s: %s, %s", cli.QuotePath(a.RelativePath(res.File)), cli.Plural(res.Turns, "turn"), cli.Size(res.Bytes))
	} else {
		p.Linef("sent %s to %s", cli.Plural(res.Turns, "turn"), cli.Inline(res.Endpoint))
	}
	if res.Redacted > 0 {
		p.Linef("left out: %s", cli.Plural(res.Redacted, "secret"))
	}
	if res.Rejected > 0 {
		p.Linef("%s", p.Warn(fmt.Sprintf("the collector rejected %s", cli.Plural(int(res.Rejected), "span"))))
	}
}

// missingError is the error of an export that lacks only the parts that could not be read.
func missingError(missing []string) error {
	if len(missing) == 0 {
		return nil
	}
	return segno.Errorf(segno.KindCorrupt, "export", "", "%s could not be read; the output names each", cli.Plural(len(missing), "part")).
		WithHint("run 'segno check'; the rest is complete")
}
