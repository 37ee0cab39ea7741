package spool

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"iter"
	"os"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/timeline"
)

// maxTurnFile is the size of a turn's file above which [Dir.AppendSaved] appends nothing.
const maxTurnFile = 64 << 20

// AppendSaved implements [timeline.Spool].
func (d *Dir) AppendSaved(ctx context.Context, key segno.TurnKey, c timeline.SavedCall) (err error) {
	defer annotate(&err, "save files after a call")
	name := d.turnFile(key)
	fi, err := os.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the turn has ended meanwhile
	}
	if err != nil || fi.Size() > maxTurnFile {
		return err
	}
	return d.append(ctx, name, partSaved, &c)
}

// SavedCalls implements [timeline.Spool].
func (d *Dir) SavedCalls(ctx context.Context, key segno.TurnKey) iter.Seq2[timeline.SavedCall, error] {
	return func(yield func(timeline.SavedCall, error) bool) {
		fail := func(err error) {
			annotate(&err, "read saved files")
			yield(timeline.SavedCall{}, err)
		}
		z, err := d.sealer()
		if err != nil {
			fail(err)
			return
		}
		name := d.turnFile(key)
		f, err := os.Open(name)
		if errors.Is(err, fs.ErrNotExist) {
			return
		}
		if err != nil {
			fail(err)
			return
		}
		defer f.Close()
		for r := bufio.NewReader(f); ; {
			data, err := r.ReadBytes('\n')
			if data = bytes.TrimSpace(data); isPart(data, partSaved) {
				var c timeline.SavedCall
				_, value, ok := openLine(z, name, data)
				if ok && json.Unmarshal(value, &c) == nil && !yield(c, nil) {
					return
				}
			}
			switch err = errors.Join(err, ctx.Err()); {
			case errors.Is(err, io.EOF):
				return
			case err != nil:
				fail(err)
				return
			}
		}
	}
}

// skipSaved skips a line with the files after a call, which may be long, if it is the next one. It returns the length of the line,
// and an error if the line has no end.
func skipSaved(r *bufio.Reader) (size int, err error) {
	next, _ := r.Peek(len(partSaved) + 3) // a shorter rest is another line
	if !isPart(next, partSaved) {
		return 0, nil
	}
	for err = bufio.ErrBufferFull; errors.Is(err, bufio.ErrBufferFull); {
		next, err = r.ReadSlice('\n')
		size += len(next)
	}
	return size, err
}

// Begun returns an open turn as it began, or nil if its beginning was not recorded. It reads only the first part of the
// turn's file, because an agent waits for the hook that calls it.
func (d *Dir) Begun(key segno.TurnKey) (*timeline.OpenTurn, error) {
	z, err := d.sealer()
	if err != nil {
		return nil, err
	}
	name := d.turnFile(key)
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	const most = 256 << 10 // entries may precede the beginning
	for r := bufio.NewReader(io.LimitReader(f, most)); ; {
		data, err := r.ReadBytes('\n')
		if data = bytes.TrimSpace(data); isPart(data, partOpen) {
			t, _, ok := decodeLine(z, name, data)
			if ok && t != nil {
				return t, nil
			}
		}
		if err != nil {
			return nil, nil
		}
	}
}
