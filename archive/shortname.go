package archive

import "strings"

// A shortName is a folded name that NTFS and FAT may have given to a file with a longer one, such as git~1 for .git: the
// beginning of the name, a tilde with a number, and the beginning of the extension. Where these file systems are mounted, a
// file of the short name is the one with the long name.
type shortName struct {
	stem string
	most int // the largest length of the stem
	ext  string
}

// parseShort returns the parts of a short name. ok is false for nearly every name.
func parseShort(folded string) (s shortName, ok bool) {
	name, ext, _ := strings.Cut(folded, ".")
	stem, number, found := strings.Cut(name, "~")
	if !found || stem == "" || number == "" || len(name) > 8 || len(ext) > 3 || strings.Trim(number, "0123456789") != "" {
		return s, false
	}
	return shortName{stem, 7 - len(number), ext}, true
}

// matches reports whether the short name may stand for a long name that matches the pattern.
func (s shortName) matches(pattern string) bool {
	before, after, star := strings.Cut(pattern, "*")
	if !star {
		stem, ext := shorten(pattern)
		return s.ext == ext && (s.stem == stem[:min(len(stem), s.most)] || s.isHashed(stem))
	}
	_, ext := shorten("x" + after)
	begin := strings.NewReplacer(".", "", " ", "").Replace(before)
	return (after == "" || s.ext == ext) && (strings.HasPrefix(s.stem, begin[:min(len(begin), len(s.stem))]) || s.isHashed(begin))
}

// isHashed reports whether the stem is that of a directory with many similar names: two characters and four digits of a hash.
func (s shortName) isHashed(stem string) bool {
	return len(s.stem) == 6 && strings.Trim(s.stem[2:], "0123456789abcdef") == "" && strings.HasPrefix(s.stem, stem[:min(len(stem), 2)])
}

// shorten returns the stem and the extension of a long name, as far as a short name has them.
func shorten(name string) (stem, ext string) {
	name = strings.TrimLeft(name, ". ")
	if dot := strings.LastIndexByte(name, '.'); dot >= 0 {
		name, ext = name[:dot], name[dot+1:]
	}
	return strings.NewReplacer(".", "", " ", "").Replace(name), ext[:min(len(ext), 3)]
}
