package web

import (
	"compress/gzip"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/dalsegno/segno"
)

// immutable is implemented by the parameters of a read whose result never changes. The key identifies
// the result. It is "" for parameters whose result may change.
type immutable interface{ resultKey() string }

// isUnchanged answers a request for a result that the client already has. It does not use the store,
// so that such a request costs nothing.
func isUnchanged(w http.ResponseWriter, r *http.Request, params any) bool {
	p, ok := params.(immutable)
	if !ok {
		return false
	}
	key := p.resultKey()
	return key != "" && matchesETag(w, r, key)
}

// matchesETag sets the ETag of a response. If the request names the same ETag, matchesETag answers it
// and returns true.
func matchesETag(w http.ResponseWriter, r *http.Request, key string) bool {
	tag := `W/"` + key + `"` // weak, because a compressed response has the same one
	w.Header().Set("ETag", tag)
	for have := range strings.SplitSeq(r.Header.Get("If-None-Match"), ",") {
		have = strings.TrimSpace(have)
		if have == "*" || strings.TrimPrefix(have, "W/") == tag[len("W/"):] {
			w.WriteHeader(http.StatusNotModified)
			return true
		}
	}
	return false
}

// shortHash returns a hash of data that is long enough for an ETag.
func shortHash(data []byte) string {
	h := segno.HashOf(data)
	return hex.EncodeToString(h[:12])
}

// writeJSON writes a result.
func writeJSON(w http.ResponseWriter, r *http.Request, status int, v any) error {
	data, err := segno.Encode(v)
	if err != nil {
		return segno.NewError(segno.KindInternal, "encode result", "", err)
	}
	w.Header().Set("Content-Type", "application/json")
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		if w.Header().Get("ETag") == "" && matchesETag(w, r, shortHash(data)) {
			return nil
		}
	}
	return writeBytes(w, r, status, data)
}

// minCompressed is the smallest size of a response that is worth compressing: a smaller one fits in
// one packet.
const minCompressed = 1400

// writeBytes writes a whole response, compressed if the client accepts it. The headers must be set.
func writeBytes(w http.ResponseWriter, r *http.Request, status int, data []byte) error {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTimeout)) // a recorder has no deadlines
	h := w.Header()
	h.Add("Vary", "Accept-Encoding")
	if len(data) < minCompressed || !acceptsGzip(r) || h.Get("Content-Encoding") != "" {
		h.Set("Content-Length", strconv.Itoa(len(data)))
		w.WriteHeader(status)
		if r.Method != http.MethodHead {
			_, _ = w.Write(data) // the client is gone
		}
		return nil
	}
	h.Set("Content-Encoding", "gzip")
	w.WriteHeader(status)
	if r.Method == http.MethodHead {
		return nil
	}
	z, err := gzip.NewWriterLevel(w, gzip.BestSpeed)
	if err != nil {
		return segno.NewError(segno.KindInternal, "compress result", "", err)
	}
	_, _ = z.Write(data) // the client is gone
	_ = z.Close()
	return nil
}

// acceptsGzip reports whether a request accepts a response in gzip.
func acceptsGzip(r *http.Request) bool {
	for coding := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		name, q, _ := strings.Cut(coding, ";")
		if strings.TrimSpace(name) == "gzip" {
			q = strings.ReplaceAll(q, " ", "")
			return q != "q=0" && !strings.HasPrefix(q, "q=0.000")
		}
	}
	return false
}
