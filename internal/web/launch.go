package web

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/dalsegno/segno"
)

// launchPath is the path at which a browser that segno starts gets the token. The arguments of a
// process are visible to other users, so they must not contain the token.
const launchPath = "/launch/"

// launchTime is how long a browser may take to start.
const launchTime = time.Minute

// launch is a code that a browser can exchange for the token once.
type launch struct {
	mu      sync.Mutex
	code    [sha256.Size]byte
	expires time.Time // zero without a code
}

// LaunchURL returns an address that opens the page with the token. It works once, within a
// minute.
func (s *Server) LaunchURL() string {
	code := NewToken()
	s.launch.mu.Lock()
	defer s.launch.mu.Unlock()
	s.launch.code, s.launch.expires = sha256.Sum256([]byte(code)), s.Now().Add(launchTime)
	return s.URL() + launchPath + code
}

// URL returns the address of the page without the token.
func (s *Server) URL() string { return "http://" + s.listener.Addr().String() }

// serveLaunch exchanges the code for a redirect to the page with the token.
func (s *Server) serveLaunch(w http.ResponseWriter, r *http.Request) error {
	code := sha256.Sum256([]byte(strings.TrimPrefix(r.URL.Path, launchPath)))
	s.launch.mu.Lock()
	isValid := s.Now().Before(s.launch.expires) && subtle.ConstantTimeCompare(code[:], s.launch.code[:]) == 1
	if isValid {
		s.launch.expires = time.Time{}
	}
	s.launch.mu.Unlock()
	if !isValid {
		return segno.Errorf(segno.KindNotFound, "open page", "", "the address was used already or has expired").
			WithHint("open the address that segno printed")
	}
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Location", "/#"+s.Token)
	w.WriteHeader(http.StatusSeeOther)
	return nil
}
