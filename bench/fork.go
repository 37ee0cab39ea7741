package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/dalsegno/segno/timeline"
)

// forkImage is the size of the image of a file system. The file is sparse.
const forkImage = 4 << 30

// forks measures a fork of the tree beside a copy of it: on the file system of the run, and on two that copy by reflink, in
// images over loop devices.
func forks(ctx context.Context, b *bench, t *tree) error {
	dir, err := b.scratch("fork")
	if err != nil {
		return err
	}
	if err := b.forkIn(ctx, t, dir, b.report.Machine.FileSystem); err != nil {
		return err
	}
	for _, name := range []string{"xfs", "btrfs"} {
		unmount, err := mountImage(ctx, dir, name)
		if err != nil {
			b.report.NotRun = append(b.report.NotRun, fmt.Sprintf("a fork on %s: %v", name, err))
			continue
		}
		if err := errors.Join(b.forkIn(ctx, t, filepath.Join(dir, name), name), unmount()); err != nil {
			return err
		}
	}
	return nil
}

// mountImage mounts a new file system of a kind below dir.
func mountImage(ctx context.Context, dir, kind string) (unmount func() error, err error) {
	image, at := filepath.Join(dir, kind+".image"), filepath.Join(dir, kind)
	command := func(name string, args ...string) error {
		out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
		if err != nil && len(out) > 0 {
			err = fmt.Errorf("%s: %w: %s", name, err, strings.Join(strings.Fields(string(out)), " "))
		}
		return err
	}
	err = os.WriteFile(image, nil, 0o600)
	if err == nil {
		err = os.Truncate(image, forkImage)
	}
	if err == nil {
		err = os.Mkdir(at, 0o700)
	}
	if err == nil {
		err = command("mkfs."+kind, image)
	}
	if err == nil {
		err = command("mount", "-o", "loop", image, at)
	}
	return func() error {
		ctx = context.WithoutCancel(ctx) // an interrupted run unmounts, too
		return errors.Join(command("umount", at), os.Remove(image))
	}, err
}

// forkIn measures the fork of a copy of the tree in dir.
func (b *bench) forkIn(ctx context.Context, t *tree, dir, fileSystem string) error {
	root, to := filepath.Join(dir, "tree"), filepath.Join(dir, "made")
	if err := os.CopyFS(root, os.DirFS(t.Root)); err != nil {
		return err
	}
	defer os.RemoveAll(root)
	o, err := openOurs(ctx, dir, root)
	if err != nil {
		return err
	}
	c, err := o.save(ctx)
	if err != nil {
		return errors.Join(err, o.close())
	}
	how := ""
	remove := func(context.Context) error { return os.RemoveAll(to) }
	cp := func(reflink string) func(context.Context) error {
		return func(ctx context.Context) error {
			return exec.CommandContext(ctx, "cp", "-a", "--reflink="+reflink, root, to).Run()
		}
	}
	entrants := []entrant{
		{name: "cp", run: cp("never"), check: remove},
		{name: "fork", run: func(ctx context.Context) error {
			f, err := o.Fork(ctx, timeline.MoveRequest{To: c.ID, Dir: to})
			if err == nil {
				how = f.Report.How
			}
			if err == nil && f.Report.Files != t.Files {
				err = fmt.Errorf("the fork has %d files, not %d", f.Report.Files, t.Files)
			}
			return err
		}, check: remove},
	}
	if fileSystem == "xfs" || fileSystem == "btrfs" {
		entrants = append(entrants, entrant{name: "reflink", run: cp("always"), check: remove})
	}
	times, err := contest{rounds: b.rounds, settle: true, entrants: entrants}.hold(ctx)
	if err := errors.Join(err, o.close()); err != nil {
		return err
	}
	name := "fork on " + fileSystem
	b.add(t.Name, name+": cp -a", times["cp"])
	claims := []claim{is(times["fork"].over(times["cp"]), "× cp -a")}
	if reflink := times["reflink"]; reflink != nil {
		b.add(t.Name, name+": cp -a by reflink", reflink)
		claims = append(claims, is(times["fork"].over(reflink), "× by reflink"))
	}
	b.add(t.Name, fmt.Sprintf("%s: segno fork, by %s", name, how), times["fork"], claims...)
	return nil
}
