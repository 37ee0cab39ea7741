package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// publish publishes the release in a directory: the page with its files on GitHub, the npm packages, and the formula in the
// repository of the tap. It checks all files first. It needs gh and npm, logged in. The steps can be repeated: a step that was
// done is skipped.
func publish(ctx context.Context, dir string) error {
	names, version, err := checkFiles(dir)
	if err != nil {
		return err
	}
	if !isTagged(version) {
		return fmt.Errorf("%s is not the version of a tagged commit", version)
	}
	if err := publishPage(ctx, dir, version, names); err != nil {
		return err
	}
	for _, name := range names { // in the order of checksums.txt, so the packages of the platforms are first
		if strings.HasPrefix(name, "npm/") {
			if err := publishPackage(ctx, filepath.Join(dir, name)); err != nil {
				return err
			}
		}
	}
	if isBeforeRelease(version) {
		fmt.Println("the formula stays, because the tap has one version:", version, "precedes a release")
		return nil
	}
	return publishFormula(ctx, filepath.Join(dir, "segno.rb"), version)
}

// isBeforeRelease reports whether a version precedes a release, such as 1.3.0-rc1. Users get it only if they ask for it.
func isBeforeRelease(version string) bool {
	version, _, _ = strings.Cut(version, "+")
	return strings.Contains(version, "-")
}

// checkFiles compares the files with checksums.txt, and returns their names and the version.
func checkFiles(dir string) (names []string, version string, err error) {
	list, err := os.ReadFile(filepath.Join(dir, "checksums.txt"))
	if err != nil {
		return nil, "", err
	}
	for s := bufio.NewScanner(bytes.NewReader(list)); s.Scan(); {
		sum, name, ok := strings.Cut(s.Text(), "  ")
		if !ok {
			return nil, "", fmt.Errorf("checksums.txt has the line %q", s.Text())
		}
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return nil, "", err
		}
		if checksum(data) != sum {
			return nil, "", fmt.Errorf("%s differs from its checksum", name)
		}
		if v, ok := strings.CutSuffix(name, "_sbom.cdx.json"); ok {
			version = strings.TrimPrefix(v, "segno_")
		}
		names = append(names, name)
	}
	if version == "" {
		return nil, "", errors.New("checksums.txt names no SBOM")
	}
	return names, version, nil
}

// publishPage makes the page with its files. gh keeps it a draft until all files are there, so one that is still a draft may lack some.
func publishPage(ctx context.Context, dir, version string, names []string) error {
	tag := "v" + version
	var files []string
	for _, name := range append(names, "checksums.txt") {
		if !strings.HasPrefix(name, "npm/") {
			files = append(files, filepath.Join(dir, name))
		}
	}
	in := []string{tag, "--repo", "dalsegno/segno"}
	isDraft, err := command(ctx, nil, "gh", slices.Concat([]string{"release", "view"}, in, []string{"--json", "isDraft", "--jq", ".isDraft"})...)
	switch {
	case err == nil && string(bytes.TrimSpace(isDraft)) != "true":
		fmt.Println("the page exists:", tag)
		return nil
	case err == nil:
		if _, err := command(ctx, nil, "gh", slices.Concat([]string{"release", "upload"}, in, []string{"--clobber"}, files)...); err != nil {
			return err
		}
		_, err := command(ctx, nil, "gh", slices.Concat([]string{"release", "edit"}, in, []string{"--verify-tag", "--draft=false"})...)
		return err
	}
	create := slices.Concat([]string{"release", "create"}, in, []string{"--verify-tag", "--title", tag, "--notes-file", filepath.Join(dir, "release.md")})
	if isBeforeRelease(version) {
		create = append(create, "--prerelease")
	}
	_, err = command(ctx, nil, "gh", append(create, files...)...)
	return err
}

func publishPackage(ctx context.Context, file string) error {
	manifest, err := readManifest(file)
	if err != nil {
		return err
	}
	if out, err := command(ctx, nil, "npm", "view", manifest.Name+"@"+manifest.Version, "version"); err == nil && len(bytes.TrimSpace(out)) > 0 {
		fmt.Println("the package exists:", manifest.Name, manifest.Version)
		return nil
	}
	tag := "latest"
	if isBeforeRelease(manifest.Version) {
		tag = "next" // npm would otherwise install a version that precedes a release
	}
	_, err = command(ctx, nil, "npm", "publish", "--access", "public", "--tag", tag, file)
	return err
}

func publishFormula(ctx context.Context, file, version string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	const at = "repos/dalsegno/homebrew-tap/contents/Formula/segno.rb"
	args := []string{"api", "--method", "PUT", at, "-f", "message=segno " + version, "-f", "content=" + base64.StdEncoding.EncodeToString(data)}
	if old, err := command(ctx, nil, "gh", "api", at, "--jq", ".sha"); err == nil {
		args = append(args, "-f", "sha="+strings.TrimSpace(string(old)))
	}
	_, err = command(ctx, nil, "gh", args...)
	return err
}
