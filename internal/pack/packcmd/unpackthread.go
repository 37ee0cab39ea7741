package packcmd

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/archive"
	"github.com/dalsegno/segno/internal/cli"
	"github.com/dalsegno/segno/internal/pack"
	"github.com/dalsegno/segno/internal/pack/archivefile"
)

// unpackThread imports the thread of an archive into the store.
func (a *app) unpackThread(ctx context.Context, r *archive.Reader, name string, res archivefile.UnpackResult, into pack.Into) error {
	if len(into.Tiers) > 0 || len(into.Agents) > 0 {
		return cli.Usage(errors.New("--tier and --agent do not choose parts of a thread"))
	}
	if a.DryRun {
		if err := r.Verify(ctx, a.Transfer("verifying")); err != nil {
			return archivefile.ExplainBadArchive(err)
		}
		res.Skipped, res.Instructions = []archive.Omission{}, []string{}
		return a.Print(res, func(p *cli.Printer) {
			p.Linef("unpack %s into %s: a thread, %s", cli.QuotePath(name), cli.QuotePath(a.RelativePath(res.Dir)), archivefile.TotalOf(r.Manifest()))
		})
	}
	store, err := a.OpenOrMakeStore(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	done, err := archivefile.Importer(store).Thread(ctx, r, into)
	if err != nil {
		return archivefile.ExplainBadArchive(err)
	}
	res.Dir, res.DirBytes, res.Thread, res.Commits = done.Dir, segno.PathBytes(done.Dir), done.Thread, done.Commits
	res.Skipped, res.Instructions = append([]archive.Omission{}, done.Skipped...), []string{}
	for _, path := range done.Instructions {
		res.Instructions = append(res.Instructions, filepath.Join(done.Dir, filepath.FromSlash(path)))
	}
	return a.Print(res, func(p *cli.Printer) {
		if done.WasComplete {
			p.Linef("%s was unpacked before: %s is thread %s", cli.QuotePath(name), cli.QuotePath(a.RelativePath(res.Dir)), cli.Short(res.Thread))
			return
		}
		p.Linef("unpacked %s into %s: thread %s with %s", cli.QuotePath(name), cli.QuotePath(a.RelativePath(res.Dir)), cli.Short(res.Thread), cli.Plural(done.Commits, "commit"))
		archivefile.Skipped(p, res.Skipped)
		archivefile.WriteInstructions(a.App, p, &res)
		p.Linef("to see it:\n  cd %s && segno log", cli.ShellQuote(a.RelativePath(res.Dir)))
	})
}
