package database

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
)

// groupSums recognize the groups of a saved content that did not change, without the hashes of their pages. A sum is a
// GMAC under a random key, which takes a small part of the time of SHA-256. Two contents have the same sum with a
// probability below 2^-100, unless their author knows the key. The key is in the directory of the store, so a program
// that can read it can also change the store.
type groupSums struct {
	Key  []byte `json:"key"`
	Sums []byte `json:"sums"` // of all groups, one after the other
	// File and Log tell which groups cannot have changed; see openLog. They are empty if nothing is known.
	File string      `json:"file,omitempty"` // see fileIdentity
	Log  logPosition `json:"log,omitzero"`
}

const sumSize = 16

// newGroupSums returns sums for a number of groups. The key is that of other sums, if there are any.
func newGroupSums(groups int, like *groupSums) *groupSums {
	s := &groupSums{Sums: make([]byte, groups*sumSize)}
	if like != nil {
		s.Key = like.Key
		return s
	}
	s.Key = make([]byte, sumSize)
	_, _ = rand.Read(s.Key) // it never fails
	return s
}

// sums returns the sums of the groups of the state, or nil if the state has no usable sums or pages of another size.
func (e cacheEntry) sums(pageSize int) *groupSums {
	if e.State.PageSize != pageSize || e.Sums == nil || len(e.Sums.Key) != sumSize {
		return nil
	}
	return e.Sums
}

// at returns the sum of a group, or nil if there is none. s may be nil.
func (s *groupSums) at(group int) []byte {
	if s == nil || (group+1)*sumSize > len(s.Sums) {
		return nil
	}
	return s.Sums[group*sumSize : (group+1)*sumSize]
}

// summer returns a function that computes the sum of a content.
func (s *groupSums) summer() (func(content []byte) [sumSize]byte, error) {
	block, err := aes.NewCipher(s.Key)
	if err != nil {
		return nil, err
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		return nil, err
	}
	nonce := make([]byte, gcm.NonceSize()) // always the same, because the sums are not published
	return func(content []byte) (sum [sumSize]byte) {
		copy(sum[:], gcm.Seal(nil, nonce, nil, content))
		return sum
	}, nil
}

// errPartial is the error of a database that has another number of pages than its header says.
var errPartial = errors.New("it has another number of pages than its header says")

// A pageReader reads the groups of a database from its files. The caller makes sure that no program changes them.
type pageReader struct {
	file            *os.File
	pageSize, pages int
	log             *pageLog // or nil
}

// groupLength returns the number of pages in a group.
func (r *pageReader) groupLength(group int) int { return min(groupSize, r.pages-group*groupSize) }

// pendingByte is the place of the locks of SQLite. The page that contains it has no content.
const pendingByte = 1 << 30

// read reads a group into a buffer of its size. It clears the bytes that are not part of the content.
func (r *pageReader) read(group int, content []byte) error {
	first := group * groupSize
	n, err := r.file.ReadAt(content, int64(first)*int64(r.pageSize))
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	for i := range r.groupLength(group) {
		page := content[i*r.pageSize : (i+1)*r.pageSize]
		offset, isLogged := r.log.find(first + i + 1)
		switch {
		case isLogged:
			if _, err := r.log.file.ReadAt(page, offset); err != nil {
				return err
			}
		case (i+1)*r.pageSize > n:
			return errPartial
		}
		if first+i == pendingByte/r.pageSize {
			clear(page)
		}
	}
	if group == 0 && len(content) >= 100 {
		clearHeader(content)
	}
	return nil
}

// save stores the groups that changed since the previous state, which has the sums before, and takes the others from the
// previous state. isUnchanged reports which did not change. If it is nil, save compares the sums. before may be nil.
func (r *pageReader) save(ctx context.Context, w *pageWriter, before *groupSums, isUnchanged func(group int) bool) (*groupSums, error) {
	w.begin(r.pages, r.pageSize)
	sums := newGroupSums(len(w.groups), before)
	same, err := r.compare(ctx, before, min(len(w.groups), len(w.previous)), isUnchanged)
	if err != nil {
		return nil, err
	}
	sum, err := sums.summer()
	if err != nil {
		return nil, err
	}
	content := make([]byte, min(groupSize, r.pages)*r.pageSize)
	for g := range w.groups {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if g < len(same) && same[g] {
			copy(sums.at(g), before.at(g))
			w.keep(g)
			continue
		}
		content = content[:r.groupLength(g)*r.pageSize]
		if err := r.read(g, content); err != nil {
			return nil, err
		}
		now := sum(content)
		copy(sums.at(g), now[:])
		if err := w.set(ctx, g, content); err != nil {
			return nil, err
		}
	}
	return sums, nil
}

// compare reports for each of the first n groups whether it is unchanged; see save. It reads several at a time.
func (r *pageReader) compare(ctx context.Context, before *groupSums, n int, isUnchanged func(group int) bool) (same []bool, err error) {
	same = make([]bool, n)
	if before == nil {
		return same, nil
	}
	var next atomic.Int64
	work := func() error {
		sum, err := before.summer()
		if err != nil {
			return err
		}
		content := make([]byte, min(groupSize, r.pages)*r.pageSize)
		for g := int(next.Add(1) - 1); g < n && ctx.Err() == nil; g = int(next.Add(1) - 1) {
			if isUnchanged != nil {
				same[g] = isUnchanged(g)
				continue
			}
			content = content[:r.groupLength(g)*r.pageSize]
			if err := r.read(g, content); err != nil {
				return err
			}
			now := sum(content)
			same[g] = bytes.Equal(now[:], before.at(g))
		}
		return ctx.Err()
	}
	var group sync.WaitGroup
	failures := make([]error, min(runtime.GOMAXPROCS(0), max(1, n)))
	for i := range failures {
		group.Go(func() { failures[i] = work() })
	}
	group.Wait()
	return same, errors.Join(failures...)
}
