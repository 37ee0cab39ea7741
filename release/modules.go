package main

import (
	"bytes"
	"cmp"
	"context"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// goModule is a module of which the binaries contain packages.
type goModule struct {
	path, version, sum string
	dir                string
	uses               map[string]bool // the paths of the modules that its packages import
}

// listModules returns the modules in the binaries of all platforms, sorted by path. The binaries record the modules, as
// 'go version -m' prints them; go list adds their directories and imports.
func listModules(ctx context.Context, platforms []platform, binaries map[platform][]entry) ([]goModule, error) {
	modules := map[string]*goModule{}
	for _, p := range platforms {
		for _, binary := range binaries[p] {
			info, err := buildinfo.Read(bytes.NewReader(binary.data))
			if err != nil {
				return nil, err
			}
			for _, m := range info.Deps {
				if isOwn(m.Path) {
					continue
				}
				if m.Replace != nil {
					return nil, fmt.Errorf("module %s is replaced, so its source is not the published one", m.Path)
				}
				modules[m.Path] = &goModule{path: m.Path, version: m.Version, sum: m.Sum, uses: map[string]bool{}}
			}
		}
	}
	own := &goModule{path: ownModule, uses: map[string]bool{}}
	modules[ownModule] = own
	for _, p := range platforms {
		if err := addImports(ctx, p, modules); err != nil {
			return nil, err
		}
	}
	for path, m := range modules {
		if m != own && m.dir == "" {
			return nil, fmt.Errorf("go list does not know the module %s of the binaries", path)
		}
	}
	return slices.SortedFunc(func(yield func(goModule) bool) {
		for m := range maps.Values(modules) {
			if !yield(*m) {
				return
			}
		}
	}, func(a, b goModule) int { return cmp.Compare(a.path, b.path) }), nil
}

// ownModule is the root module. The other modules of the workspace are parts of the same product, so the bill of materials
// has one component for them.
const ownModule = "github.com/dalsegno/segno"

func isOwn(path string) bool { return path == ownModule || strings.HasPrefix(path, ownModule+"/") }

// addImports sets the directories of modules, and the modules that each uses on a platform.
func addImports(ctx context.Context, p platform, modules map[string]*goModule) error {
	out, err := command(ctx, goEnv(p), "go", "list", "-deps", "-json=ImportPath,Imports,Module", "./cmd/segno", "./cmd/segno-hook")
	if err != nil {
		return err
	}
	type pkg struct {
		ImportPath string
		Imports    []string
		Module     *struct{ Path, Dir string }
	}
	var pkgs []pkg
	moduleOf := map[string]string{}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var next pkg
		if err := d.Decode(&next); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
		if next.Module == nil {
			continue // the standard library
		}
		if isOwn(next.Module.Path) {
			next.Module.Path = ownModule
		}
		moduleOf[next.ImportPath] = next.Module.Path
		pkgs = append(pkgs, next)
	}
	for _, one := range pkgs {
		m := modules[one.Module.Path]
		if m == nil {
			return fmt.Errorf("no binary records the module %s of package %s", one.Module.Path, one.ImportPath)
		}
		m.dir = one.Module.Dir
		for _, imp := range one.Imports {
			if to := moduleOf[imp]; to != "" && to != m.path {
				m.uses[to] = true
			}
		}
	}
	return nil
}

// licenses returns the licenses of the modules and of Go, because most of them ask that binaries come with their text.
func licenses(modules []goModule, ofGo string) ([]byte, error) {
	var b bytes.Buffer
	add := func(title string, files ...string) error {
		if len(files) == 0 {
			return fmt.Errorf("%s has no license file", title)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, "%s\n%s: %s\n\n%s\n", strings.Repeat("=", 80), title, filepath.Base(file), bytes.TrimSpace(data))
		}
		return nil
	}
	if err := add("Go", ofGo); err != nil {
		return nil, err
	}
	isLicense := regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice)[a-z0-9.-]*$`)
	for _, m := range modules {
		if m.path == ownModule {
			continue
		}
		found, err := os.ReadDir(m.dir)
		if err != nil {
			return nil, err
		}
		var files []string
		for _, f := range found {
			if f.Type().IsRegular() && isLicense.MatchString(f.Name()) {
				files = append(files, filepath.Join(m.dir, f.Name()))
			}
		}
		if err := add(m.path+" "+m.version, files...); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), nil
}
