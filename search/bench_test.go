package search

import (
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	_ "modernc.org/sqlite"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
)

var (
	megabytes = flag.Int("search.mb", 100, "the text of BenchmarkSearch, in MB")
	withFTS   = flag.Bool("search.fts5", true, "BenchmarkSearch also measures SQLite FTS5")
	ripgrep   = flag.String("search.rg", "", "BenchmarkSearch also measures ripgrep, the program `FILE`, over the same text")
)

// transcripts makes turns in the shape of real ones: prompts and answers of prose, commands with names of files and of code,
// and outputs, which are most of the text. The words are those of the source of Go.
type transcripts struct {
	random *rand.Rand
	files  []string
	prose  []string // sentences
	units  []Unit
	texts  []*Text
	bytes  int64
}

func newTranscripts(b testing.TB) *transcripts {
	c := &transcripts{random: rand.New(rand.NewPCG(1, 2))}
	err := filepath.WalkDir(filepath.Join(runtime.GOROOT(), "src"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".go") && d.Type().IsRegular() {
			c.files = append(c.files, path)
		}
		return err
	})
	if err != nil || len(c.files) == 0 {
		b.Skip("the source of Go is not here: ", err)
	}
	c.random.Shuffle(len(c.files), func(i, j int) { c.files[i], c.files[j] = c.files[j], c.files[i] })
	for _, name := range c.files[:min(2000, len(c.files))] {
		data, _ := os.ReadFile(name)
		for line := range strings.SplitSeq(string(data), "\n") {
			if text, ok := strings.CutPrefix(strings.TrimSpace(line), "// "); ok && len(strings.Fields(text)) > 5 {
				c.prose = append(c.prose, text)
			}
		}
	}
	return c
}

func (c *transcripts) sentences(n int) string {
	var b strings.Builder
	for range n {
		b.WriteString(c.prose[c.random.IntN(len(c.prose))] + " ")
	}
	return b.String()
}

// grow adds turns until they have so many bytes.
func (c *transcripts) grow(bytes int64) {
	for c.bytes < bytes {
		t := &Text{}
		t.add(Prompt, c.sentences(1+c.random.IntN(5)))
		for range 1 + c.random.IntN(3) {
			t.add(Answer, c.sentences(2+c.random.IntN(8)))
		}
		for range c.random.IntN(8) {
			name := c.files[c.random.IntN(len(c.files))]
			data, _ := os.ReadFile(name)
			from := c.random.IntN(len(data) + 1)
			part := string(data[from:min(len(data), from+500+c.random.IntN(5000))])
			words := termsLike(part)
			command := "cat " + name
			if len(words) > 0 {
				command = []string{"grep -rn " + words[0] + " " + name, "go test ./... -run " + words[0], "sed -n 1,80p " + name}[c.random.IntN(3)]
			}
			t.add(Command, command)
			t.add(Output, strings.ToValidUTF8(part, ""))
		}
		for f := range t {
			for _, text := range t[f] {
				c.bytes += int64(len(text))
			}
		}
		i := len(c.units)
		c.units = append(c.units, Unit{Commit: segno.CommitID(fmt.Sprintf("%026d", i)), Seq: int64(i + 1), Time: 1.7e9 + int64(i)*60})
		c.texts = append(c.texts, t)
	}
}

// termsLike returns names in code with several parts.
func termsLike(text string) (names []string) {
	for _, w := range strings.FieldsFunc(text, func(r rune) bool { return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') }) {
		if len(termsOf(w)) > 1 && len(w) > 8 {
			names = append(names, w)
		}
	}
	return names
}

// question has one turn as its answer.
type question struct {
	text string
	fts  string
	unit int
}

// questions makes four kinds: words of a prompt in any order, words of an answer with a wrong one, the parts of a name in a
// command, and a phrase of an answer.
func (c *transcripts) questions(n int) (all []question) {
	pick := func(text string, n int) []string {
		words := slices.DeleteFunc(termsOf(text), func(w string) bool { return len(w) < 4 })
		c.random.Shuffle(len(words), func(i, j int) { words[i], words[j] = words[j], words[i] })
		slices.Sort(words[:min(n, len(words))])
		return slices.Compact(words[:min(n, len(words))])
	}
	quoted := func(words []string, or string) string { return `"` + strings.Join(words, `"`+or+`"`) + `"` }
	for len(all) < n {
		q := question{unit: c.random.IntN(len(c.units))}
		t := c.texts[q.unit]
		switch len(all) % 4 {
		case 0:
			words := pick(t[Prompt][0], 5)
			q.text, q.fts = strings.Join(words, " "), quoted(words, " ")
		case 1:
			words := append(pick(t[Answer][0], 5), "zebrafish")
			q.text, q.fts = strings.Join(words, " "), quoted(words, " OR ")
		case 2:
			if len(t[Command]) == 0 {
				continue
			}
			names := termsLike(t[Command][0][strings.LastIndexByte(t[Command][0], ' ')-0:])
			if fields := strings.Fields(t[Command][0]); len(names) == 0 && len(fields) > 2 {
				names = termsLike(fields[2])
			}
			if len(names) == 0 {
				continue
			}
			words := append(termsOf(names[0]), pick(t[Command][0], 3)...)
			q.text, q.fts = strings.Join(words, " "), quoted(words, " OR ")
		case 3:
			words := strings.Fields(c.prose[0])
			if fields := strings.Fields(t[Answer][0]); len(fields) > 12 {
				words = fields[3:9]
			}
			q.text = `"` + strings.ReplaceAll(strings.Join(words, " "), `"`, " ") + `"`
			q.fts = quoted([]string{strings.ReplaceAll(strings.Join(words, " "), `"`, " ")}, "")
		}
		all = append(all, q)
	}
	return all
}

// BenchmarkSearch measures the index beside SQLite FTS5 on the same text, with 200 questions whose answers are known:
//
//	go test ./search -run xxx -bench Search -benchtime 1x -search.mb 1000 -search.fts5=false
func BenchmarkSearch(b *testing.B) {
	c := newTranscripts(b)
	c.grow(int64(*megabytes) << 20)
	questions := c.questions(200)
	mb := float64(c.bytes) / (1 << 20)
	b.Run("segno", func(b *testing.B) {
		for b.Loop() {
			dir := b.TempDir()
			x := Open(Config{Dir: dir, FS: vfs.OS})
			started, before := time.Now(), cpuTime(unix.RUSAGE_SELF)
			for from := 0; from < len(c.units); {
				from = c.addBatch(b, x, from)
			}
			b.ReportMetric(mb/time.Since(started).Seconds(), "MB/s")
			b.ReportMetric(mb/(cpuTime(unix.RUSAGE_SELF)-before).Seconds(), "MB/cpu-s")
			b.ReportMetric(float64(x.Size())/float64(c.bytes), "index/text")
			var one []time.Duration
			for range 100 {
				from := len(c.units)
				c.grow(c.bytes + 1)
				one = append(one, took(func() { c.addBatch(b, x, from); x.merge(b) }))
			}
			slices.Sort(one)
			b.ReportMetric(ms(one[len(one)/2]), "message-ms")
			b.ReportMetric(ms(one[len(one)-1]), "message-worst-ms")
			x.Close()
			x = Open(Config{Dir: dir, FS: vfs.OS})
			report(b, questions, func(q *question) (units []int) {
				query, err := Parse(q.text)
				if err != nil {
					return nil
				}
				query.Now = c.units[len(c.units)-1].Time
				res, err := x.Search(&query, 0, 20, time.Now().Add(time.Second), func(h *Hit) ([]string, error) { return c.texts[h.Seq-1][h.Field], nil })
				if err != nil {
					b.Fatal(err)
				}
				for _, h := range res.Hits {
					units = append(units, int(h.Seq-1))
				}
				return units
			}, []string{"the", "the of", "err*", `"of the"`, "func the return", "/the file [a-z]+ /", "src/net/http", "the is a of to in and for"})
			x.Close()
		}
	})
	if *withFTS {
		b.Run("fts5", func(b *testing.B) { benchFTS(b, c, questions) })
	}
	if *ripgrep != "" {
		b.Run("ripgrep", func(b *testing.B) { benchRipgrep(b, c, questions) })
	}
}

// addBatch adds a segment with the units from one on, and returns the next one.
func (c *transcripts) addBatch(b *testing.B, x *Index, from int) int {
	n := newBuilder()
	n.addSource(Source{Thread: "t", From: int64(from + 1), To: int64(from + 1)})
	for ; from < len(c.units) && n.bytes < batchBytes; from++ {
		n.source().To = int64(from + 1)
		n.add(c.units[from], c.texts[from])
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := x.addSegment(n.content()); err != nil {
		b.Fatal(err)
	}
	return from
}

func (x *Index) merge(b *testing.B) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := x.mergeSmall(); err != nil {
		b.Fatal(err)
	}
}

func took(do func()) time.Duration {
	started := time.Now()
	do()
	return time.Since(started)
}

// cpuTime returns the time of the processor that the process or the thread has used.
func cpuTime(of int) time.Duration {
	var u unix.Rusage
	if unix.Getrusage(of, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// report asks the questions, and further ones that are hard for an index.
func report(b *testing.B, questions []question, ask func(*question) []int, hard []string) {
	runtime.LockOSThread() // the machine may be busy, so the time of the processor is measured, too
	defer runtime.UnlockOSThread()
	var times, cpu []time.Duration
	first, five := 0, 0
	for i := range questions {
		q := &questions[i]
		var units []int
		before := cpuTime(unix.RUSAGE_THREAD)
		times = append(times, took(func() { units = ask(q) }))
		cpu = append(cpu, cpuTime(unix.RUSAGE_THREAD)-before)
		at := slices.Index(units, q.unit)
		if at == 0 {
			first++
		}
		if at >= 0 && at < 5 {
			five++
		}
	}
	for _, text := range hard {
		before := cpuTime(unix.RUSAGE_THREAD)
		times = append(times, took(func() { ask(&question{text: text, fts: text}) }))
		cpu = append(cpu, cpuTime(unix.RUSAGE_THREAD)-before)
		b.Logf("%s: %.1f ms, %.1f of the processor", text, ms(times[len(times)-1]), ms(cpu[len(cpu)-1]))
	}
	slices.Sort(times)
	slices.Sort(cpu)
	b.ReportMetric(ms(cpu[len(cpu)/2]), "median-cpu-ms")
	b.ReportMetric(ms(cpu[len(cpu)-1]), "worst-cpu-ms")
	b.ReportMetric(ms(times[len(times)/2]), "median-ms")
	b.ReportMetric(ms(times[len(times)-1]), "worst-ms")
	b.ReportMetric(100*float64(first)/float64(len(questions)), "hit@1-%")
	b.ReportMetric(100*float64(five)/float64(len(questions)), "hit@5-%")
	b.ReportMetric(0, "ns/op")
}

// benchFTS measures the same with SQLite FTS5, which ranks by bm25. The conversation and the output of tools are two tables.
func benchFTS(b *testing.B, c *transcripts, questions []question) {
	for b.Loop() {
		name := filepath.Join(b.TempDir(), "fts.db")
		db, err := sql.Open("sqlite", name+"?_pragma=journal_mode(wal)")
		if err != nil {
			b.Fatal(err)
		}
		exec := func(query string, args ...any) {
			if _, err := db.Exec(query, args...); err != nil {
				b.Fatal(err)
			}
		}
		exec("create virtual table talk using fts5(text, content='')")
		exec("create virtual table output using fts5(text, content='')")
		started, before := time.Now(), cpuTime(unix.RUSAGE_SELF)
		for from := 0; from < len(c.units); from += 2000 {
			tx, err := db.Begin()
			if err != nil {
				b.Fatal(err)
			}
			for i := from; i < min(from+2000, len(c.units)); i++ {
				for f := Prompt; f <= Output; f++ {
					table := "talk"
					if f == Output {
						table = "output"
					}
					if text := strings.Join(c.texts[i][f], "\n"); text != "" {
						if _, err := tx.Exec("insert into "+table+"(rowid, text) values(?, ?)", i*int(fieldEnd)+int(f), text); err != nil {
							b.Fatal(err)
						}
					}
				}
			}
			if err := tx.Commit(); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(c.bytes)/(1<<20)/time.Since(started).Seconds(), "MB/s")
		b.ReportMetric(float64(c.bytes)/(1<<20)/(cpuTime(unix.RUSAGE_SELF)-before).Seconds(), "MB/cpu-s")
		exec("pragma wal_checkpoint(truncate)")
		if info, err := os.Stat(name); err == nil {
			b.ReportMetric(float64(info.Size())/float64(c.bytes), "index/text")
		}
		report(b, questions, func(q *question) (units []int) {
			rows, err := db.Query("select rowid from talk where talk match ? order by bm25(talk) limit 20", q.fts)
			if err != nil {
				b.Fatal(q.fts, err)
			}
			defer rows.Close()
			for rows.Next() {
				var id int
				if err := rows.Scan(&id); err != nil {
					b.Fatal(err)
				}
				units = append(units, id/int(fieldEnd))
			}
			return units
		}, []string{"the", "the of", "err*", `"of the"`, "func the return", "the is a of to in and for"})
		db.Close()
	}
}

// benchRipgrep measures a scan of the same text for the longest word of each question, as files of 1,000 turns with one line for each
// field. ripgrep does not rank, so its first turns are the oldest.
func benchRipgrep(b *testing.B, c *transcripts, questions []question) {
	for b.Loop() {
		dir := b.TempDir()
		for from := 0; from < len(c.units); from += 1000 {
			var out strings.Builder
			for i := from; i < min(from+1000, len(c.units)); i++ {
				for f := Prompt; f <= Output; f++ {
					if text := strings.Join(c.texts[i][f], " "); text != "" {
						fmt.Fprintf(&out, "%d %s\n", i, strings.ReplaceAll(text, "\n", " "))
					}
				}
			}
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%06d.txt", from)), []byte(out.String()), 0o600); err != nil {
				b.Fatal(err)
			}
		}
		report(b, questions, func(q *question) (units []int) {
			longest := ""
			for _, w := range termsOf(q.text) {
				if len(w) > len(longest) && w != "zebrafish" {
					longest = w
				}
			}
			out, err := exec.Command(*ripgrep, "--no-filename", "--no-line-number", "--ignore-case", "--word-regexp", "--sort", "path", "--max-columns", "20", "--max-columns-preview", longest, dir).Output()
			if exit := (*exec.ExitError)(nil); err != nil && !(errors.As(err, &exit) && exit.ExitCode() == 1) {
				b.Fatal(err)
			}
			for line := range strings.Lines(string(out)) {
				var unit int
				if _, err := fmt.Sscan(line, &unit); err == nil && !slices.Contains(units[max(0, len(units)-1):], unit) {
					units = append(units, unit)
				}
			}
			return units
		}, []string{"the", "the of", "func the return"})
	}
}
