package workspace_test

import (
	"context"
	"strings"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/workspace"
)

// TestTraceOfADirectoryWhoseObjectIsAlsoAFile traces snapshots in which a file has the bytes of the object of a directory in
// another snapshot. One Tracer traces them twice, as a collection does that begins again.
func TestTraceOfADirectoryWhoseObjectIsAlsoAFile(t *testing.T) {
	p := newFixture(t)
	p.write("dir/file", "before")
	first := p.save()
	p.write("copy", p.objectOfDirectory(first))
	p.write("dir/file", "after")
	second := p.save()
	var tracer workspace.Tracer
	for range 2 {
		visited := map[segno.Hash]bool{}
		for _, s := range []segno.Snapshot{second, first} {
			must(t, tracer.Trace(ctx(t), p.store, s, func(name segno.Hash) bool {
				first := !visited[name]
				visited[name] = true
				return first
			}))
		}
		for _, content := range []string{"before", "after"} {
			if !visited[segno.HashOf([]byte(content))] {
				t.Errorf("the content %q was not visited", content)
			}
		}
	}
}

// TestTraceReadsADirectoryOnce traces directories that each contain the directory below twice, and a file with the bytes of its
// object.
func TestTraceReadsADirectoryOnce(t *testing.T) {
	const levels = 7
	var p *fixture
	var last segno.Snapshot
	var objects []string // of the directories, the lowest first
	var write func(dir string, level int)
	write = func(dir string, level int) {
		if level == 0 {
			p.write(dir+"/file", "content")
			return
		}
		p.write(dir+"/copy", objects[level-1])
		write(dir+"/a", level-1)
		write(dir+"/b", level-1)
	}
	for level := range levels {
		p = newFixture(t)
		write("dir", level)
		last = p.save()
		objects = append(objects, p.objectOfDirectory(last))
	}
	visited, reads := map[segno.Hash]bool{}, &countingObjects{Objects: p.store}
	var tracer workspace.Tracer
	for range 2 {
		clear(visited)
		must(t, tracer.Trace(ctx(t), reads, last, func(name segno.Hash) bool {
			first := !visited[name]
			visited[name] = true
			return first
		}))
	}
	if reads.n > 4*len(visited) {
		t.Errorf("%d reads of %d objects", reads.n, len(visited))
	}
}

type countingObjects struct {
	segno.Objects
	n int
}

func (c *countingObjects) Get(ctx context.Context, name segno.Hash) ([]byte, error) {
	c.n++
	return c.Objects.Get(ctx, name)
}

// objectOfDirectory returns the object of the first directory below the root of a snapshot.
func (p *fixture) objectOfDirectory(s segno.Snapshot) (object string) {
	p.t.Helper()
	must(p.t, new(workspace.Tracer).Trace(ctx(p.t), p.store, s, func(name segno.Hash) bool {
		data, err := p.store.Get(ctx(p.t), name)
		must(p.t, err)
		if object == "" && name != s.Tree && strings.HasPrefix(string(data), "segno tree ") {
			object = string(data)
		}
		return true
	}))
	if object == "" {
		p.t.Fatal("the snapshot has no directory")
	}
	return object
}
