package web

import (
	"context"
	"unicode/utf8"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history"
)

// textWindow is a part of a long text.
type textWindow struct {
	Text   string `json:"text"`
	Offset int    `json:"offset"` // in bytes
	Next   int    `json:"next"`   // the offset of the next window, 0 at the end
	Bytes  int    `json:"bytes"`  // of the whole text
}

type textParams struct {
	ID     segno.CommitID `path:"id" max:"1024"`
	Part   string         `query:"part" required:"true"`
	Call   string         `query:"call" max:"1024"`
	Offset int            `query:"offset"`
	N      int            `query:"n" default:"262144" min:"16" max:"262144"`
}

func (s *Server) getText(ctx context.Context, p *textParams) (textWindow, error) {
	whole, err := s.textOf(ctx, p)
	if err != nil {
		return textWindow{}, err
	}
	if p.Offset > len(whole) {
		return textWindow{}, invalidParameter("offset", "the text has "+itoa(len(whole))+" bytes")
	}
	start := p.Offset
	for start > 0 && start < len(whole) && !utf8.RuneStart(whole[start]) {
		start--
	}
	w := textWindow{Text: history.Cut(whole[start:], p.N), Offset: start, Bytes: len(whole)}
	if next := start + len(w.Text); next < len(whole) && w.Text != "" {
		w.Next = next
	}
	return w, nil
}

// textOf returns the whole text that the parameters name.
func (s *Server) textOf(ctx context.Context, p *textParams) (string, error) {
	c, err := s.loadCheckpoint(ctx, p.ID)
	if err != nil || p.Part == "prompt" {
		if err != nil {
			return "", err
		}
		return c.Prompt, nil
	}
	if p.Part != "answer" && p.Part != "input" && p.Part != "result" {
		return "", invalidParameter("part", "use prompt, answer, input or result")
	}
	d, err := new(history.History).ReadDetails(ctx, s.source(), c)
	if err != nil || p.Part == "answer" {
		return d.Message, err
	}
	for _, k := range d.Calls {
		switch {
		case k.ID != p.Call:
		case p.Part == "input":
			return k.InputText(), nil
		default:
			return k.Result, nil
		}
	}
	return "", segno.NewError(segno.KindNotFound, "find call", p.Call, nil)
}
