package cli

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
)

var update = flag.Bool("update", false, "rewrite docs/cli.md and golden files")

const docsFile = "../../docs/cli.md"

// TestDocsUpToDate makes docs/cli.md from the commands themselves.
func TestDocsUpToDate(t *testing.T) {
	want := reference(t)
	if *update {
		if err := os.WriteFile(docsFile, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(docsFile)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("docs/cli.md is stale; run 'go test ./internal/cli -run Docs -update'\n%s", diff)
	}
}

func reference(t *testing.T) []byte {
	t.Helper()
	intro, err := os.ReadFile("testdata/docs/intro.md")
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	b.Write(intro)
	b.WriteString("\n## Exit codes\n\nThe table is append-only; a code a script does not know means failure.\n\n| code | means |\n| --- | --- |\n")
	for _, e := range exitTable {
		fmt.Fprintf(&b, "| %d | %s |\n", e.code, e.text)
	}
	root := (&app{}).root()
	root.InitDefaultHelpFlag()
	b.WriteString("\n## Everywhere\n\n```\n" + root.PersistentFlags().FlagUsages() + "```\n\n## Verbs\n")
	describeAll(&b, root, 3)
	return b.Bytes()
}

func describeAll(b *bytes.Buffer, c *cobra.Command, level int) {
	for _, sub := range c.Commands() {
		if sub.Hidden || sub.Name() == "help" || sub.Name() == "completion" {
			continue
		}
		long := sub.Long
		if long == "" {
			long = strings.ToUpper(sub.Short[:1]) + sub.Short[1:] + "."
		}
		fmt.Fprintf(b, "\n%s segno %s\n\n%s\n", strings.Repeat("#", level), strings.TrimPrefix(sub.UseLine(), "segno "), long)
		if sub.Example != "" {
			fmt.Fprintf(b, "\n```\n%s\n```\n", sub.Example)
		}
		if flags := sub.NonInheritedFlags().FlagUsages(); flags != "" {
			fmt.Fprintf(b, "\n```\n%s```\n", flags)
		}
		describeAll(b, sub, level)
	}
}
