package web

import (
	"embed"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"

	"github.com/dalsegno/segno"
)

//go:embed page
var pageFiles embed.FS

// servePage serves the files of the page, which contain no data of the store.
func (s *Server) servePage(w http.ResponseWriter, r *http.Request) error {
	name := strings.TrimPrefix(r.URL.Path, "/")
	if name == "" {
		name = "index.html"
	}
	data, err := fs.ReadFile(pageFiles, path.Join("page", name))
	if err != nil || !fs.ValidPath(name) || strings.HasPrefix(path.Base(name), ".") {
		return segno.NewError(segno.KindNotFound, "read page", r.URL.Path, nil)
	}
	h := w.Header()
	setPolicy(h, pagePolicy)
	h.Set("Content-Type", contentType(name))
	h.Set("Cache-Control", "no-cache")
	if matchesETag(w, r, shortHash(data)) {
		return nil
	}
	return writeBytes(w, r, http.StatusOK, data)
}

// contentType returns the media type of a file of the page. If the type decides whether a
// browser runs a file, it does not depend on the tables of the operating system.
func contentType(name string) string {
	switch path.Ext(name) {
	case ".html":
		return "text/html; charset=utf-8"
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	}
	if t := mime.TypeByExtension(path.Ext(name)); t != "" {
		return t
	}
	return "application/octet-stream"
}
