package tool

import (
	"fmt"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// maxBraces bounds the time that a match takes: alternatives multiply.
const maxBraces = 8

// checkPattern returns an error for a pattern that [doublestar.Match] does not accept or that
// has too many alternatives.
func checkPattern(pattern string) error {
	if strings.Count(pattern, "{") > maxBraces {
		return fmt.Errorf("pattern %s: more than %d alternatives in braces: use fewer braces", pattern, maxBraces)
	}
	if !doublestar.ValidatePattern(pattern) {
		return fmt.Errorf("pattern %s: a bracket or brace is not closed, or it ends in a backslash", pattern)
	}
	return nil
}

// matches reports whether a checked pattern matches a name. "x/**" matches "x", too.
func matches(pattern, name string) bool {
	if doublestar.MatchUnvalidated(pattern, name) {
		return true
	}
	dir, ok := strings.CutSuffix(pattern, "/**")
	return ok && matches(dir, name)
}
