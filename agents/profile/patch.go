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

// Hunk is a place in which a patch changes a file: whole lines that it replaces, and the lines in their place.
type Hunk struct {
	Before, After string
	IsWhole       bool // After is the whole file
}

// PatchHunks returns the changes of a patch to each file that it adds, or updates without a new name. A file has none if the patch
// names it more than once, moves or deletes it, or inserts lines without a line before or after them.
func PatchHunks(text string) map[string][]Hunk {
	p := patchReader{hunks: map[string][]Hunk{}, bad: map[string]bool{}}
	_, patch, _ := strings.Cut(text, PatchBegin)
	for line := range strings.Lines(patch) {
		if strings.HasPrefix(line, "*** End Patch") {
			break
		}
		p.add(line)
	}
	p.endHunk()
	for path, isBad := range p.bad {
		if isBad {
			delete(p.hunks, path)
		}
	}
	return p.hunks
}

// patchReader reads the lines of a patch.
type patchReader struct {
	hunks map[string][]Hunk
	bad   map[string]bool // the files whose changes the patch does not show
	path  string
	hunk  Hunk
	isIn  bool // a line belongs to a hunk
}

func (p *patchReader) add(line string) {
	for i, begin := range headerBegins() {
		if name, ok := strings.CutPrefix(line, begin); ok {
			p.header(i, strings.TrimSpace(name))
			return
		}
	}
	switch {
	case p.hunk.IsWhole && line[0] == '+':
		p.hunk.After += line[1:]
	case strings.HasPrefix(line, "@@"):
		p.endHunk()
		p.isIn = true
	case strings.HasPrefix(line, "*** End of File"):
	default:
		p.isIn = true
		switch line[0] {
		case '+':
			p.hunk.After += line[1:]
		case '-':
			p.hunk.Before += line[1:]
		case ' ':
			p.hunk.Before, p.hunk.After = p.hunk.Before+line[1:], p.hunk.After+line[1:]
		case '\n':
			p.hunk.Before, p.hunk.After = p.hunk.Before+line, p.hunk.After+line
		default:
			p.bad[p.path] = true
		}
	}
}

// header begins a file. kind is the index of the header's prefix.
func (p *patchReader) header(kind int, path string) {
	if headerBegins()[kind] == "*** Move to: " {
		p.bad[p.path], p.bad[path] = true, true
		return
	}
	p.endHunk()
	_, again := p.hunks[path]
	p.bad[path] = p.bad[path] || again || headerBegins()[kind] == "*** Delete File: "
	if p.bad[path] {
		p.hunks[path] = nil
	}
	p.path, p.hunk.IsWhole = path, headerBegins()[kind] == "*** Add File: "
	p.isIn = p.hunk.IsWhole
}

// endHunk ends a hunk.
func (p *patchReader) endHunk() {
	if p.isIn {
		p.bad[p.path] = p.bad[p.path] || p.hunk.Before == "" && !p.hunk.IsWhole
		p.hunks[p.path] = append(p.hunks[p.path], p.hunk)
	}
	p.hunk, p.isIn = Hunk{}, false
}
