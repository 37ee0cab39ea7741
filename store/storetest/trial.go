package storetest

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/dalsegno/segno"
)

// Trial is a store's contents for a test that damages the stored data and then reads it: each
// read must return the data that was written, or an error.
type Trial struct {
	commits []segno.CommitID
	truth   []string
}

const trialThreads = 3

// NewTrial fills a store.
func NewTrial(t testing.TB, s segno.Store) *Trial {
	t.Helper()
	saver, rnd := segno.NewSaver(s), rand.New(rand.NewPCG(7, 7))
	for n := range trialThreads {
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
	tr := &Trial{}
	for c, err := range s.Checkpoints(t.Context(), segno.CheckpointQuery{}) {
		if err != nil {
			t.Fatal(err)
		}
		tr.commits = append(tr.commits, c.ID)
	}
	tr.truth = tr.read(t.Context(), s)
	return tr
}

// Silent reads everything and describes the first result that is neither the data written
// nor an error; "" if there is none. KindNotFound does not count as an error.
func (tr *Trial) Silent(ctx context.Context, s segno.Store) string {
	for i, now := range tr.read(ctx, s) {
		if now != tr.truth[i] && (!strings.Contains(now, trialError) || strings.Contains(now, segno.KindNotFound.String())) {
			return fmt.Sprintf("it is %.150q, not %.150q", now, tr.truth[i])
		}
	}
	return ""
}

const trialError = "error: "

// read reads everything and returns what it found, or the kind of each error.
func (tr *Trial) read(ctx context.Context, s segno.Store) (found []string) {
	say := func(what string, x any, err error) {
		if err != nil {
			x = trialError + segno.KindOf(err).String()
		}
		text, err := json.Marshal(x)
		if err != nil {
			text = []byte(err.Error())
		}
		found = append(found, what+": "+string(text))
	}
	for n := range trialThreads {
		id := segno.ThreadID(fmt.Sprint("thread ", n))
		head, err := s.Head(ctx, id)
		say("head of "+string(id), head, err)
		saved, err := segno.NewSaver(s).Load(ctx, segno.Address{Thread: string(id)})
		say("what is saved in "+string(id), saved, err)
		var all []segno.CommitID
		err = nil
		for c, e := range s.Checkpoints(ctx, segno.CheckpointQuery{Thread: id}) {
			if err = e; e != nil {
				break
			}
			all = append(all, c.ID)
		}
		say("checkpoints of "+string(id), all, err)
	}
	for _, id := range tr.commits {
		line, err := s.Load(ctx, id, segno.Window{Entries: true})
		say("line of "+string(id), line, err)
	}
	var all []segno.Thread
	var err error
	for t, e := range s.Threads(ctx, segno.ThreadQuery{}) {
		if err = e; e != nil {
			break
		}
		all = append(all, t)
	}
	say("threads", all, err)
	return found
}
