package claude

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/transcript"
	"github.com/dalsegno/segno/transcript/internal/sessionfile"
)

const (
	// maxSidecar is the size of the largest sidecar that is stored.
	maxSidecar = 64 << 20
	// racyAge is the age below which a file may still change while its modification time
	// stays the same.
	racyAge = 100 * time.Millisecond
	// resumeHead is a sidecar that newer versions of the agent write to load a long transcript
	// faster: offsets into its bytes. It is useless for another transcript, and the agent
	// writes a new one.
	resumeHead = "resume-head.jsonl"
)

// sidecar is one file beside a transcript.
type sidecar struct {
	path  string // slash-separated, below one of the names of sidecarDirs
	mode  fs.FileMode
	size  int64
	mtime int64 // nanoseconds; 0 if the file must be read again
	isLog bool  // name is a log, not a blob
	name  segno.Hash
}

// sidecarDirs are the directories of a session's sidecars by the names that they have in a
// list.
func sidecarDirs() []string { return []string{"file-history", "session", "session-env", "tasks"} }

// credentials are the names of files with which an agent logs in. They are not part of a session,
// whatever directory they are in.
func credentials() []string { return []string{".credentials.json", ".claude.json", "auth.json"} }

// IsRun reports whether the agent runs a sidecar, whose path begins with the name of a directory: the files of session-env set
// the environment of each command.
func IsRun(name string) bool { return strings.HasPrefix(name, "session-env/") }

// trustedSidecars reads a list of sidecars. If another machine wrote it and the user does not trust that machine, the files
// that the agent runs are left out.
func (c *Transcripts) trustedSidecars(ctx context.Context, o segno.Objects, name segno.Hash) ([]sidecar, error) {
	list, err := getSidecars(ctx, o, name)
	if err != nil || c.isUntrusted == nil {
		return list, err
	}
	is, err := c.isUntrusted(ctx, name)
	if is {
		list = slices.DeleteFunc(list, func(s sidecar) bool { return IsRun(s.path) })
	}
	return list, err
}

// sidecarFile returns where a sidecar of a session is, given its path or only the name of
// its directory. transcript is where the session's transcript is or will be.
func (c *Transcripts) sidecarFile(session segno.SessionID, transcript, name string) string {
	dir, rel, _ := strings.Cut(name, "/")
	if dir == "session" {
		return filepath.Join(filepath.Dir(transcript), string(session), filepath.FromSlash(rel))
	}
	return filepath.Join(c.home, dir, string(session), filepath.FromSlash(rel))
}

// listSidecars finds a session's sidecars, sorted by path, without reading them: those beside the
// transcript only if its path is not "". It leaves out
// symlinks, [resumeHead] and special files. skipped describes the files that were too large,
// and those with credentials.
func (c *Transcripts) listSidecars(session segno.SessionID, transcript string) (list []sidecar, skipped []string, err error) {
	for _, dir := range sidecarDirs() {
		if dir == "session" && transcript == "" {
			continue
		}
		root := c.sidecarFile(session, transcript, dir)
		err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() || file == filepath.Join(root, resumeHead) {
				return sessionfile.IgnoreMissing(err)
			}
			fi, err := d.Info()
			if err != nil {
				return sessionfile.IgnoreMissing(err)
			}
			rel, err := filepath.Rel(root, file)
			if err != nil {
				return err
			}
			s := sidecar{path: path.Join(dir, filepath.ToSlash(rel)), mode: fi.Mode().Perm(), size: fi.Size(), mtime: fi.ModTime().UnixNano()}
			if slices.Contains(credentials(), d.Name()) {
				skipped = append(skipped, fmt.Sprintf("sidecar %s was left out: it may hold credentials", s.path))
			} else if s.size > maxSidecar {
				skipped = append(skipped, fmt.Sprintf("sidecar %s was left out: it is larger than 64 MiB", s.path))
			} else {
				list = append(list, s)
			}
			return nil
		})
		if err != nil {
			return nil, nil, err
		}
	}
	slices.SortFunc(list, func(a, b sidecar) int { return cmp.Compare(a.path, b.path) })
	slices.Sort(skipped)
	return list, skipped, nil
}

// OthersStamp implements [transcript.OtherFiles].
func (c *Transcripts) OthersStamp(file transcript.SessionFile) uint64 {
	list, _, err := c.listSidecars(file.Session, file.Path)
	if err != nil || len(list) == 0 {
		return 0
	}
	sum := fnv.New64a()
	for _, s := range list {
		fmt.Fprintf(sum, "%q %d %d\n", s.path, s.size, s.mtime)
	}
	return sum.Sum64()
}

// captureSidecars stores the sidecars that changed since the list before, and
// a new list. The hash is zero if there are no sidecars. hasNew reports whether the new list has content that the list before lacks.
func (c *Transcripts) captureSidecars(ctx context.Context, src segno.Source, before segno.Hash, b segno.Batch) (name segno.Hash, hasNew bool, skipped []string, err error) {
	list, skipped, err := c.listSidecars(src.Session, src.Path)
	if err != nil {
		return name, false, nil, fmt.Errorf("list sidecars: %w", err)
	}
	earlier := map[string]sidecar{}
	if c.objects != nil && !before.IsZero() {
		old, _ := getSidecars(ctx, c.objects, before) // if this fails, all sidecars are read again
		for _, s := range old {
			earlier[s.path] = s
		}
	}
	kept := list[:0]
	for _, s := range list {
		if old, ok := earlier[s.path]; ok && old.mtime == s.mtime && old.size == s.size {
			s.isLog, s.name = old.isLog, old.name
		} else if err := c.storeSidecar(ctx, src, &s, b); errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return name, false, nil, err
		}
		hasNew = hasNew || earlier[s.path].name != s.name
		kept = append(kept, s)
	}
	if len(kept) == 0 {
		return name, false, skipped, nil
	}
	if name, err = b.Put(ctx, encodeSidecars(kept)); err != nil {
		return name, false, nil, fmt.Errorf("store sidecars: %w", err)
	}
	return name, hasNew, skipped, nil
}

// storeSidecar reads a file and stores it. The error is [fs.ErrNotExist] if the file is
// gone, or grew beyond maxSidecar.
func (c *Transcripts) storeSidecar(ctx context.Context, src segno.Source, s *sidecar, b segno.Batch) error {
	f, err := vfs.OpenRegular(c.sidecarFile(src.Session, src.Path, s.path))
	if err != nil {
		return fmt.Errorf("read sidecar: %w", err)
	}
	defer f.Close()
	if c.now().Sub(time.Unix(0, s.mtime)) < racyAge {
		s.mtime = 0
	}
	data, err := io.ReadAll(io.LimitReader(f, maxSidecar+1))
	if err != nil {
		return fmt.Errorf("read sidecar: %w", err)
	}
	s.size = int64(len(data))
	if s.size > maxSidecar {
		return fmt.Errorf("sidecar %s grew too large: %w", s.path, fs.ErrNotExist)
	}
	if s.isLog = len(data) > sessionfile.BlockSize; !s.isLog {
		s.name, err = b.Put(ctx, data)
		return err
	}
	w := &sessionfile.LogWriter{Batch: b}
	for block := range slices.Chunk(data, sessionfile.BlockSize) {
		if err := w.Put(ctx, block); err != nil {
			return err
		}
	}
	s.name, err = w.Close(ctx)
	return err
}

const sidecarHead = "segno-sidecars 1\n"

// encodeSidecars returns the canonical bytes of a sorted list.
func encodeSidecars(list []sidecar) []byte {
	var b bytes.Buffer
	b.WriteString(sidecarHead)
	for _, s := range list {
		how := "blob"
		if s.isLog {
			how = "log"
		}
		fmt.Fprintf(&b, "%o %d %d %s %s %q\n", s.mode, s.size, s.mtime, how, s.name, s.path)
	}
	return b.Bytes()
}

func getSidecars(ctx context.Context, o segno.Objects, name segno.Hash) ([]sidecar, error) {
	data, err := o.Get(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("read sidecars: %w", err)
	}
	return decodeSidecars(data)
}

// decodeSidecars is the inverse of encodeSidecars. Errors have the same kinds as in
// [sessionfile.ReadLog]. No path of the result goes outside its directory.
func decodeSidecars(data []byte) ([]sidecar, error) {
	const op = "read sidecars"
	rows, err := sessionfile.SplitRows(data, sidecarHead)
	if err != nil {
		return nil, err
	}
	var out []sidecar
	for _, row := range rows {
		s, err := decodeSidecar(row)
		if err != nil {
			return nil, segno.NewError(segno.KindCorrupt, op, "", err)
		}
		if len(out) > 0 && out[len(out)-1].path >= s.path {
			return nil, segno.Errorf(segno.KindCorrupt, op, s.path, "out of order")
		}
		out = append(out, s)
	}
	if len(out) == 0 || !bytes.Equal(encodeSidecars(out), data) {
		return nil, segno.Errorf(segno.KindCorrupt, op, "", "not in the canonical encoding")
	}
	return out, nil
}

func decodeSidecar(row string) (s sidecar, err error) {
	var how, name string
	head, quoted, _ := strings.Cut(row, ` "`)
	if _, err := fmt.Sscanf(head, "%o %d %d %s %s", &s.mode, &s.size, &s.mtime, &how, &name); err != nil {
		return s, err
	}
	s.isLog = how == "log"
	if s.name, err = segno.ParseHash(name); err != nil {
		return s, err
	}
	if s.path, err = strconv.Unquote(`"` + quoted); err != nil {
		return s, err
	}
	dir, rel, _ := strings.Cut(s.path, "/")
	switch {
	case !slices.Contains(sidecarDirs(), dir):
		return s, fmt.Errorf("unknown directory %q", dir)
	case s.mode != s.mode.Perm(), s.size < 0, s.size > 2*maxSidecar, s.name.IsZero():
		return s, fmt.Errorf("impossible mode, size or name of %q", s.path)
	case rel == "." || path.Clean(rel) != rel || !filepath.IsLocal(filepath.FromSlash(rel)) || strings.ContainsRune(rel, 0):
		return s, fmt.Errorf("invalid path %q", s.path)
	}
	return s, nil
}

// Trace calls visit for each object p reaches. visit returns false if it
// already knows the references of an object. An object that cannot be read
// keeps Trace only from the objects that it names.
func (c *Transcripts) Trace(ctx context.Context, p segno.Position, o segno.Objects, visit func(segno.Hash) bool) error {
	failure := sessionfile.TraceLog(ctx, o, p.Log, visit)
	if p.Sidecars.IsZero() || !visit(p.Sidecars) {
		return failure
	}
	list, err := getSidecars(ctx, o, p.Sidecars)
	failure = errors.Join(failure, err)
	for _, s := range list {
		if !s.isLog {
			visit(s.name)
		} else {
			failure = errors.Join(failure, sessionfile.TraceLog(ctx, o, s.name, visit))
		}
	}
	return failure
}
