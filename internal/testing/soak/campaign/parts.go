package main

import (
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/dalsegno/segno/internal/testing/soak"
)

// part is a piece of a campaign that one process runs: a test, or one of several equal parts of it.
type part struct {
	suite suite
	pkg   string // the package, as its directory relative to the root of the repository
	test  string
	n, of int
	seed  uint64 // the seed of the campaign
}

// name names the part in the state.
func (p part) name() string {
	name := p.pkg + "." + p.test
	if p.of > 1 {
		name += fmt.Sprintf(" %d/%d", p.n+1, p.of)
	}
	return name
}

// file is the part's name in a form for file names.
func (p part) file() string { return strings.NewReplacer("/", "-", " ", "-").Replace(p.name()) }

// tests are the names of the tests and fuzzers of a package.
type tests struct {
	pkg   string // its directory relative to the root of the repository
	names []string
}

// allTests reads the names of all tests from the sources.
func allTests(ctx context.Context, root string) ([]tests, error) {
	const files = "{{.Dir}}{{range .TestGoFiles}}\t{{.}}{{end}}{{range .XTestGoFiles}}\t{{.}}{{end}}"
	list, err := output(ctx, root, "go", "list", "-f", files, "work")
	if err != nil {
		return nil, err
	}
	var all []tests
	for line := range strings.SplitSeq(list, "\n") {
		dir, files, _ := strings.Cut(line, "\t")
		pkg, err := filepath.Rel(root, dir)
		if err != nil {
			return nil, err
		}
		t := tests{pkg: pkg}
		for file := range strings.FieldsSeq(files) {
			names, err := testsIn(filepath.Join(dir, file))
			if err != nil {
				return nil, err
			}
			t.names = append(t.names, names...)
		}
		all = append(all, t)
	}
	return all, nil
}

// testsIn returns the names of the tests and fuzzers in a file. It parses the file, because a test may contain the source of others.
func testsIn(path string) (names []string, err error) {
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	for _, d := range file.Decls {
		f, isFunc := d.(*ast.FuncDecl)
		if !isFunc || f.Recv != nil || f.Type.Params.NumFields() != 1 {
			continue
		}
		name, of := f.Name.Name, types.ExprString(f.Type.Params.List[0].Type)
		if strings.HasPrefix(name, "Test") && of == "*testing.T" || strings.HasPrefix(name, "Fuzz") && of == "*testing.F" {
			names = append(names, name)
		}
	}
	return names, nil
}

// plan returns the parts of a campaign. The parts of its suites alternate, and so do the parts of the tests of a suite,
// so that an interrupted campaign has tried some of each.
func plan(all []campaign, c campaign, packages []tests, seed uint64) ([]part, error) {
	perSuite := make([][]part, len(c.suites))
	for _, p := range packages {
		for _, name := range p.names {
			if campaign, n := first(all, p.pkg, name); campaign == c.name {
				perSuite[n] = append(perSuite[n], part{suite: c.suites[n], pkg: p.pkg, test: name, of: max(1, c.suites[n].parts), seed: seed})
			}
		}
	}
	for i, parts := range perSuite {
		if len(parts) == 0 {
			return nil, fmt.Errorf("no test of %q matches %q", c.suites[i].packages, c.suites[i].run)
		}
		perSuite[i] = nil
		for n := range parts[0].of {
			for _, p := range parts {
				p.n = n
				perSuite[i] = append(perSuite[i], p)
			}
		}
	}
	return alternate(perSuite), nil
}

// alternate merges lists: the first element of each, the second of each, and so on.
func alternate(lists [][]part) (all []part) {
	for i, left := 0, true; left; i++ {
		left = false
		for _, list := range lists {
			if i < len(list) {
				all, left = append(all, list[i]), true
			}
		}
	}
	return all
}

// args returns the arguments of the test's process. A fuzzer keeps the inputs that it found below dir.
func (p part) args(dir string) []string {
	args := []string{"-test.run=^" + p.test + "$", "-test.v", "-test.timeout=2h"}
	if p.suite.fuzz > 0 {
		return append(args, "-test.fuzz=^"+p.test+"$", "-test.fuzzcachedir="+filepath.Join(dir, strings.ReplaceAll(p.pkg, "/", "-")), "-test.fuzzminimizetime=1s", "-test.parallel=1",
			"-test.fuzztime="+(p.suite.fuzz/time.Duration(p.of)).String())
	}
	if p.suite.count > 0 {
		args = append(args, "-test.count="+strconv.Itoa(p.suite.count))
	}
	if p.suite.rapid > 0 {
		checks := p.suite.rapid*(p.n+1)/p.of - p.suite.rapid*p.n/p.of
		args = append(args, "-rapid.checks="+strconv.Itoa(checks),
			"-rapid.seed="+strconv.FormatUint(soak.RapidSeed(p.seed+uint64(p.n)), 10), "-rapid.nofailfile")
	}
	return args
}

// env returns the environment variables of the part.
func (p part) env() []string {
	env := []string{"SEGNO_SOAK=1", "SEGNO_SEED=" + strconv.FormatUint(p.seed, 10)}
	if p.of > 1 {
		env = append(env, fmt.Sprintf("SEGNO_PART=%d/%d", p.n, p.of))
	}
	if p.suite.cases > 0 {
		env = append(env, "SEGNO_COUNT="+strconv.Itoa(p.suite.cases))
	}
	if p.suite.fuzz > 0 {
		env = append(env, "GOMAXPROCS=1") // so that a fuzzer leaves the other cores to other parts
	}
	return env
}

// repeat returns the command that repeats the part in the root of the repository.
func (p part) repeat() string {
	args := []string{"go", "test", "-count=1", "-vet=off"}
	if p.suite.race {
		args = append(args, "-race")
	}
	if p.suite.fuzz > 0 {
		return strings.Join(append(args, "-run", "'^"+p.test+"$'", "./"+filepath.ToSlash(p.pkg)), " ") + " # with the input that the output names"
	}
	args = append(args, "./"+filepath.ToSlash(p.pkg))
	for _, arg := range p.args("") {
		if arg = strings.Replace(arg, "-test.", "-", 1); arg != "-v" {
			args = append(args, "'"+arg+"'")
		}
	}
	return strings.Join(append(p.env(), args...), " ")
}
