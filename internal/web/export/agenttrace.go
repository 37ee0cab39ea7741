package export

import (
	"io"
	"net/url"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/dalsegno/segno"
)

// The types of Agent Trace, version 0.1.0 (cursor/agent-trace, README.md, section 6.1; CC BY 4.0).
// The format records which conversation wrote which lines of files.

const agentTraceVersion = "0.1.0"

type traceRecord struct {
	Version   string         `json:"version"`
	ID        uuid.UUID      `json:"id"`
	Timestamp string         `json:"timestamp"`
	Tool      traceTool      `json:"tool"`
	Files     []traceFile    `json:"files"`
	Metadata  map[string]any `json:"metadata"`
}

type traceTool struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

type traceFile struct {
	Path          string              `json:"path"`
	Conversations []traceConversation `json:"conversations"`
}

type traceConversation struct {
	URL         string           `json:"url"`
	Contributor traceContributor `json:"contributor"`
	Ranges      []traceRange     `json:"ranges"`
}

type traceContributor struct {
	Type  string `json:"type"` // human, ai, mixed, unknown
	Model string `json:"model_id,omitempty"`
}

type traceRange struct {
	From int    `json:"start_line"`
	To   int    `json:"end_line"`
	Hash string `json:"content_hash"`
}

// writeAgentTrace writes one trace record per line, for each turn that added lines to files. The line numbers are those
// at the end of the turn. A record has no git revision, because the files are not committed at that time.
func writeAgentTrace(w io.Writer, s Source) error {
	for t, err := range s.Turns() {
		if err != nil {
			return err
		}
		if r := traceOf(t, s); len(r.Files) > 0 {
			if err := encode(w, r); err != nil {
				return err
			}
		}
	}
	return nil
}

func traceOf(t *Turn, s Source) traceRecord {
	c := &t.Checkpoint
	facts := map[string]any{"thread": c.Thread, "turn": t.Name, "checkpoint": c.ID, "kind": c.Kind, "snapshot": c.Tree().String(), "undone": t.Undone}
	if c.Workspace != nil && c.Workspace.Git != nil && c.Workspace.Git.Head != "" {
		facts["git_head"] = c.Workspace.Git.Head
	}
	r := traceRecord{Version: agentTraceVersion, ID: uuid.NewSHA1(uuid.NameSpaceURL, []byte(conversationURL(c))), Timestamp: stamp(c.Time),
		Tool: traceTool{Name: "segno", Version: s.Version}, Metadata: map[string]any{"segno": facts}}
	for _, f := range t.Files {
		if len(f.Ranges) == 0 {
			continue
		}
		file := traceFile{Path: text(f.Path)}
		for _, x := range f.Ranges {
			url, by := conversationURL(c), contributorOf(t)
			if x.By != nil { // a move brought lines of that turn back
				url, by = conversationURL(x.By), traceContributor{Type: "ai"}
			}
			i := slices.IndexFunc(file.Conversations, func(talk traceConversation) bool { return talk.URL == url })
			if i < 0 {
				i = len(file.Conversations)
				file.Conversations = append(file.Conversations, traceConversation{URL: url, Contributor: by})
			}
			talk := &file.Conversations[i]
			talk.Ranges = append(talk.Ranges, traceRange{x.From, x.To, "sha256:" + x.Hash.String()})
		}
		r.Files = append(r.Files, file)
	}
	return r
}

// conversationURL returns a URL that identifies a checkpoint. No server answers it.
func conversationURL(c *segno.Checkpoint) string {
	return "segno://thread/" + url.PathEscape(string(c.Thread)) + "/" + url.PathEscape(string(c.ID))
}

func contributorOf(t *Turn) traceContributor {
	switch {
	case !t.IsTurn():
		return traceContributor{Type: "unknown"} // the user, or any program
	case t.Checkpoint.Shared:
		return traceContributor{Type: "mixed", Model: modelID(t)}
	}
	return traceContributor{Type: "ai", Model: modelID(t)}
}

// modelID returns the model as "provider/model", the form of models.dev, or "".
func modelID(t *Turn) string {
	const longest = 250
	model := text(t.Model)
	if model == "" || strings.Contains(model, "/") {
		return model[:min(len(model), longest)]
	}
	if provider := providerOf(t); provider != "" {
		model = strings.Replace(provider, "gcp.gemini", "google", 1) + "/" + model
	}
	return strings.ToValidUTF8(model[:min(len(model), longest)], "")
}
