package local_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/timeline"
)

// writeStored makes the fixtures of this build:
//
//	go test ./internal/local -run TestStoresOfEarlierBuilds -write-stored v3
//
// The name is that of the database format. A build that changes the stored format adds its own
// fixtures.
var writeStored = flag.String("write-stored", "", "write testdata/stored/`NAME`.tar.gz and NAME-sealed.tar.gz with this build")

// stored describes a fixture: a project with its store and the home of its agent, in one archive.
type stored struct {
	Records string         `json:"records"` // all records of the store, as JSON lines
	Turns   []string       `json:"turns"`   // the prompts of the thread of the workspace
	Head    string         `json:"head"`    // the files at the head
	Undone  string         `json:"undone"`  // the files after an undo of one turn
	First   string         `json:"first"`   // the files at the checkpoint Named, which ends the first turn
	Named   segno.CommitID `json:"named"`
}

// makeStored fills a store with threads, a fork, moves, an undone line, a save and files. It makes no packs, because
// the fixtures of store/sqlite have them.
func makeStored(g *fixture) (s stored) {
	g.Helper()
	g.write("a", "0")
	g.write("d/b", "0")
	g.write("d/large", strings.Repeat("a line\n", 1000))
	g.must(os.Symlink("a", filepath.Join(g.project, "link")))
	c := g.chat(1)
	s.Named = c.runTurn("one").ID
	s.First = g.files()
	c.opens("two")
	g.remove("d/b")
	g.write("new/x", "two")
	c.exchange("two")
	c.ends("two")
	c.runTurn("undone")
	moved := g.mustMove(timeline.MoveRequest{Verb: segno.VerbUndo, Turns: 1})
	c = g.continueChat(2, moved.Link)
	g.write("mine", "by the user")
	g.save()
	s.Undone = g.files()
	c.opens("three")
	g.write("a", "three")
	g.write("new/y", "three")
	c.exchange("three")
	c.ends("three")
	g.mustMove(timeline.MoveRequest{Verb: segno.VerbRestore, To: s.Named, Scope: timeline.ScopeBoth})
	g.must(g.undoOperation())
	fork := g.forkHere(timeline.MoveRequest{To: s.Named})
	g.continueChat(3, fork.Link).exchange("in the fork")
	s.Head, s.Turns, s.Records = g.files(), g.turns(), g.records()
	g.checkStore()
	return s
}

// TestStoresOfEarlierBuilds opens copies of stores that earlier builds made. It lists and checks their records, makes
// moves, records a turn, and checks them again.
func TestStoresOfEarlierBuilds(t *testing.T) {
	if *writeStored != "" {
		for _, isSealed := range []bool{false, true} {
			name := *writeStored
			g := newFixture(t)
			s := makeStored(g)
			if isSealed {
				name += "-sealed"
				g.seal(g.keyFile("key"))
			}
			g.archive(filepath.Join("testdata", "stored", name+".tar.gz"), s)
		}
	}
	files, err := filepath.Glob(filepath.Join("testdata", "stored", "*.tar.gz"))
	if err != nil || len(files) < 2 {
		t.Fatalf("%d fixtures, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".tar.gz"), func(t *testing.T) {
			t.Parallel()
			g := newFixture(t)
			s := g.extract(file)
			if got := g.records(); got != s.Records {
				t.Errorf("the store has\n%s\nwant\n%s", got, s.Records)
			}
			if isSealed := strings.Contains(file, "sealed"); g.isSealed() != isSealed {
				t.Errorf("the store is sealed: %t", !isSealed)
			}
			g.adoptProject()
			g.checkStore()
			g.moveInStored(s)
			g.checkStore()
		})
	}
}

// moveInStored makes each kind of move, and records a turn.
func (g *fixture) moveInStored(s stored) {
	g.Helper()
	if got := g.turns(); !slices.Equal(got, s.Turns) {
		g.Errorf("the turns are %q, want %q", got, s.Turns)
	}
	g.wantFiles("in the copy", s.Head)
	g.mustMove(timeline.MoveRequest{Verb: segno.VerbRestore, To: s.Named, Scope: timeline.ScopeBoth})
	g.wantFiles("after restore", s.First)
	g.must(g.undoOperation())
	g.wantFiles("after op undo", s.Head)
	g.mustMove(timeline.MoveRequest{Verb: segno.VerbUndo, Turns: 1})
	g.wantFiles("after undo", s.Undone)
	moved := g.mustMove(timeline.MoveRequest{Verb: segno.VerbRedo, Turns: 1})
	g.wantFiles("after redo", s.Head)
	if moved.Link == nil {
		g.Fatalf("the conversation stayed: %s", moved.Chat)
	}
	dir := filepath.Join(filepath.Dir(g.project), "fork")
	err := g.record(nil, func(ctx context.Context, tl *timeline.Timeline) error {
		_, err := tl.Fork(ctx, timeline.MoveRequest{Verb: segno.VerbFork, To: s.Named, Dir: dir})
		return err
	})
	g.must(err)
	fork := *g
	fork.project = dir
	fork.wantFiles("in the fork", s.First)
	c := g.continueChat(4, moved.Link)
	before := g.files()
	c.runTurn("later")
	g.mustMove(timeline.MoveRequest{Verb: segno.VerbUndo, Turns: 1})
	g.wantFiles("after an undo of a new turn", before)
}

func (g *fixture) mustMove(ask timeline.MoveRequest) *timeline.MoveResult {
	g.Helper()
	moved, err := g.move(nil, ask)
	g.must(err)
	return moved
}

// adoptProject sets the directory of the store's only workspace to that of the fixture, because the original directory
// is on another machine.
func (g *fixture) adoptProject() {
	g.Helper()
	info, err := os.Stat(g.project)
	g.must(err)
	stat := info.Sys().(*syscall.Stat_t)
	s, err := g.place.Open(g.Context())
	g.must(err)
	defer s.Close()
	n := 0
	for w, err := range s.FindWorkspaces(g.Context(), nil, 0, 0) {
		g.must(err)
		n++
		w.Path, w.Device, w.Inode = g.project, uint64(stat.Dev), stat.Ino
		g.must(s.PutWorkspace(g.Context(), w))
	}
	if n != 1 {
		g.Fatalf("%d workspaces", n)
	}
}

// archive writes an archive with the directory of the fixture and its description.
func (g *fixture) archive(name string, s stored) {
	g.Helper()
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	to := tar.NewWriter(zip)
	data, err := json.Marshal(s)
	g.must(err)
	g.must(os.WriteFile(filepath.Join(filepath.Dir(g.project), "stored.json"), data, 0o600))
	g.must(to.AddFS(os.DirFS(filepath.Dir(g.project))))
	g.must(errors.Join(to.Close(), zip.Close(), os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, out.Bytes(), 0o600)))
}

// extract writes the files of an archive into the directory of the fixture.
func (g *fixture) extract(name string) (s stored) {
	g.Helper()
	file, err := os.Open(name)
	g.must(err)
	defer file.Close()
	zip, err := gzip.NewReader(file)
	g.must(err)
	from, dir := tar.NewReader(zip), filepath.Dir(g.project)
	for {
		h, err := from.Next()
		if err == io.EOF {
			break
		}
		g.must(err)
		path := filepath.Join(dir, filepath.FromSlash(h.Name))
		switch h.Typeflag {
		case tar.TypeDir:
			g.must(os.MkdirAll(path, 0o700))
		case tar.TypeSymlink:
			g.must(os.Symlink(h.Linkname, path))
		default:
			data, err := io.ReadAll(from)
			g.must(err)
			g.must(os.WriteFile(path, data, h.FileInfo().Mode().Perm()))
		}
	}
	data, err := os.ReadFile(filepath.Join(dir, "stored.json"))
	g.must(err)
	g.must(json.Unmarshal(data, &s))
	if key := filepath.Join(dir, "key"); g.isSealed() {
		g.place.Identity = key // the store records the path on the machine that made it
	}
	return s
}
