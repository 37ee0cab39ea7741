// Package reference_test makes docs/cli.md and the man pages from the verbs of the whole command, and finds texts that name a command
// that does not exist. It is in the module of the command, because the main module cannot import the verbs of a fleet.
package reference_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/dalsegno/segno/fleet/fleetcmd"
	"github.com/dalsegno/segno/internal/cli"
	"github.com/dalsegno/segno/internal/testing/wings"
)

var update = flag.Bool("update", false, "rewrite docs/cli.md")

const docsFile = "../../../docs/cli.md"

// command returns the whole command, without its stores and models. Its verbs do not depend on them, and TestTheTestsHaveAllWings
// compares its list of wings with that of the command.
func command() *cobra.Command {
	return cli.New(cli.Env{}, append(wings.All(), fleetcmd.Wing(nil))).Root()
}

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
		t.Errorf("docs/cli.md is stale; run 'go test ./cmd/segno/reference -run Docs -update'\n%s", diff)
	}
}

func reference(t *testing.T) []byte {
	t.Helper()
	intro, err := os.ReadFile("../../../internal/cli/testdata/docs/intro.md")
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	b.Write(intro)
	b.WriteString("\n## Exit codes\n\nThe table is append-only; a code a script does not know means failure.\n\n| code | means |\n| --- | --- |\n")
	for _, e := range cli.ExitTable() {
		fmt.Fprintf(&b, "| %d | %s |\n", e.Code, e.Text)
	}
	root := command()
	root.InitDefaultHelpFlag()
	b.WriteString("\n## Everywhere\n\n```\n" + root.PersistentFlags().FlagUsages() + "```\n")
	for _, g := range append(root.Groups(), &cobra.Group{Title: "Others:"}) {
		fmt.Fprintf(&b, "\n## %s\n", strings.TrimSuffix(g.Title, ":"))
		for _, c := range root.Commands() {
			if c.GroupID == g.ID {
				describe(&b, c)
			}
		}
	}
	return b.Bytes()
}

// describe writes a verb and the verbs below it.
func describe(b *bytes.Buffer, c *cobra.Command) {
	if c.Hidden || c.Name() == "help" || c.Name() == "completion" {
		return
	}
	long := c.Long
	if long == "" {
		long = strings.ToUpper(c.Short[:1]) + c.Short[1:] + "."
	}
	fmt.Fprintf(b, "\n### segno %s\n\n%s\n", strings.TrimPrefix(c.UseLine(), "segno "), long)
	if c.Example != "" {
		fmt.Fprintf(b, "\n```\n%s\n```\n", c.Example)
	}
	if flags := c.NonInheritedFlags().FlagUsages(); flags != "" {
		fmt.Fprintf(b, "\n```\n%s```\n", flags)
	}
	for _, sub := range c.Commands() {
		describe(b, sub)
	}
}
