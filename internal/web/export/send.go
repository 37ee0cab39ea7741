package export

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/dalsegno/segno"
)

const (
	opSend       = "send spans"
	maxRequest   = 4 << 20 // bytes of lines in a request; a longer line is sent in a separate request
	maxAttempts  = 4
	firstBackoff = 250 * time.Millisecond
)

// Endpoint parses the address of OTLP over HTTP that a user named. It accepts the scheme http only for this machine,
// because other machines on the way could read prompts and results.
func Endpoint(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, segno.Errorf(segno.KindInvalid, opSend, text, "it is not an address of a collector").WithHint("use an address as http://127.0.0.1:4318")
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, segno.Errorf(segno.KindInvalid, opSend, u.Redacted(), "the address has more than a host and a path")
	}
	host := u.Hostname()
	if ip := net.ParseIP(host); u.Scheme == "http" && host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil, segno.Errorf(segno.KindRefused, opSend, text, "the spans contain prompts and results, and http is not encrypted").
			WithHint("use https, or a collector on this machine")
	}
	if !strings.HasSuffix(u.Path, "/v1/traces") {
		u = u.JoinPath("v1/traces")
	}
	return u, nil
}

// Send sends lines that the format otlp wrote to a collector, in order, and returns the number of spans that it
// rejected. It repeats a request that a busy collector refused. After an error, the collector may already have some of
// the lines.
func Send(ctx context.Context, to *url.URL, lines io.Reader) (rejected int64, err error) {
	// The transport has no proxy: the default transport would take the address of one from the
	// environment.
	client := &http.Client{Transport: &http.Transport{}, Timeout: time.Minute, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	defer client.CloseIdleConnections()
	r := bufio.NewReader(lines)
	var batch []json.RawMessage
	size := 0
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		body, err := json.Marshal(map[string]any{"resourceSpans": batch})
		if err != nil {
			return err
		}
		n, err := post(ctx, client, to.String(), body)
		rejected += n
		batch, size = nil, 0
		return err
	}
	for {
		line, readErr := r.ReadBytes('\n')
		if readErr != nil && readErr != io.EOF {
			return rejected, readErr
		}
		if len(bytes.TrimSpace(line)) > 0 {
			if size+len(line) > maxRequest {
				if err := flush(); err != nil {
					return rejected, err
				}
			}
			var traces struct {
				Resources []json.RawMessage `json:"resourceSpans"`
			}
			if err := json.Unmarshal(line, &traces); err != nil {
				return rejected, err
			}
			batch, size = append(batch, traces.Resources...), size+len(line)
		}
		if readErr == io.EOF {
			return rejected, flush()
		}
	}
}

// post repeats one request until the collector accepts it, and returns the number of spans that the collector rejected.
func post(ctx context.Context, client *http.Client, to string, body []byte) (int64, error) {
	for attempt, wait := 1, firstBackoff; ; attempt, wait = attempt+1, wait*4 {
		rejected, retry, err := postOnce(ctx, client, to, body)
		if err == nil || !retry || attempt == maxAttempts {
			return rejected, err
		}
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(wait):
		}
	}
}

func postOnce(ctx context.Context, client *http.Client, to string, body []byte) (rejected int64, retry bool, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return 0, false, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return 0, false, segno.NewError(segno.KindIO, opSend, to, err).WithHint("start a collector that takes OTLP over HTTP there")
	}
	defer resp.Body.Close()
	const most = 64 << 10
	answer, err := io.ReadAll(io.LimitReader(resp.Body, most))
	if err != nil {
		return 0, false, segno.NewError(segno.KindIO, opSend, to, err)
	}
	if resp.StatusCode/100 != 2 {
		retry := resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode >= http.StatusBadGateway && resp.StatusCode <= http.StatusGatewayTimeout
		return 0, retry, segno.Errorf(segno.KindIO, opSend, to, "the collector answered %s", resp.Status)
	}
	var result struct {
		Partial struct {
			Rejected json.Number `json:"rejectedSpans"`
		} `json:"partialSuccess"`
	}
	if json.Unmarshal(answer, &result) == nil {
		rejected, _ = result.Partial.Rejected.Int64() // if the number is empty, it is 0
	}
	return rejected, false, nil
}
