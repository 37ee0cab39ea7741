package web_test

import (
	"bufio"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/testing/soak"
	"github.com/dalsegno/segno/timeline"
)

// serveInChild starts a server in another process. kill ends it with SIGKILL.
func (r *moveRig) serveInChild() (kill func()) {
	r.Helper()
	r.stop()
	c := exec.CommandContext(r.Context(), os.Args[0])
	c.Env = append(os.Environ(), childStore+"="+r.dir, childToken+"="+r.token)
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		r.Fatal(err)
	}
	kill = func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	}
	r.Cleanup(kill)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		r.Fatal(err)
	}
	r.address = strings.TrimSpace(line)
	return kill
}

// manyFiles is the number of files that the turn of TestKilledMove writes, so that its undo takes some
// time.
const manyFiles = 200

// files returns the number of files of the last turn that have a content.
func (r *moveRig) files(content string) (n int) {
	for i := range manyFiles {
		data, err := os.ReadFile(filepath.Join(r.project, fmt.Sprintf("many-%d.txt", i)))
		if err == nil && string(data) == content {
			n++
		}
	}
	return n
}

// turnOfMany makes a turn that writes a content into many files.
func (r *moveRig) turnOfMany(n int, content string) {
	r.Helper()
	key := r.begin(n)
	for i := range manyFiles {
		r.write(fmt.Sprintf("many-%d.txt", i), content)
	}
	if _, err := r.timeline.EndTurn(r.Context(), timeline.TurnEnd{Key: key, Agent: "robot", Source: segno.Source{Session: "session", Dir: r.project}}); err != nil {
		r.Fatal(err)
	}
}

// TestKilledMove kills the server at different moments of a move. Afterwards the same request either
// returns the complete move, or the move has not happened at all.
func TestKilledMove(t *testing.T) {
	r := newMoveRig(t)
	r.turnOfMany(4, "before")
	r.turnOfMany(5, "after")
	steps := soak.Count(t, 6, 400)
	made := 0
	for step := range steps {
		kill := r.serveInChild()
		p := r.preview(`"verb":"undo"`)
		sent := make(chan struct{})
		go func() {
			defer close(sent)
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.address+"/moves", strings.NewReader(`{"preview":"`+p.ID+`"}`))
			if err != nil {
				t.Error(err)
				return
			}
			req.Header.Set("Authorization", "Bearer "+r.token)
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("Idempotency-Key", "key")
			if res, err := http.DefaultClient.Do(req); err == nil { // the server may be killed before its answer
				res.Body.Close()
			}
		}()
		select {
		case <-time.After(time.Duration(step) * 60 * time.Millisecond / time.Duration(steps)):
		case <-sent:
		}
		kill()
		<-sent
		r.serve()
		a := r.applyAs("key", p, "")
		switch {
		case a.status == http.StatusOK && r.files("before") == manyFiles:
			made++
			r.undo(a)
		case a.status == http.StatusNotFound && r.files("after") == manyFiles:
		default:
			t.Fatalf("the answer is %s, and %d of %d files are undone", a.raw, r.files("before"), manyFiles)
		}
		if n := r.files("after"); n != manyFiles {
			t.Fatalf("%d of %d files are there", n, manyFiles)
		}
	}
	t.Logf("%d of %d moves were made", made, steps)
}
