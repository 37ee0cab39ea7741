package ownership

import (
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// inPath are the characters that a path in a command may contain. Any other character ends the
// path.
const inPath = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/~"

func isNotInPath(r rune) bool { return !strings.ContainsRune(inPath, r) }

// index finds the calls of a turn that name a path.
type index struct {
	texts []string         // texts of the calls; paths below the root are made relative
	dirs  [][]string       // the directories of the calls below the root, to which names may be relative
	words map[string][]int // the calls whose texts contain a word
}

func newIndex(calls []Call, root string) *index {
	x := &index{words: map[string][]int{}}
	for i := range calls {
		text := strings.ReplaceAll(calls[i].text, root+"/", "./")
		dirs := dirsBelow(calls[i].dirs, root)
		x.texts, x.dirs = append(x.texts, text), append(x.dirs, dirs)
		for word := range strings.FieldsFuncSeq(text, isNotInPath) {
			// A directory may have a slash at its end, and a path may be the last word of a
			// sentence.
			last := strings.TrimSuffix(word, ".")
			x.add(word, i)
			x.add(last, i)
			x.add(strings.TrimSuffix(last, "/"), i)
			for _, dir := range dirs {
				if path.IsAbs(word) {
					break
				}
				x.add(path.Join(dir, word), i)
				if strings.Trim(last, "./") != "" {
					x.add(path.Join(dir, last), i)
				}
			}
		}
	}
	return x
}

// dirsBelow returns the directories that are below the root, as paths relative to it.
func dirsBelow(dirs []string, root string) (below []string) {
	for _, dir := range dirs {
		dir = path.Clean(dir)
		if rest, ok := strings.CutPrefix(dir, root+"/"); ok {
			dir = rest
		}
		if dir != "." && filepath.IsLocal(dir) {
			below = append(below, dir)
		}
	}
	return below
}

func (x *index) add(word string, call int) {
	if calls := x.words[word]; len(calls) == 0 || calls[len(calls)-1] != call {
		x.words[word] = append(calls, call)
	}
}

// mention is a call whose text names a path, or only a directory above it.
type mention struct {
	call  int
	above bool // it names only a directory above the path
}

// naming returns the calls whose texts name a path or a directory above it, in order. The name may be absolute, or
// relative to the root or to a directory of the call, but not a part of another path.
func (x *index) naming(p string) (all []mention) {
	for at := p; at != "."; at = path.Dir(at) {
		for _, name := range []string{at, "./" + at} {
			if strings.Trim(name, inPath) == "" {
				for _, i := range x.words[name] {
					all = append(all, mention{i, at != p})
				}
				continue
			}
			for i, text := range x.texts {
				if containsWord(text, name) || x.namesBelow(i, name) {
					all = append(all, mention{i, at != p})
				}
			}
		}
	}
	// The longest name of each call comes first.
	slices.SortStableFunc(all, func(a, b mention) int { return a.call - b.call })
	return slices.CompactFunc(all, func(a, b mention) bool { return a.call == b.call })
}

// namesBelow reports whether the text of a call names a path relative to a directory of the call.
func (x *index) namesBelow(call int, name string) bool {
	return slices.ContainsFunc(x.dirs[call], func(dir string) bool {
		rest, ok := strings.CutPrefix(name, dir+"/")
		return ok && (containsWord(x.texts[call], rest) || containsWord(x.texts[call], "./"+rest))
	})
}

// containsWord reports whether text has word without other characters of a path around it.
func containsWord(text, word string) bool {
	for from := 0; ; {
		i := strings.Index(text[from:], word)
		if i < 0 {
			return false
		}
		i += from
		end := strings.TrimPrefix(text[i+len(word):], "/") // a directory may have a slash at its end
		before := i == 0 || !strings.Contains(inPath, text[i-1:i])
		after := end == "" || !strings.Contains(inPath, end[:1]) || (end[0] == '.' && (len(end) == 1 || !strings.Contains(inPath, end[1:2])))
		if before && after {
			return true
		}
		from = i + 1
	}
}

// collectStrings writes every string in a JSON value.
func collectStrings(to *strings.Builder, v any) {
	switch v := v.(type) {
	case string:
		to.WriteString(v)
		to.WriteByte('\n')
	case []any:
		for _, x := range v {
			collectStrings(to, x)
		}
	case map[string]any:
		for key, x := range v {
			if key != "description" { // prose also names files that the call does not change
				collectStrings(to, x)
			}
		}
	}
}
