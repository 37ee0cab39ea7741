package web

import (
	_ "embed" // for the document
	"net/http"
)

// openAPI is the OpenAPI document. A test generates it from the table of routes and compares.
//
//go:embed openapi.json
var openAPI []byte

func (s *Server) getOpenAPI(w http.ResponseWriter, r *http.Request, _ *struct{}) error {
	w.Header().Set("Content-Type", "application/json")
	if matchesETag(w, r, shortHash(openAPI)) {
		return nil
	}
	return writeBytes(w, r, http.StatusOK, openAPI)
}
