// Command example runs an order through a graph of five nodes. It can be killed at any moment and run again with
// the same arguments: the nodes that ended do not run twice.
//
//	example STORE THREAD 'two books'                 runs until the node approve asks a question
//	example -answer yes STORE THREAD                 answers the question, perhaps on another day
//	example -crash reserve STORE THREAD 'two books'  kills itself in the node reserve, before its effect
//	example -fork NEW STORE THREAD                   makes the thread NEW, which begins after the second node
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/cloudwego/eino/compose"
	segnoeino "github.com/dalsegno/segno/adapters/eino"
	"github.com/dalsegno/segno/store/sqlite"
)

var (
	crash  = flag.String("crash", "", "the node in which the process kills itself")
	answer = flag.String("answer", "", "the answer to the question of the thread")
	fork   = flag.String("fork", "", "the name of a new thread that begins after the second node")
	repeat = flag.String("repeat", "", "a node that may run again, because its effect did not happen")
)

func main() {
	flag.Parse()
	if err := run(context.Background(), flag.Arg(0), flag.Arg(1), flag.Arg(2)); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, dir, thread, order string) error {
	store, err := sqlite.Open(ctx, filepath.Join(dir, "segno.db"), sqlite.Options{})
	if err != nil {
		return err
	}
	defer store.Close()
	checkpoints := segnoeino.New(store)
	if *fork != "" {
		return forkAfterSecond(ctx, checkpoints, thread)
	}
	graph, err := orders(dir).Compile(ctx, compose.WithCheckPointStore(checkpoints))
	if err != nil {
		return err
	}
	call := segnoeino.Call{Thread: thread, Repeat: func(node string) bool { return node == *repeat }}
	if *answer != "" {
		if call.Resume, err = checkpoints.Answers(ctx, thread, *answer); err != nil {
			return err
		}
	}
	done, err := segnoeino.Invoke(ctx, checkpoints, graph, call, order)
	if info, asks := compose.ExtractInterruptInfo(err); asks {
		fmt.Println("waits:", info.InterruptContexts[0].Info)
		return nil
	}
	if err == nil {
		fmt.Println(done)
	}
	return err
}

// orders returns a graph of five nodes. The effect of a node is a line in the file effects.
func orders(dir string) *compose.Chain[string, string] {
	effect := func(name string) *compose.Lambda {
		return compose.InvokableLambda(func(_ context.Context, order string) (string, error) {
			if *crash == name {
				return "", syscall.Kill(os.Getpid(), syscall.SIGKILL)
			}
			f, err := os.OpenFile(filepath.Join(dir, "effects"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
			if err != nil {
				return "", err
			}
			_, err = fmt.Fprintln(f, name)
			return order + ", " + name, errors.Join(err, f.Close())
		})
	}
	approve := compose.InvokableLambda(func(ctx context.Context, order string) (string, error) {
		if asked, _, kept := compose.GetInterruptState[string](ctx); asked {
			order = kept
		}
		if answered, _, text := compose.GetResumeContext[string](ctx); answered {
			return order + ", approved with " + text, nil
		}
		return "", compose.StatefulInterrupt(ctx, "pay for "+order+"?", order)
	})
	return compose.NewChain[string, string]().
		AppendLambda(effect("check"), compose.WithNodeKey("check")).AppendLambda(effect("reserve"), compose.WithNodeKey("reserve")).
		AppendLambda(approve, compose.WithNodeKey("approve")).
		AppendLambda(effect("pay"), compose.WithNodeKey("pay")).AppendLambda(effect("ship"), compose.WithNodeKey("ship"))
}

func forkAfterSecond(ctx context.Context, checkpoints *segnoeino.Checkpoints, thread string) error {
	for version, err := range checkpoints.History(ctx, thread) {
		if err != nil {
			return err
		}
		if strings.HasSuffix(version.Label, "reserve") {
			return checkpoints.Fork(ctx, version.ID, *fork)
		}
	}
	return fmt.Errorf("the second node of %s has not ended", thread)
}
