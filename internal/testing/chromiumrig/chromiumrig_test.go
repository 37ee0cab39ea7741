package chromiumrig

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

func TestBrowserRunsAndReportsErrors(t *testing.T) {
	if testing.Short() {
		return // the browser comes from the network
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.Write([]byte(`<!doctype html><title>x</title><p id=a>seen</p><script>setTimeout(() => { throw new Error("thrown") })</script>`))
	}))
	defer server.Close()
	tab := Start(t).NewTab(t, 800, 600)
	var text string
	if err := chromedp.Run(tab, chromedp.Navigate(server.URL), chromedp.Text("#a", &text), chromedp.WaitReady("body")); err != nil {
		t.Fatal(err)
	}
	if text != "seen" {
		t.Errorf("the page shows %q", text)
	}
	if err := chromedp.Run(tab, chromedp.Evaluate(`new Promise((done) => setTimeout(done, 50))`, nil)); err != nil {
		t.Fatal(err)
	}
	if all := strings.Join(tab.Messages(), "\n"); !strings.Contains(all, "thrown") {
		t.Errorf("an exception is not among the messages: %q", all)
	}
}
