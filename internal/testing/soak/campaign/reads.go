package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// testSources are the declarations in the test files of a package, by name. Methods of one name share an entry, and count for their
// type, too, because another package may call them.
type testSources map[string]*declaration

// declaration is what a declaration names.
type declaration struct {
	names map[string]bool // the identifiers in it
	paths []string        // the texts in it that lead out of the directory
}

// readsOf returns the files and directories outside of a package that its tests name. The keys are the tests, which also read what
// the declarations name that they use.
func readsOf(root string, l *listed) (map[string][]string, error) {
	sources := testSources{}
	for _, file := range slices.Concat(l.TestGoFiles, l.XTestGoFiles) {
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, filepath.FromSlash(l.Dir), file), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, d := range f.Decls {
			sources.add(d)
		}
	}
	reads := map[string][]string{}
	for name := range sources {
		if !strings.HasPrefix(name, "Test") && !strings.HasPrefix(name, "Fuzz") {
			continue
		}
		for _, text := range sources.pathsOf(name, "TestMain", "init", "_") { // these run before each test
			read := path.Join(l.Dir, text)
			if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(read))); err == nil && filepath.IsLocal(read) {
				reads[name] = append(reads[name], read)
			}
		}
	}
	return reads, nil
}

// receiver matches the name of the type in that of a receiver.
var receiver = regexp.MustCompile(`\w+`)

// add adds a declaration under each name that it declares.
func (s testSources) add(d ast.Decl) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		s.addNode(d.Name.Name, d)
		if d.Recv != nil {
			s.addNode(receiver.FindString(types.ExprString(d.Recv.List[0].Type)), d)
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.ValueSpec:
				for _, name := range spec.Names {
					s.addNode(name.Name, spec)
				}
			case *ast.TypeSpec:
				s.addNode(spec.Name.Name, spec)
			}
		}
	}
}

func (s testSources) addNode(name string, node ast.Node) {
	d := s[name]
	if d == nil {
		d = &declaration{names: map[string]bool{}}
		s[name] = d
	}
	ast.Inspect(node, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Ident:
			d.names[n.Name] = true
		case *ast.BasicLit:
			// ".." alone is a hostile name in most tests.
			if text, err := strconv.Unquote(n.Value); err == nil && strings.HasPrefix(text, "../") {
				d.paths = append(d.paths, text)
			}
		}
		return true
	})
}

// pathsOf returns the paths in the declarations with some names, and in all that these use.
func (s testSources) pathsOf(names ...string) (paths []string) {
	seen := map[string]bool{}
	for len(names) > 0 {
		name := names[0]
		if names = names[1:]; seen[name] || s[name] == nil {
			continue
		}
		seen[name] = true
		paths = append(paths, s[name].paths...)
		for used := range s[name].names {
			names = append(names, used)
		}
	}
	return paths
}
