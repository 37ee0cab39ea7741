package cli

import (
	"context"
	"errors"
	"path/filepath"
	"slices"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/archive"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/internal/pack"
)

func importer(store *local.Store) *pack.Importer {
	return &pack.Importer{Store: store.Store, Register: store.Register, FS: store.Place().FS, Open: func(rec segno.WorkspaceRecord) (segno.Workspace, error) {
		tl, err := store.Timeline(rec, nil)
		if err != nil {
			return nil, err
		}
		return tl.Workspace, nil
	}}
}

// unpackThread imports the thread of an archive into the store.
func (a *app) unpackThread(ctx context.Context, r *archive.Reader, name string, res unpackResult, into pack.Into) error {
	if len(into.Tiers) > 0 || len(into.Agents) > 0 {
		return usage(errors.New("--tier and --agent do not choose parts of a thread"))
	}
	if a.dryRun {
		if err := r.Verify(ctx, a.transfer("verifying")); err != nil {
			return explainBadArchive(err)
		}
		res.Skipped, res.Instructions = []archive.Omission{}, []string{}
		return a.print(res, func(p *printer) {
			p.linef("unpack %s into %s: a thread, %s", quotePath(name), quotePath(a.relativePath(res.Dir)), totalOf(r.Manifest()))
		})
	}
	store, err := a.openOrMakeStore(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	done, err := importer(store).Thread(ctx, r, into)
	if err != nil {
		return explainBadArchive(err)
	}
	res.Dir, res.DirBytes, res.Thread, res.Commits = done.Dir, segno.PathBytes(done.Dir), done.Thread, done.Commits
	res.Skipped, res.Instructions = append([]archive.Omission{}, done.Skipped...), []string{}
	for _, path := range done.Instructions {
		res.Instructions = append(res.Instructions, filepath.Join(done.Dir, filepath.FromSlash(path)))
	}
	return a.print(res, func(p *printer) {
		if done.WasComplete {
			p.linef("%s was unpacked before: %s is thread %s", quotePath(name), quotePath(a.relativePath(res.Dir)), short(res.Thread))
			return
		}
		p.linef("unpacked %s into %s: thread %s with %s", quotePath(name), quotePath(a.relativePath(res.Dir)), short(res.Thread), plural(done.Commits, "commit"))
		p.skipped(res.Skipped)
		a.writeInstructions(p, &res)
		p.linef("to see it:\n  cd %s && segno log", shellQuote(a.relativePath(res.Dir)))
	})
}

// unpackSessions imports the sessions of segno's own agent into the store.
func (a *app) unpackSessions(ctx context.Context, r *archive.Reader, into pack.Into, done *pack.Unpacked) error {
	if !slices.ContainsFunc(r.Manifest().Agents, func(x archive.AgentInfo) bool { return x.SessionFormat == pack.OwnFormat }) {
		return nil
	}
	store, err := a.openOrMakeStore(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	return importer(store).Sessions(ctx, r, into, done)
}
