package profile

import (
	"slices"
	"strings"
)

// ApplyPatch is the tool with which Codex, and OpenCode with some models, change files. Its input has a patch. Codex also runs it for a
// shell command of this name whose input is a patch.
const ApplyPatch = "apply_patch"

// PatchBegin is the first line of a patch.
const PatchBegin = "*** Begin Patch\n"

// headerBegins returns the prefixes of the lines in a patch that name files.
func headerBegins() []string {
	return []string{"*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: "}
}

// PatchFiles returns the files that a patch changes. text is a patch, or a command that contains
// one.
func PatchFiles(text string) (paths []string) {
	for _, line := range PatchHeaders(text) {
		_, p, _ := strings.Cut(line, ": ")
		paths = append(paths, strings.TrimSpace(p))
	}
	return paths
}

// PatchHeaders returns the lines of a patch that name files, at most 64 KiB of them.
func PatchHeaders(text string) (lines []string) {
	left := 64 << 10
	_, patch, _ := strings.Cut(text, PatchBegin)
	for line := range strings.Lines(patch) {
		if strings.HasPrefix(line, "*** End Patch") {
			break
		}
		isHeader := slices.ContainsFunc(headerBegins(), func(begin string) bool { return strings.HasPrefix(line, begin) })
		if !isHeader {
			continue
		}
		if left -= len(line); left < 0 {
			break
		}
		lines = append(lines, line)
	}
	return lines
}
