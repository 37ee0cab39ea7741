package segno_test

import (
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// libraryPage is the document whose Go code and setup TestSnippetsCompile runs.
const libraryPage = "docs/library.md"

// imported maps the package names that the page's functions use to import paths.
var imported = map[string]string{
	"context": "context", "errors": "errors", "fmt": "fmt", "json": "encoding/json", "log": "log", "time": "time",
	"segno": module, "agent": module + "/agent", "saver": module + "/saver",
}

// blocks returns the code blocks of a document in a language; "" means a shell.
func blocks(text, language string) (all []string) {
	for _, found := range regexp.MustCompile("(?ms)^```([a-z]*)\n(.*?)^```$").FindAllStringSubmatch(text, -1) {
		if found[1] == language {
			all = append(all, found[2])
		}
	}
	return all
}

// TestSnippetsCompile follows the instructions of docs/library.md in a directory beside a
// checkout. It builds the page's Go code as printed: a block that begins with a package clause
// becomes a file, and the other blocks become files of the same program, with imports added.
// Then it runs the program. With -short it only parses the code.
func TestSnippetsCompile(t *testing.T) {
	root, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(libraryPage)
	if err != nil {
		t.Fatal(err)
	}
	page, beside := string(text), t.TempDir()
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
	for _, block := range blocks(page, "") {
		if strings.Contains(block, "go mod init") {
			setup += block
		}
	}
	if setup == "" {
		t.Fatal(libraryPage + " has no commands that set a program up")
	}
	snippets := blocks(page, "go")
	if len(snippets) == 0 {
		t.Fatal(libraryPage + " has no Go code")
	}
	if testing.Short() {
		for _, snippet := range snippets {
			if _, err := parser.ParseFile(token.NewFileSet(), libraryPage, complete(snippet), parser.AllErrors); err != nil {
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
	run("go mod tidy")
	// go compiles a package again if its directory has another name. The packages of this directory are compiled already.
	run("go mod edit -replace " + module + "=" + root)
	run("go vet .")
	want := regexp.MustCompile(`fmt\.Println\(e\.Text\) // (.*)`).FindStringSubmatch(snippets[0])
	if got := run("go run ."); want == nil || strings.TrimSpace(got) != want[1] {
		t.Errorf("the program prints %q, its comment promises %q", got, want)
	}
	modules := ""
	for _, m := range regexp.MustCompile(`(?m)^go mod edit -replace (.*/store/.*)=.*$`).FindAllStringSubmatch(page, -1) {
		run(m[0])
		run("go mod edit -replace " + m[1] + "=" + root + strings.TrimPrefix(m[1], module))
		modules += "import _ \"" + m[1] + "\"\n"
	}
	if modules == "" {
		t.Error(libraryPage + " does not explain how to use the module of a store")
	}
	if err := os.WriteFile(filepath.Join(dir, "module.go"), []byte("package main\n\n"+modules), 0o644); err != nil {
		t.Fatal(err)
	}
	run("go mod tidy")
	run("go build -o /dev/null .")
}

// TestReadmeNamesWhatExists checks that the paths in README's links and go commands exist.
func TestReadmeNamesWhatExists(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	if blocks(string(text), "go") != nil {
		t.Errorf("README has Go code, which no test compiles; it belongs in %s", libraryPage)
	}
	commands := blocks(string(text), "")
	for _, want := range []string{"go run ./cmd/segno demo\n", "go test work\n"} {
		if !slices.ContainsFunc(commands, func(block string) bool { return strings.Contains(block, want) }) {
			t.Errorf("README has no command %q", want)
		}
	}
	named := regexp.MustCompile(`\]\(([^):]+)\)|(\./cmd/[a-z-]+)`).FindAllStringSubmatch(string(text), -1)
	for _, m := range named {
		if _, err := os.Stat(m[1] + m[2]); err != nil {
			t.Errorf("README.md: %v", err)
		}
	}
}

// TestReadmeIsShort checks that a reader sees README as a whole, also in an editor.
func TestReadmeIsShort(t *testing.T) {
	const maxLines, maxColumns = 110, 120
	lines := 0
	eachLine(t, "README.md", func(n int, line string) {
		lines++
		if columns := utf8.RuneCountInString(line); columns > maxColumns {
			t.Errorf("README.md:%d has %d columns", n, columns)
		}
	})
	if lines >= maxLines {
		t.Errorf("README.md has %d lines", lines)
	}
}

// complete returns a snippet as a Go file, with the imports that an editor would add.
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
