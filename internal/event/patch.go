package event

import (
	"slices"
	"strings"
)

// applyPatch is the tool with which Codex changes files. Its input has a patch as the command. Codex
// runs it, too, for a shell command of this name with the patch as its input.
const applyPatch = "apply_patch"

const patchBegin = "*** Begin Patch\n"

// patchFiles begin the lines of a patch that name files.
func patchFiles() []string {
	return []string{"*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: "}
}

// patchTargets returns the files that a patch changes, or the patch in a command.
func patchTargets(text string) (paths []string) {
	for _, line := range patchHeaders(text) {
		_, p, _ := strings.Cut(line, ": ")
		paths = append(paths, strings.TrimSpace(p))
	}
	return paths
}

// patchHeaders returns the lines of a patch that name files, at most 64 KiB of them.
func patchHeaders(text string) (lines []string) {
	left := 64 << 10
	_, patch, _ := strings.Cut(text, patchBegin)
	for line := range strings.Lines(patch) {
		if strings.HasPrefix(line, "*** End Patch") {
			break
		}
		isHeader := slices.ContainsFunc(patchFiles(), func(begin string) bool { return strings.HasPrefix(line, begin) })
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
