package sqlite

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dalsegno/segno"
)

// trialStore fills a store and returns what a reader finds in it.
func trialStore(t *testing.T, dir string) (truth []string) {
	t.Helper()
	s := openIn(t, dir, Options{})
	defer s.Close()
	saver := segno.NewSaver(s)
	rnd := rand.New(rand.NewPCG(7, 7))
	for n := range 3 {
		saved := segno.Saved{Address: segno.Address{Thread: fmt.Sprint("thread ", n)}}
		for step := range 12 {
			text := make([]byte, 200+rnd.IntN(3000))
			for i := range text {
				text[i] = 'a' + byte(rnd.IntN(26))
			}
			saved.Messages = append(saved.Messages, json.RawMessage(fmt.Sprintf("%q", text)))
			saved.State = map[string]json.RawMessage{"step": json.RawMessage(fmt.Sprint(step))}
			var err error
			if saved, err = saver.Save(t.Context(), saved); err != nil {
				t.Fatal(err)
			}
		}
	}
	commits := trialCommits(t, s)
	truth = append(truth, commits...)
	return append(truth, readTrial(t.Context(), s, commits)...)
}

func trialCommits(t *testing.T, s *Store) (ids []string) {
	t.Helper()
	for c, err := range s.Checkpoints(t.Context(), segno.CheckpointQuery{}) {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, string(c.ID))
	}
	return ids
}

// readTrial reads everything and tells what it found, or the kind of each error.
func readTrial(ctx context.Context, s segno.Store, commits []string) (found []string) {
	say := func(what string, x any, err error) {
		if err != nil {
			x = "error: " + segno.KindOf(err).String()
		}
		text, _ := json.Marshal(x)
		found = append(found, what+": "+string(text))
	}
	for n := range 3 {
		id := segno.ThreadID(fmt.Sprint("thread ", n))
		head, err := s.Head(ctx, id)
		say("head of "+string(id), head, err)
		saved, err := segno.NewSaver(s).Load(ctx, segno.Address{Thread: string(id)})
		say("what is saved in "+string(id), saved, err)
		var all []segno.CommitID
		err = nil
		for c, e := range s.Checkpoints(ctx, segno.CheckpointQuery{Thread: id}) {
			all, err = append(all, c.ID), e
			if e != nil {
				break
			}
		}
		say("checkpoints of "+string(id), all, err)
	}
	for _, id := range commits {
		line, err := s.Load(ctx, segno.CommitID(id), segno.Window{Entries: true})
		say("line of "+id, line, err)
	}
	var all []segno.Thread
	var err error
	for th, e := range s.Threads(ctx, segno.ThreadQuery{}) {
		all, err = append(all, th), e
		if e != nil {
			break
		}
	}
	say("threads", all, err)
	return found
}

// TestNoDamageIsSilent spoils a database at random: a bit, a page, the end. Whatever is read
// afterwards is what was written, or an error, and none that says that it is not there.
// Under SEGNO_SOAK there are 5,000 damages.
func TestNoDamageIsSilent(t *testing.T) {
	origin := t.TempDir()
	truth := trialStore(t, origin)
	var commits []string
	for _, x := range truth {
		if !strings.Contains(x, ": ") {
			commits = append(commits, x)
		}
	}
	truth = truth[len(commits):]
	trials := 120
	if os.Getenv("SEGNO_SOAK") != "" {
		trials = 5000
	}
	whole, err := os.ReadFile(filepath.Join(origin, databaseName))
	if err != nil {
		t.Fatal(err)
	}
	for n := range trials {
		rnd := rand.New(rand.NewPCG(uint64(n), 3))
		data := slices.Clone(whole)
		kind, at := "", 0
		switch n % 4 {
		case 0, 1:
			at = rnd.IntN(len(data))
			kind = "a bit"
			data[at] ^= 1 << rnd.IntN(8)
		case 2:
			kind, at = "a page", rnd.IntN(len(data)/4096)*4096
			clear(data[at : at+4096])
		case 3:
			kind, at = "the end", rnd.IntN(len(data))
			data = data[:at]
		}
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, databaseName), data, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := OpenDir(t.Context(), dir, Options{})
		if err != nil {
			if segno.KindOf(err) == segno.KindNotFound {
				t.Errorf("open: %v", err)
			}
			continue
		}
		for i, x := range readTrial(t.Context(), s, commits) {
			if x == truth[i] || strings.Contains(x, "error: ") && !strings.Contains(x, "does not exist") {
				continue
			}
			what, _, _ := strings.Cut(x, ": ")
			t.Errorf("%s at %d (page %d, %d): %s is %.120q, not %.120q", kind, at, at/4096+1, at%4096, what, x, truth[i])
			break
		}
		_ = s.Close() // a damaged database may not close
	}
}
