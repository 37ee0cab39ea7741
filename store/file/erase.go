package file

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/store/internal/threadlog"
)

// Rewrite implements [threadlog.Logs]. It also removes the torn ends that are stored beside the logs.
// Afterwards every process reads all logs again.
func (s *disk) Rewrite(threads []*threadlog.Thread, strip func(*threadlog.CommitRecord)) error {
	logs := map[string][]byte{}
	for _, t := range threads {
		torn, err := filepath.Glob(filepath.Join(s.threadDir(t), "torn-*"))
		if err != nil {
			return err
		}
		for _, name := range torn {
			if err := s.fs.Remove(name); err != nil {
				return err
			}
		}
		before, err := os.ReadFile(s.logFile(t))
		if err != nil {
			return err
		}
		var after []byte
		for line := range strings.Lines(string(before)) {
			if after, err = appendStripped(after, []byte(line), strip); err != nil {
				return s.damaged(t, err)
			}
		}
		if len(torn) > 0 || string(after) != string(before) {
			logs[s.logFile(t)] = after
		}
	}
	if len(logs) == 0 {
		return nil
	}
	if err := s.announce(change{Erased: true}); err != nil {
		return err
	}
	s.forget()
	for name, log := range logs {
		if err := vfs.Replace(s.fs, name, log, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// appendStripped appends a line to a log after strip has removed content from it.
func appendStripped(log, line []byte, strip func(*threadlog.CommitRecord)) ([]byte, error) {
	r, err := decode(line)
	if err != nil || r.Commit == nil {
		return append(log, line...), err
	}
	entries, err := decodeEntries(line)
	if err == nil {
		strip(r.Commit)
		line, err = encode(r, entries[:r.Commit.Entries])
	}
	return append(log, line...), err
}
