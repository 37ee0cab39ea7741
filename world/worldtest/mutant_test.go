package worldtest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/world/grid"
	"github.com/dalsegno/segno/world/worldcheck"
)

// mutant is a grid with one defect. Each field replaces a method, and calls the original with w.
type mutant struct {
	segno.World
	join     func(w segno.World, ctx context.Context, session, name string) error
	act      func(w segno.World, ctx context.Context, session string, action json.RawMessage) (segno.Observation, error)
	observe  func(w segno.World, ctx context.Context, session string) (segno.Observation, error)
	advance  func(w segno.World, ctx context.Context, d time.Duration) error
	snapshot func(w segno.World, ctx context.Context) (segno.WorldSnapshot, error)
	load     func(w segno.World, ctx context.Context, document []byte) error
}

func (m *mutant) Join(ctx context.Context, session, name string) error {
	if m.join != nil {
		return m.join(m.World, ctx, session, name)
	}
	return m.World.Join(ctx, session, name)
}

func (m *mutant) Act(ctx context.Context, session string, action json.RawMessage) (segno.Observation, error) {
	if m.act != nil {
		return m.act(m.World, ctx, session, action)
	}
	return m.World.Act(ctx, session, action)
}

func (m *mutant) Observe(ctx context.Context, session string) (segno.Observation, error) {
	if m.observe != nil {
		return m.observe(m.World, ctx, session)
	}
	return m.World.Observe(ctx, session)
}

func (m *mutant) Advance(ctx context.Context, d time.Duration) error {
	if m.advance != nil {
		return m.advance(m.World, ctx, d)
	}
	return m.World.Advance(ctx, d)
}

func (m *mutant) Snapshot(ctx context.Context) (segno.WorldSnapshot, error) {
	if m.snapshot != nil {
		return m.snapshot(m.World, ctx)
	}
	return m.World.Snapshot(ctx)
}

func (m *mutant) Load(ctx context.Context, document []byte) error {
	if m.load != nil {
		return m.load(m.World, ctx, document)
	}
	return m.World.Load(ctx, document)
}

// with returns an observation with one more member.
func with(o segno.Observation, err error, value any) (segno.Observation, error) {
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, `{"more":"%v",%s`, value, o[1:]), nil
}

// mutants are the defects, by name, with the check that must find each.
var mutants = map[string]struct {
	check string
	make  func(m *mutant)
}{
	"payloads have the time of the host": {"Clock", func(m *mutant) {
		m.observe = func(w segno.World, ctx context.Context, s string) (segno.Observation, error) {
			o, err := w.Observe(ctx, s)
			return with(o, err, time.Now().Format(time.RFC3339))
		}
	}},
	"payloads have the time of the host in seconds": {"Clock", func(m *mutant) {
		m.observe = func(w segno.World, ctx context.Context, s string) (segno.Observation, error) {
			o, err := w.Observe(ctx, s)
			return with(o, err, time.Now().Unix())
		}
	}},
	"payloads have the year of the host": {"Bubble", func(m *mutant) {
		m.act = func(w segno.World, ctx context.Context, s string, a json.RawMessage) (segno.Observation, error) {
			o, err := w.Act(ctx, s, a)
			return with(o, err, time.Now().Year())
		}
	}},
	"payloads have a random number": {"Clock", func(m *mutant) {
		m.observe = func(w segno.World, ctx context.Context, s string) (segno.Observation, error) {
			o, err := w.Observe(ctx, s)
			return with(o, err, rand.Uint64())
		}
	}},
	"observing is an event": {"Observe", func(m *mutant) {
		m.observe = func(w segno.World, ctx context.Context, s string) (segno.Observation, error) {
			o, err := w.Observe(ctx, s)
			return o, firstError(err, w.Advance(ctx, time.Second))
		}
	}},
	"observations count": {"Observe", func(m *mutant) {
		n := 0
		m.observe = func(w segno.World, ctx context.Context, s string) (segno.Observation, error) {
			n++
			o, err := w.Observe(ctx, s)
			return with(o, err, n)
		}
	}},
	"a second join is an event": {"Join", func(m *mutant) {
		m.join = func(w segno.World, ctx context.Context, s, name string) error {
			if _, err := w.Observe(ctx, s); err == nil {
				return w.Advance(ctx, time.Second)
			}
			return w.Join(ctx, s, name)
		}
	}},
	"a name has two sessions": {"Join", func(m *mutant) {
		m.join = func(w segno.World, ctx context.Context, s, name string) error {
			if err := w.Join(ctx, s, name); segno.KindOf(err) != segno.KindConflict {
				return err
			}
			return nil
		}
	}},
	"actions move time": {"Time", func(m *mutant) {
		m.act = func(w segno.World, ctx context.Context, s string, a json.RawMessage) (segno.Observation, error) {
			o, err := w.Act(ctx, s, a)
			if err == nil {
				err = w.Advance(ctx, time.Second)
			}
			return o, err
		}
	}},
	"a time of 0 is accepted": {"Time", func(m *mutant) {
		m.advance = func(w segno.World, ctx context.Context, d time.Duration) error {
			return w.Advance(ctx, max(d, time.Second))
		}
	}},
	"a refused action changes the world": {"Refused", func(m *mutant) {
		m.act = func(w segno.World, ctx context.Context, s string, a json.RawMessage) (segno.Observation, error) {
			o, err := w.Act(ctx, s, a)
			if err != nil {
				err = firstError(w.Advance(ctx, time.Second), err)
			}
			return o, err
		}
	}},
	"an unknown session acts": {"Refused", func(m *mutant) {
		m.observe = func(w segno.World, ctx context.Context, s string) (segno.Observation, error) {
			if o, err := w.Observe(ctx, s); err == nil {
				return o, nil
			}
			return segno.Observation(`{}`), nil
		}
	}},
	"the snapshot is not the document's": {"Header", func(m *mutant) {
		m.snapshot = func(w segno.World, ctx context.Context) (segno.WorldSnapshot, error) {
			s, err := w.Snapshot(ctx)
			s.Seq++
			return s, err
		}
	}},
	"a snapshot is an event": {"Header", func(m *mutant) {
		m.snapshot = func(w segno.World, ctx context.Context) (segno.WorldSnapshot, error) {
			return firstOf(w.Snapshot(ctx))(w.Advance(ctx, time.Second))
		}
	}},
	"an outcome has a name that no column can have": {"Header", withOutcomes(`{"Coins taken":1}`)},
	"an outcome has the name of another column":     {"Header", withOutcomes(`{"ticks":1}`)},
	"an outcome is a text":                          {"Header", withOutcomes(`{"coins":"1"}`)},
	"an outcome is there twice":                     {"Header", withOutcomes(`{"coins":1,"coins":2}`)},
	"an outcome has no finite value":                {"Header", withOutcomes(`{"coins":1e999}`)},
	"the outcomes are a list":                       {"Header", withOutcomes(`[1]`)},
	"a restored world goes on differently": {"Restore", func(m *mutant) {
		loaded := false
		m.load = func(w segno.World, ctx context.Context, d []byte) error { loaded = true; return w.Load(ctx, d) }
		m.advance = func(w segno.World, ctx context.Context, d time.Duration) error {
			if loaded {
				d += time.Second
			}
			return w.Advance(ctx, d)
		}
	}},
	"load ignores the document": {"Restore", func(m *mutant) {
		m.load = func(segno.World, context.Context, []byte) error { return nil }
	}},
	"chat is lost": {"Chat", func(m *mutant) {
		loaded := false
		m.load = func(w segno.World, ctx context.Context, d []byte) error { loaded = true; return w.Load(ctx, d) }
		m.observe = func(w segno.World, ctx context.Context, s string) (segno.Observation, error) {
			o, err := w.Observe(ctx, s)
			if loaded {
				o = bytes.ReplaceAll(o, []byte("before"), []byte("?"))
			}
			return o, err
		}
	}},
	"a text breaks the document": {"Text", func(m *mutant) {
		isBroken := false
		m.act = func(w segno.World, ctx context.Context, s string, a json.RawMessage) (segno.Observation, error) {
			isBroken = isBroken || bytes.Contains(a, []byte(`\ud800`))
			return w.Act(ctx, s, a)
		}
		m.snapshot = func(w segno.World, ctx context.Context) (segno.WorldSnapshot, error) {
			if isBroken {
				return segno.WorldSnapshot{}, segno.NewError(segno.KindInternal, "save world", "", nil)
			}
			return w.Snapshot(ctx)
		}
	}},
	"sessions are lost": {"Chat", func(m *mutant) {
		joined := map[string]bool{}
		m.join = func(w segno.World, ctx context.Context, s, name string) error {
			err := w.Join(ctx, s, name)
			joined[s] = err == nil || joined[s]
			return err
		}
		m.act = func(w segno.World, ctx context.Context, s string, a json.RawMessage) (segno.Observation, error) {
			if !joined[s] {
				return nil, segno.NewError(segno.KindNotFound, "act", "", nil)
			}
			return w.Act(ctx, s, a)
		}
	}},
	"a damaged document is accepted": {"Damage", func(m *mutant) {
		m.load = func(w segno.World, ctx context.Context, d []byte) error {
			if err := w.Load(ctx, d); segno.KindOf(err) != segno.KindCorrupt {
				return err
			}
			return nil
		}
	}},
	"a damaged document is applied by half": {"Damage", func(m *mutant) {
		m.load = func(w segno.World, ctx context.Context, d []byte) error {
			err := w.Load(ctx, d)
			if err != nil {
				err = firstError(w.Join(ctx, "session", "half"), err)
			}
			return err
		}
	}},
	"another format is accepted": {"Damage", func(m *mutant) {
		m.load = func(w segno.World, ctx context.Context, d []byte) error {
			return w.Load(ctx, bytes.Replace(d, []byte("another/1"), []byte("grid/1"), 1))
		}
	}},
	"unknown members are accepted": {"Damage", func(m *mutant) {
		m.load = func(w segno.World, ctx context.Context, d []byte) error {
			return w.Load(ctx, bytes.Replace(d, []byte(`"unknown":1,`), nil, 1))
		}
	}},
	"a used world loads": {"LoadFresh", func(m *mutant) {
		m.load = func(w segno.World, ctx context.Context, d []byte) error {
			if err := w.Load(ctx, d); segno.KindOf(err) != segno.KindRefused || !strings.Contains(string(d), `"grid/1"`) {
				return err
			}
			return nil
		}
	}},
	"an action is two changes": {"Concurrent", func(m *mutant) {
		var mu sync.Mutex
		saved := sync.NewCond(&mu)
		snapshots, actions := 0, 0
		m.act = func(w segno.World, ctx context.Context, s string, a json.RawMessage) (segno.Observation, error) {
			o, err := w.Act(ctx, s, a)
			mu.Lock()
			defer mu.Unlock()
			actions++
			// The suite saves a world repeatedly only while two agents act in it.
			for n := snapshots; err == nil && actions > 1 && snapshots < n+2 && snapshots > 1; {
				saved.Wait()
			}
			if err == nil {
				_, err = w.Act(ctx, s, json.RawMessage(`{"do":"say","text":"done"}`))
			}
			return o, err
		}
		m.snapshot = func(w segno.World, ctx context.Context) (segno.WorldSnapshot, error) {
			mu.Lock()
			defer mu.Unlock()
			snapshots++
			saved.Broadcast()
			return w.Snapshot(ctx)
		}
	}},
	"a snapshot has parts of two states": {"Concurrent", func(m *mutant) {
		var before []byte
		m.snapshot = func(w segno.World, ctx context.Context) (segno.WorldSnapshot, error) {
			s, err := w.Snapshot(ctx)
			head, _, _ := bytes.Cut(s.Document, []byte(`"chat"`))
			if _, tail, found := bytes.Cut(before, []byte(`"chat"`)); found {
				s.Document = slices.Concat(head, []byte(`"chat"`), tail)
			}
			before = s.Document
			return s, err
		}
	}},
}

// withOutcomes replaces the outcomes of the documents.
func withOutcomes(outcomes string) func(m *mutant) {
	return func(m *mutant) {
		m.snapshot = func(w segno.World, ctx context.Context) (segno.WorldSnapshot, error) {
			s, err := w.Snapshot(ctx)
			head, rest, found := bytes.Cut(s.Document, []byte(`"outcomes":`))
			_, tail, ended := bytes.Cut(rest, []byte(`},`))
			if !found || !ended {
				return s, firstError(err, fmt.Errorf("the document has no outcomes: %s", s.Document))
			}
			s.Document = slices.Concat(head, []byte(`"outcomes":`+outcomes+`,`), tail)
			return s, err
		}
	}
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func firstOf[T any](v T, err error) func(error) (T, error) {
	return func(other error) (T, error) { return v, firstError(err, other) }
}

func gridConfig(change func(m *mutant)) Config {
	return Config{
		Config: worldcheck.Config{
			New: func(context.Context) (segno.World, error) {
				m := &mutant{World: grid.New(7)}
				change(m)
				return m, nil
			},
			Say: func(text string) json.RawMessage { return fmt.Appendf(nil, `{"do":"say","text":%q}`, text) },
		},
		Action: rapid.SampledFrom([]json.RawMessage{
			[]byte(`{"do":"move","direction":"north"}`), []byte(`{"do":"move","direction":"east"}`), []byte(`{"do":"take"}`), []byte(`{"do":"say","text":"hi"}`)}),
	}
}

// findsDefect runs one check of the suite with a few scripts and returns its first error.
func findsDefect(t *testing.T, name string, c Config) error {
	t.Helper()
	for seed := range 20 {
		script := c.script().Example(seed)
		if name == "Bubble" {
			if err := c.checkBubble(t, script); err != nil {
				return err
			}
			continue
		}
		for _, check := range worldcheck.All() {
			if check.Name != name {
				continue
			}
			if err := check.Run(t.Context(), c.Config, script); err != nil {
				return err
			}
		}
	}
	return nil
}

func TestSuiteFindsDefects(t *testing.T) {
	for name, m := range mutants {
		t.Run(name, func(t *testing.T) {
			err := findsDefect(t, m.check, gridConfig(m.make))
			if err == nil {
				t.Fatalf("check %s found nothing", m.check)
			}
			t.Logf("%.300s", err)
		})
	}
}

// TestSuitePassesWorldsWithoutDefects shows that the mutants fail because of their defects.
func TestSuitePassesWorldsWithoutDefects(t *testing.T) {
	names := []string{"Bubble"}
	for _, check := range worldcheck.All() {
		names = append(names, check.Name)
	}
	for _, name := range names {
		if err := findsDefect(t, name, gridConfig(func(*mutant) {})); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
