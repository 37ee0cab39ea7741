package main

import (
	"fmt"
	"os"
	"strings"
)

// isTagged reports whether a version is that of a tagged commit without further changes; see describe.
func isTagged(version string) bool {
	return !strings.HasPrefix(version, "0.0.0-g") && !strings.HasSuffix(version, "+changed")
}

// readNotes returns the section of a version in the changelog. A commit without a tag has the section Unreleased.
func readNotes(file, version string) (string, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	title := version
	if !isTagged(version) {
		title = "Unreleased"
	}
	for section := range strings.SplitSeq("\n"+string(data), "\n## ") {
		heading, text, _ := strings.Cut(section, "\n")
		if words := strings.Fields(heading); len(words) > 0 && words[0] == title {
			return strings.TrimSpace(text), nil
		}
	}
	return "", fmt.Errorf("%s has no section %q", file, "## "+title)
}

// page returns the text of the page of the release.
func (r *release) page(files []entry) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, `# segno %[1]s

%[2]s

## Install

| with | command |
| --- | --- |
| a script, into ~/.local/bin | %[3]scurl -fsSL %[4]s/install.sh \| sh%[3]s |
| Homebrew | %[3]sbrew install dalsegno/tap/segno%[3]s |
| npm | %[3]snpm install --global @dalsegno/segno@%[5]s%[3]s |
| Debian, Ubuntu | download the .deb file below, then %[3]ssudo apt install ./segno_%[6]s_amd64.deb%[3]s |

Then run %[3]ssegno demo%[3]s to see it work, or %[3]ssegno enable claude%[3]s to begin.

## Files

| SHA-256 | file |
| --- | --- |
`, r.version, r.notes, "`", r.downloads(), r.npmVersion(), r.debVersion())
	for _, f := range files {
		fmt.Fprintf(&b, "| `%s` | %s |\n", checksum(f.data), f.name)
	}
	fmt.Fprintf(&b, "\nThe files were built from commit %s with %s; %smake release%s in a checkout of the commit, with this version of Go, gives the same bytes.\n",
		r.revision, r.goVersion, "`", "`")
	return []byte(b.String())
}
