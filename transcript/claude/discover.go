package claude

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/jsonscan"
	"github.com/dalsegno/segno/internal/proc"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/transcript"
	"github.com/dalsegno/segno/transcript/internal/sessionfile"
)

const opList = "list sessions"

// edgeSize is how much Header reads at each end of a transcript that is too large to read whole.
const edgeSize = 64 << 10

var _ transcript.Discovery = (*Transcripts)(nil)

func errLeadsOut(path string) error {
	return segno.Errorf(segno.KindInvalid, opList, path, "a link that leads out of the agent's directory")
}

// Sessions yields the sessions of all working directories.
func (c *Transcripts) Sessions(ctx context.Context) iter.Seq2[transcript.SessionFile, error] {
	return func(yield func(transcript.SessionFile, error) bool) {
		dirs, err := os.ReadDir(c.projects())
		if err != nil {
			if !errors.Is(err, fs.ErrNotExist) {
				yield(transcript.SessionFile{}, sessionfile.IOError(opList, c.projects(), err))
			}
			return
		}
		for _, d := range dirs {
			dir := filepath.Join(c.projects(), d.Name())
			entries, err := c.readProject(dir, d)
			if err != nil && !yield(transcript.SessionFile{}, sessionfile.IOError(opList, dir, err)) {
				return
			}
			for _, entry := range entries {
				if err := ctx.Err(); err != nil {
					yield(transcript.SessionFile{}, sessionfile.IOError(opList, dir, err))
					return
				}
				f, err := c.sessionFile(dir, entry)
				if (f.Session != "" || err != nil) && !yield(f, sessionfile.IOError(opList, filepath.Join(dir, entry.Name()), err)) {
					return
				}
			}
		}
	}
}

// readProject returns the entries of the directory of one project. It returns none for a file.
func (c *Transcripts) readProject(dir string, d fs.DirEntry) ([]fs.DirEntry, error) {
	switch {
	case d.IsDir():
	case d.Type()&fs.ModeSymlink == 0:
		return nil, nil
	case !c.isInside(dir):
		return nil, errLeadsOut(dir)
	}
	entries, err := os.ReadDir(dir)
	return entries, sessionfile.IgnoreMissing(err)
}

// isInside reports whether a path, with all links resolved, is in the agent's directory.
func (c *Transcripts) isInside(path string) bool {
	real, err := filepath.EvalSymlinks(path)
	home, homeErr := filepath.EvalSymlinks(c.projects())
	if err != nil || homeErr != nil {
		return false
	}
	rel, err := filepath.Rel(home, real)
	return err == nil && filepath.IsLocal(rel)
}

// sessionFile returns the session of a directory's entry, and an empty one for an entry that is
// not a transcript.
func (c *Transcripts) sessionFile(dir string, entry fs.DirEntry) (f transcript.SessionFile, err error) {
	name, ok := strings.CutSuffix(entry.Name(), ".jsonl")
	if !ok || sessionfile.CheckNewSession(opList, segno.SessionID(name)) != nil {
		return f, nil
	}
	path := filepath.Join(dir, entry.Name())
	if entry.Type()&fs.ModeSymlink != 0 && !c.isInside(path) {
		return f, errLeadsOut(path)
	}
	fi, err := os.Stat(path)
	switch {
	case err != nil:
		return f, sessionfile.IgnoreMissing(err)
	case !fi.Mode().IsRegular():
		return f, segno.Errorf(segno.KindInvalid, opList, path, "not a regular file")
	}
	return transcript.SessionFile{Session: segno.SessionID(name), Path: path, Bytes: fi.Size(), Modified: fi.ModTime()}, nil
}

// Header reads a transcript of at most the given size whole, and 64 KiB at each end of a larger one.
func (c *Transcripts) Header(ctx context.Context, file transcript.SessionFile, most int64) (transcript.SessionHeader, error) {
	h := header{graph: newGraph(file.Path), most: max(most, 2*edgeSize)}
	f, err := vfs.OpenRegular(file.Path)
	if err == nil {
		defer f.Close()
		err = h.read(ctx, f)
	}
	if err != nil {
		return transcript.SessionHeader{}, sessionfile.IOError("read session", file.Path, err)
	}
	return h.result(), nil
}

// header collects the facts at the beginning and the end of a transcript.
type header struct {
	graph   *graph
	most    int64  // the size of the largest transcript that is read whole
	custom  string // the title that the user or the agent gave
	summary string
	first   string // the first prompt
	last    string // the newest prompt, if the first is too long to be at the beginning
	end     int64
	// isCopied means that the end of the conversation is a copy from another session, to which the agent has not replied.
	isCopied bool
}

func (h *header) read(ctx context.Context, f *os.File) error {
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	size := fi.Size()
	h.graph.isWhole = size <= h.most
	h.graph.readTurns = h.graph.isWhole
	if h.graph.isWhole {
		return h.readPart(ctx, f, 0, size)
	}
	if err := h.readPart(ctx, f, 0, edgeSize); err != nil {
		return err
	}
	h.end, h.isCopied = 0, false
	from := size - edgeSize
	if err := h.readPart(ctx, f, from, size); err != nil || h.end > 0 {
		return err
	}
	h.end = size // the last record is longer than what was read
	return nil
}

// readPart reads the whole lines between two offsets. A part that begins within a line begins with
// damage, which does not matter.
func (h *header) readPart(ctx context.Context, f *os.File, from, to int64) error {
	l := sessionfile.NewLineReader(io.NewSectionReader(f, from, to-from), from)
	var r record
	for at := range l.All() {
		if err := ctx.Err(); err != nil {
			return err
		}
		if r.parse(at.Bytes) != nil {
			continue
		}
		h.graph.add(&r, at)
		h.add(&r, at)
	}
	_, err := l.End()
	return err
}

func (h *header) add(r *record, at sessionfile.Line) {
	text := func(key string) string { return jsonscan.Text(r.field(key)) }
	switch string(r.typ) {
	case "custom-title":
		h.custom = cmp.Or(text("customTitle"), h.custom)
	case "ai-title":
		h.summary = cmp.Or(text("aiTitle"), text("title"), h.summary)
	case "summary":
		h.summary = cmp.Or(text("summary"), h.summary)
	case "last-prompt":
		h.last = cmp.Or(text("lastPrompt"), h.last)
	}
	if r.kind.isMessage() && !r.isSidechain {
		h.end = at.Offset + int64(len(at.Bytes))
		switch {
		case r.forkedFrom != nil:
			h.isCopied = true
		case r.kind == kindAssistant:
			h.isCopied = false
		}
	}
	if h.first == "" && r.kind == kindUser && !r.isSidechain && !r.isMeta && !r.isSummary {
		if role, words := readPrompt(r); role == rolePrompt {
			h.first = words
		}
	}
}

func (h *header) result() transcript.SessionHeader {
	g := h.graph
	out := transcript.SessionHeader{Dir: g.dir, Title: cmp.Or(h.custom, h.summary, h.first, h.last), Turns: -1, End: h.end, HasNoTurn: h.isCopied}
	if cwd := g.cwdText(); out.Dir == "" && cwd != "" {
		out.Dir = dirOfSlug(g.slug)
		out.HasNoTurn = out.HasNoTurn || out.Dir != ""
		out.Dir = cmp.Or(out.Dir, cwd)
	}
	if g.isWhole {
		leaf, _ := g.leaf("")
		path, _ := g.path(leaf)
		out.Turns = len(g.turnsOf(path))
		out.HasNoTurn = out.HasNoTurn || out.Turns == 0
	}
	return out
}

// dirOfSlug returns the only directory with a slug, or "" if none exists, if there are several, or if the slug is that of a long path.
// The records of a session that was copied to another directory name the old one, until the agent has continued it.
func dirOfSlug(slug string) string {
	if len(slug) > maxSlug {
		return ""
	}
	var found []string
	var walk func(dir, rest string)
	walk = func(dir, rest string) {
		if rest == "" {
			found = append(found, dir)
			return
		}
		below, ok := strings.CutPrefix(rest, "-")
		if !ok || len(found) > 1 {
			return
		}
		names, _ := os.ReadDir(dir) // a directory that cannot be read has no session of this user
		for _, name := range names {
			if rest, ok := strings.CutPrefix(below, Slug(name.Name())); ok && name.IsDir() {
				walk(filepath.Join(dir, name.Name()), rest)
			}
		}
	}
	walk(string(filepath.Separator), slug)
	if len(found) != 1 {
		return ""
	}
	return found[0]
}

// Running returns the sessions that have a living process according to the agent's registry.
func (c *Transcripts) Running(ctx context.Context) map[segno.SessionID]int {
	out := map[segno.SessionID]int{}
	for entry := range c.registry(ctx) {
		if entry.isAlive() {
			out[entry.Session] = entry.PID
		}
	}
	return out
}

// registry yields the entries of the agent's registry of running processes.
func (c *Transcripts) registry(ctx context.Context) iter.Seq[registered] {
	return func(yield func(registered) bool) {
		names, _ := filepath.Glob(filepath.Join(c.home, "sessions", "*.json"))
		for _, name := range names {
			entry, ok := readRegistered(name)
			if ctx.Err() != nil || ok && !yield(entry) {
				return
			}
		}
	}
}

// registered is an entry of the agent's registry of running processes.
type registered struct {
	PID       int             `json:"pid"`
	Session   segno.SessionID `json:"sessionId"`
	ProcStart string          `json:"procStart"`
}

func readRegistered(name string) (entry registered, ok bool) {
	err := json.Unmarshal(readStart(name), &entry)
	return entry, err == nil && entry.Session != ""
}

// isAlive reports whether the process runs and is the registered one: another process may have
// got its number.
func (r registered) isAlive() bool {
	start := proc.Start(r.PID)
	return start != "" && (r.ProcStart == "" || r.ProcStart == start)
}
