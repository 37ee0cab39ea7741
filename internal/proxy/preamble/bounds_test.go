package preamble_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/dalsegno/segno/internal/proxy/preamble"
	"github.com/dalsegno/segno/internal/testing/soak"
)

// TestSmallerTextHasFewerDetails reduces the budget step by step. The text first shortens details,
// beginning with the oldest. Then it counts equal calls, and at last it has only a number for the oldest
// ones.
func TestSmallerTextHasFewerDetails(t *testing.T) {
	w := new(threadWriter).prompt("go")
	for i := range 300 {
		input := encode(map[string]string{"command": fmt.Sprintf("%s/%d", strings.Repeat("d", 80), i), "stdin": strings.Repeat("input ", 60)})
		w.call("Bash", input, `{"error":"`+strings.Repeat("answer ", 60)+`"}`)
		w.call("Bash", `{"command":"make"}`, fmt.Sprintf(`{"response":"","exit":%d}`, i%3))
	}
	s := preamble.FromCommits(w.end().nodes)
	const commands = 300
	was := struct{ answers, inputs, full, calls, bytes int }{1 << 30, 1 << 30, 1 << 30, 1 << 30, 1 << 30}
	for budget := 100_000; budget >= preamble.MinBudget; budget = budget * 9 / 10 {
		text := s.Text(preamble.Options{Budget: budget})
		now := was
		now.bytes, now.answers, now.inputs = len(text), strings.Count(text, "answer"), strings.Count(text, "input")
		now.full, now.calls = strings.Count(text, strings.Repeat("d", 80)), strings.Count(text, "\n- You ")
		if now.bytes > was.bytes || now.answers > was.answers || now.inputs > was.inputs || now.full > was.full {
			t.Errorf("with %d tokens more the text has: %+v after %+v", budget, now, was)
		}
		if now.calls < 2*commands && now.inputs+now.full > 0 {
			t.Errorf("with %d tokens, shortened in the wrong order: %+v", budget, now)
		}
		if oldest, newest := strings.Count(text, "/0”"), strings.Count(text, "/299”"); oldest > newest {
			t.Errorf("with %d tokens, the newest call is shortened and the oldest is not", budget)
		}
		was = now
	}
	text := s.Text(preamble.Options{Budget: preamble.MinBudget})
	for _, want := range []string{"- You ran “make” with Bash, 300 times, of which 200 failed.", "more calls, which are left out: ", "with Bash. The command segno log has them all."} {
		if !strings.Contains(text, want) {
			t.Errorf("the smallest text lacks %q:\n%s", want, text)
		}
	}
}

// TestTextFitsEveryBudget tries consecutive budgets, so that parts end at every distance from the end.
func TestTextFitsEveryBudget(t *testing.T) {
	if testing.Short() {
		return // it takes seconds
	}
	w := new(threadWriter).prompt("go " + strings.Repeat("on and ", 300))
	for i := range 400 {
		w.call("Bash", fmt.Sprintf(`{"command":"k%d"}`, i), `{"response":""}`)
		w.intent("Bash", fmt.Sprintf(`{"command":"u%d"}`, i))
	}
	w.reply(strings.Repeat("so it is ", 900))
	past, open := preamble.FromCommits(w.end().nodes), preamble.OpenTurn{Entries: w.nodes[0].Entries, Reply: strings.Repeat("so ", 900)}
	for budget := preamble.MinBudget; budget < preamble.MinBudget+120; budget += 3 {
		checkText(t, past.Text(preamble.Options{Budget: budget}), budget)
		checkText(t, past.Text(preamble.Options{Budget: budget, Open: &open}), budget)
	}
}

// TestTextFitsAfterCallsEnd writes the text while calls run, and again with their answers.
func TestTextFitsAfterCallsEnd(t *testing.T) {
	w := new(threadWriter).prompt("go")
	var ids []string
	for i := range 200 {
		ids = append(ids, w.intent("Bash", fmt.Sprintf(`{"command":"k%d"}`, i)))
	}
	s := preamble.FromCommits(w.end().nodes)
	s.Text(preamble.Options{})
	w.nodes = nil
	for _, id := range ids {
		w.result(id, "Bash", encode(map[string]string{"response": strings.Repeat("an answer\n", 300)}))
	}
	s.Add(w.nodes[0])
	checkText(t, s.Text(preamble.Options{}), 0)
}

// TestNewestCallsGetTheRemainingRoom uses a budget with room for some complete answers, but not for all.
func TestNewestCallsGetTheRemainingRoom(t *testing.T) {
	w := new(threadWriter).prompt("go")
	for i := range 100 {
		w.call("Bash", fmt.Sprintf(`{"command":"k%d"}`, i), encode(map[string]string{"response": strings.Repeat(fmt.Sprintf("answer %d\n", i), 50)}))
	}
	text := preamble.FromCommits(w.end().nodes).Text(preamble.Options{Budget: 8000})
	if first, last := strings.Count(text, "answer 0"), strings.Count(text, "answer 99"); first == 0 || first >= 50 || last != 50 {
		t.Errorf("of 50 lines each, the oldest call's answer is in %d and the newest's in %d", first, last)
	}
}

// thousands returns a thread that exceeds every limit of a Builder. Its call k7000 recurs until the end.
func thousands(effects, distinct, answer int) *randomThread {
	w := &randomThread{done: map[string]int{}}
	for i := range effects {
		key := fmt.Sprint("k", i%distinct)
		if i%10 == 0 {
			w.end().prompt(fmt.Sprint("turn ", i, strings.Repeat(" and on", 200))).reply(strings.Repeat("so it is ", 200))
			key = "k7000"
		}
		result := encode(map[string]any{"response": strings.Repeat("x", answer)})
		if i%30 == 0 {
			result = `{"error":"x"}`
		}
		w.call("Bash", `{"command":"`+key+`"}`, result)
		w.done[key]++
	}
	return w
}

func TestThousandsOfEffectsAreStillCounted(t *testing.T) {
	if testing.Short() || !soak.IsDrawn(t) {
		return // it takes seconds
	}
	const effects, often = 9000, 197
	for _, answer := range []int{200, 1500} { // either all calls that are kept one by one have room, or not
		w := thousands(effects, 7000, answer)
		s := new(preamble.Builder)
		for i, n := range w.nodes {
			if s.Add(n); i%often == 0 {
				s.Text(preamble.Options{Budget: 50_000})
			}
		}
		at := preamble.FromCommits(w.nodes)
		for _, budget := range []int{preamble.MinBudget, 0, 100_000, 400_000} {
			text := s.Text(preamble.Options{Budget: budget})
			checkText(t, text, budget)
			happened, _ := named(text)
			w.checkEffects(t, text)
			if budget == 0 && happened.total-happened.rest < 1000 {
				t.Errorf("only %d of them have room in %d bytes", happened.total-happened.rest, len(text))
			}
			if want := fmt.Sprintf("- You ran “k7000” with Bash, %d times, of which %d failed.\n", effects/10, effects/30); !strings.Contains(text, want) && budget <= preamble.DefaultBudget {
				t.Errorf("%d tokens lack %q", budget, want)
			}
			if answers := strings.Count(text, "> xxx"); budget == 400_000 && answers < 100 {
				t.Errorf("with room for all that is kept, %d answers are in the text", answers)
			}
			if text != at.Text(preamble.Options{Budget: budget}) {
				t.Errorf("with %d tokens, the text of a Builder that wrote texts before is another", budget)
			}
		}
	}
}

func TestBuilderSizeIsBounded(t *testing.T) {
	if testing.Short() {
		return // it takes seconds
	}
	const most = 2 << 20
	for _, w := range []*randomThread{thousands(30_000, 30_000, 0), thousands(1000, 1000, 8000)} {
		before := heap()
		s := preamble.FromCommits(w.nodes)
		if grown := heap() - before; grown > most {
			t.Errorf("the Builder of %d commits has %d bytes", len(w.nodes), grown)
		}
		runtime.KeepAlive(w)
		runtime.KeepAlive(s)
	}
}

func heap() int {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}
