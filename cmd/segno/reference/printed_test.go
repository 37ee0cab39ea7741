package reference_test

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// These find the words behind "segno" where a text quotes a command.
var (
	inSource   = regexp.MustCompile(`(?:'|"  |\\n  )segno((?: +[a-z][a-z-]*)+)`)
	inScript   = regexp.MustCompile(`(?m)^exec segno((?: +[a-z][a-z-]*)+)`)
	inDocument = regexp.MustCompile("(?:['`]|\n(?:\\$ )?)segno((?: +[a-z][a-z-]*)+)")
	codeBlock  = regexp.MustCompile("(?ms)^```.*?^```")
	inlineCode = regexp.MustCompile("['`]segno [^'`]*['`]")
)

// printedCommands returns the commands that a file prints, without "segno".
func printedCommands(name, text string) (commands [][]string) {
	in := inSource
	switch {
	case strings.HasSuffix(name, ".txtar"):
		in = inScript
	case strings.HasSuffix(name, ".md"): // a line of prose may also begin with "segno"
		in, text = inDocument, strings.Join(append(codeBlock.FindAllString(text, -1), inlineCode.FindAllString(text, -1)...), " ")
	}
	for _, m := range in.FindAllStringSubmatch(text, -1) {
		commands = append(commands, strings.Fields(m[1]))
	}
	return commands
}

// TestPrintedCommandsExist reads the texts that print commands: the messages and the help in the sources, the documents, and the
// scripts. The command that each names must exist, and must not be an earlier spelling. It leaves out generated documents.
func TestPrintedCommandsExist(t *testing.T) {
	root := command()
	out, err := exec.CommandContext(t.Context(), "git", "-C", "../../..", "ls-files", "*.go", "*.md", "*.txtar", "*.js", "Makefile").Output()
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, name := range strings.Fields(string(out)) {
		switch {
		case strings.HasSuffix(name, "former_verbs.txtar"), strings.HasSuffix(name, "printed_test.go"), name == "CHANGELOG.md": // these name earlier spellings
			continue
		case name == "docs/cli.md", name == "internal/cli/testdata/messages.md": // the sources of these are read
			continue
		case name == "docs/format.md", name == "store/postgres/schema.go", strings.HasPrefix(name, "workspace/"): // 'segno tree 1' begins a stored object
			continue
		}
		text, err := os.ReadFile("../../../" + name)
		if err != nil {
			t.Fatal(err)
		}
		for _, words := range printedCommands(name, string(text)) {
			found++
			c, _, err := root.Find(words[:1])
			switch {
			case err != nil:
				t.Errorf("%s: there is no command 'segno %s'", name, strings.Join(words, " "))
			case c.HasSubCommands() && len(words) > 1 && !slices.ContainsFunc(c.Commands(), func(sub *cobra.Command) bool { return sub.Name() == words[1] }):
				t.Errorf("%s: there is no command 'segno %s'", name, strings.Join(words[:2], " "))
			case isFormer(c, root):
				t.Errorf("%s: 'segno %s' is an earlier spelling", name, strings.Join(words, " "))
			}
		}
	}
	if found < 500 {
		t.Errorf("only %d commands were found", found)
	}
}

// isFormer reports whether a hidden verb is also behind a noun.
func isFormer(c, root *cobra.Command) bool {
	for _, noun := range root.Commands() {
		for _, sub := range noun.Commands() {
			if c.Hidden && sub.Name() == c.Name() && sub.Short == c.Short {
				return true
			}
		}
	}
	return false
}
