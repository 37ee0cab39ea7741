// Command release builds all files of a release of segno from a checkout, without a network: an archive with static
// binaries for each platform, Debian packages, npm packages, a Homebrew formula, an installer, an SBOM, the checksums and
// the page of the release. Two builds of one commit with one version of Go give equal bytes. With -publish, it publishes
// a release that it built. docs/releasing.md describes a release.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("release", flag.ExitOnError)
	out := flags.String("out", "dist", "write the files into this `directory`, which is replaced")
	version := flags.String("version", "", "the `version`, such as 1.2.3, instead of that of the commit's tag")
	only := flags.String("platforms", "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64", "build for these `platforms`")
	isPublish := flags.Bool("publish", false, "publish the release in the directory, instead of building one")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if *isPublish {
		return publish(ctx, *out)
	}
	platforms, err := parsePlatforms(*only)
	if err != nil {
		return err
	}
	return build(ctx, *out, *version, platforms, makeManuals)
}

// platform is an operating system and an architecture, in Go's names.
type platform struct{ os, arch string }

func (p platform) String() string { return p.os + "_" + p.arch }

func host() platform { return platform{runtime.GOOS, runtime.GOARCH} }

func parsePlatforms(list string) (all []platform, err error) {
	for one := range strings.SplitSeq(list, ",") {
		system, arch, ok := strings.Cut(one, "/")
		if !ok || !slices.Contains([]string{"linux", "darwin"}, system) || !slices.Contains([]string{"amd64", "arm64"}, arch) {
			return nil, fmt.Errorf("unknown platform %q: releases are for linux and darwin on amd64 and arm64", one)
		}
		all = append(all, platform{system, arch})
	}
	return all, nil
}

// release is what all files of a release have in common.
type release struct {
	source
	platforms []platform
	binaries  map[platform][]entry // segno and segno-hook
	manuals   []entry              // the man pages, as man/NAME
	completed []entry              // the completion scripts, as completions/segno.SHELL
	texts     []entry              // LICENSE, README.md and the licenses of the modules
	modules   []goModule
	notes     string
}

// source is the commit from which a release is built.
type source struct {
	version   string // without "v"
	revision  string
	time      time.Time // the time of every file in every archive
	goVersion string    // such as go1.26.8
}

// build builds the release and replaces the directory out with it. manuals writes the man pages into a directory.
func build(ctx context.Context, out, version string, platforms []platform, manuals func(ctx context.Context, dir string) error) error {
	work, err := os.MkdirTemp("", "segno-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	r := release{platforms: platforms, binaries: map[platform][]entry{}}
	if r.source, err = readSource(ctx, version); err != nil {
		return err
	}
	if r.notes, err = readNotes("CHANGELOG.md", r.version); err != nil {
		return err
	}
	for _, p := range platforms {
		fmt.Printf("build %s for %s\n", r.version, p)
		if r.binaries[p], err = compile(ctx, work, r.version, p); err != nil {
			return err
		}
	}
	if r.modules, err = listModules(ctx, platforms, r.binaries); err != nil {
		return err
	}
	if err := manuals(ctx, filepath.Join(work, "man")); err != nil {
		return err
	}
	if err := r.readDocuments(ctx, work); err != nil {
		return err
	}
	files, err := r.files()
	if err != nil {
		return err
	}
	return write(out, files)
}

// files returns the files of the release. The checksums are those of all files but the page.
func (r *release) files() ([]entry, error) {
	var files []entry
	for _, make := range []func() ([]entry, error){r.archives, r.debs, r.npmPackages, r.bill, r.installer} {
		more, err := make()
		if err != nil {
			return nil, err
		}
		files = append(files, more...)
	}
	files = append(files, r.formula(files)) // it contains the checksums of the archives
	files = append(files, entry{name: "checksums.txt", data: checksums(files)})
	return append(files, entry{name: "release.md", data: r.page(files)}), nil
}

// write writes the files into out. A directory that is not a release stays as it is.
func write(out string, files []entry) error {
	old, err := os.ReadDir(out)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if _, err := os.Stat(filepath.Join(out, "checksums.txt")); err != nil && len(old) > 0 {
		return fmt.Errorf("%s is not empty and contains no release", out)
	}
	if err := os.RemoveAll(out); err != nil {
		return err
	}
	for _, f := range files {
		file := filepath.Join(out, f.name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, f.data, 0o644|f.mode); err != nil {
			return err
		}
		fmt.Printf("%9d  %s\n", len(f.data), file)
	}
	return nil
}
