package export_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/web/export"
)

// collector answers the first requests with statuses, and keeps the spans of the others.
func collector(t *testing.T, statuses ...int) (address string, spans *[]string) {
	t.Helper()
	spans = new([]string)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s %s: %v", r.Method, r.URL, err)
		}
		if len(statuses) > 0 {
			status := statuses[0]
			statuses = statuses[1:]
			w.Header().Set("Location", "https://example.org/")
			w.WriteHeader(status)
			return
		}
		var traces struct {
			Resources []struct {
				Scopes []struct{ Spans []struct{ Name string } } `json:"scopeSpans"`
			} `json:"resourceSpans"`
		}
		if err := json.Unmarshal(body, &traces); err != nil {
			t.Error(err)
		}
		for _, r := range traces.Resources {
			for _, s := range r.Scopes[0].Spans {
				*spans = append(*spans, s.Name)
			}
		}
		_, _ = io.WriteString(w, `{"partialSuccess":{"rejectedSpans":"2"}}`)
	}))
	t.Cleanup(server.Close)
	return server.URL, spans
}

func TestSendRepeatsWhatABusyCollectorRefused(t *testing.T) {
	address, spans := collector(t, http.StatusServiceUnavailable)
	to, err := export.Endpoint(address)
	must(t, err)
	lines := written(t, "otlp", sample(t).source(export.Selection{}, filter(t)))
	rejected, err := export.Send(t.Context(), to, strings.NewReader(lines))
	if err != nil || rejected != 2 || len(*spans) != 8 {
		t.Errorf("%v: %d rejected, spans %q", err, rejected, *spans)
	}
}

func TestSendFollowsNoRedirect(t *testing.T) {
	for _, status := range []int{http.StatusTemporaryRedirect, http.StatusForbidden} {
		address, spans := collector(t, status)
		to, err := export.Endpoint(address)
		must(t, err)
		lines := written(t, "otlp", sample(t).source(export.Selection{}, filter(t)))
		if _, err := export.Send(t.Context(), to, strings.NewReader(lines)); segno.KindOf(err) != segno.KindIO || len(*spans) > 0 {
			t.Errorf("%d: %v, %q", status, err, *spans)
		}
	}
}

func TestEndpointIsEncryptedOrOnThisMachine(t *testing.T) {
	for address, want := range map[string]string{
		"http://127.0.0.1:4318":         "http://127.0.0.1:4318/v1/traces",
		"http://localhost:4318/":        "http://localhost:4318/v1/traces",
		"http://[::1]:4318":             "http://[::1]:4318/v1/traces",
		"https://otel.example.org/in":   "https://otel.example.org/in/v1/traces",
		"https://example.org/v1/traces": "https://example.org/v1/traces",
		"http://10.0.0.1:4318":          "",
		"http://example.org":            "",
		"http://127.0.0.1.example.org":  "",
		"http://localhost.example.org":  "",
		"https://user:pass@example.org": "",
		"https://example.org/?token=x":  "",
		"ftp://127.0.0.1":               "",
		"127.0.0.1:4318":                "",
		"http://0.0.0.0:4318":           "",
		"http://127.0.0.1@example.org/": "",
		"http://example.org#127.0.0.1":  "",
		"http://[::ffff:10.0.0.1]:4318": "",
		"":                              "",
	} {
		to, err := export.Endpoint(address)
		if want == "" && err == nil || want != "" && (err != nil || to.String() != want) {
			t.Errorf("%q: %v, %v", address, to, err)
		}
	}
}
