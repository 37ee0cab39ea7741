package archive

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

const (
	maxNameBytes    = 1024
	maxElementBytes = 255
	maxDepth        = 64
)

// checkName returns an error unless every system can have a file of this name and the name
// cannot be mistaken for another. A name is slash-separated and relative.
func checkName(name string) error {
	switch {
	case name == "":
		return errors.New("the name is empty")
	case len(name) > maxNameBytes:
		return fmt.Errorf("the name is longer than %d bytes", maxNameBytes)
	case !utf8.ValidString(name):
		return errors.New("the name is not UTF-8")
	case !isASCII(name) && !norm.NFC.IsNormalString(name):
		return errors.New("the name is not in Unicode's normal form C")
	case strings.Count(name, "/") >= maxDepth:
		return fmt.Errorf("the name is deeper than %d levels", maxDepth)
	}
	if err := checkRunes(name); err != nil {
		return err
	}
	for e := range strings.SplitSeq(name, "/") {
		if err := checkElement(e); err != nil {
			return err
		}
	}
	return nil
}

// checkRunes checks the characters of a name. Nearly all need only the first test.
func checkRunes(name string) error {
	for _, r := range name {
		if 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '-' <= r && r <= '9' || r == '_' {
			continue
		}
		if err := checkRune(r); err != nil {
			return err
		}
	}
	return nil
}

func checkRune(r rune) error {
	switch {
	case r < ' ' || unicode.Is(unicode.Cc, r):
		return errors.New("the name has a control character")
	case strings.ContainsRune(`\:*?"<>|`, r):
		return fmt.Errorf("the name has the character %q, which is special on other systems", r)
	case unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector):
		return fmt.Errorf("the name has the invisible character %U", r)
	case r == utf8.RuneError, unicode.Is(unicode.Co, r), unicode.Is(unicode.Noncharacter_Code_Point, r):
		return fmt.Errorf("the name has %U, which is not a character", r)
	}
	return nil
}

func checkElement(e string) error {
	switch {
	case e == "":
		return errors.New("the name has an empty element")
	case e == "." || e == "..":
		return fmt.Errorf("the name has the element %q", e)
	case len(e) > maxElementBytes:
		return fmt.Errorf("an element of the name is longer than %d bytes", maxElementBytes)
	case strings.HasSuffix(e, ".") || strings.HasSuffix(e, " ") || strings.HasPrefix(e, " "):
		return errors.New("an element of the name ends with a dot or has a space at its end")
	case isDevice(e):
		return fmt.Errorf("%q is a device on Windows", e)
	}
	if i := strings.IndexByte(e, '~'); i >= 0 && i+1 < len(e) && e[i+1] >= '0' && e[i+1] <= '9' {
		return errors.New("an element of the name looks like a short name of Windows (~1)")
	}
	return nil
}

// isDevice reports whether Windows takes a name for a device, whatever its extension.
func isDevice(e string) bool {
	if strings.IndexByte("ACLNPaclnp", e[0]) < 0 {
		return false // nearly every name
	}
	stem, _, _ := strings.Cut(strings.ToUpper(e), ".")
	stem = strings.TrimRight(stem, " ")
	switch stem {
	case "CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$":
		return true
	}
	if rest, ok := strings.CutPrefix(stem, "COM"); ok || strings.HasPrefix(stem, "LPT") {
		if !ok {
			rest = stem[3:]
		}
		return len([]rune(rest)) == 1 && strings.Contains("0123456789¹²³", rest)
	}
	return false
}

// fold maps all names that some file system treats as equal to one name. It ignores case,
// composition and compatibility forms.
func fold(name string) string {
	if isASCII(name) {
		return strings.ToLower(name) // nearly every name: the tables of Unicode are slow
	}
	folded := cases.Fold().String(norm.NFKC.String(name))
	return norm.NFKC.String(folded)
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// A nameSet finds names that some file system treats as equal, and files at the path of a
// directory.
type nameSet struct {
	files map[string]string // folded → as given
	dirs  map[string]bool   // folded
	// mostDirs bounds the directories; 0 is no bound.
	mostDirs int
}

// newNameSet returns a set with memory for n names.
func newNameSet(n int) *nameSet {
	return &nameSet{files: make(map[string]string, n), dirs: map[string]bool{}}
}

// add adds the name of a file or a link. An empty directory is added in the same way, because
// nothing may be below it.
func (s *nameSet) add(name string) error {
	folded := fold(name)
	if twin, ok := s.files[folded]; ok {
		return fmt.Errorf("some systems take it for the same name as %q", twin)
	}
	if s.dirs[folded] {
		return errors.New("it is the name of a directory, too")
	}
	if err := s.addParents(folded); err != nil {
		return err
	}
	s.files[folded] = name
	return nil
}

// addParents adds the directories above a name. If the set has a directory, it also has the
// directories above it.
func (s *nameSet) addParents(folded string) error {
	i := strings.LastIndexByte(folded, '/')
	if i < 0 || s.dirs[folded[:i]] {
		return nil
	}
	if file, ok := s.files[folded[:i]]; ok {
		return fmt.Errorf("it lies below %q, which is not a directory", file)
	}
	if err := s.addParents(folded[:i]); err != nil {
		return err
	}
	if s.mostDirs > 0 && len(s.dirs) == s.mostDirs {
		return fmt.Errorf("the archive has more than %d directories", s.mostDirs)
	}
	s.dirs[folded[:i]] = true
	return nil
}
