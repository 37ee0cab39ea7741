package blame_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/insight/blame"
	"github.com/dalsegno/segno/internal/history/patch"
	"github.com/dalsegno/segno/internal/local/spool"
	"github.com/dalsegno/segno/internal/testing/memdir"
	"github.com/dalsegno/segno/internal/testing/soak"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/store/memory"
	"github.com/dalsegno/segno/timeline"
	"github.com/dalsegno/segno/workspace"
)

func TestMain(m *testing.M) {
	memdir.Use()
	os.Exit(m.Run())
}

// authored is a directory in which turns of several threads, and the user, write lines. Each line is unique, so its text shows
// its author: the prompt of a turn, "user", or "original" before the first turn.
type authored struct {
	*testing.T
	r       *rand.Rand
	root    string
	store   *memory.Store
	tl      *timeline.Timeline
	id      segno.WorkspaceID
	lines   int
	turns   int
	author  map[string]string
	threads []segno.ThreadID // "" until the first turn of a session
	forks   int
	log     []string
}

func newAuthored(t *testing.T, seed uint64) *authored {
	home := t.TempDir()
	h := &authored{T: t, r: rand.New(rand.NewPCG(seed, 1)), root: filepath.Join(home, "tree"), store: memory.New(time.Now),
		id: segno.WorkspaceID(segno.NewID()), author: map[string]string{}, threads: make([]segno.ThreadID, 2)}
	h.must(os.MkdirAll(filepath.Join(h.root, "dir"), 0o755))
	h.must(h.store.PutWorkspace(t.Context(), segno.WorkspaceRecord{ID: h.id, Path: h.root}))
	dir, err := workspace.Open(h.root, workspace.Options{ID: h.id, Objects: h.store.Objects(), Index: filepath.Join(home, "index")})
	h.must(err)
	h.tl = timeline.Open(timeline.Config{Store: h.store, Workspace: dir, Spool: spool.New(filepath.Join(home, "spool"), vfs.OS), Now: time.Now,
		Alive: func(timeline.OpenTurn) bool { return true }})
	for _, name := range []string{"a", "b", "dir/c"} {
		var lines []string
		for range 8 {
			lines = append(lines, h.line("original"))
		}
		h.write(name, lines)
	}
	return h
}

func (h *authored) must(err error) {
	h.Helper()
	if err != nil {
		h.Fatalf("%v\n%s", err, strings.Join(h.log, "\n"))
	}
}

func (h *authored) line(author string) string {
	h.lines++
	text := fmt.Sprintf("line %d", h.lines)
	h.author[text] = author
	return text
}

func (h *authored) write(name string, lines []string) {
	h.must(os.WriteFile(filepath.Join(h.root, name), []byte(strings.Join(append(lines, ""), "\n")), 0o644))
}

// files returns the lines of each file.
func (h *authored) files() map[string][]string {
	all := map[string][]string{}
	h.must(filepath.WalkDir(h.root, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			rel, _ := filepath.Rel(h.root, path)
			var data []byte
			data, err = os.ReadFile(path)
			all[rel] = blame.Texts(data)
		}
		return err
	}))
	return all
}

func (h *authored) drawFile() (name string, lines []string) {
	all := h.files()
	var names []string
	for name := range all {
		names = append(names, name)
	}
	slices.Sort(names)
	if len(names) == 0 {
		return "a", nil
	}
	name = names[h.r.IntN(len(names))]
	return name, all[name]
}

// edit changes a few lines as an author, in all files but one.
func (h *authored) edit(author, but string) {
	for range 1 + h.r.IntN(3) {
		name, lines := h.drawFile()
		if name == but {
			continue
		}
		at := h.r.IntN(len(lines) + 1)
		end := min(len(lines), at+h.r.IntN(3))
		var in []string
		for range h.r.IntN(3) {
			in = append(in, h.line(author))
		}
		h.write(name, slices.Concat(lines[:at], in, lines[end:]))
	}
}

// rename gives a file another name, and returns that.
func (h *authored) rename() string {
	name, lines := h.drawFile()
	if len(lines) == 0 {
		return "" // an empty file has no evidence for a new name
	}
	h.lines++
	to := fmt.Sprintf("dir/%d", h.lines)
	h.must(os.Rename(filepath.Join(h.root, name), filepath.Join(h.root, to)))
	return to
}

// turn makes a turn of one of the threads. It may rename a file, and edits others.
func (h *authored) turn(thread int, byUser string) {
	h.turns++
	prompt := fmt.Sprint("turn ", h.turns)
	src := segno.Source{Session: segno.SessionID(fmt.Sprint("session ", thread))}
	begun, err := h.tl.BeginTurn(h.Context(), timeline.Prompt{Agent: "test", Source: src, Text: prompt, Thread: h.threads[thread]})
	h.must(err)
	renamed := byUser
	if byUser == "" && h.r.IntN(4) == 0 {
		renamed = h.rename()
	}
	h.edit(prompt, renamed)
	c, err := h.tl.EndTurn(h.Context(), timeline.TurnEnd{Key: begun.Key, Source: src, Agent: "test"})
	h.must(err)
	h.threads[thread] = c.Thread
}

// step makes one random operation.
func (h *authored) step() {
	what := h.r.IntN(12)
	if h.turns == 0 {
		what = 0
	}
	note := func(format string, args ...any) { h.log = append(h.log, fmt.Sprintf(format, args...)) }
	switch what {
	case 0, 1, 2, 3:
		thread := h.r.IntN(len(h.threads))
		note("turn %d in thread %d", h.turns+1, thread)
		h.turn(thread, "")
	case 4, 5:
		note("the user edits")
		h.edit("user", "")
	case 6:
		note("the user renames a file, and thread 0 goes on")
		h.turn(0, "") // records the edits, which a rename would hide
		h.turn(0, h.rename())
	case 7:
		h.move(timeline.MoveRequest{Verb: segno.VerbUndo, Turns: 1 + h.r.IntN(2)})
	case 8:
		h.move(timeline.MoveRequest{Verb: segno.VerbRedo, Turns: 1})
	case 9:
		h.move(timeline.MoveRequest{Verb: segno.VerbOpUndo})
	case 10:
		all := h.checkpoints()
		c := all[h.r.IntN(len(all))]
		ask := timeline.MoveRequest{Verb: segno.VerbRestore, To: c.ID, Scope: timeline.ScopeBoth}
		if h.r.IntN(2) == 0 {
			name, _ := h.drawFile()
			ask.Paths, ask.Scope = []string{name}, timeline.ScopeFiles
		}
		h.move(ask)
	case 11:
		if h.forks++; h.forks < 4 {
			all := h.checkpoints()
			at := all[h.r.IntN(len(all))]
			note("fork at %s %d", at.Kind, at.Turn)
			id := segno.ThreadID(segno.NewID())
			_, err := h.tl.ForkThread(h.Context(), at.ID, segno.Thread{ID: id, Workspace: h.id, Created: time.Now(), Agent: "test"}, false)
			h.must(err)
			h.threads = append(h.threads, id)
		}
	}
}

// move makes a move, unless there is nothing to move to.
func (h *authored) move(ask timeline.MoveRequest) {
	moved, err := h.tl.Move(h.Context(), ask, nil)
	switch kind := segno.KindOf(err); {
	case err == nil:
		h.log = append(h.log, fmt.Sprintf("%s %s: to %s %d, %d conflicts", ask.Verb, strings.Join(ask.Paths, " "), moved.Head.Kind, moved.Head.Turn, len(moved.Plan.Conflicts)))
	case kind != segno.KindNotFound && kind != segno.KindRefused && kind != segno.KindInvalid && kind != segno.KindConflict:
		h.must(err)
	}
}

// checkpoints returns the checkpoints with files of the current thread.
func (h *authored) checkpoints() (all []segno.Checkpoint) {
	thread, err := h.tl.CurrentThread(h.Context())
	h.must(err)
	for c, err := range h.store.Checkpoints(h.Context(), segno.CheckpointQuery{Thread: thread}) {
		h.must(err)
		if !c.Tree().IsZero() {
			all = append(all, c)
		}
	}
	return all
}

func (h *authored) content(ctx context.Context, x segno.Hash) ([]byte, error) {
	return patch.FromStore(h.store.Objects())(ctx, x)
}

// check compares the origins of lines with the authors.
func (h *authored) check(where string, texts []string, lines []blame.Line) {
	h.Helper()
	for i, text := range texts {
		l := lines[i]
		ok := false
		switch want := h.author[text]; want {
		case "original":
			ok = l.Author == blame.Before
		case "user":
			ok = l.Author == blame.External || l.Author == blame.Unsaved
		default:
			ok = l.Author == blame.Turn && l.Checkpoint.Prompt == want
		}
		if ok && l.Checkpoint != nil {
			e, err := workspace.LookupFile(h.Context(), h.store.Objects(), l.Checkpoint.Tree(), l.Path)
			h.must(err)
			data, err := h.content(h.Context(), e.Hash)
			h.must(err)
			there := blame.Texts(data)
			ok = l.Number <= len(there) && there[l.Number-1] == text
		}
		if !ok {
			by := ""
			if l.Checkpoint != nil {
				by = fmt.Sprintf(" of %s %d %q %q", l.Checkpoint.Kind, l.Checkpoint.Turn, l.Checkpoint.Prompt, l.Checkpoint.Label)
			}
			h.Fatalf("%s: %q is by %q, but blame has %s%s, line %d of %s\n%s", where, text, h.author[text], l.Author, by, l.Number, l.Path,
				strings.Join(h.log, "\n"))
		}
	}
}

// checkAll checks all present files, and the files of all checkpoints of all threads.
func (h *authored) checkAll(b *blame.Blamer) {
	ctx := h.Context()
	thread, err := h.tl.CurrentThread(ctx)
	h.must(err)
	head, err := h.store.Head(ctx, thread)
	h.must(err)
	for name, texts := range h.files() {
		lines, err := b.LinesSince(ctx, []byte(strings.Join(append(texts, ""), "\n")), head.Head, name, blame.Unsaved, 0, len(texts))
		h.must(err)
		h.check("present "+name, texts, lines)
	}
	for _, thread := range h.threads {
		for c, err := range h.store.Checkpoints(ctx, segno.CheckpointQuery{Thread: thread}) {
			h.must(err)
			if thread == "" || c.Tree().IsZero() {
				continue
			}
			all, err := workspace.Diff(ctx, h.store.Objects(), segno.Hash{}, c.Tree())
			h.must(err)
			for _, x := range all {
				if !x.To.HasContent() {
					continue
				}
				data, err := h.content(ctx, x.To.Hash)
				h.must(err)
				texts := blame.Texts(data)
				lines, err := b.Lines(ctx, blame.State{Checkpoint: &c, Path: x.Path, Hash: x.To.Hash}, 0, len(texts))
				h.must(err)
				h.check(fmt.Sprintf("%s of %s %d (%s)", x.Path, c.Kind, c.Turn, c.ID), texts, lines)
			}
		}
	}
}

// TestLinesHaveTheirAuthors makes random histories of turns of several threads, edits of the user, renames, undos, redos,
// restores and forks. The author of each line in each state must be the one that wrote it, with and without the cache.
func TestLinesHaveTheirAuthors(t *testing.T) {
	sample := 5
	if testing.Short() {
		sample = 1
	}
	for _, seed := range soak.Seeds(t, sample, 3000) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			h := newAuthored(t, seed)
			for range 14 {
				h.step()
			}
			b := &blame.Blamer{Store: h.store, Content: h.content}
			h.checkAll(b)
			files := blame.CacheFiles{Dir: filepath.Join(t.TempDir(), "cache"), FS: vfs.OS, Lock: func(context.Context) (func(), error) { return func() {}, nil }}
			for _, when := range []string{"cold", "warm"} {
				b.Cache = blame.CacheIn(files, "x.blame")
				if when == "warm" {
					b.Content = func(context.Context, segno.Hash) ([]byte, error) { return nil, errors.New("the cache lacks a fact") }
				}
				if h.checkAllCached(b, when); when == "cold" {
					b.Cache.Close()
				}
			}
		})
	}
}

// checkAllCached checks the files of all checkpoints with a cache. A warm one has all facts, so no content is read.
func (h *authored) checkAllCached(b *blame.Blamer, when string) {
	h.log = append(h.log, when)
	present := h.files()
	for name := range present {
		h.must(os.Remove(filepath.Join(h.root, name))) // a present file is always read
	}
	h.checkAll(b)
	for name, lines := range present {
		h.write(name, lines)
	}
}
