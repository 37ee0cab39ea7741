package transcript

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dalsegno/segno"
)

const (
	sidecarHead = "segno-sidecars 1\n"
	// maxSidecar is the size of the largest sidecar that is kept.
	maxSidecar = 64 << 20
	// racy is how young a file may be before a change could leave its time as it is.
	racy = 100 * time.Millisecond
)

// sidecar is one file beside a transcript.
type sidecar struct {
	path  string // below one of the [Claude.roots], slash-separated
	mode  fs.FileMode
	size  int64
	mtime int64 // nanoseconds; 0 for one that must be read again
	long  bool  // name is a log, not a blob
	name  segno.Hash
}

// roots returns the directories of a session's sidecars by their logical names.
// transcript is where its transcript is or will be.
func (c *Claude) roots(session segno.SessionID, transcript string) map[string]string {
	return map[string]string{
		"session":      filepath.Join(filepath.Dir(transcript), string(session)),
		"tasks":        filepath.Join(c.home, "tasks", string(session)),
		"file-history": filepath.Join(c.home, "file-history", string(session)),
		"session-env":  filepath.Join(c.home, "session-env", string(session)),
	}
}

// resumeHead speeds up loading a long transcript in newer versions of the agent:
// offsets into its bytes. Another transcript's is of no use to it, and it makes its
// own.
const resumeHead = "resume-head.jsonl"

// listSidecars finds a session's sidecars, sorted, without reading them.
// Symlinks, [resumeHead] and what is no plain file are left out. skipped says which
// were too large.
func (c *Claude) listSidecars(session segno.SessionID, transcript string) (list []sidecar, skipped []string, err error) {
	for logical, root := range c.roots(session, transcript) {
		walk := func(name string, d fs.DirEntry, err error) error {
			if err != nil {
				if errors.Is(err, fs.ErrNotExist) {
					return nil // gone since, or never there
				}
				return err
			}
			if !d.Type().IsRegular() || name == filepath.Join(root, resumeHead) {
				return nil
			}
			fi, err := d.Info()
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err != nil {
				return err
			}
			rel, err := filepath.Rel(root, name)
			if err != nil {
				return err
			}
			s := sidecar{path: path.Join(logical, filepath.ToSlash(rel)), mode: fi.Mode().Perm(), size: fi.Size(), mtime: fi.ModTime().UnixNano()}
			if s.size > maxSidecar {
				skipped = append(skipped, fmt.Sprintf("sidecar %s was left out: it is larger than 64 MiB", s.path))
				return nil
			}
			list = append(list, s)
			return nil
		}
		if err := filepath.WalkDir(root, walk); err != nil {
			return nil, nil, err
		}
	}
	slices.SortFunc(list, func(a, b sidecar) int { return strings.Compare(a.path, b.path) })
	slices.Sort(skipped)
	return list, skipped, nil
}

// file is where a sidecar of a session is.
func (c *Claude) file(session segno.SessionID, transcript, logical string) string {
	root, rel, _ := strings.Cut(logical, "/")
	return filepath.Join(c.roots(session, transcript)[root], filepath.FromSlash(rel))
}

// captureSidecars stores the sidecars that changed since the listing before, and
// a new listing. The name is zero if there are none.
func (c *Claude) captureSidecars(ctx context.Context, src segno.Source, before segno.Hash, b segno.Batch) (segno.Hash, []string, error) {
	list, skipped, err := c.listSidecars(src.Session, src.Path)
	if err != nil {
		return segno.Hash{}, nil, fmt.Errorf("list sidecars: %w", err)
	}
	old := c.earlier(ctx, before)
	kept := list[:0]
	for _, s := range list {
		if o, ok := old[s.path]; ok && o.mtime == s.mtime && o.size == s.size {
			s.long, s.name = o.long, o.name
		} else if err := c.storeSidecar(ctx, src, &s, b); errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return segno.Hash{}, nil, err
		}
		kept = append(kept, s)
	}
	if len(kept) == 0 {
		return segno.Hash{}, skipped, nil
	}
	name, err := b.Put(ctx, encodeSidecars(kept))
	if err != nil {
		return segno.Hash{}, nil, fmt.Errorf("store sidecars: %w", err)
	}
	return name, skipped, nil
}

// earlier reads a listing to compare with; nil if it is not to be had.
func (c *Claude) earlier(ctx context.Context, name segno.Hash) map[string]sidecar {
	if c.objects == nil || name.IsZero() {
		return nil
	}
	data, err := c.objects.Get(ctx, name)
	if err != nil {
		return nil
	}
	list, err := decodeSidecars(data)
	if err != nil {
		return nil
	}
	out := make(map[string]sidecar, len(list))
	for _, s := range list {
		out[s.path] = s
	}
	return out
}

// storeSidecar reads a file and stores it.
func (c *Claude) storeSidecar(ctx context.Context, src segno.Source, s *sidecar, b segno.Batch) error {
	f, err := openRegular(c.file(src.Session, src.Path, s.path))
	if err != nil {
		return fmt.Errorf("read sidecar: %w", err)
	}
	defer f.Close()
	if c.now().Sub(time.Unix(0, s.mtime)) < racy {
		s.mtime = 0
	}
	w := &logWriter{batch: b}
	block := make([]byte, min(blockSize, s.size+1))
	for s.size = 0; s.size <= maxSidecar; {
		n, err := io.ReadFull(f, block)
		if n > 0 || s.size == 0 {
			if err := w.put(ctx, block[:n]); err != nil {
				return err
			}
			s.size += int64(n)
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("read sidecar: %w", err)
		}
		if len(block) < blockSize { // it grew since
			block = make([]byte, blockSize)
		}
	}
	if s.size > maxSidecar {
		return fmt.Errorf("sidecar %s outgrew what is kept: %w", s.path, fs.ErrNotExist)
	}
	if s.long = len(w.chunks) > 1; !s.long {
		s.name = w.chunks[0].name
		return nil
	}
	s.name, err = w.close(ctx)
	return err
}

// encodeSidecars returns the canonical bytes of a sorted list.
func encodeSidecars(list []sidecar) []byte {
	var b bytes.Buffer
	b.WriteString(sidecarHead)
	for _, s := range list {
		how := "blob"
		if s.long {
			how = "log"
		}
		fmt.Fprintf(&b, "%o %d %d %s %s %q\n", s.mode, s.size, s.mtime, how, s.name, s.path)
	}
	return b.Bytes()
}

// decodeSidecars reads what encodeSidecars wrote. The error is like that of
// [decodeLog]. No path of the result leads out of its root.
func decodeSidecars(data []byte) ([]sidecar, error) {
	rows, err := rowsOf(data, sidecarHead)
	if err != nil {
		return nil, err
	}
	var out []sidecar
	for _, row := range rows {
		s, err := decodeSidecar(row)
		if err != nil {
			return nil, corrupt("read sidecars", "", err)
		}
		if len(out) > 0 && out[len(out)-1].path >= s.path {
			return nil, corrupt("read sidecars", s.path, errors.New("out of order"))
		}
		out = append(out, s)
	}
	if len(out) == 0 || !bytes.Equal(encodeSidecars(out), data) {
		return nil, corrupt("read sidecars", "", errors.New("not as it was written"))
	}
	return out, nil
}

func decodeSidecar(row string) (s sidecar, err error) {
	words := strings.SplitN(row, " ", 6)
	if len(words) != 6 {
		return s, errors.New("a line with too few words")
	}
	mode, err := strconv.ParseUint(words[0], 8, 9)
	if err != nil {
		return s, err
	}
	s.mode = fs.FileMode(mode)
	if s.size, err = strconv.ParseInt(words[1], 10, 64); err != nil {
		return s, err
	}
	if s.mtime, err = strconv.ParseInt(words[2], 10, 64); err != nil {
		return s, err
	}
	s.long = words[3] == "log"
	if s.name, err = segno.ParseHash(words[4]); err != nil {
		return s, err
	}
	if s.path, err = strconv.Unquote(words[5]); err != nil {
		return s, err
	}
	root, rel, _ := strings.Cut(s.path, "/")
	switch root {
	case "session", "tasks", "file-history", "session-env":
	default:
		return s, fmt.Errorf("unknown place %q", root)
	}
	if s.size < 0 || s.size > 2*maxSidecar || s.name.IsZero() || rel == "" || rel == "." || path.Clean(rel) != rel || path.IsAbs(rel) ||
		rel == ".." || strings.HasPrefix(rel, "../") || strings.ContainsRune(rel, 0) || filepath.FromSlash(rel) != rel && strings.Contains(rel, "\\") {
		return s, fmt.Errorf("path %q or its size cannot be meant", s.path)
	}
	return s, nil
}

// traceSidecars calls visit for the objects of a listing.
func traceSidecars(ctx context.Context, o segno.Objects, name segno.Hash, visit func(segno.Hash) bool) error {
	if name.IsZero() || !visit(name) {
		return nil
	}
	data, err := o.Get(ctx, name)
	if err != nil {
		return fmt.Errorf("read sidecars: %w", err)
	}
	list, err := decodeSidecars(data)
	if err != nil {
		return err
	}
	for _, s := range list {
		if !s.long {
			visit(s.name)
		} else if err := traceLog(ctx, o, s.name, visit); err != nil {
			return err
		}
	}
	return nil
}

// Trace calls visit for each object p reaches. visit returns false for one whose
// own references it has seen.
func (c *Claude) Trace(ctx context.Context, p segno.Position, o segno.Objects, visit func(segno.Hash) bool) error {
	if err := traceLog(ctx, o, p.Log, visit); err != nil {
		return err
	}
	return traceSidecars(ctx, o, p.Sidecars, visit)
}
