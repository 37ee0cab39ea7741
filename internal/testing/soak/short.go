package soak

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// DrawIfShort skips seven of eight tests of a package in a run with -short, another choice at each run, unless a flag names tests.
// The TestMain of a package calls it if its tests together take many seconds, because go test -short work is for the time between
// two edits. The tests of the package are those in its directory, in which go test starts the process.
func DrawIfShort() {
	if !flag.Parsed() {
		flag.Parse()
	}
	if !testing.Short() || IsWhole() || isSet("test.run") || isSet("test.skip") {
		return
	}
	var skipped []string
	all := testsIn(".")
	seed := drawSeed()
	for _, name := range all {
		if hashOf(seed, name)%8 != 0 {
			skipped = append(skipped, name)
		}
	}
	fmt.Printf("SEGNO_SEED=%s: draws %d of %d tests\n", seed, len(all)-len(skipped), len(all))
	if err := flag.Set("test.skip", "^("+strings.Join(skipped, "|")+")$"); err != nil {
		panic(err) // names are valid patterns
	}
}

// testsIn returns the names of the tests in a directory.
func testsIn(dir string) (names []string) {
	files, _ := filepath.Glob(filepath.Join(dir, "*_test.go")) // the pattern is valid
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // then its tests run
		}
		for _, found := range testName.FindAllSubmatch(text, -1) {
			names = append(names, string(found[1]))
		}
	}
	return names
}

var testName = regexp.MustCompile(`(?m)^func (Test\w+)\(\w+ \*testing\.T\)`)
