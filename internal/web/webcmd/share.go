package webcmd

import (
	"context"
	"io"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/web"
	"github.com/dalsegno/segno/internal/web/export"
)

// shareTurn returns the function with which a server exports one turn. It leaves out each secret that the scan of
// 'segno share --redact' finds.
func (a *app) shareTurn(s *anyStore) (web.Share, error) {
	store, err := a.exportStoreOf(s)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, w io.Writer, thread segno.ThreadID, checkpoint segno.CommitID, format string) error {
		out, err := a.scanExport(ctx, store, export.Selection{Thread: thread, At: checkpoint, Single: true}, exportFlags{format: format, redact: true})
		if err != nil {
			return err
		}
		defer out.Close()
		if _, err := io.Copy(w, out); err != nil {
			return segno.NewError(segno.KindIO, "export", string(checkpoint), err)
		}
		return nil
	}, nil
}
