package web

import (
	"mime"
	"net/http"
	"unicode/utf8"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/history/patch"
	"github.com/dalsegno/segno/workspace"
)

type fileParams struct {
	Checkpoint segno.CommitID `query:"checkpoint" max:"1024" required:"true"`
	Path       string         `query:"path" max:"4096"`
	PathBytes  string         `query:"path_bytes" max:"8192"`
}

func (p *fileParams) resultKey() string {
	if p.Checkpoint == present {
		return ""
	}
	return string(p.Checkpoint) + "-" + shortHash([]byte(segno.DerivedID("file", p.Path, p.PathBytes)))
}

// getFile writes the content of a file. Only images of a few types keep their media type, because
// the user's browser must not run any content.
func (s *Server) getFile(w http.ResponseWriter, r *http.Request, p *fileParams) error {
	ctx := r.Context()
	name, err := pathOf(p.Path, p.PathBytes)
	if err != nil {
		return err
	}
	c, err := s.checkpointWithFiles(ctx, p.Checkpoint)
	if err != nil {
		return err
	}
	e, err := workspace.LookupFile(ctx, s.Store.Objects(), c.Tree(), name)
	if err != nil {
		return err
	}
	release, err := s.acquireHeavy(ctx) // held until the response is written, because the content is in memory
	if err != nil {
		return err
	}
	defer release()
	data, err := s.content(ctx, e)
	if err != nil {
		return err
	}
	media := imageType(data)
	h := w.Header()
	if media == "" {
		media = "application/octet-stream"
		if !patch.IsBinary(data) && utf8.Valid(data) {
			media = "text/plain; charset=utf-8"
		}
		h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": baseName(name)}))
	}
	h.Set("Content-Type", media)
	if isBitmap(media) {
		r.Header.Del("Accept-Encoding") // they are compressed already
	}
	return writeBytes(w, r, http.StatusOK, data)
}
