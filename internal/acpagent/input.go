package acpagent

import (
	"encoding/base64"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	acp "github.com/coder/acp-go-sdk"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agent"
	"github.com/dalsegno/segno/internal/preamble"
)

// input is a prompt as the agent takes it, and what segno acp has to tell it first.
type input struct {
	agent.Input
	told []string
}

// isTold reports whether a text is not the user's: segno acp marks so what it tells.
func isTold(meta map[string]any) bool {
	ours, _ := meta["segno"].(map[string]any)
	told, _ := ours["told"].(bool)
	return told
}

// whole is the prompt with what is told, which is no text of the message: a model that
// follows commands would take it for them.
func (in input) whole() agent.Input {
	all := in.Input
	if len(in.told) > 0 {
		record := preamble.Beside(strings.Join(in.told, "\n\n"))
		all.Parts = append(slices.Clip(all.Parts), agent.Part{File: &agent.Blob{Type: "text/plain", Name: "record.txt", Data: []byte(record)}})
	}
	return all
}

func inputOf(blocks []acp.ContentBlock) (in input, err error) {
	var said []string
	for _, b := range blocks {
		switch {
		case b.Text != nil && isTold(b.Text.Meta):
			in.told = append(in.told, b.Text.Text)
		case b.Text != nil:
			said = append(said, b.Text.Text)
		case b.Image != nil:
			data, err := base64.StdEncoding.DecodeString(b.Image.Data)
			if err != nil {
				return in, &segno.Error{Op: "read prompt", Kind: segno.KindInvalid, Err: fmt.Errorf("image: %w", err)}
			}
			in.Parts = append(in.Parts, agent.Part{Image: &agent.Blob{Type: b.Image.MimeType, Data: data}})
		case b.ResourceLink != nil:
			in.Parts = append(in.Parts, agent.Part{Text: fmt.Sprintf("[%s](%s)", b.ResourceLink.Name, b.ResourceLink.Uri)})
		case b.Resource != nil:
			part, err := resource(b.Resource.Resource)
			if err != nil {
				return in, err
			}
			in.Parts = append(in.Parts, part)
		default:
			return in, &segno.Error{Op: "read prompt", Kind: segno.KindInvalid, Err: errors.New("it has content of a kind that was not offered")}
		}
	}
	in.Prompt = strings.Join(said, "\n")
	return in, nil
}

func resource(r acp.EmbeddedResourceResource) (agent.Part, error) {
	if t := r.TextResourceContents; t != nil {
		return agent.Part{Text: fmt.Sprintf("<file uri=%q>\n%s\n</file>", t.Uri, t.Text)}, nil
	}
	b := r.BlobResourceContents
	if b == nil {
		return agent.Part{}, &segno.Error{Op: "read prompt", Kind: segno.KindInvalid, Err: errors.New("a resource is empty")}
	}
	data, err := base64.StdEncoding.DecodeString(b.Blob)
	if err != nil {
		return agent.Part{}, &segno.Error{Op: "read prompt", Name: b.Uri, Kind: segno.KindInvalid, Err: err}
	}
	kind := "application/octet-stream"
	if b.MimeType != nil {
		kind = *b.MimeType
	}
	return agent.Part{File: &agent.Blob{Type: kind, Name: path.Base(b.Uri), Data: data}}, nil
}
