package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
)

const (
	careFile  = 4 << 20 // the size of a file
	careFiles = 256     // of the tree, which has 1 GiB
)

// care measures check and gc of a store. Each gigabyte of it is a checkpoint with other contents of the same files.
func care(gigabytes int) func(context.Context, *bench) error {
	return func(ctx context.Context, b *bench) error {
		dir, err := b.scratch("care")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		tree := filepath.Join(dir, "tree")
		if err := os.Mkdir(tree, 0o700); err != nil {
			return err
		}
		o, err := openOurs(ctx, dir, tree)
		if err != nil {
			return err
		}
		for g := range gigabytes {
			fmt.Fprintf(b.talk, "gigabyte %d of %d\n", g+1, gigabytes)
			if err := fillCareTree(tree, uint64(g)); err != nil {
				return errors.Join(err, o.close())
			}
			if _, err := o.save(ctx); err != nil {
				return errors.Join(err, o.close())
			}
		}
		if err := errors.Join(o.close(), os.RemoveAll(tree)); err != nil {
			return err
		}
		return b.careOf(ctx, dir, gigabytes)
	}
}

// fillCareTree writes files that no program can compress.
func fillCareTree(tree string, seed uint64) error {
	var key [32]byte
	key[0] = byte(seed)
	random, data := rand.NewChaCha8(key), make([]byte, careFile)
	for i := range careFiles {
		_, _ = random.Read(data) // it never fails
		if err := os.WriteFile(filepath.Join(tree, fmt.Sprint("file", i)), data, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// careOf measures the commands on a store beside a program that reads its files and hashes them.
func (b *bench) careOf(ctx context.Context, dir string, gigabytes int) error {
	bin, err := b.build(ctx, true)
	if err != nil {
		return err
	}
	m, err := b.newProcesses(ctx)
	if err != nil {
		return err
	}
	store := filepath.Join(dir, "store")
	segno := func(verb string) func(context.Context) error {
		return func(ctx context.Context) error {
			cmd := exec.CommandContext(ctx, bin, "--store", store, verb)
			cmd.Dir, cmd.Env = dir, []string{"HOME=" + dir, "PATH=" + os.Getenv("PATH")}
			return m.run(cmd)
		}
	}
	times, err := contest{rounds: b.rounds, warm: true, processes: m, entrants: []entrant{
		{name: "read", run: func(context.Context) error { return hashAll(store) }},
		{name: "check", run: segno("check")},
		{name: "gc", run: segno("gc")},
	}}.hold(ctx)
	if err != nil {
		return err
	}
	read := times["read"]
	b.add("", fmt.Sprintf("care: read a store of %d GiB, and SHA-256", gigabytes), read)
	for _, verb := range []string{"check", "gc"} {
		b.addProcess("", "care: segno "+verb, times[verb], m.peaks[verb], is(times[verb].over(read), "× read and SHA-256"))
	}
	return nil
}

// hashAll reads and hashes all files below a directory.
func hashAll(dir string) error {
	return filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = io.CopyBuffer(sha256.New(), f, make([]byte, 1<<20))
		return err
	})
}
