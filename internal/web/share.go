package web

import (
	"bytes"
	"context"
	"io"
	"net/http"

	"github.com/dalsegno/segno"
)

// Share writes one turn of a thread for others: as a page ("html") or as Markdown ("markdown"). It leaves out secrets.
type Share func(ctx context.Context, w io.Writer, thread segno.ThreadID, checkpoint segno.CommitID, format string) error

type shareParams struct {
	ID     segno.CommitID `path:"id" max:"1024"`
	Format string         `query:"format" max:"20" required:"true"` // "html" or "markdown"
}

// shareType returns the media type of a format in which a turn is shared, or "".
func shareType(format string) string {
	switch format {
	case "html":
		return "text/html; charset=utf-8"
	case "markdown":
		return "text/markdown; charset=utf-8"
	}
	return ""
}

// getShare writes a turn for others, as a download.
func (s *Server) getShare(w http.ResponseWriter, r *http.Request, p *shareParams) error {
	media := shareType(p.Format)
	if media == "" {
		return invalidParameter("format", "use html or markdown")
	}
	if s.Share == nil {
		return segno.Errorf(segno.KindRefused, "export", string(p.ID), "this server exports nothing")
	}
	c, err := s.loadCheckpoint(r.Context(), p.ID)
	if err != nil {
		return err
	}
	release, err := s.acquireHeavy(r.Context()) // held until the response is written, because the export is in memory
	if err != nil {
		return err
	}
	defer release()
	var out bytes.Buffer
	if err := s.Share(r.Context(), &out, c.Thread, c.ID, p.Format); err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", media)
	h.Set("Content-Disposition", "attachment") // a browser must not run it at the address of the server
	return writeBytes(w, r, http.StatusOK, out.Bytes())
}
