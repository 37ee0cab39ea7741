package acpagent

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
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
	told  []string
	again bool // it may have come before
	heard bool // and was answered, in part at least
}

// take takes a text. What segno acp tells it marks as such.
func (in *input) take(text *acp.ContentBlockText, words []string) []string {
	ours, _ := text.Meta["segno"].(map[string]any)
	if told, _ := ours["told"].(bool); !told {
		return append(words, text.Text)
	}
	in.again, _ = ours["again"].(bool)
	if in.heard, _ = ours["heard"].(bool); text.Text != "" {
		in.told = append(in.told, text.Text)
	}
	return words
}

// whole is the prompt with what is told, which is no text of the message: a model that
// follows commands would take it for them.
func (in input) whole() agent.Input {
	all := in.Input
	if len(in.told) > 0 {
		record := preamble.AsAttachment(strings.Join(in.told, "\n\n"))
		all.Parts = append(slices.Clip(all.Parts), agent.Part{File: &agent.Blob{Type: "text/plain", Name: recordName, Data: []byte(record)}})
	}
	return all
}

const recordName = "record.txt"

// isEmpty reports whether it says nothing.
func (in input) isEmpty() bool { return len(in.Parts) == 0 && strings.TrimSpace(in.Prompt) == "" }

// isIn reports whether the prompt is the newest of a conversation.
func (in input) isIn(messages []agent.Message) bool {
	for _, m := range slices.Backward(messages) {
		if m.Role == agent.User {
			asked := in.Parts
			if in.Prompt != "" {
				asked = append([]agent.Part{{Text: in.Prompt}}, asked...)
			}
			return bytes.Equal(said(asked), said(m.Parts))
		}
	}
	return false
}

// said is what the user said of a message, as the log writes it.
func said(parts []agent.Part) []byte {
	text, err := json.Marshal(slices.DeleteFunc(slices.Clone(parts), func(p agent.Part) bool { return p.File != nil && p.File.Name == recordName }))
	if err != nil {
		panic("acpagent: internal error: a message does not encode: " + err.Error())
	}
	return text
}

func inputOf(blocks []acp.ContentBlock) (in input, err error) {
	var words []string
	for _, b := range blocks {
		switch {
		case b.Text != nil:
			words = in.take(b.Text, words)
		case b.Image != nil:
			data, err := base64.StdEncoding.DecodeString(b.Image.Data)
			if err != nil {
				return in, segno.Errorf(segno.KindInvalid, "read prompt", "", "image: %w", err)
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
			return in, segno.Errorf(segno.KindInvalid, "read prompt", "", "it has content of a kind that was not offered")
		}
	}
	in.Prompt = strings.Join(words, "\n")
	return in, nil
}

func resource(r acp.EmbeddedResourceResource) (agent.Part, error) {
	if t := r.TextResourceContents; t != nil {
		return agent.Part{Text: fmt.Sprintf("<file uri=%q>\n%s\n</file>", t.Uri, t.Text)}, nil
	}
	b := r.BlobResourceContents
	if b == nil {
		return agent.Part{}, segno.Errorf(segno.KindInvalid, "read prompt", "", "a resource is empty")
	}
	data, err := base64.StdEncoding.DecodeString(b.Blob)
	if err != nil {
		return agent.Part{}, segno.NewError(segno.KindInvalid, "read prompt", b.Uri, err)
	}
	kind := "application/octet-stream"
	if b.MimeType != nil {
		kind = *b.MimeType
	}
	return agent.Part{File: &agent.Blob{Type: kind, Name: path.Base(b.Uri), Data: data}}, nil
}
