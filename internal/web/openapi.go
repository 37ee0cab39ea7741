package web

import (
	_ "embed" // for the document
	"net/http"
)

// openAPI describes the API. A test makes it from the table of routes and compares it.
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
