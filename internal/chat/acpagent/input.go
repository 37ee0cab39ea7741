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
	"github.com/dalsegno/segno/internal/proxy/preamble"
)

// input is a prompt, with notes that segno acp adds to it.
type input struct {
	agent.Input
	notes       []string
	isRepeat    bool // the prompt may have been sent before
	wasAnswered bool // an earlier attempt was answered, at least in part
}

// addText adds a text block. segno acp marks its notes in the block's metadata.
func (in *input) addText(text *acp.ContentBlockText, words []string) []string {
	meta, _ := text.Meta["segno"].(map[string]any)
	if isNote, _ := meta["note"].(bool); !isNote {
		return append(words, text.Text)
	}
	in.isRepeat, _ = meta["repeated"].(bool)
	if in.wasAnswered, _ = meta["answered"].(bool); text.Text != "" {
		in.notes = append(in.notes, text.Text)
	}
	return words
}

// withNotes returns the prompt with the notes as a file. If the notes were text of the message, a
// model could take them for commands and execute them.
func (in input) withNotes() agent.Input {
	all := in.Input
	if len(in.notes) > 0 {
		record := []byte(preamble.AsAttachment(strings.Join(in.notes, "\n\n")))
		all.Parts = append(slices.Clip(all.Parts), agent.Part{File: &agent.Blob{Type: "text/plain", Name: recordName, Data: record}})
	}
	return all
}

const recordName = "record.txt"

func (in input) isEmpty() bool { return len(in.Parts) == 0 && strings.TrimSpace(in.Prompt) == "" }

// isIn reports whether the prompt is the newest prompt of a conversation. It compares the encoded
// parts, because the log has them encoded. It ignores the record that withNotes adds.
func (in input) isIn(messages []agent.Message) bool {
	for _, m := range slices.Backward(messages) {
		if m.Role == agent.User {
			asked := in.Parts
			if in.Prompt != "" {
				asked = append([]agent.Part{{Text: in.Prompt}}, asked...)
			}
			return bytes.Equal(encodeParts(asked), encodeParts(m.Parts))
		}
	}
	return false
}

// encodeParts encodes the user's parts of a message as the log does.
func encodeParts(parts []agent.Part) []byte {
	isRecord := func(p agent.Part) bool { return p.File != nil && p.File.Name == recordName }
	text, err := json.Marshal(slices.DeleteFunc(slices.Clone(parts), isRecord))
	if err != nil {
		panic("acpagent: internal error: a message does not encode: " + err.Error())
	}
	return text
}

// inputOf converts the blocks of a prompt. The texts become one text; the other blocks become
// parts in their order. A kind of block that initialize did not offer is an error.
func inputOf(blocks []acp.ContentBlock) (in input, err error) {
	var words []string
	for _, b := range blocks {
		switch {
		case b.Text != nil:
			words = in.addText(b.Text, words)
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
			return in, segno.Errorf(segno.KindInvalid, "read prompt", "", "unsupported kind of content")
		}
	}
	in.Prompt = strings.Join(words, "\n")
	return in, nil
}

// resource converts an embedded file. A text becomes a part that names the file; other content
// becomes a file part.
func resource(r acp.EmbeddedResourceResource) (agent.Part, error) {
	if t := r.TextResourceContents; t != nil {
		return agent.Part{Text: fmt.Sprintf("<file uri=%q>\n%s\n</file>", t.Uri, t.Text)}, nil
	}
	b := r.BlobResourceContents
	if b == nil {
		return agent.Part{}, segno.Errorf(segno.KindInvalid, "read prompt", "", "empty resource")
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
