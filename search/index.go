package search

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
)

// Config is what an [Index] needs.
type Config struct {
	Dir string // of the segments; it need not exist. "" keeps them in memory.
	FS  vfs.FS
	// Sealer seals the segments of a sealed store. It is nil for another store.
	Sealer Sealer
	// ReadOnly keeps the files as they are. New segments are then in memory.
	ReadOnly bool
	// Lock excludes other processes while this one adds segments. It may be nil.
	Lock func(ctx context.Context) (unlock func(), err error)
}

// Index is a set of segments. Its methods may be called at once.
type Index struct {
	config Config

	mu   sync.RWMutex // a search holds it for reading, so that no file is closed meanwhile
	segs []*segment
	seen map[string]bool // files that this process has read, or does not read

	heads    map[segno.ThreadID]int64 // the threads that exist, and the seqs of their newest commits
	sessions map[string]string        // the sessions that exist, and the states of their files
}

const suffix = ".seg"

// Open opens the index in a directory. It removes segments that are damaged, and leaves those of other versions alone. An index
// in a directory that cannot be read is empty, because [Index.Update] builds it again, at worst in memory.
func Open(config Config) *Index {
	x := &Index{config: config, seen: map[string]bool{}}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.readDir()
	return x
}

// readDir opens the segments that other processes have added, and closes those that they removed.
func (x *Index) readDir() {
	if x.config.Dir == "" {
		return
	}
	entries, err := os.ReadDir(x.config.Dir)
	if err != nil {
		entries = nil
	}
	present := map[string]bool{}
	for _, e := range entries {
		name := e.Name()
		if present[name] = true; x.seen[name] || !strings.HasSuffix(name, suffix) {
			continue
		}
		s, err := x.openFile(name)
		switch {
		case err == nil:
			x.segs = append(x.segs, s)
		case errors.Is(err, errDamaged):
			x.removeFile(name)
			continue
		}
		x.seen[name] = true
	}
	x.segs = slices.DeleteFunc(x.segs, func(s *segment) bool {
		isGone := s.name != "" && !present[s.name]
		if isGone {
			x.forget(s)
		}
		return isGone
	})
	x.dropOverlaps()
}

func (x *Index) forget(s *segment) {
	delete(x.seen, s.name)
	_ = s.close() // it was only read
}

func (x *Index) openFile(name string) (*segment, error) {
	f, err := os.Open(filepath.Join(x.config.Dir, name))
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	var s *segment
	if err == nil {
		s, err = openSegment(f, info.Size(), x.config.Sealer)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	s.name, s.close = name, f.Close
	return s, nil
}

// removeFile removes a segment. At worst it stays, and the next process removes it.
func (x *Index) removeFile(name string) {
	if !x.config.ReadOnly {
		_ = x.config.FS.Remove(filepath.Join(x.config.Dir, name))
	}
}

// drop removes a segment, whose documents are then missing until the next update.
func (x *Index) drop(s *segment) {
	x.segs = slices.DeleteFunc(x.segs, func(o *segment) bool { return o == s })
	if s.name != "" {
		x.removeFile(s.name)
		x.forget(s)
	}
}

// dropOverlaps drops each segment that has a part of the documents of a larger one. Such a segment remains if a process
// ended after it had merged segments, or if two processes added the same checkpoints.
func (x *Index) dropOverlaps() {
	slices.SortFunc(x.segs, func(a, b *segment) int {
		return cmp.Or(cmp.Compare(b.units, a.units), cmp.Compare(b.size, a.size), strings.Compare(a.name, b.name))
	})
	kept := map[string][]*Source{} // by thread or session
	for _, s := range slices.Clone(x.segs) {
		isFree := func(o Source) bool {
			return !slices.ContainsFunc(kept[o.key()], func(k *Source) bool { return k.overlaps(&o) })
		}
		if slices.ContainsFunc(s.sources, func(o Source) bool { return !isFree(o) }) {
			x.drop(s)
			continue
		}
		for i := range s.sources {
			key := s.sources[i].key()
			kept[key] = append(kept[key], &s.sources[i])
		}
	}
}

// key identifies the thread or the session of a source.
func (s *Source) key() string {
	if s.isSession() {
		return "s" + s.sessionKey()
	}
	return "t" + string(s.Thread)
}

// addSegment adds a segment with a content. If the file cannot be written, the segment stays in memory, so that the
// answers of this process are right.
func (x *Index) addSegment(content []byte) error {
	id := make([]byte, idSize)
	if x.config.Sealer != nil {
		rand.Read(id)
	}
	file := encodePages(content, id, x.config.Sealer)
	s, err := openSegment(bytes.NewReader(file), int64(len(file)), x.config.Sealer)
	if err != nil {
		return segno.NewError(segno.KindInternal, "write index of search", "", err)
	}
	sum := sha256.Sum256(file)
	name := hex.EncodeToString(sum[:16]) + suffix
	if x.config.Dir != "" && !x.config.ReadOnly && x.writeFile(name, file) == nil {
		onDisk, err := x.openFile(name)
		if err == nil {
			s = onDisk
			x.seen[name] = true
		}
	}
	x.segs = append(x.segs, s)
	return nil
}

// writeFile writes a file of the index. It does not sync it: after a crash, an incomplete segment is damaged and built again.
func (x *Index) writeFile(name string, data []byte) error {
	if err := vfs.MkdirAll(x.config.FS, x.config.Dir); err != nil {
		return err
	}
	temp := filepath.Join(x.config.Dir, ".segno-"+rand.Text())
	f, err := x.config.FS.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err == nil {
		err = x.config.FS.Rename(temp, filepath.Join(x.config.Dir, name))
	}
	if err != nil {
		_ = x.config.FS.Remove(temp) // at worst it is stray; the first error matters more
	}
	return err
}

// The sizes below which segments are merged, mergeCount at once. Larger ones are never merged, so that an update is short.
const (
	smallSegment = 128 << 10
	largeSegment = 1 << 20
	mergeCount   = 8
)

// mergeSmall merges small segments, so that their number grows with the logarithm of the number of updates.
func (x *Index) mergeSmall() error {
	for _, limit := range []int64{smallSegment, largeSegment} {
		var small []*segment
		for _, s := range x.segs {
			if s.size < limit {
				small = append(small, s)
			}
		}
		if len(small) < mergeCount {
			continue
		}
		content, err := merge(small)
		if err != nil {
			return x.repair(err, small)
		}
		if err := x.addSegment(content); err != nil {
			return err
		}
		for _, s := range small {
			x.drop(s)
		}
	}
	return nil
}

// repair drops the damaged ones of some segments, or all if the checksums of all pages are right. It returns errors of other
// kinds.
func (x *Index) repair(err error, segs []*segment) error {
	if !errors.Is(err, errDamaged) {
		return err
	}
	damaged := slices.DeleteFunc(slices.Clone(segs), func(s *segment) bool { return s.pages.verify() == nil })
	if len(damaged) == 0 {
		damaged = segs
	}
	for _, s := range slices.Clone(damaged) {
		x.drop(s)
	}
	return nil
}

// errRebuilt is the error of a search that found damage. The caller updates the index and searches again.
var errRebuilt = errors.New("a damaged segment was removed")

// Search answers a query from the present segments. verify reads the texts of a hit; Search calls it only if the index cannot
// decide, in the order of the hits, at most until the deadline. first is the number of hits to leave out.
//
// IsDamaged reports whether an error means that Search removed a damaged segment: the caller then calls [Index.Update] and
// Search again.
func (x *Index) Search(q *Query, first, limit int, deadline time.Time, texts func(*Hit) ([]string, error)) (a Result, err error) {
	x.mu.RLock()
	segs := slices.Clone(x.segs)
	a, err = answer(segs, q, first, limit, deadline, texts)
	x.mu.RUnlock()
	if errors.Is(err, errDamaged) {
		x.mu.Lock()
		defer x.mu.Unlock()
		if err = x.repair(err, segs); err == nil {
			err = errRebuilt
		}
	}
	return a, err
}

func answer(segs []*segment, q *Query, first, limit int, deadline time.Time, texts func(*Hit) ([]string, error)) (a Result, err error) {
	isVerified := slices.ContainsFunc(q.fields(), q.isVerified)
	most := first + limit
	if isVerified {
		most = maxVerified
	}
	r, err := search(segs, q, most)
	if err != nil {
		return a, err
	}
	a = r.counts(isVerified)
	n := 0 // the hits so far
	for _, c := range r.best {
		h, err := r.hit(c)
		if err != nil {
			return a, err
		}
		if isVerified && c.missing == 0 {
			isEnough := time.Now().After(deadline) || n >= first+limit && a.Total >= exactTotal
			if isEnough && q.isVerified(h.Field) {
				a.IsCapped = true
				break
			}
			ok, err := isMatch(q, &h, texts)
			if err != nil {
				return a, err
			}
			if !ok {
				continue
			}
			a.Total++
		}
		if n++; n > first && len(a.Hits) < limit {
			a.Hits = append(a.Hits, h)
		}
	}
	return a, nil
}

// counts returns the result without hits. If the hits must be verified, they are counted as they are.
func (r *run) counts(isVerified bool) Result {
	if isVerified {
		return Result{IsCapped: r.isCut || r.total > len(r.best)}
	}
	return Result{Total: r.total, IsCapped: r.isCut}
}

// isMatch reports whether the texts of a hit match a query, if the index alone does not prove it. A hit that cannot be read counts,
// so that its reader reports it.
func isMatch(q *Query, h *Hit, texts func(*Hit) ([]string, error)) (bool, error) {
	if !q.isVerified(h.Field) {
		return true, nil
	}
	all, err := texts(h)
	if kind := segno.KindOf(err); kind == segno.KindCorrupt || kind == segno.KindNotFound {
		return true, nil
	}
	return err == nil && q.Matches(h.Field, all), err
}

// IsDamaged reports whether an error means that the index removed a damaged segment; see [Index.Search].
func IsDamaged(err error) bool { return errors.Is(err, errRebuilt) }

// Size returns the number of bytes of the segments.
func (x *Index) Size() (n int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, s := range x.segs {
		n += s.size
	}
	return n
}

// Close closes the files.
func (x *Index) Close() (err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, s := range x.segs {
		err = errors.Join(err, s.close())
	}
	x.segs = nil
	return err
}
