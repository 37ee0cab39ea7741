package s3

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// sign adds a signature to a request: AWS Signature Version 4 for S3, with the hash of the body. A server that verifies
// it also verifies the body. All headers that are set so far are signed.
func sign(r *http.Request, body []byte, c Credentials, region string, now time.Time) {
	stamp := now.UTC().Format("20060102T150405Z")
	scope := stamp[:8] + "/" + region + "/s3/aws4_request"
	bodyHash := hexHash(body)
	r.Header.Set("X-Amz-Date", stamp)
	r.Header.Set("X-Amz-Content-Sha256", bodyHash)
	if c.Session != "" {
		r.Header.Set("X-Amz-Security-Token", c.Session)
	}
	headers := map[string]string{"host": r.URL.Host}
	for name := range r.Header {
		headers[strings.ToLower(name)] = strings.Join(strings.Fields(r.Header.Get(name)), " ")
	}
	names := make([]string, 0, len(headers))
	for name := range headers {
		names = append(names, name)
	}
	slices.Sort(names)
	var canonical strings.Builder
	fmt.Fprintf(&canonical, "%s\n%s\n%s\n", r.Method, r.URL.EscapedPath(), r.URL.RawQuery)
	for _, name := range names {
		fmt.Fprintf(&canonical, "%s:%s\n", name, headers[name])
	}
	signed := strings.Join(names, ";")
	fmt.Fprintf(&canonical, "\n%s\n%s", signed, bodyHash)
	text := "AWS4-HMAC-SHA256\n" + stamp + "\n" + scope + "\n" + hexHash([]byte(canonical.String()))
	key := []byte("AWS4" + c.Secret)
	for _, part := range strings.Split(scope, "/") {
		key = mac(key, part)
	}
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential="+c.Key+"/"+scope+", SignedHeaders="+signed+", Signature="+hex.EncodeToString(mac(key, text)))
}

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}

func hexHash(data []byte) string {
	h := sha256.Sum256(data)
	return hex.EncodeToString(h[:])
}

// escape escapes a path, or a value of a query if keep is "", as a signature requires: everything except letters, digits
// and "-._~".
func escape(text, keep string) string {
	var b strings.Builder
	for _, c := range []byte(text) {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-._~"+keep, c) >= 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// encodeQuery encodes parameters sorted by name, as a signature requires.
func encodeQuery(q url.Values) string {
	var parts []string
	for name, values := range q {
		for _, value := range values {
			parts = append(parts, escape(name, "")+"="+escape(value, ""))
		}
	}
	slices.Sort(parts)
	return strings.Join(parts, "&")
}
