package file

import (
	"bufio"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/dalsegno/segno"
)

// compare reads the logs of which changes does not know all, and writes there
// what was missing.
func (s *Store) compare(ctx context.Context, op string) error {
	des, err := os.ReadDir(s.threadsDir())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fail(op, s.threadsDir(), err)
	}
	for _, de := range des {
		if strings.HasPrefix(de.Name(), ".") || !de.IsDir() {
			continue
		}
		t, err := s.inDir(op, de.Name())
		if err != nil {
			return err
		}
		if t == nil {
			continue
		}
		fi, err := os.Stat(t.path())
		s.mu.Lock()
		covered, gap := t.covered, t.gap
		s.mu.Unlock()
		if err == nil && fi.Size() == covered && !gap {
			continue
		}
		if err := s.look(ctx, op, t); segno.KindOf(err) == segno.KindCancelled {
			return err
		}
		s.complete(t, covered, gap)
	}
	return nil
}

// complete writes into changes what it lacks of a thread. It is a cache, perhaps
// on a disk that cannot be written: an error only makes the next one look again.
func (s *Store) complete(t *thread, covered int64, gap bool) {
	s.mu.Lock()
	if t.n == 0 || t.damage != nil || !gap && covered == t.size {
		s.mu.Unlock()
		return
	}
	var all []change
	for _, x := range t.commits {
		all = append(all, change{x.ID, t.id, x.order, x.at, x.end})
	}
	// The first line begins at 0, so that the rest is known to follow; what is no
	// commit is told of in passing.
	for i := range all {
		if i+1 < len(all) {
			all[i].end = all[i+1].at
		} else {
			all[i].end = t.size
		}
	}
	s.mu.Unlock()
	_ = s.write(all)
}

// inDir returns the thread of a directory. One that is no thread's gives nil.
func (s *Store) inDir(op, name string) (*thread, error) {
	if id, ok := idOf(name); ok {
		return s.thread(id), nil
	}
	if !strings.Contains(name, hashedMark) {
		return nil, nil
	}
	id, err := firstThread(filepath.Join(s.threadsDir(), name, logName))
	if err == nil && nameOf(id) != name {
		err = errors.New("it is not the log of the thread that the directory is named for")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.nameless, name)
	if err == nil {
		return s.threadLocked(id), nil
	}
	if s.nameless[name] = fail(op, name, err); !errors.Is(err, errNewer) {
		s.nameless[name] = corrupt(op, filepath.Join(s.threadsDir(), name, logName), err)
	}
	return nil, nil
}

// firstThread reads the id of a thread from its log.
func firstThread(path string) (segno.ThreadID, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	line, err := bufio.NewReader(f).ReadBytes('\n')
	if err != nil {
		return "", err
	}
	r, err := decode(line[:len(line)-1])
	if err != nil {
		return "", err
	}
	if r.Commit == nil {
		return "", errors.New("it does not begin with a commit")
	}
	return r.Commit.Thread, nil
}
