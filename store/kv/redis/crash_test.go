package redis_test

import (
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/testing/serverrig"
	"github.com/dalsegno/segno/internal/testing/soak"
	"github.com/dalsegno/segno/store/kv/redis"
)

var day = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func turn(head segno.Head, id string) segno.Commit {
	body, err := json.Marshal("what was said in " + id)
	if err != nil {
		panic(err)
	}
	return segno.Commit{ID: segno.CommitID(id), Thread: head.Thread, Parent: head.Head, Expect: head.Head, Epoch: head.Epoch,
		Entries:    []segno.Entry{{Kind: segno.EntryMessage, Turn: head.Turn + 1, Time: day, Name: "user", Body: body}},
		Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointTurn, Turn: head.Turn + 1, Time: day, Prompt: id}}
}

func create(thread segno.ThreadID, parent segno.CommitID) segno.Commit {
	return segno.Commit{ID: "base of " + segno.CommitID(thread), Thread: thread, Parent: parent,
		Create: &segno.Thread{ID: thread, Created: day, Parent: parent}, Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointBase, Time: day}}
}

func commit(t *testing.T, s segno.Store, c segno.Commit) segno.Head {
	t.Helper()
	head, err := s.Commit(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return head
}

func load(t *testing.T, s segno.Store, at segno.CommitID) []segno.Node {
	t.Helper()
	line, err := s.Load(t.Context(), at, segno.Window{Entries: true})
	if err != nil {
		t.Fatalf("loading %s: %v", at, err)
	}
	return line.Commits
}

// TestKilled repeatedly kills the server under writers. All acknowledged commits must exist
// afterwards, the line must be complete, and a commit whose answer was lost must succeed when it is
// repeated.
func TestKilled(t *testing.T) {
	own, err := serverrig.Redis(t.Context(), "", serverrig.RedisNoSync()...)
	if err != nil {
		t.Fatal(err)
	}
	defer own.Stop()
	reopen := func() *redis.Store {
		s, err := redis.Open(t.Context(), own.URL, redis.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := reopen()
	defer func() { s.Close() }()
	const writers = 3
	rounds := soak.Count(t, 3, 200)
	heads := make([]segno.Head, writers)
	lost := make([]segno.Commit, writers)
	for w := range heads {
		heads[w] = commit(t, s, create(segno.ThreadID(fmt.Sprint("writer ", w)), ""))
	}
	for round := range rounds {
		acks := make(chan bool, 1000)
		var group sync.WaitGroup
		for w := range heads {
			group.Go(func() {
				for i := 0; ; i++ {
					c := turn(heads[w], fmt.Sprintf("writer %d round %d turn %d", w, round, i))
					head, err := s.Commit(t.Context(), c)
					if err != nil {
						lost[w] = c
						return
					}
					heads[w] = head
					acks <- true
				}
			})
		}
		for range 5 + 7*round%40 {
			<-acks
		}
		own.Kill()
		group.Wait()
		if err := own.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.Close()
		s = reopen()
		for w, head := range heads {
			now, err := s.Head(t.Context(), head.Thread)
			if err != nil {
				t.Fatal(err)
			}
			if now != head && now.Head != lost[w].ID {
				t.Fatalf("round %d: the head is %s; acknowledged was %s, and %s under way", round, now.Head, head.Head, lost[w].ID)
			}
			if heads[w] = commit(t, s, lost[w]); heads[w].Seq != head.Seq+1 {
				t.Fatalf("round %d: once more gave seq %d behind %d", round, heads[w].Seq, head.Seq)
			}
			for i, n := range load(t, s, heads[w].Head) {
				if n.Seq != int64(i+1) || i > 0 && len(n.Entries) != 1 {
					t.Fatalf("round %d: node %d of the line is %+v", round, i, n)
				}
			}
		}
	}
}

// TestTwoClients runs writers of two clients on one thread. After a conflict, each writer continues
// from the head in the conflict.
func TestTwoClients(t *testing.T) {
	const writers, each = 4, 15
	o := redis.Options{Prefix: newPrefix()}
	stores := []*redis.Store{open(t, o), open(t, o)}
	defer stores[0].Close()
	defer stores[1].Close()
	start := commit(t, stores[0], create("T", ""))
	var group sync.WaitGroup
	for w := range writers {
		group.Go(func() {
			head := start
			for i := range each {
				for {
					got, err := stores[w%2].Commit(t.Context(), turn(head, fmt.Sprintf("writer %d turn %d", w, i)))
					if err == nil {
						head = got
						break
					}
					actual, ok := conflict(err)
					if !ok {
						t.Errorf("a writer that was too late got %v", err)
						return
					}
					head = actual
				}
			}
		})
	}
	group.Wait()
	line := load(t, stores[1], head(t, stores[1], "T").Head)
	if len(line) != 1+writers*each {
		t.Fatalf("the line has %d commits", len(line))
	}
	for i, n := range line {
		if n.Seq != int64(i+1) {
			t.Fatalf("node %d has seq %d", i, n.Seq)
		}
	}
}
