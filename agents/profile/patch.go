package profile

import (
	"maps"
	"strings"
)

// ApplyPatch is the tool with which Codex, and OpenCode with some models, change files. Its input has a patch. Codex also runs it for a
// shell command of this name whose input is a patch.
const ApplyPatch = "apply_patch"

// PatchBegin is the first line of a patch.
const PatchBegin = "*** Begin Patch\n"

const patchEnd = "*** End Patch"

// The beginnings of the lines in a patch that name files.
const (
	patchAdd    = "*** Add File: "
	patchUpdate = "*** Update File: "
	patchDelete = "*** Delete File: "
	patchMove   = "*** Move to: "
)

// cutHeader returns the beginning of a line that names a file, and the name. It returns "" for other lines.
func cutHeader(line string) (begin, name string) {
	for _, begin := range []string{patchAdd, patchUpdate, patchDelete, patchMove} {
		if name, ok := strings.CutPrefix(line, begin); ok {
			return begin, strings.TrimSpace(name)
		}
	}
	return "", ""
}

// PatchFiles returns the files that a patch changes. text is a patch, or a command that contains
// one.
func PatchFiles(text string) (paths []string) {
	for _, line := range PatchHeaders(text) {
		_, name := cutHeader(line)
		paths = append(paths, name)
	}
	return paths
}

// PatchHeaders returns the lines of a patch that name files, at most 64 KiB of them.
func PatchHeaders(text string) (lines []string) {
	left := 64 << 10
	_, patch, _ := strings.Cut(text, PatchBegin)
	for line := range strings.Lines(patch) {
		if strings.HasPrefix(line, patchEnd) {
			break
		}
		if begin, _ := cutHeader(line); begin == "" {
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
// names it more than once, moves or deletes it, or inserts lines without a line before or after them. There are none at all without
// the end of the patch: only its headers were kept, because it was too long.
func PatchHunks(text string) map[string][]Hunk {
	p := patchReader{hunks: map[string][]Hunk{}, bad: map[string]bool{"": true}}
	_, patch, _ := strings.Cut(text, PatchBegin)
	for line := range strings.Lines(patch) {
		if strings.HasPrefix(line, patchEnd) {
			p.endHunk()
			maps.DeleteFunc(p.hunks, func(path string, _ []Hunk) bool { return p.bad[path] })
			return p.hunks
		}
		p.add(line)
	}
	return nil
}

// patchReader reads the lines of a patch.
type patchReader struct {
	hunks map[string][]Hunk
	bad   map[string]bool // files without hunks, see [PatchHunks]
	path  string
	hunk  Hunk
	isIn  bool // a line belongs to a hunk
}

func (p *patchReader) add(line string) {
	if begin, name := cutHeader(line); begin != "" {
		p.header(begin, name)
		return
	}
	switch {
	case strings.HasPrefix(line, "@@"):
		p.endHunk()
		p.isIn = true
		return
	case strings.HasPrefix(line, "*** End of File"):
		return
	}
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

// header begins a file, or names where the patch moves it.
func (p *patchReader) header(begin, name string) {
	if begin == patchMove {
		p.bad[p.path], p.bad[name] = true, true
		return
	}
	p.endHunk()
	if _, again := p.hunks[name]; again || begin == patchDelete {
		p.bad[name] = true
	}
	p.hunks[name] = nil
	p.path, p.hunk.IsWhole, p.isIn = name, begin == patchAdd, begin == patchAdd
}

// endHunk ends a hunk. An added file has added lines only.
func (p *patchReader) endHunk() {
	if p.isIn {
		p.bad[p.path] = p.bad[p.path] || (p.hunk.Before == "") != p.hunk.IsWhole
		p.hunks[p.path] = append(p.hunks[p.path], p.hunk)
	}
	p.hunk, p.isIn = Hunk{}, false
}
