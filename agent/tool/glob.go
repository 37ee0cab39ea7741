package tool

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/dalsegno/segno/agent"
)

type globArgs struct {
	Pattern string `json:"pattern" jsonschema:"such as **/*.go or src/*.{ts,tsx}: * and ? and [a-z] stay within a name, ** is any number of directories"`
	Path    string `json:"path,omitempty" jsonschema:"the directory to look in; the root if left out"`
}

func glob(files FileSystem) agent.Tool {
	return agent.NewTool("glob", "Finds files by the pattern of their path. *.go is those of the directory itself, **/*.go those at any depth.",
		agent.NoEffect, func(ctx context.Context, inv *agent.Invocation, args globArgs) (string, error) {
			base, matches, err := globIn(files, args)
			if err != nil {
				return "", err
			}
			var b strings.Builder
			n := 0
			for name, err := range files.Walk(ctx, inv.State, base) {
				if err != nil && name == "" {
					return "", about(base, err)
				}
				if err != nil || !matches(name) {
					continue // what cannot be read may still be found by ls
				}
				if n == maxNames || b.Len() > maxText {
					fmt.Fprintf(&b, "(there is more: only the first %d are listed, use a narrower pattern)\n", n)
					break
				}
				b.WriteString(shown(name) + "\n")
				n++
			}
			emit(inv, agent.Event{Kind: agent.EventGlob, Pattern: args.Pattern, Path: base, Count: n})
			if n == 0 {
				return noMatch(args.Pattern), nil
			}
			return strings.TrimSuffix(b.String(), "\n"), nil
		})
}

func noMatch(pattern string) string {
	if !strings.Contains(pattern, "**") {
		return fmt.Sprintf("no files match %s; **/%s looks at any depth", pattern, strings.TrimLeft(pattern, "/"))
	}
	return "no files match " + pattern
}

// globIn is where to look for a pattern, and whether a file found there is meant.
// The names that a pattern begins with are walked to, not searched for.
func globIn(files FileSystem, args globArgs) (base string, matches func(name string) bool, err error) {
	if args.Pattern == "" {
		return "", nil, errors.New("no pattern: say which files, such as **/*.go")
	}
	names, rest := strings.Split(args.Pattern, "/"), []string{"**"} // a file itself, all below a directory
	for i, name := range names {
		if strings.ContainsAny(name, `*?[{\`) {
			names, rest = names[:i], names[i:]
			break
		}
	}
	p, err := parsePattern(strings.Join(rest, "/"))
	if err != nil {
		return "", nil, err
	}
	dir := ""
	if !strings.HasPrefix(args.Pattern, "/") {
		if dir, err = files.Name(args.Path); err != nil {
			return "", nil, err
		}
	}
	at := strings.Join(names, "/")
	if at != "" && dir != "" {
		at = dir + "/" + at
	} else {
		at = dir + at
	}
	base, err = files.Name(at)
	return base, func(name string) bool {
		if name == base && len(names) > 0 {
			return p.match("") // the names say "a/" and it is the file "a"
		}
		return p.match(under(base, name))
	}, err
}

// under is a name as seen from a directory, or from itself.
func under(dir, name string) string {
	switch dir {
	case ".":
		return name
	case name:
		return path.Base(name)
	}
	return strings.TrimPrefix(name, dir+"/")
}

// pattern is what a name may match: any of its alternatives, each a list of
// patterns for the names between slashes.
type pattern [][]string

const maxAlternatives = 100

// parsePattern reads a pattern: as [path.Match] has it within a name, ** for any
// number of directories, {a,b} for alternatives.
func parsePattern(text string) (pattern, error) {
	all, ok := alternatives(text, nil)
	if !ok {
		return nil, fmt.Errorf("pattern %s: more than %d alternatives: use fewer braces", text, maxAlternatives)
	}
	var p pattern
	for _, one := range all {
		segments := strings.Split(one, "/")
		for _, s := range segments {
			if _, err := path.Match(s, ""); err != nil {
				return nil, fmt.Errorf("pattern %s: %q is not closed or ends in a backslash", text, s)
			}
		}
		p = append(p, segments)
	}
	return p, nil
}

// alternatives appends what a pattern with braces stands for. Braces that are not
// closed, or have no comma, stand for themselves.
func alternatives(text string, all []string) ([]string, bool) {
	open, commas, end := braces(text)
	if end < 0 {
		return append(all, text), len(all) < maxAlternatives
	}
	from := open + 1
	for _, to := range append(commas, end) {
		var ok bool
		if all, ok = alternatives(text[:open]+text[from:to]+text[end+1:], all); !ok {
			return all, false
		}
		from = to + 1
	}
	return all, true
}

// braces finds the first braces with a comma: where they open, their own commas,
// and where they end, -1 if there are none.
func braces(text string) (open int, commas []int, end int) {
	for open = 0; open < len(text); open++ {
		switch text[open] {
		case '\\':
			open++
		case '{':
			if commas, end = inBraces(text, open); end >= 0 && len(commas) > 0 {
				return open, commas, end
			}
		}
	}
	return 0, nil, -1
}

func inBraces(text string, open int) (commas []int, end int) {
	depth := 0
	for i := open; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '{':
			depth++
		case ',':
			if depth == 1 {
				commas = append(commas, i)
			}
		case '}':
			if depth--; depth == 0 {
				return commas, i
			}
		}
	}
	return nil, -1
}

func (p pattern) match(name string) bool {
	var names []string
	if name != "" {
		names = strings.Split(name, "/")
	}
	for _, segments := range p {
		if matchSegments(segments, names) {
			return true
		}
	}
	return false
}

// matchSegments tries the last ** with one name more whenever the rest does not
// match. Earlier ones need no second try: what they would take, the last can.
func matchSegments(segments, names []string) bool {
	s, n, retry, taken := 0, 0, -1, 0
	for n < len(names) {
		if s < len(segments) && segments[s] == "**" {
			retry, taken = s, n
			s++
			continue
		}
		if s < len(segments) {
			if ok, _ := path.Match(segments[s], names[n]); ok {
				s++
				n++
				continue
			}
		}
		if retry < 0 {
			return false
		}
		taken++
		s, n = retry+1, taken
	}
	for s < len(segments) && segments[s] == "**" {
		s++
	}
	return s == len(segments)
}
