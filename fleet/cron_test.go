package fleet

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/dalsegno/segno"
)

// TestAPromptIsSentPeriodically schedules a prompt whose times have passed ten times: it is sent once, and then at the next time.
func TestAPromptIsSentPeriodically(t *testing.T) {
	r := newRig(t)
	first := time.Now().Add(-10*time.Hour - 30*time.Minute).Truncate(time.Second)
	c := Cron{Name: "report", Every: time.Hour, First: first, Prompt: Prompt{Agent: "support", Text: "write the report"}}
	for range 2 { // the second call replaces the first
		if err := r.Cron(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Cron(t.Context(), Cron{Name: "removed", Every: time.Hour, First: first, Prompt: c.Prompt}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := r.RemoveCron(t.Context(), "removed"); err != nil {
			t.Fatal(err)
		}
	}
	r.start(r.runner(func(context.Context, Work) (Result, error) { return done("done") }))
	key := "report " + first.UTC().Format(time.RFC3339Nano)
	r.awaitCount(`SELECT count(*) FROM {}fleet_prompts WHERE state = 'done'`, 1)
	if p := r.prompt(key, key); p.State != StateDone || p.Text != "write the report" {
		t.Errorf("the prompt is %+v", p)
	}
	// The jobs of the removed schedule, and of the replaced one, have done nothing.
	r.awaitCount(`SELECT count(*) FROM {}river_job WHERE kind = 'segno_cron' AND state = 'completed'`, 3)
	r.awaitCount(`SELECT count(*) FROM {}river_job WHERE kind = 'segno_cron' AND state = 'scheduled' AND scheduled_at > now()`, 1)
	r.awaitCount(`SELECT count(*) FROM {}fleet_prompts`, 1)
	for _, bad := range []Cron{{Every: time.Hour, Prompt: c.Prompt}, {Name: "x", Prompt: c.Prompt}, {Name: "x", Every: time.Hour},
		{Name: "x", Every: time.Hour, Prompt: Prompt{Agent: "support", Text: "x", Key: "k"}},
		{Name: strings.Repeat("x", segno.MaxID), Every: time.Hour, Prompt: c.Prompt}} {
		if err := r.Cron(t.Context(), bad); segno.KindOf(err) != segno.KindInvalid {
			t.Errorf("%+v was scheduled: %v", bad, err)
		}
	}
}

// TestSchedulesOfOneThread lets two schedules send different prompts to a thread at the same time. One of them is then replaced by one with
// another prompt and the same first time, as a new version of a program does at its start: it continues with its next time.
func TestSchedulesOfOneThread(t *testing.T) {
	r := newRig(t)
	first := time.Now().Add(-30 * time.Minute).Truncate(time.Second)
	schedule := func(name, text string) {
		t.Helper()
		c := Cron{Name: name, Every: time.Hour, First: first, Prompt: Prompt{Thread: "t", Agent: "support", Text: text}}
		if err := r.Cron(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	schedule("news", "read the news")
	schedule("mail", "read the mail")
	r.start(r.runner(func(context.Context, Work) (Result, error) { return done("done") }))
	const next = `SELECT count(*) FROM {}fleet_crons WHERE next > now()`
	r.awaitCount(next, 2)
	schedule("mail", "read the mail and answer it")
	r.awaitCount(next, 2)
	r.awaitCount(`SELECT count(*) FROM {}fleet_prompts`, 2)
}

// TestAScheduleWaitsForTheTimeOfTheServer makes the job of a schedule available an hour before its time, as the queue does if the clock of
// the worker that leads it is wrong. The prompt is not sent, and the job waits again.
func TestAScheduleWaitsForTheTimeOfTheServer(t *testing.T) {
	r := newRig(t)
	c := Cron{Name: "report", Every: time.Minute, First: time.Now().Add(time.Hour), Prompt: Prompt{Agent: "support", Text: "write the report"}}
	if err := r.Cron(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if _, err := r.pool.Exec(t.Context(), r.sql(`UPDATE {}river_job SET state = 'available', scheduled_at = now() WHERE kind = 'segno_cron'`)); err != nil {
		t.Fatal(err)
	}
	r.start(r.runner(func(context.Context, Work) (Result, error) { return done("done") }))
	r.awaitCount(`SELECT count(*) FROM {}river_job WHERE kind = 'segno_cron' AND attempted_at IS NOT NULL AND state IN ('scheduled', 'completed')`, 1)
	r.awaitCount(`SELECT count(*) FROM {}river_job WHERE kind = 'segno_cron' AND state = 'scheduled' AND scheduled_at > now() + interval '50 minutes'`, 1)
	var sent int
	if err := r.pool.QueryRow(t.Context(), r.sql(`SELECT count(*) FROM {}fleet_prompts`)).Scan(&sent); err != nil || sent > 0 {
		t.Errorf("an hour before the time, %d prompts are sent, %v", sent, err)
	}
}

func TestNextTime(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	for after, want := range map[time.Duration]time.Duration{-time.Second: 1, 0: 1, 59 * time.Minute: 1, time.Hour: 2, 10*time.Hour + time.Second: 11} {
		if got := nextTime(at, at.Add(after), time.Hour); !got.Equal(at.Add(want * time.Hour)) {
			t.Errorf("%v after a time, the next one is %v", after, got)
		}
	}
}

// awaitCount waits until a query counts n rows, as long as the count changes within five minutes.
func (r *rig) awaitCount(query string, n int) {
	r.Helper()
	last, deadline := -1, time.Time{}
	for ; ; time.Sleep(5 * time.Millisecond) {
		var got int
		if err := r.pool.QueryRow(r.Context(), r.sql(query)).Scan(&got); err != nil {
			r.Fatal(err)
		}
		if got == n {
			return
		}
		if got != last {
			last, deadline = got, time.Now().Add(5*time.Minute)
		} else if time.Now().After(deadline) {
			r.Fatalf("%s: %d, want %d", query, got, n)
		}
	}
}
