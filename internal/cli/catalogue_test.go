package cli_test

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite golden files")

const messagesFile = "testdata/messages.md"

// TestCatalogueUpToDate makes testdata/messages.md, the list of all texts that users can see, so that a reviewer can
// read them as a whole.
func TestCatalogueUpToDate(t *testing.T) {
	var b strings.Builder
	b.WriteString(`# Messages

The texts that segno shows to users: results, errors and hints of commands, the chat, the proxy and the hooks. They are together
so that one person can review them; docs/cli.md has the help. "…" is a value that the program inserts, and so are the
verbs of fmt such as %s. 'go test ./internal/cli -run Catalogue -update' writes this page.
`)
	for _, dir := range messageDirs(t) {
		if texts := messagesOf(t, dir); len(texts) > 0 {
			fmt.Fprintf(&b, "\n## %s\n\n```\n%s\n```\n", strings.TrimPrefix(filepath.ToSlash(dir), "../../"), strings.Join(texts, "\n"))
		}
	}
	want := b.String()
	if *update {
		if err := os.WriteFile(messagesFile, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(messagesFile)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("testdata/messages.md is stale; run 'go test ./internal/cli -run Catalogue -update'\n%s", diff)
	}
}

// messageDirs returns the directories of the packages whose texts users can see.
func messageDirs(t *testing.T) (all []string) {
	t.Helper()
	for _, pkg := range []string{"agent", "archive", "internal/chat/acpagent", "internal/chat", "internal/cli", "internal/history/historycmd", "internal/hook/hookcmd", "internal/hook/event", "internal/proxy/proxycmd", "internal/chat/chatcmd", "internal/pack/packcmd", "internal/pack/archivefile",
		"internal/sessions", "internal/web/webcmd", "internal/worlds/worldscmd", "internal/history", "internal/history/turns", "timeline/internal/ownership", "internal/proxy/failure", "internal/history/moves", "internal/history/patch",
		"internal/hook", "internal/history/idprefix", "internal/local", "internal/pack", "internal/proxy/preamble", "internal/proxy",
		"transcript/internal/sessionfile", "internal/local/spool", "internal/chat/tui", "saver", "store/*", "store/*/*", "timeline", "transcript", "transcript/*", "workspace", "internal/worlds", "world", "world/*", "insight/*", "insight/internal/*", "fleet", "fleet/fleetcmd", "fleet/runner", "fleet/workspaces", "fleet/s3"} {
		dirs, err := filepath.Glob(filepath.Join("../..", pkg))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, dirs...)
	}
	return all
}

// TestHintsOverwriteNothing reads the hints of all errors. A refusal lists no conflicts, so no hint
// may name the flag that overwrites conflicts. A user who follows such a hint would lose lines that
// no message mentioned.
func TestHintsOverwriteNothing(t *testing.T) {
	hints := 0
	for _, dir := range messageDirs(t) {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		consts, used := map[string]string{}, map[string]string{}
		for _, name := range files {
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.ValueSpec:
					for i, v := range n.Values {
						if text, ok := textOf(v); ok {
							consts[n.Names[i].Name] = text
						}
					}
				case *ast.CallExpr:
					if f, ok := n.Fun.(*ast.SelectorExpr); ok && f.Sel.Name == "WithHint" && !strings.HasSuffix(name, "_test.go") {
						ast.Inspect(n.Args[0], func(n ast.Node) bool {
							switch n := n.(type) {
							case *ast.Ident:
								used[n.Name] = ""
							case *ast.BasicLit:
								used[n.Value] = n.Value
							}
							return true
						})
					}
				}
				return true
			})
		}
		for name, text := range used {
			if text == "" {
				text = consts[name]
			}
			if hints++; strings.Contains(text, "force") {
				t.Errorf("a hint of %s names a flag that overwrites: %q", dir, text)
			}
		}
	}
	if hints < 100 {
		t.Errorf("only %d hints were found", hints)
	}
}

// messagesOf returns the texts in the sources of a package: strings with a word and a space, and
// sums of such strings and other values.
func messagesOf(t *testing.T, dir string) (texts []string) {
	t.Helper()
	if slices.Contains([]string{"buckettest", "storetest", "kvtest", "worldtest"}, filepath.Base(dir)) {
		return nil
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ImportSpec, *ast.Field: // paths and tags
				_, isTag := n.(*ast.Field)
				return isTag && n.(*ast.Field).Tag == nil
			case *ast.KeyValueExpr: // the help is in docs/cli.md
				key, ok := n.Key.(*ast.Ident)
				return !ok || !slices.Contains([]string{"Long", "Short", "Example", "Use"}, key.Name)
			case *ast.CallExpr:
				return !isHelpOrPanic(n)
			case ast.Expr:
				text, isText := textOf(n)
				if isText && isMessage(text) {
					quoted := strconv.Quote(strings.TrimSpace(text))
					texts = append(texts, strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`))
				}
				return !isText
			}
			return true
		})
	}
	slices.Sort(texts)
	return slices.Compact(texts)
}

// isHelpOrPanic reports whether a call panics, lists words of a pattern, or defines a flag, whose text is in
// docs/cli.md.
func isHelpOrPanic(c *ast.CallExpr) bool {
	switch f := c.Fun.(type) {
	case *ast.Ident:
		return f.Name == "panic"
	case *ast.SelectorExpr:
		return strings.HasSuffix(f.Sel.Name, "Var") || strings.HasSuffix(f.Sel.Name, "VarP") || f.Sel.Name == "MustCompile" || f.Sel.Name == "Fields"
	}
	return false
}

// textOf returns the value of a string literal or of a sum with a string literal, in which "…"
// stands for each other value.
func textOf(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return text, err == nil && e.Kind == token.STRING
	case *ast.ParenExpr:
		return textOf(e.X)
	case *ast.BinaryExpr:
		left, isLeft := textOf(e.X)
		right, isRight := textOf(e.Y)
		if e.Op != token.ADD || !isLeft && !isRight {
			return "", false
		}
		if !isLeft {
			left = "…"
		}
		if !isRight {
			right = "…"
		}
		return left + right, true
	}
	return "", false
}

var (
	verb    = regexp.MustCompile(`%[-+#0-9.*]*[a-zA-Z]`)
	word    = regexp.MustCompile(`\pL{3}`)
	queries = regexp.MustCompile(`\b(SELECT|INSERT|UPDATE|DELETE FROM|CREATE|WHERE|ORDER BY|PRAGMA|BEGIN|COMMIT|ROLLBACK|ANALYZE|JOIN|VALUES|UNION|RETURNING|LOCK TABLE|NOT hidden|ON CONFLICT)\b|\$\d|= \?|= %s|coalesce\(|\w = \w+\(`)
)

// isMessage reports whether a string is a text for a person: it has a word and a space, and is not
// SQL.
func isMessage(text string) bool {
	text = strings.TrimSpace(text)
	return strings.Contains(text, " ") && word.MatchString(verb.ReplaceAllString(text, "")) && !queries.MatchString(text)
}
