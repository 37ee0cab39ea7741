// Package chromiumrig runs a real Chromium for tests, without a window. It uses the system's, or
// else Debian's package, unpacked into a cache.
//
// A browser has a separate profile and reaches only addresses of this machine. On Linux it also ends
// when the process that started it ends.
package chromiumrig

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/dalsegno/segno/internal/testing/debian"
)

// Find returns the browser's program. The error is one line.
func Find(ctx context.Context) (debian.Executable, error) {
	// The name in PATH is a script that may add options, so prefer the program that the script runs.
	return debian.Find(ctx, debian.Program{Package: "chromium", Inside: "usr/lib/chromium/chromium",
		Installed: []string{"/usr/lib/chromium/chromium", "/opt/google/chrome/chrome", "chromium", "chromium-browser", "google-chrome"}})
}

// Browser is a running Chromium.
type Browser struct {
	ctx context.Context
}

// Start runs a browser for a test. It ends with the test.
func Start(t testing.TB) *Browser {
	t.Helper()
	program, err := Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	profile, err := os.MkdirTemp("", "chromium-profile-*")
	if err != nil {
		t.Fatal(err)
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(program.File), chromedp.Env(program.Env()...), chromedp.UserDataDir(profile),
		chromedp.NoSandbox, // the sandbox needs rights that a container lacks; the tests load only segno's page
		chromedp.DisableGPU, chromedp.Flag("headless", "new"), chromedp.Flag("disable-dev-shm-usage", true),
		chromedp.Flag("force-color-profile", "srgb"), chromedp.Flag("lang", "en-US"),
		chromedp.Flag("enable-precise-memory-info", true), chromedp.Flag("js-flags", "--expose-gc"),
		// No name resolves, so neither a page nor the browser reaches another machine.
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost"))
	allocator, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, closeBrowser := chromedp.NewContext(allocator)
	if err := chromedp.Run(ctx); err != nil {
		cancel()
		removeProfile(profile)
		t.Fatalf("starting Chromium: %v", err)
	}
	t.Cleanup(func() {
		closeBrowser()
		cancel()
		removeProfile(profile)
	})
	return &Browser{ctx}
}

// removeProfile removes the directory of a browser that has ended. Its helper processes end a moment
// later and may still write there, so removeProfile retries for some time. Remaining files are only
// temporary ones.
func removeProfile(dir string) {
	for end := time.Now().Add(5 * time.Second); os.RemoveAll(dir) != nil && time.Now().Before(end); {
		<-time.After(10 * time.Millisecond)
	}
}

// Tab is one page of a browser. Its context is for chromedp.Run.
type Tab struct {
	context.Context
	messages *messages
}

// NewTab opens an empty page of a size in CSS pixels.
func (b *Browser) NewTab(t testing.TB, width, height int64) *Tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(b.ctx)
	t.Cleanup(cancel)
	tab := &Tab{ctx, &messages{}}
	chromedp.ListenTarget(ctx, func(event any) {
		switch e := event.(type) {
		case *runtime.EventExceptionThrown:
			tab.messages.add("exception: " + describe(e.ExceptionDetails))
		case *log.EventEntryAdded:
			tab.messages.add(fmt.Sprintf("%s: %s %s", e.Entry.Level, e.Entry.Text, e.Entry.URL))
		case *runtime.EventConsoleAPICalled:
			var text strings.Builder
			for _, arg := range e.Args {
				text.Write(arg.Value)
			}
			tab.messages.add(fmt.Sprintf("console.%s: %s", e.Type, text.String()))
		}
	})
	if err := chromedp.Run(ctx, runtime.Enable(), log.Enable(), emulation.SetDeviceMetricsOverride(width, height, 1, false)); err != nil {
		t.Fatalf("opening a tab: %v", err)
	}
	return tab
}

func describe(d *runtime.ExceptionDetails) string {
	if d.Exception != nil && d.Exception.Description != "" {
		return d.Exception.Description
	}
	return d.Text
}

// Messages returns what the page and the browser reported since the tab was opened: exceptions,
// violations of the content security policy, failed requests and lines of the console.
func (t *Tab) Messages() []string { return t.messages.all() }
