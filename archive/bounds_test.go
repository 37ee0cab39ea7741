package archive

import (
	"bytes"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dalsegno/segno/internal/testing/soak"
)

// deflateTop compresses the documents at the top of a forgery, as an archive bomb does.
func (f *forgery) deflateTop() *forgery {
	headers, data := f.headers, f.data
	f.headers, f.locals, f.data, f.centrals = nil, nil, nil, nil
	for i, h := range headers {
		h.offset = 0
		if i < 3 {
			data[i] = deflated(data[i])
			h.method, h.compressed = methodDeflate, int64(len(data[i]))
		}
		f.add(h, data[i])
	}
	return f.seal()
}

// TestHostileManifests opens archives whose small manifests ask a reader for much work. Each
// is refused with little work and memory. A run tries two of them.
func TestHostileManifests(t *testing.T) {
	if testing.Short() {
		return // it takes seconds
	}
	many := func(n int, path func(i int) string) (files [][2]string) {
		for i := range n {
			files = append(files, [2]string{path(i), ""})
		}
		return files
	}
	type hostile struct {
		change func(m *Manifest)
		files  [][2]string
	}
	cases := map[string]hostile{
		"agents": {func(m *Manifest) {
			m.Agents = nil
			for i := range 100_000 {
				m.Agents = append(m.Agents, AgentInfo{Name: fmt.Sprintf("%07d", i)})
			}
		}, many(20_000, func(i int) string { return fmt.Sprintf("agents/0099999/workspace/%06d", i) })},
		"omitted": {func(m *Manifest) { m.Omitted = make([]Omission, 250_000) }, nil},
		"findings": {func(m *Manifest) {
			m.Omitted = []Omission{{Findings: make([]string, 600_000)}, {Findings: make([]string, 600_000)}}
		}, nil},
		"links": {func(m *Manifest) {
			target := strings.Repeat("x/", 300) + strings.Repeat("../", 60) + "l00000"
			for i := range 20_000 {
				m.Links = append(m.Links, Link{fmt.Sprintf("agents/a/workspace/l%05d", i), strings.Replace(target, "l00000", fmt.Sprintf("l%05d", (i+1)%20_000), 1)})
			}
		}, nil},
		"link steps": {func(m *Manifest) {
			for i := range 20_000 {
				m.Links = append(m.Links, Link{fmt.Sprintf("agents/a/workspace/l%05d", i), strings.Repeat("x/../", 200) + fmt.Sprintf("l%05d", (i+1)%20_000)})
			}
		}, nil},
		"directories": {nil, many(4_000, func(i int) string {
			return fmt.Sprintf("agents/a/workspace/%05d/%sf", i, strings.Repeat("d/", 55))
		})},
	}
	for _, name := range soak.Some(t, 2, slices.Sorted(maps.Keys(cases))...) {
		c := cases[name]
		t.Run(name, func(t *testing.T) {
			f := forge(c.change, c.files...).deflateTop()
			data := f.bytes()
			f = nil
			runtime.GC()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			start := time.Now()
			_, err := NewReader(bytes.NewReader(data), int64(len(data)))
			runtime.ReadMemStats(&after)
			t.Logf("%d bytes, %v, allocated %d MB: %v", len(data), time.Since(start).Round(time.Millisecond), (after.TotalAlloc-before.TotalAlloc)>>20, err)
			if err == nil {
				t.Error("it is accepted")
			}
		})
	}
}
