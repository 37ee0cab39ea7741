package segno_test

import (
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// imported are the packages that README's functions use, by the names that they use.
var imported = map[string]string{
	"context": "context", "fmt": "fmt", "json": "encoding/json", "log": "log",
	"segno": module, "agent": module + "/agent", "saver": module + "/saver",
}

// blocks returns the code blocks of a document in a language, "" for a shell.
func blocks(text, language string) (all []string) {
	for _, found := range regexp.MustCompile("(?ms)^```([a-z]*)\n(.*?)^```$").FindAllStringSubmatch(text, -1) {
		if found[1] == language {
			all = append(all, found[2])
		}
	}
	return all
}

// TestReadmesSnippetsCompile sets a program up as README tells, in a directory beside a checkout,
// and builds README's Go code there as it is printed: the blocks that begin with a package
// clause as files, the others as files of the same program with their imports added. Then it
// runs the program. In another directory go compiles segno again: -short only parses the code.
func TestReadmesSnippetsCompile(t *testing.T) {
	root, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	readme, beside := string(text), t.TempDir()
	dir := filepath.Join(beside, "program")
	if err := os.Symlink(root, filepath.Join(beside, "segno")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	run := func(line string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "sh", "-ec", line)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK=", "GOFLAGS=")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", line, err, out)
		}
		return string(out)
	}
	setup := ""
	for _, block := range blocks(readme, "") {
		if strings.Contains(block, "go work init") {
			setup += block
		}
	}
	if setup == "" {
		t.Fatal("README does not tell how to set a program up")
	}
	snippets := blocks(readme, "go")
	if len(snippets) == 0 {
		t.Fatal("README has no Go code")
	}
	if testing.Short() {
		for _, snippet := range snippets {
			if _, err := parser.ParseFile(token.NewFileSet(), "README.md", complete(snippet), parser.AllErrors); err != nil {
				t.Errorf("%v\n%s", err, snippet)
			}
		}
		return
	}
	run(setup)
	for i, snippet := range snippets {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("snippet%d.go", i)), []byte(complete(snippet)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	run("go vet .")
	want := regexp.MustCompile(`fmt\.Println\(e\.Text\) // (.*)`).FindStringSubmatch(snippets[0])
	if got := run("go run ."); want == nil || strings.TrimSpace(got) != want[1] {
		t.Errorf("the program prints %q, want what its comment says: %q", got, want)
	}
	more := regexp.MustCompile("`(go work use [^`]+)`").FindAllStringSubmatch(readme, -1)
	if len(more) == 0 {
		t.Error("README does not tell how to use a module of a store")
	}
	for _, m := range more {
		run(m[1])
		imports := module + strings.TrimPrefix(m[1], "go work use ../segno")
		if err := os.WriteFile(filepath.Join(dir, "module.go"), []byte("package main\n\nimport _ \""+imports+"\"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		run("go build -o /dev/null .")
	}
}

// complete makes a file of a snippet, as an editor does.
func complete(snippet string) string {
	if strings.HasPrefix(snippet, "package ") {
		return snippet
	}
	file := "package main\n\nimport (\n"
	for name, path := range imported {
		if regexp.MustCompile(`\b` + name + `\.`).MatchString(regexp.MustCompile(`//.*`).ReplaceAllString(snippet, "")) {
			file += fmt.Sprintf("\t%q\n", path)
		}
	}
	return file + ")\n\n" + snippet
}
