package tool

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
)

type writeArgs struct {
	Path    string `json:"path" jsonschema:"the file"`
	Content string `json:"content" jsonschema:"the whole content of the file"`
}

func write(files FileSystem) agent.Tool {
	effect, _ := files.Effects()
	return agent.NewTool("write_file", "Writes a whole file: creates it and missing directories, or overwrites it. "+
		"To change a part of a file use edit_file.",
		effect, func(ctx context.Context, inv *agent.Invocation, args writeArgs) (string, error) {
			name, err := fileName(files, args.Path)
			if err != nil {
				return "", err
			}
			emit(inv, agent.Event{Kind: eventFileStart, Path: name})
			if err := files.Write(ctx, inv.State, name, []byte(args.Content)); err != nil {
				return "", fileError(name, err)
			}
			emit(inv, agent.Event{Kind: EventFileWritten, Path: name, Count: len(args.Content)})
			return fmt.Sprintf("wrote %s (%d bytes)", display(name), len(args.Content)), nil
		})
}

type editArgs struct {
	Path string `json:"path" jsonschema:"the file"`
	Old  string `json:"old" jsonschema:"the text to replace, exactly as it is in the file, without the line numbers of read_file; it must occur once"`
	New  string `json:"new" jsonschema:"the text to put there"`
	All  bool   `json:"all,omitempty" jsonschema:"replace every occurrence"`
}

func edit(files FileSystem) agent.Tool {
	_, effect := files.Effects()
	return agent.NewTool("edit_file", "Replaces a piece of a file's text by another. Read the file first.",
		effect, func(ctx context.Context, inv *agent.Invocation, args editArgs) (string, error) {
			name, err := fileName(files, args.Path)
			if err != nil {
				return "", err
			}
			if args.Old == "" {
				return "", errors.New("old is empty: give the text to replace, or use write_file")
			}
			if args.Old == args.New {
				return "", errors.New("old and new are the same: there is nothing to change")
			}
			places := 0
			err = files.Edit(ctx, inv.State, name, func(old []byte) (now []byte, err error) {
				now, places, err = replaceText(name, old, args)
				return now, err
			})
			if err != nil {
				return "", fileError(name, err)
			}
			emit(inv, agent.Event{Kind: EventFileEdited, Path: name, Count: places})
			if places == 1 {
				return fmt.Sprintf("edited %s in 1 place", display(name)), nil
			}
			return fmt.Sprintf("edited %s in %d places", display(name), places), nil
		})
}

// replaceText returns text with old replaced, and the number of replacements.
func replaceText(name string, text []byte, args editArgs) ([]byte, int, error) {
	was, now := []byte(args.Old), []byte(args.New)
	if !bytes.Contains(text, was) && bytes.Contains(text, []byte("\r\n")) {
		// read_file showed the lines without carriage returns.
		was, now = windowsLines(was), windowsLines(now)
	}
	if args.All {
		if n := bytes.Count(text, was); n > 0 {
			return bytes.ReplaceAll(text, was, now), n, nil
		}
	}
	switch at := occurrences(text, was); len(at) {
	case 0:
		return nil, 0, errFile(name, segno.KindNotFound,
			"old occurs 0 times: read the file and copy the text exactly, including white space")
	case 1:
		return bytes.Replace(text, was, now, 1), 1, nil
	default:
		return nil, 0, errFile(name, segno.KindConflict,
			"old occurs %d times (%s): give more context, or set all to replace every one", len(at), lineList(text, at))
	}
}

func windowsLines(text []byte) []byte {
	text = bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))
	return bytes.ReplaceAll(text, []byte("\n"), []byte("\r\n"))
}

// occurrences returns the offsets of was. It includes overlapping ones, because they are as ambiguous.
func occurrences(text, was []byte) (at []int) {
	for from := 0; ; {
		i := bytes.Index(text[from:], was)
		if i < 0 {
			return at
		}
		at = append(at, from+i)
		from += i + 1
	}
}

// lineList lists the lines of the first offsets.
func lineList(text []byte, at []int) string {
	var b strings.Builder
	b.WriteString("line ")
	line, from := 1, 0
	for i, place := range at {
		if i == 5 {
			b.WriteString(", …")
			break
		}
		line += bytes.Count(text[from:place], []byte("\n"))
		from = place
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprint(&b, line)
	}
	return b.String()
}
