package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
)

// npmPackages returns the npm packages: one for each platform, which has the binaries, and one with a launcher, which npm
// installs with the package of its platform. They are in the order in which they must be published.
func (r *release) npmPackages() (files []entry, err error) {
	text, err := os.ReadFile("release/npm/package.json")
	if err != nil {
		return nil, err
	}
	var manifest map[string]any
	if err := json.Unmarshal(text, &manifest); err != nil {
		return nil, fmt.Errorf("release/npm/package.json: %w", err)
	}
	launcher, err := os.ReadFile("release/npm/bin/segno.js")
	if err != nil {
		return nil, err
	}
	version := r.npmVersion()
	manifest["version"] = version
	optional := map[string]string{}
	for _, p := range r.platforms {
		cpu := strings.Replace(p.arch, "amd64", "x64", 1)
		name := fmt.Sprintf("%s-%s-%s", manifest["name"], p.os, cpu)
		optional[name] = version
		file, err := r.npmPackage(map[string]any{
			"name": name, "version": version, "os": []string{p.os}, "cpu": []string{cpu},
			"description": fmt.Sprintf("The binaries of %s for %s on %s", manifest["name"], p.os, cpu),
			"license":     manifest["license"], "repository": manifest["repository"], "preferUnplugged": true,
		}, slices.Concat(in("bin", r.binaries[p]), r.texts))
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	manifest["optionalDependencies"] = optional
	texts := slices.DeleteFunc(slices.Clone(r.texts), func(e entry) bool { return e.name == "LICENSES.txt" }) // it has no Go code
	file, err := r.npmPackage(manifest, append(texts, entry{"bin/segno.js", 0o755, launcher}))
	return append(files, file), err
}

// npmManifest is what a release reads of the package.json of a package.
type npmManifest struct{ Name, Version string }

// readManifest reads the package.json in the tarball of a package.
func readManifest(file string) (m npmManifest, err error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return m, err
	}
	files, err := untar(data)
	if err != nil {
		return m, err
	}
	for _, f := range files {
		if f.name == "package/package.json" {
			return m, json.Unmarshal(f.data, &m)
		}
	}
	return m, fmt.Errorf("%s has no package.json", file)
}

// npmVersion returns the version without build metadata, which npm ignores.
func (r *release) npmVersion() string {
	version, _, _ := strings.Cut(r.version, "+")
	return version
}

// npmPackage returns the tarball of a package, under the name that 'npm pack' would give it.
func (r *release) npmPackage(manifest map[string]any, files []entry) (entry, error) {
	data, err := json.MarshalIndent(manifest, "", "  ")
	if err != nil {
		return entry{}, err
	}
	files = append(files, entry{name: "package.json", data: append(data, '\n')})
	if data, err = tarball(in("package", files), r.time); err != nil {
		return entry{}, err
	}
	name := strings.NewReplacer("@", "", "/", "-").Replace(fmt.Sprint(manifest["name"]))
	return entry{name: fmt.Sprintf("npm/%s-%s.tgz", name, r.npmVersion()), data: data}, nil
}
