package preamble_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/proxy/preamble"
)

// longThread returns the commits of a thread with this number of turns, each with three
// effects.
func longThread(turns int) []segno.Node {
	w := new(threadWriter)
	for i := range turns {
		w.prompt(fmt.Sprintf("prompt %d %s", i, strings.Repeat("and more ", 20)))
		w.call("Bash", fmt.Sprintf(`{"command":"make step-%d"}`, i), encode(map[string]any{"response": map[string]string{"stdout": strings.Repeat("a line of output\n", 40)}}))
		w.call("Edit", fmt.Sprintf(`{"file_path":"/w/%d.go","old_string":"a","new_string":"b"}`, i%100), `{"response":{"filePath":"x"}}`)
		w.call("Bash", `{"command":"go test ./..."}`, `{"response":{"stdout":"ok"}}`)
		w.reply(strings.Repeat("and so it is ", 30)).end()
	}
	return w.nodes
}

// BenchmarkAdd adds the next turn to threads of different lengths. The cost does not depend
// on the length.
func BenchmarkAdd(b *testing.B) {
	for _, turns := range []int{50, 5000} {
		b.Run(fmt.Sprint(turns), func(b *testing.B) {
			nodes := longThread(turns)
			s := preamble.FromCommits(nodes)
			next := nodes[len(nodes)-1]
			b.ReportAllocs()
			for b.Loop() {
				for i := range next.Entries {
					next.Entries[i].Turn++
				}
				cp := *next.Checkpoint
				cp.Turn = next.Entries[0].Turn
				next.Checkpoint = &cp
				s.Add(next)
			}
		})
	}
}

func BenchmarkText(b *testing.B) {
	for _, turns := range []int{50, 5000} {
		for _, budget := range []int{preamble.MinBudget, preamble.DefaultBudget} {
			b.Run(fmt.Sprintf("%d/%d", turns, budget), func(b *testing.B) {
				s := preamble.FromCommits(longThread(turns))
				b.ReportAllocs()
				for b.Loop() {
					s.Text(preamble.Options{Budget: budget})
				}
			})
		}
	}
}

// BenchmarkFacts reports how many facts of 1,000 turns and ten losses the text contains,
// and how much of the budget it uses.
func BenchmarkFacts(b *testing.B) {
	w, facts := threadWithFacts()
	s := preamble.FromCommits(w.nodes)
	text := ""
	for b.Loop() {
		text = s.Text(preamble.Options{})
	}
	told := 0
	for _, fact := range facts {
		if strings.Contains(text, fact) {
			told++
		}
	}
	b.ReportMetric(float64(told)/float64(len(facts)), "facts/planted")
	b.ReportMetric(float64(len(text))/(4*preamble.DefaultBudget), "bytes/budget")
}
