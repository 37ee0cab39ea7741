package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/dbos-inc/dbos-transact-golang/dbos"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/store/postgres"
)

// puts measures what makes one step durable: segno's commit, a step of a workflow of DBOS, and the insert of a job of
// River, each with the same message of 2 KB. Each step of DBOS runs in one workflow.
func (t *fleetTest) puts(ctx context.Context) error {
	store, err := postgres.OpenPool(ctx, t.pool, postgres.Options{Schema: "puts"})
	if err != nil {
		return err
	}
	defer store.Close()
	head, err := store.Commit(ctx, segno.Commit{ID: segno.CommitID(segno.NewID()), Thread: "steps", Create: &segno.Thread{ID: "steps"},
		Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointBase, Time: time.Now()}})
	if err != nil {
		return err
	}
	client, err := riverClient(t.pool, 0, riverWork{})
	if err != nil {
		return err
	}
	own, err := pgxpool.New(ctx, t.url) // which DBOS closes
	if err != nil {
		return err
	}
	d, err := dbos.NewContext(ctx, dbos.Config{AppName: "segno-bench", SystemDBPool: own, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return fmt.Errorf("open DBOS: %w", err)
	}
	r := rand.New(rand.NewPCG(4, 1))
	var body json.RawMessage
	var times map[string]sample
	workflow := func(flow dbos.Context, _ string) (string, error) {
		var err error
		times, err = contest{rounds: stepCount, warm: true,
			round: func(context.Context, int) (err error) {
				body, err = message(r)
				return err
			},
			entrants: []entrant{
				{name: "segno", run: func(ctx context.Context) (err error) {
					head, err = store.Commit(ctx, segno.Commit{ID: segno.CommitID(segno.NewID()), Thread: "steps", Parent: head.Head, Expect: head.Head,
						Entries:    []segno.Entry{{Kind: segno.EntryMessage, Turn: 1, Time: time.Now(), Name: "agent", Body: body}},
						Checkpoint: &segno.Checkpoint{Kind: segno.CheckpointStep, Turn: 1, Time: time.Now(), Agent: "bench"}})
					return err
				}},
				{name: "dbos", run: func(context.Context) error {
					_, err := dbos.RunAsStep(flow, func(context.Context) (string, error) { return string(body), nil })
					return err
				}},
				{name: "river", run: func(ctx context.Context) error {
					_, err := client.Insert(ctx, riverJob{Thread: "steps", Head: string(body)}, nil)
					return err
				}},
			}}.hold(ctx)
		return "", err
	}
	dbos.RegisterWorkflow(d, workflow, dbos.WithWorkflowName("steps"))
	if err := dbos.Launch(d); err != nil {
		return fmt.Errorf("launch DBOS: %w", err)
	}
	defer dbos.Shutdown(d, time.Second)
	handle, err := dbos.RunWorkflow(d, workflow, "")
	if err != nil {
		return err
	}
	if _, err := handle.GetResult(); err != nil {
		return err
	}
	steps, err := dbos.GetWorkflowSteps(d, handle.GetWorkflowID())
	if err != nil || len(steps) != stepCount+1 {
		return fmt.Errorf("DBOS recorded %d steps: %w", len(steps), err)
	}
	t.add("", "fleet: put per step of 2 KB: DBOS Go 1.8.0, RunAsStep", times["dbos"])
	t.add("", "fleet: put per step of 2 KB: River 0.51.2, insert of a job", times["river"])
	t.add("", "fleet: put per step of 2 KB: segno, commit", times["segno"], is(times["segno"].over(times["dbos"]), "× DBOS"), is(times["segno"].over(times["river"]), "× River"))
	return nil
}
