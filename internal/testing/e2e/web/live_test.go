package web_test

import (
	"fmt"
	"net"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/dalsegno/segno/internal/testing/chromiumrig"
	"github.com/dalsegno/segno/internal/testing/e2erig"
	"github.com/dalsegno/segno/internal/testing/soak"
)

// A real agent works while the page is open; the user undoes from the page, forks, and continues the fork
// with the agent. A second tab follows.
func TestLiveTurnTwoTabsAndFork(t *testing.T) {
	if !soak.IsWhole() {
		return
	}
	e2erig.ScenarioOnNewest(t, map[string]string{"a.txt": "0\n"}, func(s *e2erig.Stage) {
		s.Say(e2erig.Prompt("alpha", e2erig.Bash("echo 1 > a.txt"), "done with **alpha**"))
		web := serve(s.T, s.Command(s.Ctx, "web", "--no-open"))
		browser := chromiumrig.Start(s.T)
		one, two := openPage(s.T, browser, web.URL, 1440, 900), openPage(s.T, browser, web.URL, 1440, 900)
		one.expected = []string{"403"} // the refused undo
		one.waitText("#turn h2", "t1 alpha")
		two.waitText("#turn h2", "t1 alpha")

		turn := make(chan struct{})
		go func() {
			defer close(turn)
			s.Say(e2erig.Prompt("beta", e2erig.Bash("printf 2 > a.txt; while [ ! -e go ]; do sleep 0.05; done; rm go"), "done"), "--continue")
		}()
		one.waitText(".open-row", "beta")
		one.waitText(".thread .state", "running")
		one.shoot("running")
		one.keys("u")
		one.waitText("dialog .notice", "turn") // moves are refused while a turn is open
		one.keys("Escape")
		s.Write("go", "")
		<-turn
		one.waitText("#turn h2", "t2 beta")
		two.waitText("#turn h2", "t2 beta")
		one.waitNo(".open-row", "beta")

		one.keys("u")
		one.waitText("dialog h2", "Undo the last turn")
		one.waitText("dialog .plan", "a.txt")
		one.click("dialog footer button", "Undo")
		one.waitText("#turn h2", "t1 alpha")
		two.waitText("#turn h2", "t1 alpha")
		if got := s.Read("a.txt"); got != "1\n" {
			s.Errorf("undo left %q", got)
		}

		two.click("#turn .actions button", "Fork")
		two.waitText("dialog .plan", "fork t1")
		two.click("dialog footer button", "Fork")
		two.waitText("#toasts .command", "--resume")
		var command string
		two.eval("document.querySelector('#toasts .command code').title", &command)
		cmd := exec.CommandContext(s.Ctx, "sh", "-c", strings.Replace(command, "claude", s.Rig.Bin, 1)+" -p '"+e2erig.Prompt("gamma", "continued")+"'")
		cmd.Env = s.Rig.Env()
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "continued") {
			s.Fatalf("%s: %v\n%s", command, err, out)
		}
		two.waitText("#turn h2", "t2 gamma")
		two.shoot("continued")
	})
}

// A server ends and starts again on the same port. With the same token the page continues; with another
// token it explains to the user what to do.
func TestServerRestartAndExpiredToken(t *testing.T) {
	if !soak.IsWhole() {
		return
	}
	d := newDemo(t)
	port := freePort(t)
	s := serve(t, d.command("web", "--no-open", "--port", port))
	p := openPage(t, chromiumrig.Start(t), s.URL, 1440, 900)
	p.expected = []string{"ERR_CONNECTION_REFUSED", "ERR_INCOMPLETE_CHUNKED_ENCODING", "ERR_EMPTY_RESPONSE", "401", "ERR_CONNECTION_RESET"}
	p.waitText("#connection", "live")
	s.end(syscall.SIGKILL)
	p.waitText("#banner", "does not answer")
	p.waitText("#connection", "offline")
	s = serve(t, d.command("web", "--no-open", "--port", port))
	p.waitText("#banner", "no longer valid")
	p.click("#banner input", "")
	p.typing(s.URL)
	p.keys("Enter")
	p.waitText("#connection", "live")
	p.waitText("#turn h2", "t2")

	p.run(chromedp.Navigate(strings.SplitN(s.URL, "#", 2)[0] + "#wrong"))
	p.run(chromedp.Reload())
	p.waitText("#banner", "no longer valid")
	p.eval("sessionStorage.clear(); history.replaceState(null, '', '/')", nil)
	p.run(chromedp.Reload())
	p.waitText("#timeline", "segno web")
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return fmt.Sprint(l.Addr().(*net.TCPAddr).Port)
}
