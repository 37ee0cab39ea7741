package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/dalsegno/segno"
)

const (
	webThreads = 1000
	webTurns   = 5 // of each thread
)

// webs measures segno web on a store with many threads: from its start until a client has the first list, the next list, and
// the memory of the process.
func webs(ctx context.Context, b *bench) error {
	dir, err := b.scratch("web")
	if err != nil {
		return err
	}
	tree := filepath.Join(dir, "tree")
	if err := os.Mkdir(tree, 0o700); err != nil {
		return err
	}
	o, err := openOurs(ctx, dir, tree)
	if err != nil {
		return err
	}
	if err := errors.Join(fillThreads(ctx, o.store), o.close()); err != nil {
		return err
	}
	bin, err := b.build(ctx, true)
	if err != nil {
		return err
	}
	var w *webServer
	var next sample
	var peaks []float64
	times, err := contest{rounds: b.rounds, warm: true, entrants: []entrant{{name: "first", run: func(ctx context.Context) (err error) {
		if w, err = startWeb(ctx, bin, dir, tree); err == nil {
			err = w.list(ctx)
		}
		return err
	}, check: func(ctx context.Context) error {
		began := time.Now()
		err := w.list(ctx)
		next = append(next, time.Since(began))
		return errors.Join(err, memoryOf(w.cmd, "VmHWM", &peaks), w.cmd.Process.Signal(os.Interrupt), w.cmd.Wait())
	}}}}.hold(ctx)
	if err != nil {
		return err
	}
	b.addProcess("", fmt.Sprintf("web: %d threads, from the start until a client has the first list", webThreads), times["first"], middle(peaks))
	b.add("", "web: the list again", next)
	return nil
}

// fillThreads adds threads whose turns have a message of 2 KB each.
func fillThreads(ctx context.Context, store segno.Store) error {
	r := rand.New(rand.NewPCG(3, 1))
	for i := range webThreads {
		id := segno.ThreadID(fmt.Sprintf("thread-%04d", i))
		var head segno.CommitID
		for turn := range webTurns + 1 {
			body, err := message(r)
			if err != nil {
				return err
			}
			c := segno.Commit{ID: segno.CommitID(segno.NewID()), Thread: id, Parent: head, Expect: head, Durability: segno.Batched,
				Entries:    []segno.Entry{{Kind: segno.EntryMessage, Turn: turn, Time: time.Now(), Name: "assistant", Body: body}},
				Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointTurn, Turn: turn, Time: time.Now(), Agent: "claude", Prompt: "change one file"}}
			if turn == 0 {
				c.Create = &segno.Thread{ID: id, Created: time.Now(), Title: fmt.Sprint("thread ", i), Agent: "claude"}
				c.Entries, c.Checkpoint.Kind = nil, segno.CheckpointBase
			}
			if _, err := store.Commit(ctx, c); err != nil {
				return err
			}
			head = c.ID
		}
	}
	return nil
}

// webServer is a running segno web.
type webServer struct {
	cmd   *exec.Cmd
	URL   string `json:"url"`
	Token string `json:"token"`
}

func startWeb(ctx context.Context, bin, dir, tree string) (*webServer, error) {
	w := &webServer{cmd: exec.CommandContext(ctx, bin, "--store", filepath.Join(dir, "store"), "--json", "web", "--no-open")}
	w.cmd.Dir, w.cmd.Env = tree, []string{"HOME=" + filepath.Join(dir, "home"), "PATH=" + os.Getenv("PATH")}
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := w.cmd.Start(); err != nil {
		return nil, err
	}
	if err := json.NewDecoder(out).Decode(w); err != nil {
		return nil, errors.Join(fmt.Errorf("segno web printed no address: %w", err), w.cmd.Process.Kill(), w.cmd.Wait())
	}
	return w, nil
}

// list gets the threads as the page does: the newest 50.
func (w *webServer) list(ctx context.Context) error {
	at, _, _ := strings.Cut(w.URL, "#")
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at+"api/v1/threads", nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+w.Token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var got struct{ Threads []json.RawMessage }
	if err := json.NewDecoder(resp.Body).Decode(&got); err != nil || len(got.Threads) != 50 {
		return fmt.Errorf("%s: %d threads: %w", resp.Status, len(got.Threads), err)
	}
	return nil
}
