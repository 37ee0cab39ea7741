package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// worldBytes is the size of a world's document that results in an archive of 1 GB.
const worldBytes = 1 << 30

// archiveBench is the section archive. Every entrant is a process, so that segno's times
// include its start, like those of its peers.
type archiveBench struct {
	b      *bench
	in     *archiveInput
	self   string
	memory map[string]float64 // the highest peak of each entrant of segno, in MB
	cpu    map[string]sample  // the CPU time of each run, on all cores
}

// archives measures how archives are saved, loaded, verified and inspected.
func archives(ctx context.Context, b *bench) error {
	for _, peer := range []string{"zip", "unzip", "tar", "zstd"} {
		if _, err := exec.LookPath(peer); err != nil {
			return fmt.Errorf("install the Debian package of the same name: %w", err)
		}
	}
	a := &archiveBench{b: b, memory: map[string]float64{}, cpu: map[string]sample{}}
	var err error
	if a.self, err = os.Executable(); err != nil {
		return err
	}
	root, err := b.scratch("archive")
	if err != nil {
		return err
	}
	if a.in, err = newArchiveInput(filepath.Join(root, "input")); err != nil {
		return fmt.Errorf("make input: %w", err)
	}
	fmt.Fprintf(b.talk, "%d files, %d MB\n", a.in.files, a.in.bytes/1e6)
	if err := a.save(ctx, root); err != nil {
		return err
	}
	if err := a.load(ctx, root); err != nil {
		return err
	}
	return a.large(ctx, root)
}

// process returns the run of an entrant that is a process in a directory.
func (a *archiveBench) process(name, dir, program string, args ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := a.output(ctx, name, dir, program, args...)
		return err
	}
}

func (a *archiveBench) output(ctx context.Context, name, dir, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", program, err, out)
	}
	a.cpu[name] = append(a.cpu[name], cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime())
	return string(out), nil
}

func (a *archiveBench) shell(name, dir, line string) func(context.Context) error {
	return a.process(name, dir, "bash", "-o", "pipefail", "-c", line)
}

// segno is process for this program, which prints its peak of memory.
func (a *archiveBench) segno(name string, args ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		out, err := a.output(ctx, name, "", a.self, append([]string{"archive"}, args...)...)
		if err != nil {
			return err
		}
		kb, err := statusField(out, "VmHWM")
		a.memory[name] = max(a.memory[name], kb*1024/1e6)
		return err
	}
}

// remove returns a function that removes paths before a run.
func remove(paths ...string) func(context.Context) error {
	return func(context.Context) (err error) {
		for _, p := range paths {
			err = errors.Join(err, os.RemoveAll(p))
		}
		return err
	}
}

func (a *archiveBench) save(ctx context.Context, root string) error {
	at := func(name string) string { return filepath.Join(root, name) }
	cold, warm, verdicts, scratch := at("cold.ckpt"), at("warm.ckpt"), at("verdicts"), at("scratch-verdicts")
	if err := a.segno("fill", "save", cold, a.in.root, "", verdicts)(ctx); err != nil {
		return err
	}
	times, err := contest{rounds: a.b.rounds, warm: true, settle: true, entrants: []entrant{
		{name: "zip", ready: remove(at("a.zip")), run: a.process("zip", a.in.root, "zip", "-rq", at("a.zip"), "tree", "session.jsonl")},
		{name: "tar", ready: remove(at("a.tar.zst")), run: a.shell("tar", a.in.root, "tar -c tree session.jsonl | zstd -q -3 -o "+at("a.tar.zst"))},
		{name: "cold", ready: remove(cold, scratch), run: a.segno("cold", "save", cold, a.in.root, "", scratch)},
		{name: "warm", ready: remove(warm), run: a.segno("warm", "save", warm, a.in.root, "", verdicts)},
	}}.hold(ctx)
	if err != nil {
		return err
	}
	zip := times["zip"]
	row := func(what, name, file string, claims ...claim) error {
		info, err := os.Stat(file)
		if err != nil {
			return err
		}
		claims = append(claims, a.rate(times[name]), a.work(name), is(float64(info.Size())/1e6, "MB written"))
		a.b.add("", fmt.Sprintf("archive: %s", what), times[name], claims...)
		return nil
	}
	faster := func(name string) float64 { return zip.over(times[name]) }
	return errors.Join(
		row("zip -r", "zip", at("a.zip")),
		row("tar | zstd -3", "tar", at("a.tar.zst"), is(faster("tar"), "× as fast as zip")),
		row("segno save with scan, nothing known", "cold", cold, atLeast(2, faster("cold"), "× as fast as zip"), a.peak("cold")),
		row("segno save without scan: all contents known to be clean", "warm", warm, atLeast(5, faster("warm"), "× as fast as zip"), a.peak("warm")))
}

func (a *archiveBench) rate(s sample) claim {
	return is(float64(a.in.bytes)/1e6/s.median().Seconds(), "MB/s")
}

// work returns the CPU time of all cores, on which other programs of the machine have less
// influence.
func (a *archiveBench) work(name string) claim { return is(a.cpu[name].median().Seconds(), "s of CPU") }

func (a *archiveBench) peak(name string) claim {
	return atMost(150, a.memory[name], "MB of memory at most")
}

func (a *archiveBench) load(ctx context.Context, root string) error {
	at := func(name string) string { return filepath.Join(root, name) }
	file, dir := at("warm.ckpt"), at("loaded")
	empty := func(context.Context) error { return errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o755)) }
	times, err := contest{rounds: a.b.rounds, warm: true, settle: true, entrants: []entrant{
		{name: "unzip", ready: empty, run: a.process("unzip", dir, "unzip", "-q", at("a.zip"))},
		{name: "tar", ready: empty, run: a.shell("untar", dir, "zstd -qdc "+at("a.tar.zst")+" | tar -x")},
		{name: "load", ready: empty, run: a.segno("load", "load", file, dir)},
		{name: "verify", run: a.segno("verify", "verify", file)},
		{name: "unzip -t", run: a.process("unzip -t", "", "unzip", "-tq", at("a.zip"))},
		{name: "inspect", run: a.segno("inspect", "inspect", file)},
	}}.hold(ctx)
	if err != nil {
		return err
	}
	unzip, test := times["unzip"], times["unzip -t"]
	a.b.add("", "archive: unzip", unzip, a.rate(unzip), a.work("unzip"))
	a.b.add("", "archive: zstd -d | tar x", times["tar"], is(unzip.over(times["tar"]), "× as fast as unzip"), a.rate(times["tar"]), a.work("untar"))
	a.b.add("", "archive: segno load", times["load"], atLeast(1.5, unzip.over(times["load"]), "× as fast as unzip"), a.peak("load"), a.rate(times["load"]), a.work("load"))
	a.b.add("", "archive: unzip -t", test, a.rate(test), a.work("unzip -t"))
	a.b.add("", "archive: segno archive verify", times["verify"], is(test.over(times["verify"]), "× as fast as unzip -t"), a.peak("verify"), a.rate(times["verify"]), a.work("verify"))
	a.b.add("", fmt.Sprintf("archive: segno archive inspect, %d files", a.in.files+1), times["inspect"], a.peak("inspect"), a.work("inspect"))
	return nil
}

// large measures an archive of more than 1 GB: the memory, and the costs of inspecting it.
func (a *archiveBench) large(ctx context.Context, root string) error {
	at := func(name string) string { return filepath.Join(root, name) }
	world, file, dir := at("world"), at("large.ckpt"), at("loaded")
	if err := writeRandom(world, worldBytes); err != nil {
		return err
	}
	small := filepath.Join(root, "small")
	if err := errors.Join(os.MkdirAll(filepath.Join(small, "tree"), 0o755), os.WriteFile(filepath.Join(small, "session.jsonl"), nil, 0o644)); err != nil {
		return err
	}
	few := at("few.ckpt")
	if err := a.segno("fill", "save", few, small, world, "")(ctx); err != nil {
		return err
	}
	once := func(name string, args ...string) (sample, error) {
		start := time.Now()
		err := a.segno(name, args...)(ctx)
		return sample{time.Since(start)}, err
	}
	saved, err := once("large save", "save", file, a.in.root, world, at("verdicts"))
	if err != nil {
		return err
	}
	loaded, err := once("large load", "load", file, at("loaded-large"))
	if err != nil {
		return err
	}
	times, err := contest{rounds: 4 * a.b.rounds, warm: true, entrants: []entrant{
		{name: "few", run: a.segno("inspect few", "inspect", few)},
		{name: "many", run: a.segno("inspect many", "inspect", file)},
	}}.hold(ctx)
	if err != nil {
		return err
	}
	a.b.add("", "archive: segno save, and a world of 1 GB", saved, a.peak("large save"))
	a.b.add("", "archive: segno load, and a world of 1 GB", loaded, a.peak("large load"))
	a.b.add("", "archive: segno archive inspect of 1 GB, 2 files", times["few"], a.peak("inspect few"))
	a.b.add("", fmt.Sprintf("archive: segno archive inspect of 1 GB, %d files", a.in.files+2), times["many"], a.peak("inspect many"))
	return remove(world, file, few, dir, at("loaded-large"))(ctx)
}

// writeRandom writes a file that no program can compress.
func writeRandom(path string, size int64) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = io.CopyN(f, rand.Reader, size)
	return errors.Join(err, f.Close())
}
