package main

import (
	"path/filepath"
	"testing"
)

// TestEverySuiteHasTests plans each campaign of the list. It fails if a pattern no longer matches a test.
func TestEverySuiteHasTests(t *testing.T) {
	if testing.Short() {
		return // it lists the tests of all packages
	}
	root, err := filepath.Abs("../../../..")
	if err != nil {
		t.Fatal(err)
	}
	packages, err := allTests(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	planned := map[string]string{}
	for _, c := range campaigns() {
		parts, err := plan(campaigns(), c, packages, 1)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		for _, p := range parts {
			if other := planned[p.name()]; other != "" {
				t.Errorf("%s is in %s and in %s", p.name(), other, c.name)
			}
			planned[p.name()] = c.name
		}
		t.Logf("%s: %d parts", c.name, len(parts))
	}
	count := 0
	for _, p := range packages {
		count += len(p.names)
	}
	if len(planned) < count {
		t.Errorf("%d parts for %d tests", len(planned), count)
	}
}
