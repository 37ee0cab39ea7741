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
		agent.LostRerun, func(ctx context.Context, inv *agent.Invocation, args globArgs) (string, error) {
			base, isMatch, err := globIn(files, args)
			if err != nil {
				return "", err
			}
			var b strings.Builder
			n := 0
			for name, err := range walk(ctx, files.FS(inv.State), base) {
				if err != nil && name == "" {
					return "", fileError(base, err)
				}
				if err != nil || !isMatch(name) {
					continue // an unreadable directory does not fail the search
				}
				if n == maxNames || b.Len() > maxText {
					fmt.Fprintf(&b, "(there is more: only the first %d are listed, use a narrower pattern)\n", n)
					break
				}
				b.WriteString(display(name) + "\n")
				n++
			}
			emit(inv, agent.Event{Kind: eventGlob, Pattern: args.Pattern, Path: base, Count: n})
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

// globIn returns the directory to walk for a pattern, and a predicate for the files in it. The
// walk begins below the leading names of the pattern that have no wildcards.
func globIn(files FileSystem, args globArgs) (base string, isMatch func(name string) bool, err error) {
	if args.Pattern == "" {
		return "", nil, errors.New("missing pattern, such as **/*.go")
	}
	names, rest := strings.Split(args.Pattern, "/"), []string{"**"} // without wildcards: the file, or all files below the directory
	for i, name := range names {
		if strings.ContainsAny(name, `*?[{\`) {
			names, rest = names[:i], names[i:]
			break
		}
	}
	pattern := strings.Join(rest, "/")
	if err := checkPattern(pattern); err != nil {
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
		if name == base && len(names) > 0 { // the pattern begins with the name of a file
			return strings.ReplaceAll(pattern+"/", "**/", "") == ""
		}
		return matches(pattern, under(base, name))
	}, err
}

// under returns a name relative to a directory, and the last part of a name that is dir itself.
func under(dir, name string) string {
	switch dir {
	case ".":
		return name
	case name:
		return path.Base(name)
	}
	return strings.TrimPrefix(name, dir+"/")
}
