package storetest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/saver"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// Traveler is a saver that can list, load and fork older checkpoints, and return to them.
type Traveler interface {
	At(ctx context.Context, at saver.ThreadKey, id segno.CommitID) (saver.Snapshot, error)
	History(ctx context.Context, at saver.ThreadKey, q segno.CheckpointQuery) iter.Seq2[segno.Checkpoint, error]
	Undo(ctx context.Context, at saver.ThreadKey, n int) (saver.Snapshot, error)
	Redo(ctx context.Context, at saver.ThreadKey, n int) (saver.Snapshot, error)
	Restore(ctx context.Context, at saver.ThreadKey, to segno.CommitID) (saver.Snapshot, error)
	Fork(ctx context.Context, from segno.CommitID, to saver.ThreadKey) (saver.Snapshot, error)
}

// SaverOptions give the tests additional access to a saver. All are optional.
type SaverOptions struct {
	// Reopen opens the data of s again, as a later process would. It is nil for a saver in memory.
	Reopen func(t *testing.T, s saver.Saver) saver.Saver
	// Another opens the data of s a second time, as another process would.
	Another func(t *testing.T, s saver.Saver) saver.Saver
	// Clock is the clock that the saver reads.
	Clock *Clock
}

// TestSaver tests a saver that does not use a segno.Store. open returns a new, empty saver and
// releases the saver's resources with t.Cleanup. A type assertion finds a [Traveler]. [Test] has more
// tests for the saver that [saver.New] returns. It finds a [Brancher] in the same way.
func TestSaver(t *testing.T, open func(t *testing.T) saver.Saver, o SaverOptions) {
	run(t, saverGroups(), func(t *testing.T) *fixture {
		f := &fixture{tester: t, T: t, o: Options{Clock: o.Clock}, saver: open(t)}
		if o.Reopen != nil {
			f.reopen = func() { f.saver = o.Reopen(t, f.saver) }
		}
		if o.Another != nil {
			f.another = func() saver.Saver { return o.Another(t, f.saver) }
		}
		return f
	})
}

// saverGroups returns the subtests of a saver.
func saverGroups() []group {
	return []group{
		{"saver", saveTests, nil}, {"saver", contentTests, nil}, {"saver", addressTests, nil},
		{"saver", secondSaverTests, needs{canOpenTwice}}, {"interrupt", interruptTests, nil},
		{"history", historyTests, needs{isTraveler}}, {"travel", travelTests, needs{isTraveler}},
		{"fork", forkTests, needs{isTraveler}},
		{"branch", branchTests, needs{isBrancher, isTraveler}}, {"branch", secondBranchTests, needs{isBrancher, canOpenTwice}},
		{"branch", reopenedBranchTests, needs{isBrancher, canReopen}}, {"aside", asideTests, needs{isBrancher, isTraveler}},
		{"state", stateTests, needs{isOnStore}}, {"state", leasedStateTests, needs{isOnStore, isLeaser}},
		{"reopen", reopenedSaverTests, needs{canReopen}},
	}
}

// address returns an unused address.
func (f *fixture) address() saver.ThreadKey { return saver.ThreadKey{Thread: f.id("thread")} }

// part returns the address of a namespace of a's thread.
func part(a saver.ThreadKey, namespace string) saver.ThreadKey {
	return saver.ThreadKey{Thread: a.Thread, Namespace: namespace}
}

func (f *fixture) save(s saver.Snapshot) saver.Snapshot {
	f.Helper()
	return returned(f.saver.Save(f.Context(), s)).ok(f)
}

func (f *fixture) saveErr(s saver.Snapshot) error { return errOf(f.saver.Save(f.Context(), s)) }

// begin saves the first checkpoint of a thread.
func (f *fixture) begin(a saver.ThreadKey, texts ...string) saver.Snapshot {
	f.Helper()
	return f.save(with(saver.Snapshot{ThreadKey: a}, texts...))
}

// latest loads a thread.
func (f *fixture) latest(a saver.ThreadKey) saver.Snapshot {
	f.Helper()
	return returned(f.saver.Load(f.Context(), a)).ok(f)
}

func (f *fixture) remove(a saver.ThreadKey) {
	f.Helper()
	f.ok(f.saver.Delete(f.Context(), a))
}

// notFound fails the test if a exists.
func (f *fixture) notFound(a saver.ThreadKey) {
	f.Helper()
	f.kind(errOf(f.saver.Load(f.Context(), a)), segno.KindNotFound)
	f.exists(a, false)
}

func (f *fixture) exists(a saver.ThreadKey, want bool) {
	f.Helper()
	f.same(fmt.Sprintf("Exists(%q)", a), returned(f.saver.Exists(f.Context(), a)).ok(f), want)
}

// infos returns what List returns.
func (f *fixture) infos(namespace string) []saver.Info {
	f.Helper()
	return all(f, f.saver.List(f.Context(), namespace))
}

// addresses returns the addresses that List returns.
func (f *fixture) addresses(namespace string) (found []saver.ThreadKey) {
	f.Helper()
	for _, i := range f.infos(namespace) {
		found = append(found, i.ThreadKey)
	}
	return found
}

func message(text string) json.RawMessage {
	body, err := json.Marshal(map[string]string{"role": "user", "content": text})
	if err != nil {
		panic(err) // cannot happen for a map of strings
	}
	return body
}

// with returns a copy of s with additional messages, for the next step.
func with(s saver.Snapshot, texts ...string) saver.Snapshot {
	s.Step, s.Messages = 0, slices.Clone(s.Messages)
	for _, text := range texts {
		s.Messages = append(s.Messages, message(text))
	}
	return s
}

// withMeta returns a copy of s with the given Meta.
func withMeta(s saver.Snapshot, meta map[string]string) saver.Snapshot {
	s.Meta = meta
	return s
}

// values returns a State, given a key, its value, the next key and so on.
func values(pairs ...string) map[string]json.RawMessage {
	s := map[string]json.RawMessage{}
	for i := 0; i < len(pairs); i += 2 {
		s[pairs[i]] = json.RawMessage(pairs[i+1])
	}
	return s
}

// rich returns a checkpoint with data in every field.
func (f *fixture) rich(a saver.ThreadKey) saver.Snapshot {
	s := with(saver.Snapshot{ThreadKey: a, Meta: map[string]string{"source": "input", "run_id": "r1"}}, "hello", "hi")
	s.State = values("todos", `[{"id":1,"done":false}]`, "files", `{"a.txt":"x"}`, "score", `42`, "none", `null`)
	s.Interrupts = []segno.Interrupt{f.question(a, `{"to":"a@example.com"}`, segno.Approve, segno.Reject)}
	return s
}

// series saves n checkpoints, each with one more message and another value.
func (f *fixture) series(a saver.ThreadKey, n int) (saved []saver.Snapshot) {
	f.Helper()
	s := saver.Snapshot{ThreadKey: a}
	for i := range n {
		s = with(s, fmt.Sprint("message ", i))
		s.State = values("n", fmt.Sprint(i), "same", `"always"`)
		s.Meta = map[string]string{"source": []string{"input", "loop", "loop"}[i%3], "n": fmt.Sprint(i)}
		s = f.save(s)
		saved = append(saved, s)
	}
	return saved
}

// compact returns JSON without white space. For no bytes it returns null.
func compact(raw json.RawMessage) string {
	if len(raw) == 0 {
		return "null"
	}
	var tight, safe bytes.Buffer
	if json.Compact(&tight, raw) != nil {
		return string(raw)
	}
	json.HTMLEscape(&safe, tight.Bytes())
	return safe.String()
}

// texts returns the messages of a checkpoint in one format.
func texts(s saver.Snapshot) (found []string) {
	for _, m := range s.Messages {
		found = append(found, compact(m))
	}
	return found
}

// equal fails the test unless got and want are the same checkpoint. The format of the JSON may
// differ.
func (f *fixture) equal(what string, got, want saver.Snapshot) {
	f.Helper()
	for _, s := range []*saver.Snapshot{&got, &want} {
		s.Decisions = nil
		s.Messages, s.Interrupts = append([]json.RawMessage{}, s.Messages...), append([]segno.Interrupt{}, s.Interrupts...)
		if s.State == nil {
			s.State = values()
		}
		if s.Meta == nil {
			s.Meta = map[string]string{}
		}
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(saver.Snapshot{}), cmp.Transformer("compact", compact)); diff != "" {
		f.Fatalf("%s differs (-want +got):\n%s", what, diff)
	}
}

// isLatest fails the test unless s is the newest checkpoint of its thread.
func (f *fixture) isLatest(s saver.Snapshot) {
	f.Helper()
	f.equal("the loaded checkpoint", f.latest(s.ThreadKey), s)
}
