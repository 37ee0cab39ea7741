package reference_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

var manDir = flag.String("man", "", "write the man pages into this `directory`")

// TestManPages writes a man page for each verb that the help lists. 'make release' names a
// directory with -man, and puts the pages into its packages.
func TestManPages(t *testing.T) {
	dir := *manDir
	if dir == "" {
		dir = t.TempDir()
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	root := command()
	root.DisableAutoGenTag = true // the tag contains a date, which would differ in each build
	if err := doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "segno", Manual: "segno manual"}, dir); err != nil {
		t.Fatal(err)
	}
	var check func(c *cobra.Command)
	check = func(c *cobra.Command) {
		if !c.IsAvailableCommand() || c.IsAdditionalHelpTopicCommand() {
			return
		}
		page, err := os.ReadFile(filepath.Join(dir, strings.ReplaceAll(c.CommandPath(), " ", "-")+".1"))
		if err != nil {
			t.Error(err)
		}
		if c.Short != "" && !strings.Contains(string(page), strings.Fields(c.Short)[0]) {
			t.Errorf("the man page of %q does not contain its summary", c.CommandPath())
		}
		for _, sub := range c.Commands() {
			check(sub)
		}
	}
	for _, c := range root.Commands() {
		check(c)
	}
}
