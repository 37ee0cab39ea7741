// Command example runs an order through a durable flow of five steps. It can be killed at any moment and run again with
// the same arguments: the steps that ended do not run twice.
//
//	example STORE ID                  runs until the flow asks a question
//	example -answer yes STORE ID      answers the question, perhaps on another day
//	example -crash reserve STORE ID   kills itself in the step reserve, before its effect
//	example -fork NEW STORE ID        makes a run with the id NEW, which continues after the second step
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"syscall"

	"github.com/dalsegno/segno"
	segnogenkit "github.com/dalsegno/segno/adapters/genkit"
	"github.com/dalsegno/segno/saver"
	"github.com/dalsegno/segno/store/sqlite"
	"github.com/firebase/genkit/go/core"
	"github.com/firebase/genkit/go/genkit"
)

var (
	crash  = flag.String("crash", "", "the step in which the process kills itself")
	answer = flag.String("answer", "", "the answer to the question of the flow")
	fork   = flag.String("fork", "", "the id of a new run that continues after the second step")
	repeat = flag.String("repeat", "", "a step that may run again, because its effect did not happen")
)

func main() {
	flag.Parse()
	if err := run(context.Background(), flag.Arg(0), flag.Arg(1)); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, dir, id string) error {
	store, err := sqlite.Open(ctx, filepath.Join(dir, "segno.db"), sqlite.Options{})
	if err != nil {
		return err
	}
	defer store.Close()
	if *fork != "" {
		return forkAfterSecond(ctx, store, id)
	}
	if *answer != "" {
		if err := segnogenkit.Answer(ctx, store, id, "approve", *answer); err != nil {
			return err
		}
	}
	options := segnogenkit.Options[string]{Store: store, Thread: func(id string) string { return id },
		Repeat: func(step string) bool { return step == *repeat }}
	done, err := genkit.DefineFlow(genkit.Init(ctx), "order", segnogenkit.Durable(options, order(dir))).Run(ctx, id)
	var waits *segnogenkit.WaitingError
	if errors.As(err, &waits) {
		fmt.Println("waits:", waits.Text)
		return nil
	}
	if err == nil {
		fmt.Println(done)
	}
	return err
}

// order returns a flow of five steps. The effect of a step is a line in the file effects.
func order(dir string) core.Func[string, string] {
	return func(ctx context.Context, id string) (text string, err error) {
		for _, name := range []string{"check", "reserve", "approve", "pay", "ship"} {
			done := ""
			if name == "approve" {
				done, err = segnogenkit.Ask[string](ctx, name, "pay?")
			} else {
				done, err = segnogenkit.Run(ctx, name, func() (string, error) { return name, effect(dir, name) })
			}
			if err != nil {
				return "", err
			}
			text += done + " "
		}
		return text, nil
	}
}

func effect(dir, name string) error {
	if *crash == name {
		return syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	f, err := os.OpenFile(filepath.Join(dir, "effects"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, name)
	return errors.Join(err, f.Close())
}

func forkAfterSecond(ctx context.Context, store segno.Store, id string) error {
	s := saver.New(store)
	for version, err := range s.History(ctx, saver.ThreadKey{Thread: id}, segno.CheckpointQuery{Meta: map[string]string{"genkit": "step ends", "step": "reserve"}}) {
		if err == nil {
			_, err = s.Fork(ctx, version.ID, saver.ThreadKey{Thread: *fork})
		}
		return err
	}
	return fmt.Errorf("the second step of %s has not ended", id)
}
