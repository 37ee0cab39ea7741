package gitai

import (
	"cmp"
	"context"
	"maps"
	"path/filepath"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/insight/blame"
	"github.com/dalsegno/segno/internal/history/patch"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/workspace"
)

// Source finds the authors of the lines of commits.
type Source struct {
	Git    *workspace.GitRepository
	record segno.WorkspaceRecord
	head   segno.CommitID
	store  *local.Store
}

// Open opens the repository of a workspace. The line of checkpoints that ends at the head of a thread has the authors. The
// error has [segno.KindNotFound] if there is no repository. The caller closes the field Git.
func Open(ctx context.Context, store *local.Store, rec segno.WorkspaceRecord, thread segno.ThreadID) (*Source, error) {
	head, err := store.Head(ctx, thread)
	if err != nil {
		return nil, err
	}
	repo := workspace.OpenGit(rec.Path)
	if repo == nil {
		return nil, segno.Errorf(segno.KindNotFound, "find git repository", rec.Path, "the directory is not in a git work tree that can be read")
	}
	return &Source{repo, rec, head.Head, store}, nil
}

// Added is a line that a commit added to a file.
type Added struct {
	Number int // counted from 1
	Text   string
	blame.Line
}

// Key returns the key of the session that wrote the line, or "" if it was not a turn.
func (a *Added) Key() string {
	if a.Author != blame.Turn {
		return ""
	}
	agent := agentOf(a.Checkpoint)
	return SessionKey(agent.Tool, agent.ID)
}

// agentOf identifies the session of a turn. An agent without sessions has one for each thread.
func agentOf(c *segno.Checkpoint) Agent {
	id := string(c.Thread)
	if c.Session != nil {
		id = string(c.Session.Session)
	}
	return Agent{Tool: cmp.Or(c.Agent, "unknown"), ID: id, Model: "unknown"}
}

// Lines returns the lines that a commit added to a file. There are none if the file is outside the workspace, is not a text,
// or was deleted. The lines of the newest checkpoint that has the committed content decide; without one, only lines that
// the head of the thread has, too, have an author. The error has [segno.KindRefused] if the file is too large.
func (s *Source) Lines(ctx context.Context, x workspace.GitChange) (lines []Added, err error) {
	rel, err := filepath.Rel(s.record.Path, filepath.Join(s.Git.Top(), x.Path))
	if err != nil || !filepath.IsLocal(rel) || x.To == "" {
		return nil, nil //nolint:nilerr // it is not a file of the workspace
	}
	content, err := s.Git.Content(x.To)
	var before []byte
	if err == nil && x.From != "" {
		before, err = s.Git.Content(x.From)
	}
	if err != nil || patch.IsBinary(content) {
		return nil, err
	}
	b := blame.Blamer{Store: s.store, Content: patch.FromStore(s.store.Objects()), Cache: blame.OpenCache(s.store, s.record.ID, rel)}
	defer b.Cache.Close()
	origins, err := b.LinesOf(ctx, content, s.head, rel)
	if err != nil {
		return nil, err
	}
	texts := blame.Texts(content)
	for _, h := range patch.Hunks(before, content) {
		for i := h.To; i < h.ToEnd; i++ {
			lines = append(lines, Added{i + 1, texts[i], origins[i]})
		}
	}
	return lines, nil
}

// Make returns the note of a commit, and the files that it leaves out. Lines without an attestation are not by a turn, or not
// known. The note of a merge has no attestations, because its lines are those of the merged commits.
func (s *Source) Make(ctx context.Context, c workspace.GitCommit) (n *Note, left []segno.Conflict, err error) {
	n = &Note{Metadata: Metadata{Schema: schema, Base: c.ID, Prompts: map[string]Session{}, Sessions: map[string]Session{}}}
	if len(c.Parents) > 1 {
		return n, nil, nil
	}
	changes, err := s.Git.Changes(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	for _, x := range changes {
		lines, err := s.Lines(ctx, x)
		if segno.KindOf(err) == segno.KindRefused && err != nil {
			left = append(left, segno.Conflict{Path: x.Path, Why: "it is too large"})
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		f := File{Path: x.Path}
		sessions := map[string]Session{}
		for i := range lines {
			a := &lines[i]
			if session := a.Key(); session != "" {
				sessions[session] = Session{agentOf(a.Checkpoint)}
				f.add(session+"::"+traceKey(a.Checkpoint.ID), a.Number)
			}
		}
		switch {
		case len(f.Entries) == 0:
		case !isWritable(x.Path):
			left = append(left, segno.Conflict{Path: x.Path, Why: "the format cannot have its name"})
		default:
			n.Files = append(n.Files, f)
			maps.Copy(n.Sessions, sessions)
		}
	}
	return n, left, nil
}
