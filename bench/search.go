package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/dalsegno/segno/internal/testing/debian"
)

// searchMegabytes is the text of the section search. The whole figure is at 1,000: 'go test ./search -bench Search -search.mb 1000'.
const searchMegabytes = 100

// searches measures the index of search beside SQLite FTS5 and ripgrep on the same text: the benchmark of package search, which
// makes the text and 200 questions with known answers.
func searches(ctx context.Context, b *bench) error {
	rg, err := debian.Find(ctx, debian.Program{Package: "ripgrep", Installed: []string{"rg"}, Inside: "usr/bin/rg"})
	if err != nil {
		return err
	}
	module, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/dalsegno/segno").Output()
	if err != nil {
		return fmt.Errorf("find the module: %w", err)
	}
	cmd := exec.CommandContext(ctx, "go", "test", "./search", "-run", "^$", "-bench", "^BenchmarkSearch$", "-benchtime", "1x", "-timeout", "1h",
		"-args", fmt.Sprint("-search.mb=", searchMegabytes), "-search.rg="+rg.File)
	cmd.Dir, cmd.Env = strings.TrimSpace(string(module)), append(append(os.Environ(), "GOWORK="), rg.Env()...)
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("go test ./search: %w: %s", err, debian.ErrorLine(out))
	}
	all := searchMetrics(out)
	ours := all["segno"]
	for _, name := range []string{"segno", "fts5", "ripgrep"} {
		m := all[name]
		if m == nil {
			return fmt.Errorf("go test ./search printed no figures of %s", name)
		}
		ratio := is(m["median-ms"]/ours["median-ms"], "× the index of segno")
		b.add("", fmt.Sprintf("search: %s, a question over %d MB", name, searchMegabytes), sample{duration(m["median-ms"])}, ratio,
			is(m["worst-ms"], "ms at worst"), is(m["hit@5-%"], "% of the answers among the first five"))
		if m["MB/s"] > 0 {
			b.add("", "search: "+name+", the index of it", sample{duration(searchMegabytes / m["MB/s"] * 1000)}, is(m["index/text"], "× the text"))
		}
	}
	return nil
}

func duration(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }

// searchMetrics reads the metrics that 'go test' prints for each part of the benchmark.
func searchMetrics(out []byte) map[string]map[string]float64 {
	all := map[string]map[string]float64{}
	lines := bufio.NewScanner(bytes.NewReader(out))
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 2 || !strings.HasPrefix(fields[0], "BenchmarkSearch/") {
			continue
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(fields[0], "BenchmarkSearch/"), "-")
		m := map[string]float64{}
		for i := 2; i+1 < len(fields); i += 2 {
			if n, err := strconv.ParseFloat(fields[i], 64); err == nil {
				m[fields[i+1]] = n
			}
		}
		all[name] = m
	}
	return all
}
