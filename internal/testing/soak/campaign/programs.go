package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// program is what decides the results of the tests of a package: the sources of their binary, and what each test reads.
type program struct {
	pkg    string          // the directory of the package, as all paths here relative to the root of the repository, with slashes
	dirs   map[string]bool // the directories of all packages in the binary, and in the commands that the tests run
	embeds map[string]bool // the directories of embedded files
	// reads are the files and directories outside of the package that a test names, by the name of the test.
	reads map[string][]string
}

// Scenarios run the commands, which their binaries do not import.
const rigDir = "internal/testing/e2erig"

var commandDirs = []string{"cmd/segno", "cmd/segno-hook"}

// listed is a package as go list describes it.
type listed struct {
	ImportPath, Dir string
	Deps            []string
	EmbedFiles      []string
	TestGoFiles     []string
	XTestGoFiles    []string
}

// allPrograms returns the programs of all packages that have tests, by the directory of the package.
func allPrograms(ctx context.Context, root string) (map[string]*program, error) {
	list, err := output(ctx, root, "go", "list", "-test", "-deps", "-json=ImportPath,Dir,Deps,EmbedFiles,TestGoFiles,XTestGoFiles", "work")
	if err != nil {
		return nil, err
	}
	byPath := map[string]*listed{}
	byDir := map[string]*listed{} // the packages without their tests
	for in := json.NewDecoder(strings.NewReader(list)); ; {
		var l listed
		err := in.Decode(&l)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		rel, err := filepath.Rel(root, l.Dir)
		if err != nil || !filepath.IsLocal(rel) {
			continue // of the standard library, or of a module that go.mod pins
		}
		l.Dir = filepath.ToSlash(rel)
		byPath[l.ImportPath] = &l
		if !strings.Contains(l.ImportPath, " ") && !strings.HasSuffix(l.ImportPath, ".test") {
			byDir[l.Dir] = &l
		}
	}
	programs := map[string]*program{}
	for name, l := range byPath {
		if !strings.HasSuffix(name, ".test") {
			continue
		}
		p := &program{pkg: l.Dir, dirs: map[string]bool{}, embeds: map[string]bool{}}
		p.add(l, byPath)
		if p.dirs[rigDir] {
			for _, dir := range commandDirs {
				p.add(byDir[dir], byPath)
			}
		}
		if p.reads, err = readsOf(root, byDir[l.Dir]); err != nil {
			return nil, err
		}
		programs[p.pkg] = p
	}
	return programs, nil
}

// add adds a package and all that it imports.
func (p *program) add(l *listed, byPath map[string]*listed) {
	p.addDir(l)
	for _, name := range l.Deps {
		if dep := byPath[name]; dep != nil {
			p.addDir(dep)
		}
	}
}

func (p *program) addDir(l *listed) {
	p.dirs[l.Dir] = true
	for _, file := range l.EmbedFiles {
		p.embeds[path.Join(l.Dir, path.Dir(filepath.ToSlash(file)))] = true
	}
}

// isOf reports whether a file is a part of the program of a test.
func (p *program) isOf(file, test string) bool {
	dir, name := path.Dir(file), path.Base(file)
	switch {
	case slices.Contains([]string{"go.mod", "go.sum", "go.work", "go.work.sum"}, name), dir == p.pkg, isBelow(file, path.Join(p.pkg, "testdata")), p.embeds[dir]:
		return true
	case p.dirs[dir] && strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go"):
		return true
	}
	return slices.ContainsFunc(p.reads[test], func(name string) bool { return isBelow(file, name) })
}

// isBelow reports whether a file is dir or below it.
func isBelow(file, dir string) bool {
	return dir == "." || file == dir || strings.HasPrefix(file, dir+"/")
}

// changedSince returns the files that differ from those of a commit.
func (s source) changedSince(ctx context.Context, commit string) ([]string, error) {
	changed, err := s.files(ctx, "diff", "--name-only", "-z", "--no-renames", commit)
	if err != nil {
		return nil, err
	}
	added, err := s.files(ctx, "ls-files", "-z", "--others", "--exclude-standard")
	return strings.FieldsFunc(changed+added, func(r rune) bool { return r == 0 }), err
}
