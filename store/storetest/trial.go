package storetest

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/saver"
)

// Trial has the content of a store for a test that damages the stored data and reads it: each read must
// return the data that was written, or an error.
type Trial struct {
	inventory
	want []string
}

// NewTrial fills a store: "thread 0" has data in every field and a lease, "thread 1" and "thread 2" have
// saved states, and one more thread is deleted.
func NewTrial(t testing.TB, s segno.Store) *Trial {
	t.Helper()
	f := &fixture{tester: t, store: s, saver: saver.New(s)}
	text := func(field string, _ int) string { return "the " + field }
	tr := &Trial{inventory: f.fill("thread 0", text)}
	f.fillAround(&tr.inventory, text)
	random := rand.New(rand.NewPCG(7, 7))
	for n := range 2 {
		saved := saver.Snapshot{ThreadKey: saver.ThreadKey{Thread: fmt.Sprint("thread ", n+1)}}
		for step := range 18 {
			from := random.IntN(100)
			saved.Messages = append(saved.Messages, json.RawMessage(fmt.Sprintf("%q", noise(3300)[from:from+200+random.IntN(3000)])))
			saved.State = values("step", fmt.Sprint(step))
			saved = f.save(saved)
		}
		tr.threads = append(tr.threads, saved.ThreadKey.ID())
		tr.queries = append(tr.queries, segno.CheckpointQuery{Thread: saved.ThreadKey.ID()})
	}
	deleted := f.base("deleted thread", "")
	f.commit(deleted)
	f.ok(s.Delete(t.Context(), deleted.Thread))
	tr.threads, tr.commits = append(tr.threads, deleted.Thread), f.find(segno.CheckpointQuery{})
	tr.want = tr.read(t.Context(), s)
	return tr
}

// Silent reads everything and describes the first result that is neither the data written nor an error;
// "" if there is none. KindNotFound does not count as an error.
func (tr *Trial) Silent(ctx context.Context, s segno.Store) string {
	for i, got := range tr.read(ctx, s) {
		if got != tr.want[i] && (!strings.Contains(got, errorMark) || strings.Contains(got, segno.KindNotFound.String())) {
			return fmt.Sprintf("read %.150q; want %.150q", got, tr.want[i])
		}
	}
	return ""
}
