package insightcmd

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/insight/blame"
	"github.com/dalsegno/segno/insight/gitai"
	"github.com/dalsegno/segno/internal/cli"
	"github.com/dalsegno/segno/internal/history/printable"
	"github.com/dalsegno/segno/workspace"
)

// comparison is the result of blame --git-ai. A later release may add fields, but removes none.
type comparison struct {
	SchemaVersion int           `json:"schema_version"`
	Path          string        `json:"path"`
	PathBytes     []byte        `json:"path_bytes,omitempty"`
	Commit        string        `json:"commit"`
	Agree         int           `json:"agree"`     // lines
	NotKnown      int           `json:"not_known"` // lines whose origin segno does not know
	Differ        []differsItem `json:"differ"`
}

// differsItem is a line about which segno and a note of git-ai disagree.
type differsItem struct {
	Line      int          `json:"line"`
	Text      string       `json:"text"`
	TextBytes []byte       `json:"text_bytes,omitempty"`
	Origin    originItem   `json:"origin"`
	Key       string       `json:"git_ai"` // the key in the note, or "" without an attestation
	Agent     *gitai.Agent `json:"git_ai_agent"`
}

// runCompare compares the origins of the lines that a commit added to a file with the note of git-ai.
func (a *app) runCompare(ctx context.Context, d *cli.Workspace, arg, rev string) error {
	paths, err := cli.NamedPaths(d, arg)
	if err != nil {
		return err
	}
	thread, err := a.ThreadID(ctx, d)
	if err != nil {
		return err
	}
	src, err := gitai.Open(ctx, d.Store, d.Rec, thread)
	if err != nil {
		return err
	}
	defer src.Git.Close()
	commit, note, err := readNote(src.Git, rev)
	if err != nil {
		return err
	}
	change, err := changeOf(ctx, src.Git, commit, d.Rec.Path, paths)
	if err != nil {
		return err
	}
	lines, err := src.Lines(ctx, change)
	if err != nil {
		return err
	}
	res := comparison{SchemaVersion: 1, Path: change.Path, PathBytes: segno.PathBytes(change.Path), Commit: commit.ID, Differ: []differsItem{}}
	var origins []*blame.Origin
	for _, l := range lines {
		key := note.KeyAt(change.Path, l.Number)
		switch {
		case l.Author == blame.Unknown:
			res.NotKnown++
		case gitai.Agree(key, l.Key()):
			res.Agree++
		default:
			it := differsItem{l.Number, l.Text, segno.PathBytes(l.Text), originOf(l.Origin, ""), key, nil}
			if agent, ok := note.AgentOf(key); ok {
				it.Agent = &agent
			}
			res.Differ, origins = append(res.Differ, it), append(origins, l.Origin)
		}
	}
	return a.PrintLong(res, func(p *cli.Printer) { a.drawComparison(p, &res, origins, thread) })
}

// readNote returns the commit of a revision, and its note.
func readNote(repo *workspace.GitRepository, rev string) (commit workspace.GitCommit, note *gitai.Note, err error) {
	if commit, err = repo.Commit(rev); err != nil {
		return commit, nil, err
	}
	text, err := repo.Note(gitai.Ref, commit.ID)
	if err != nil {
		return commit, nil, err
	}
	if text == nil {
		return commit, nil, segno.Errorf(segno.KindNotFound, "read note of git-ai", rev, "the commit has no note in %s", gitai.Ref).
			WithHint("'segno export --format git-ai' makes one")
	}
	note, err = gitai.Parse(text)
	return commit, note, err
}

// changeOf returns the change of the first of several paths of a workspace that a commit changed.
func changeOf(ctx context.Context, repo *workspace.GitRepository, c workspace.GitCommit, root string, paths []string) (x workspace.GitChange, err error) {
	changes, err := repo.Changes(ctx, c)
	if err != nil {
		return x, err
	}
	for _, path := range paths {
		rel, err := filepath.Rel(repo.Top(), filepath.Join(root, path))
		i := slices.IndexFunc(changes, func(x workspace.GitChange) bool { return x.Path == rel && x.To != "" })
		if err == nil && i >= 0 {
			return changes[i], nil
		}
	}
	return x, segno.Errorf(segno.KindNotFound, "find file", paths[0], "the commit %.12s does not change it", c.ID).WithHint("name another commit with --git-ai=COMMIT")
}

func (a *app) drawComparison(p *cli.Printer, res *comparison, origins []*blame.Origin, thread segno.ThreadID) {
	for i, it := range res.Differ {
		noted := "nothing"
		if it.Agent != nil {
			noted = cli.Inline(it.Agent.Tool) + ", session " + cli.Inline(it.Agent.ID)
		} else if it.Key != "" {
			noted = cli.Inline(it.Key)
		}
		p.Linef("%s %s", p.Dim(fmt.Sprintf("%4d", it.Line)), printable.Patch(it.Text))
		p.Linef("     segno: %s", p.Drawn(name(origins[i])+subject(origins[i], "", thread)))
		p.Linef("     git-ai: %s", noted)
	}
	p.Linef("%s agree, %d differ", cli.Plural(res.Agree, "line"), len(res.Differ))
	if res.NotKnown > 0 {
		p.Linef("%s not known to segno", cli.Plural(res.NotKnown, "line"))
	}
}

// name is the name of a turn before its subject, or "".
func name(o *blame.Origin) string {
	if o.Author == blame.Turn {
		return cli.Label(o.Checkpoint) + " "
	}
	return ""
}
