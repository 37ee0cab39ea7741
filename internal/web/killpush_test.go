package web_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/client"
	"github.com/dalsegno/segno/internal/local"
	"github.com/dalsegno/segno/internal/testing/soak"
	"github.com/dalsegno/segno/internal/vfs"
	"github.com/dalsegno/segno/internal/web"
	"github.com/dalsegno/segno/store/memory"
	"github.com/dalsegno/segno/transfer"
)

// pushServer is a server in another process, which can be killed and started again.
type pushServer struct {
	*testing.T
	dir, tokens, token string
	process            *exec.Cmd
	killed             *sync.Once
}

func (s *pushServer) start() *client.Store {
	s.Helper()
	s.killed = new(sync.Once)
	s.process = exec.CommandContext(s.Context(), os.Args[0])
	s.process.Env = append(os.Environ(), childStore+"="+s.dir, childToken+"="+web.NewToken(), childTokens+"="+s.tokens)
	s.process.Stderr = os.Stderr
	out, err := s.process.StdoutPipe()
	if err == nil {
		err = s.process.Start()
	}
	if err != nil {
		s.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		s.Fatal(err)
	}
	remote, err := client.New(strings.TrimSuffix(strings.TrimSpace(line), "/api/v1"), s.token)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { remote.Close() })
	return remote
}

// kill ends the server. Several goroutines may call it.
func (s *pushServer) kill() {
	s.killed.Do(func() {
		_ = s.process.Process.Kill()
		_ = s.process.Wait()
	})
}

// killing is a store whose server is killed before the n-th commit, or while it makes that commit.
type killing struct {
	*client.Store
	left     int
	isDuring bool
	kill     func()
}

func (s *killing) Commit(ctx context.Context, c segno.Commit) (segno.Head, error) {
	if s.left--; s.left == 0 && s.isDuring {
		defer s.kill() // a killed server of the goroutine below has ended
		go s.kill()
	} else if s.left == 0 {
		s.kill()
	}
	return s.Store.Commit(ctx, c)
}

// TestAPushSurvivesAKilledServer kills a server with SIGKILL at the commits of a push. Another push completes the thread, and
// the store of the server is sound.
func TestAPushSurvivesAKilledServer(t *testing.T) {
	ctx := t.Context()
	laptop := memory.New(nil)
	defer laptop.Close()
	const turns = 6
	head := segno.Head{}
	for n := range turns {
		batch := laptop.Objects().Batch()
		name, err := batch.Put(ctx, []byte(strings.Repeat(fmt.Sprint("state ", n), 1000)))
		if err != nil {
			t.Fatal(err)
		}
		c := segno.Commit{ID: segno.CommitID(fmt.Sprint("commit-", n)), Thread: "t", Parent: head.Head, Expect: head.Head,
			Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointTurn, Turn: n, Time: time.Unix(int64(n), 0), State: &segno.Document{Type: "x", Data: name}}}
		if n == 0 {
			c.Create = &segno.Thread{ID: "t", Created: time.Unix(1, 0)}
		}
		if c.Staged, err = batch.Stage(ctx); err == nil {
			head, err = laptop.Commit(ctx, c)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, seed := range soak.Seeds(t, 2, 2*turns) {
		s := &pushServer{T: t, dir: t.TempDir()}
		s.tokens = filepath.Join(s.dir, "tokens")
		var err error
		if s.token, err = web.AddToken(t.Context(), vfs.OS, s.tokens, "laptop", web.ScopeRead|web.ScopeWrite, time.Now()); err != nil {
			t.Fatal(err)
		}
		broken := &killing{s.start(), 1 + int(seed%turns), seed/turns%2 == 0, s.kill}
		if _, err := transfer.Copy(ctx, laptop, broken, "t", transfer.Options{}); segno.KindOf(err) != segno.KindIO && (err != nil || !broken.isDuring) {
			t.Fatalf("seed %d: %v", seed, err)
		}
		s.kill()
		if res, err := transfer.Copy(ctx, laptop, s.start(), "t", transfer.Options{}); err != nil || res.Head != head.Head {
			t.Fatalf("seed %d: the second push: %+v, %v", seed, res, err)
		}
		s.kill()
		store, err := local.Place{Store: filepath.Join(s.dir, "store"), UserHome: filepath.Join(s.dir, "home"), Now: time.Now}.Open(ctx)
		if err != nil {
			t.Fatal(err)
		}
		checked, err := store.Check(ctx, segno.CheckPolicy{Trace: store.NewTrace()}, func(err error) bool { t.Errorf("seed %d: %v", seed, err); return true })
		if err != nil || checked.Checkpoints != turns || checked.Objects != turns {
			t.Errorf("seed %d: %+v, %v", seed, checked, err)
		}
		if h, err := store.Head(ctx, "t"); err != nil || h.Head != head.Head {
			t.Errorf("seed %d: the head is %+v, %v", seed, h, err)
		}
		store.Close()
	}
}
