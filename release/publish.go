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
	if err := publishPage(ctx, dir, "v"+version, names); err != nil {
		return err
	}
	for _, name := range names { // in the order of checksums.txt, so the packages of the platforms are first
		if strings.HasPrefix(name, "npm/") {
			if err := publishPackage(ctx, filepath.Join(dir, name)); err != nil {
				return err
			}
		}
	}
	return publishFormula(ctx, filepath.Join(dir, "segno.rb"), version)
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

func publishPage(ctx context.Context, dir, tag string, names []string) error {
	if _, err := command(ctx, nil, "gh", "release", "view", tag, "--repo", "dalsegno/segno"); err == nil {
		fmt.Println("the page exists:", tag)
		return nil
	}
	args := []string{"release", "create", tag, "--repo", "dalsegno/segno", "--verify-tag", "--title", tag, "--notes-file", filepath.Join(dir, "release.md")}
	for _, name := range append(names, "checksums.txt") {
		if !strings.HasPrefix(name, "npm/") {
			args = append(args, filepath.Join(dir, name))
		}
	}
	_, err := command(ctx, nil, "gh", args...)
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
	if strings.Contains(manifest.Version, "-") {
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
