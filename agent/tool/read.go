package tool

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"path"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
)

const (
	maxNames   = 1000     // names of files in a result
	maxLines   = 2000     // read at once
	maxLine    = 2000     // bytes of a line that is read
	maxText    = 64 << 10 // bytes of a result, below the limit for eviction
	maxImage   = 5 << 20  // bytes, the limit of common models
	sniffSize  = 8000     // bytes to distinguish text from binary
	bufferSize = 64 << 10
)

type listArgs struct {
	Path string `json:"path,omitempty" jsonschema:"the directory; the root if left out"`
}

func list(files FileSystem) agent.Tool {
	return agent.NewTool("ls", "Lists a directory: one name per line, directories with a trailing slash, files with their size in bytes.",
		agent.LostRerun, func(ctx context.Context, inv *agent.Invocation, args listArgs) (string, error) {
			name, err := files.Name(args.Path)
			if err != nil {
				return "", err
			}
			fsys := files.FS(inv.State)
			all, err := entriesOf(fsys, name)
			if err != nil {
				return "", fileError(name, err)
			}
			var b strings.Builder
			for i, e := range all {
				if i == maxNames || b.Len() > maxText {
					fmt.Fprintf(&b, "(%d more: use glob with a pattern)\n", len(all)-i)
					break
				}
				info, err := e.Info()
				if e.Type()&fs.ModeSymlink != 0 {
					info, err = fs.Stat(fsys, path.Join(name, e.Name()))
				}
				switch b.WriteString(display(e.Name())); {
				case err != nil: // the symlink leads nowhere
					b.WriteString("\t0\n")
				case info.IsDir():
					b.WriteString("/\n")
				default:
					fmt.Fprintf(&b, "\t%d\n", info.Size())
				}
			}
			emit(inv, agent.Event{Kind: eventList, Path: name, Count: len(all)})
			if len(all) == 0 {
				return "(empty)", nil
			}
			return strings.TrimSuffix(b.String(), "\n"), nil
		})
}

// entriesOf returns the entries of a directory, or the file itself.
func entriesOf(fsys fs.FS, name string) ([]fs.DirEntry, error) {
	info, err := fs.Stat(fsys, name)
	switch {
	case err != nil:
		return nil, err
	case info.IsDir():
		return fs.ReadDir(fsys, name)
	}
	return []fs.DirEntry{fs.FileInfoToDirEntry(info)}, nil
}

type readArgs struct {
	Path   string `json:"path" jsonschema:"the file"`
	Offset int    `json:"offset,omitempty" jsonschema:"how many lines to skip; 0 begins with line 1"`
	Limit  int    `json:"limit,omitempty" jsonschema:"how many lines to read; 2000 if left out"`
	Column int    `json:"column,omitempty" jsonschema:"of a long line, the one after offset: how many of its bytes to skip; nothing but that line is read then"`
}

func read(files FileSystem) agent.Tool {
	t := agent.NewTool("read_file", "Reads a file. Each line is preceded by its number and a tab, which are not part of the file. "+
		"Images are shown. Long files are read piece by piece with offset and limit, long lines with offset and column.",
		agent.LostRerun, func(ctx context.Context, inv *agent.Invocation, args readArgs) (agent.Result, error) {
			name, err := fileName(files, args.Path)
			if err != nil {
				return agent.Result{}, err
			}
			if args.Offset < 0 || args.Limit < 0 || args.Column < 0 {
				return agent.Result{}, errors.New("offset, limit and column must not be negative")
			}
			f, _, err := openFile(files.FS(inv.State), name)
			if err != nil {
				return agent.Result{}, fileError(name, err)
			}
			defer f.Close()
			r := bufio.NewReaderSize(contextReader{ctx, f}, bufferSize)
			start, err := r.Peek(sniffSize)
			if err != nil && !errors.Is(err, io.EOF) {
				return agent.Result{}, fileError(name, err)
			}
			if media := imageType(start); media != "" {
				return readImage(inv, name, media, r)
			}
			if isBinary(start) {
				return agent.Result{}, errFile(name, segno.KindInvalid, "not text but %s: read_file reads text and images",
					http.DetectContentType(start))
			}
			page, err := readPage(r, args)
			if err != nil {
				return agent.Result{}, fileError(name, err)
			}
			emit(inv, agent.Event{Kind: eventFileRead, Path: name, Count: page.lines})
			return agent.Result{Text: page.text}, nil
		})
	t.Pages = true
	return t
}

// imageType returns the media type of an image that models accept, or "".
func imageType(start []byte) string {
	switch media := http.DetectContentType(start); media {
	case "image/png", "image/jpeg", "image/gif", "image/webp":
		return media
	}
	return ""
}

func readImage(inv *agent.Invocation, name, media string, r io.Reader) (agent.Result, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxImage+1))
	if err != nil {
		return agent.Result{}, fileError(name, err)
	}
	if len(data) > maxImage {
		return agent.Result{}, errFile(name, segno.KindRefused, "the image has more than %d MB: make it smaller first", maxImage>>20)
	}
	emit(inv, agent.Event{Kind: eventFileRead, Path: name})
	return agent.Result{
		Text:  fmt.Sprintf("%s: %s, %d bytes", display(name), media, len(data)),
		Parts: []agent.Part{{Image: &agent.Blob{Type: media, Name: path.Base(name), Data: data}}},
	}, nil
}

type page struct {
	text  string
	lines int
}

// readPage reads limit lines after the first offset lines, or a piece of the line after them.
func readPage(r *bufio.Reader, args readArgs) (page, error) {
	offset, limit := args.Offset, cmp.Or(args.Limit, maxLines)
	if args.Column > 0 {
		return readPiece(r, offset, args.Column)
	}
	var b strings.Builder
	in := lineReader{r: r, keep: maxLine + 1}
	for n := 1; ; n++ {
		line, length, err := in.next()
		switch {
		case errors.Is(err, io.EOF) && n == 1 && offset == 0:
			return page{text: "(the file is empty)"}, nil
		case errors.Is(err, io.EOF) && n-1 <= offset:
			return page{}, fmt.Errorf("offset %d: the file has %d lines", offset, n-1)
		case errors.Is(err, io.EOF):
			return page{text: strings.TrimSuffix(b.String(), "\n"), lines: n - 1 - offset}, nil
		case err != nil:
			return page{}, err
		case n > offset+limit || b.Len() > maxText:
			fmt.Fprintf(&b, "(there is more: continue with offset %d)", n-1)
			return page{text: b.String(), lines: n - 1 - offset}, nil
		case n > offset:
			fmt.Fprintf(&b, "%6d\t%s", n, displayLine(line, length, maxLine))
			if length > maxLine {
				fmt.Fprintf(&b, " (continue in it with offset %d and column %d)", n-1, wholeRunes(line, maxLine))
			}
			b.WriteByte('\n')
		}
	}
}

// readPiece reads a piece of a long line: it skips offset lines, and the first column bytes of the
// next one.
func readPiece(r *bufio.Reader, offset, column int) (page, error) {
	in := lineReader{r: r}
	for n := range offset {
		if _, _, err := in.next(); errors.Is(err, io.EOF) {
			return page{}, fmt.Errorf("offset %d: the file has %d lines", offset, n)
		} else if err != nil {
			return page{}, err
		}
	}
	in.skip, in.keep = column, maxText+1
	piece, length, err := in.next()
	switch {
	case errors.Is(err, io.EOF):
		return page{}, fmt.Errorf("offset %d: the file has no line after it", offset)
	case err != nil:
		return page{}, err
	case column >= length:
		return page{}, fmt.Errorf("column %d: the line has %d bytes", column, length)
	}
	if len(piece) <= maxText {
		return page{text: strings.ToValidUTF8(string(piece), "\uFFFD"), lines: 1}, nil
	}
	end := wholeRunes(piece, maxText)
	return page{text: fmt.Sprintf("%s\n(the line has %d bytes: continue with offset %d and column %d)",
		strings.ToValidUTF8(string(piece[:end]), "\uFFFD"), length, offset, column+end), lines: 1}, nil
}
