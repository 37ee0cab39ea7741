package tool

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"regexp"
	"strings"

	"github.com/dalsegno/segno/agent"
)

const (
	maxMatches  = 500     // lines found
	maxMatch    = 500     // bytes shown of one
	maxSearched = 1 << 20 // bytes searched of one
	maxGrepFile = 1 << 28 // bytes searched of a file
)

var errTooLong = errors.New("longer than the search limit")

type grepArgs struct {
	Pattern string `json:"pattern" jsonschema:"a regular expression (RE2 syntax: no backreferences, no lookaround); (?i) before it ignores case"`
	Path    string `json:"path,omitempty" jsonschema:"the file or directory to search; the root if left out"`
	Include string `json:"include,omitempty" jsonschema:"which files to search, such as *.go or src/**/*.ts"`
}

func grep(files FileSystem) agent.Tool {
	return agent.NewTool("grep", "Searches text files line by line. Returns file:line:text.",
		agent.LostRerun, func(ctx context.Context, inv *agent.Invocation, args grepArgs) (string, error) {
			s, err := newSearch(args)
			if err != nil {
				return "", err
			}
			base, err := files.Name(args.Path)
			if err != nil {
				return "", err
			}
			fsys := files.FS(inv.State)
			for name, err := range walk(ctx, fsys, base) {
				if err != nil && name == "" {
					return "", fileError(base, err)
				}
				if err == nil && !s.includes(under(base, name)) {
					continue
				}
				if err == nil {
					err = s.file(ctx, fsys, name)
				}
				if ctx.Err() != nil {
					return "", ctx.Err()
				}
				if err != nil {
					s.unread++
				}
				if s.more {
					break
				}
			}
			emit(inv, agent.Event{Kind: eventGrep, Pattern: args.Pattern, Path: base, Count: s.found})
			return s.text(), nil
		})
}

// search is a search and its results.
type search struct {
	expr    *regexp.Regexp
	include string
	in      lineReader // one buffer for all files
	out     strings.Builder
	found   int
	unread  int
	more    bool
}

func newSearch(args grepArgs) (*search, error) {
	if args.Pattern == "" {
		return nil, errors.New("missing pattern")
	}
	expr, err := regexp.Compile(args.Pattern)
	if err != nil {
		return nil, fmt.Errorf(`pattern %s is not a regular expression (RE2 syntax): %s: put a backslash before literal characters`,
			args.Pattern, strings.TrimPrefix(err.Error(), "error parsing regexp: "))
	}
	s := &search{expr: expr, in: lineReader{r: bufio.NewReaderSize(nil, bufferSize), keep: maxSearched}}
	if args.Include == "" {
		return s, nil
	}
	s.include = strings.TrimLeft(args.Include, "/")
	return s, checkPattern(s.include)
}

// includes reports whether to search a file. A pattern without a slash matches the last part of
// its name.
func (s *search) includes(name string) bool {
	return s.include == "" || matches(s.include, name) || matches(s.include, path.Base(name))
}

func (s *search) file(ctx context.Context, fsys fs.FS, name string) error {
	f, _, err := openFile(fsys, name)
	if err != nil {
		return err
	}
	defer f.Close()
	bound := &io.LimitedReader{R: contextReader{ctx, f}, N: maxGrepFile}
	s.in.r.Reset(bound)
	start, err := s.in.r.Peek(sniffSize)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if isBinary(start) {
		return nil
	}
	for n := 1; ; n++ {
		line, length, err := s.in.next()
		if errors.Is(err, io.EOF) && bound.N == 0 {
			return errTooLong
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		at := s.expr.FindIndex(line)
		if at == nil {
			continue
		}
		if s.found == maxMatches || s.out.Len() > maxText {
			s.more = true
			return nil
		}
		s.found++
		fmt.Fprintf(&s.out, "%s:%d:%s\n", display(name), n, excerpt(line, length, at[0]))
	}
}

// excerpt returns a line, or of a long line only the part with the match.
func excerpt(line []byte, length, at int) string {
	if length <= maxMatch || at < maxMatch/2 {
		return displayLine(line, length, maxMatch)
	}
	from := at - maxMatch/4
	return "… " + displayLine(line[from:], length, maxMatch)
}

func (s *search) text() string {
	if s.found == 0 {
		s.out.WriteString("no matches\n")
	}
	if s.more {
		fmt.Fprintf(&s.out, "(there is more: only the first %d lines are shown, narrow the pattern, the path or include)\n", s.found)
	}
	if s.unread > 0 {
		fmt.Fprintf(&s.out, "(files or directories that could not be read, or not to their end: %d)\n", s.unread)
	}
	return strings.TrimSuffix(s.out.String(), "\n")
}
