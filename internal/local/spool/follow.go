package spool

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/timeline"
)

// Fold receives the entries of a turn in the order in which they were recorded. A message that was recorded again is added again.
type Fold interface{ Add(...segno.Entry) }

// Follower reads the open turns of a spool many times, for example to show what agents do at the moment. A turn may have very many
// entries. So the follower reads a file again only if it changed, reads only what was appended, and keeps only what F makes of the
// entries. It is not safe for concurrent use.
type Follower[F Fold] struct {
	dir   *Dir
	begin func() F
	files map[string]*followedFile[F]
}

// FollowedTurn is an open turn and what was made of its entries so far.
type FollowedTurn[F Fold] struct {
	Open  timeline.OpenTurn
	Notes F
}

// followedFile is the part of a turn's file that was read.
type followedFile[F Fold] struct {
	info  fs.FileInfo // before the file was last read
	size  int64       // of the part, which ends with a line
	end   []byte      // the last bytes of the part
	open  *timeline.OpenTurn
	notes F
}

// maxFollowedEnd is the length of the end of a part by which the follower recognizes a file to which lines were appended. An entry
// has its time, so the end of another file differs.
const maxFollowedEnd = 512

// NewFollower returns a follower. begin returns the state without entries of a turn.
func NewFollower[F Fold](d *Dir, begin func() F) *Follower[F] {
	return &Follower[F]{dir: d, begin: begin, files: map[string]*followedFile[F]{}}
}

// Turns returns the open turns as [Dir.Turns] does, with their entries. The caller may use Notes until the next call.
func (f *Follower[F]) Turns(ctx context.Context) (turns []FollowedTurn[F], err error) {
	defer annotate(&err, "follow open turns")
	names, err := f.dir.list("turns", ".jsonl")
	if err != nil {
		return nil, err
	}
	z, err := f.dir.sealer()
	if err != nil {
		return nil, err
	}
	before := f.files
	f.files = make(map[string]*followedFile[F], len(names))
	for _, name := range names {
		file := before[name]
		if file == nil {
			file = &followedFile[F]{notes: f.begin()}
		}
		err := file.update(ctx, z, name, f.begin)
		if errors.Is(err, fs.ErrNotExist) {
			continue // another process has closed the turn in the meantime
		}
		if err != nil {
			return nil, err // the next call reads the other files from their beginning
		}
		if f.files[name] = file; file.open != nil {
			turns = append(turns, FollowedTurn[F]{*file.open, file.notes})
		}
	}
	slices.SortStableFunc(turns, func(a, b FollowedTurn[F]) int { return a.Open.Start.Compare(b.Open.Start) })
	return turns, nil
}

// update reads what was appended to a file since the last call. It reads the whole file if another one replaced it.
func (f *followedFile[F]) update(ctx context.Context, z Sealer, name string, begin func() F) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	isSame := f.info != nil && os.SameFile(f.info, info)
	if isSame && info.Size() == f.info.Size() && info.ModTime().Equal(f.info.ModTime()) {
		return nil
	}
	if !isSame || !f.isBeginningOf(file) {
		*f = followedFile[F]{notes: begin()}
	}
	if _, err := file.Seek(f.size, io.SeekStart); err != nil {
		return err
	}
	if err := f.readLines(ctx, z, name, bufio.NewReader(file)); err != nil {
		return err
	}
	f.info, f.end = info, make([]byte, min(f.size, maxFollowedEnd))
	_, err = file.ReadAt(f.end, f.size-int64(len(f.end)))
	return err
}

// isBeginningOf reports whether a file begins with the part. The number of a file that was removed may be that of a new one.
func (f *followedFile[F]) isBeginningOf(file io.ReaderAt) bool {
	end := make([]byte, len(f.end))
	_, err := file.ReadAt(end, f.size-int64(len(end)))
	return err == nil && bytes.Equal(end, f.end)
}

// readLines reads the lines up to the end of a file. It leaves out a last line without a line break, which another process may be
// writing.
func (f *followedFile[F]) readLines(ctx context.Context, z Sealer, name string, r *bufio.Reader) error {
	for ctx.Err() == nil {
		size, err := skipSaved(r)
		if err == nil && size == 0 {
			var data []byte
			data, err = r.ReadBytes('\n')
			if size = len(data); err == nil {
				f.add(z, name, bytes.TrimSpace(data))
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		f.size += int64(size)
	}
	return ctx.Err()
}

// add adds a line, unless it is damaged.
func (f *followedFile[F]) add(z Sealer, name string, data []byte) {
	if len(data) == 0 {
		return
	}
	switch t, e, ok := decodeLine(z, name, data); {
	case !ok:
	case t != nil:
		f.open = t
	case e != nil:
		f.notes.Add(*e)
	}
}
